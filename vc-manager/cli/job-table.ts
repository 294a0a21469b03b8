import { isOverVirtualClusterLimit } from '../../api/conditions.ts';
import type { CurrentJob, EndedJob, JobKind } from '../../api/job-status.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { age, ageSince, table } from './output.ts';
import { readyCondition } from './virtual-clusters.ts';

/** One job as it is printed, in every format. */
interface ShownJob {
  namespace: string;
  tenant: string;
  kind: JobKind;
  id: string;
  state: 'Running' | 'Waiting' | 'Retrying' | EndedJob['result'];
  target?: string | undefined;
  step?: string | undefined;
  attempts: number;
  startedAt: string;
  finishedAt?: string | undefined;
  holder?: string | undefined;
  message?: string | undefined;
}

/** The current job, then ended ones, the latest first; with `isShort` the current one or the latest ended one. */
export function jobsOf(vc: VirtualCluster, isShort = false): ShownJob[] {
  const { metadata, status } = vc;
  const { current, history = [] } = status?.jobs ?? {};
  const whose = { namespace: metadata.namespace ?? '', tenant: metadata.name ?? '' };
  const ended = history.map((job): ShownJob => {
    const { result, ...rest } = job;
    return { ...whose, ...rest, state: result };
  });
  if (current === undefined) return isShort ? ended.slice(0, 1) : ended;
  return [{ ...whose, ...shown(current, vc) }, ...(isShort ? [] : ended)];
}

/** Ends with a newline. */
export function jobTable(jobs: readonly ShownJob[], nowMs: number): string {
  const header = ['NAMESPACE', 'TENANT', 'KIND', 'STATE', 'STEP', 'ATTEMPTS', 'AGE', 'TOOK', 'MESSAGE'];
  const rows = jobs.map((job) => [
    job.namespace,
    job.tenant,
    job.target === undefined ? job.kind : `${job.kind} to ${job.target}`,
    job.state,
    job.step ?? '-',
    String(job.attempts),
    ageSince(job.startedAt, nowMs),
    job.finishedAt === undefined ? '-' : age(Date.parse(job.finishedAt) - Date.parse(job.startedAt)),
    job.message ?? '-',
  ]);
  return table(header, rows);
}

function shown(current: CurrentJob, vc: VirtualCluster): Omit<ShownJob, 'namespace' | 'tenant'> {
  const { failing, replacing: _, stepStartedAt: _at, refusal, message, ...rest } = current;
  const isWaiting = isOverVirtualClusterLimit(vc);
  const said = [
    isWaiting ? readyCondition(vc)?.message : message,
    refusal === undefined ? undefined : `Not cancelled: ${refusal}.`,
  ]
    .filter(Boolean)
    .join(' ');
  return {
    ...rest,
    state: isWaiting ? 'Waiting' : failing ? 'Retrying' : 'Running',
    ...(said === '' ? {} : { message: said }),
  };
}
