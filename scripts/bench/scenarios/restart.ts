import { systemClock } from '../../../kube/index.ts';
import { cpuSeconds } from '../../../vc-manager/os/process-identity.ts';
import { usageTable } from '../costs.ts';
import type { Lab } from '../lab.ts';
import { groupTable } from '../markdown.ts';
import {
  ageMs,
  type Memory,
  memoryOf,
  metricSum,
  parseSyncerWork,
  type Usage,
  UsageMeter,
} from '../measure.ts';
import type { BenchOptions } from '../options.ts';
import { lineChart } from '../plot.ts';
import { type Figure, figure, type Scenario } from '../scenario.ts';
import { median, sum } from '../statistics.ts';

/** One restart; milliseconds since the new process began. */
interface Restart {
  pods: number;
  repeat: number;
  /** The super cluster's caches are complete. */
  superCachesMs: number;
  /** The caches of all tenants are complete. */
  cachesMs: number;
  /** The queue is empty. */
  emptyMs: number;
  /** Length of the queue over time. */
  queue: [ms: number, items: number][];
  /** Of the syncer, from its start until the queue was empty. */
  cpuSeconds: number;
  /** When the queue was empty. */
  memory: Memory;
  /** Calls that changed something: both sides agreed before, so that there is nothing to be done. */
  writes: Record<string, number>;
  usage: Usage;
}

const bytesPerMegabyte = 1_000_000;
const readyEveryMs = 10;
const lookEveryMs = 25;
/** The measured process renders the metrics itself; this factor limits that to about a tenth of its time. */
const restAfterLook = 10;

/** The syncer restarts among standing pods: from the start of its process until its queue is empty. */
export const restart: Scenario = {
  name: 'restart',
  summary: 'the syncer restarts among --standing pods: until its queue is empty',
  needsTenants: true,

  async run(lab, options) {
    const rounds: Restart[] = [];
    // From many to few: an earlier scenario may have left many.
    for (const wanted of lab.stack.restartSyncer === undefined ? [] : options.standing.toReversed()) {
      const pods = await lab.ensureStandingPods(wanted);
      for (let repeat = 0; repeat < options.repeats; repeat++) {
        await lab.waitUntilQuiet();
        const round = await restartOnce(lab, options, { pods, repeat });
        rounds.push(round);
        const seconds = (round.emptyMs / 1000).toFixed(2);
        lab.log(`restart with ${pods} pods, ${repeat + 1} of ${options.repeats}: ${seconds} s`);
      }
    }
    const bySize = Map.groupBy(rounds, ({ pods }) => pods);
    const title = `restart of the syncer, ${options.tenants} tenants`;
    const medianOf = (value: (restart: Restart) => number) => (all: readonly Restart[]) =>
      median(all.map(value));
    return {
      settings: { standing: [...bySize.keys()], repeats: options.repeats, tenants: options.tenants },
      rounds,
      figures: [...bySize].flatMap(([pods, all]) => figures(pods, all)),
      tables: [
        groupTable<Restart>(
          title,
          ['pods', bySize],
          {
            'super caches, s': medianOf(({ superCachesMs }) => superCachesMs / 1000),
            'all caches, s': medianOf(({ cachesMs }) => cachesMs / 1000),
            'queue empty, s': medianOf(({ emptyMs }) => emptyMs / 1000),
            'CPU, s': medianOf((each) => each.cpuSeconds),
            'resident, MB': medianOf(({ memory }) => memory.rss / bytesPerMegabyte),
            'private, MB': medianOf(({ memory }) => memory.private / bytesPerMegabyte),
            writes: (all) => String(median(all.map(({ writes }) => sum(Object.values(writes))))),
          },
          [
            `From the start of the process. Writes: calls that changed anything, VirtualClusters and Leases left out${writesText(rounds)}.`,
            ...(lab.stack.restartSyncer === undefined
              ? ['Not measured: the syncer of a given stack is not restarted.']
              : []),
          ],
        ),
        usageTable(
          'restart: CPU, s',
          rounds.map(({ pods, repeat, usage }) => [`${pods} pods, ${repeat + 1}`, usage] as const),
        ),
      ],
      plots: lineChart({
        name: 'restart',
        title,
        x: { label: 'seconds since the start of the process' },
        y: { label: 'objects to be looked at' },
        lines: rounds.map(({ pods, repeat, queue }) => ({
          name: `${pods} pods, ${repeat + 1}`,
          points: queue.map(([ms, items]) => [ms / 1000, items] as const),
        })),
      }),
    };
  },
};

