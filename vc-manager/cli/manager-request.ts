import type { JobKind } from '../../api/job-status.ts';
import { storedRequest } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeClient, resources } from '../../kube/index.ts';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';
import { withProgress, withStep } from './progress.ts';
import type { VirtualClusterRef } from './virtual-clusters.ts';
import { type WaitOptions, waitFor } from './wait-for.ts';

/** What the manager is asked for by an annotation of a VirtualCluster. */
interface ManagerRequest {
  client: KubeClient;
  ref: VirtualClusterRef;
  annotation: string;
  value: string;
  /** Annotations that belong to it, which are written with it. */
  also?: Readonly<Record<string, string>>;
}

export async function sendRequest(
  { client, ref, annotation, value, also }: ManagerRequest,
  signal: AbortSignal,
): Promise<void> {
  const patch = { metadata: { annotations: { ...also, [annotation]: value } } };
  await client.patch(resources.virtualClusters, ref, patch, { type: 'merge', signal });
}

/**
 * Whether the manager has followed this request or a later one, by what `followedOf` reads from the status. Requests have
 * no order: users write them, as any text, and clocks differ. `before`: the VirtualCluster before the request is sent.
 */
export function followsRequest(
  { annotation, value }: Pick<ManagerRequest, 'annotation' | 'value'>,
  before: VirtualCluster,
  followedOf: (status: NonNullable<VirtualCluster['status']>) => string | undefined,
): (found: VirtualCluster) => boolean {
  const pending = before.metadata.annotations?.[annotation];
  const earlier = [
    followedOf(before.status ?? {}),
    pending === undefined ? undefined : storedRequest(pending),
  ];
  const own = storedRequest(value);
  return ({ status = {} }) => {
    const followed = followedOf(status);
    return followed === own || (followed !== undefined && !earlier.includes(followed));
  };
}

/**
 * For `requestAndWait`: whether the request is followed and no job is left. Throws `Conflict` with `cancelled` when its job,
 * of this kind, was cancelled.
 */
export function hasEnded(
  isFollowed: (found: VirtualCluster) => boolean,
  kind: JobKind,
  cancelled: string,
): (found: VirtualCluster) => boolean {
  return (found) => {
    const { current, history: [last] = [] } = found.status?.jobs ?? {};
    if (!isFollowed(found) || current !== undefined) return false;
    if (last?.kind === kind && last.result === 'Cancelled') throw new CliError('Conflict', cancelled);
    return true;
  };
}

interface RequestWait extends Pick<WaitOptions, 'timeoutMs' | 'what'> {
  /** True ends the wait, throwing rejects it. */
  until: (found: VirtualCluster) => boolean;
  /** When the VirtualCluster is deleted meanwhile; default: `NotFound`. */
  gone?: CliError;
}

/**
 * Sends the request and waits until `until` sees its effect in the VirtualCluster; shows progress. Throws as `waitFor`
 * does.
 */
export async function requestAndWait(
  cli: Cli,
  request: ManagerRequest,
  { until, gone, ...wait }: RequestWait,
): Promise<void> {
  await sendRequest(request, cli.signal);
  const { client, ref } = request;
  const { clock, signal } = cli;
  await withProgress(cli, (progress) =>
    withStep(progress, `Asking the manager to ${wait.what}`, (step) =>
      waitFor({
        ...{ client, ref, clock, signal, ...wait },
        onChange: () => step.update('waiting for the manager'),
        until: (found) => {
          if (found === undefined) throw gone ?? new CliError('NotFound', `${ref.name} is gone`);
          return until(found);
        },
      }),
    ),
  );
}