async function restartOnce(
  lab: Lab,
  { timeoutMs }: BenchOptions,
  { pods, repeat }: { pods: number; repeat: number },
): Promise<Restart> {
  const { stack, signal } = lab;
  const meter = new UsageMeter(() => lab.processes());
  const objects = objectsOfTenants((await stack.syncerMetrics?.()) ?? '');
  await meter.start();
  await stack.restartSyncer?.(signal);
  const pid = (await lab.processes()).find(({ group }) => group === 'syncer')?.pid ?? 0;
  const age = await ageMs(pid);
  if (age === undefined) throw new Error('the syncer was started and is not there: see the lines of its log');
  const offset = age - performance.now();
  const deadline = performance.now() + timeoutMs;
  const sinceStart = (): number => performance.now() + offset;
  const wait = async (ms: number): Promise<void> => {
    if (performance.now() > deadline) throw new Error('the restarted syncer has not caught up in time');
    await systemClock.sleep(ms, signal);
  };

  while (!(await stack.syncerReady?.())) await wait(readyEveryMs);
  const superCachesMs = sinceStart();
  const queue: Restart['queue'] = [];
  let cachesMs: number | undefined;
  for (;;) {
    const askedMs = sinceStart();
    const text = (await stack.syncerMetrics?.()) ?? '';
    const items = metricSum(text, 'skerry_syncer_queue_depth', (labels) => labels.get('state') !== 'delayed');
    // Objects are counted of tenants whose caches are complete.
    if (cachesMs === undefined && objectsOfTenants(text) >= objects) cachesMs = askedMs;
    queue.push([askedMs, items]);
    if (cachesMs !== undefined && items === 0) {
      const usage = await meter.stop();
      const memory = await memoryOf(pid);
      const spent = cpuSeconds(pid);
      if (memory === undefined || spent === undefined) throw new Error('the restarted syncer has ended');
      return {
        ...{ pods, repeat, superCachesMs, cachesMs, queue, memory, usage },
        emptyMs: askedMs,
        cpuSeconds: spent,
        writes: writesOf(text),
      };
    }
    await wait(Math.max(lookEveryMs, (sinceStart() - askedMs) * restAfterLook));
  }
}

/** Pods in the caches of tenants that are served. */
function objectsOfTenants(text: string): number {
  return metricSum(
    text,
    'skerry_syncer_objects',
    (labels) => labels.get('side') === 'tenant' && labels.get('kind') === 'pods',
  );
}

/** Calls that change objects, by side, verb and resource, without VirtualClusters and Leases. */
function writesOf(text: string): Record<string, number> {
  const calls = Object.entries(parseSyncerWork(text)).flatMap(([key, count]): [string, number][] => {
    const [what, side, verb = '', resource = '', outcome] = key.split('/');
    const isWrite = what === 'call' && ['create', 'update', 'patch', 'delete'].includes(verb);
    return isWrite && !['virtualclusters', 'leases'].includes(resource)
      ? [[`${side} ${verb} ${resource}${outcome === 'refused' ? ', refused' : ''}`, count]]
      : [];
  });
  return Object.fromEntries(calls);
}

function writesText(rounds: readonly Restart[]): string {
  const all = Map.groupBy(
    rounds.flatMap(({ writes }) => Object.entries(writes)),
    ([name]) => name,
  );
  const listed = [...all].map(([name, calls]) => `${sum(calls.map(([, count]) => count))} × ${name}`);
  return listed.length === 0 ? '' : `; in all repeats ${listed.join(', ')}`;
}

function figures(pods: number, all: readonly Restart[]): Figure[] {
  const less = (name: string, unit: string, value: (restart: Restart) => number): Figure[] =>
    figure(`${pods} pods, ${name}`, unit, all.map(value));
  return [
    ...less('all caches complete', 's', ({ cachesMs }) => cachesMs / 1000),
    ...less('queue empty', 's', ({ emptyMs }) => emptyMs / 1000),
    ...less('CPU of the syncer', 's', ({ cpuSeconds: seconds }) => seconds),
    ...less('resident', 'MB', ({ memory }) => memory.rss / bytesPerMegabyte),
  ];
}
