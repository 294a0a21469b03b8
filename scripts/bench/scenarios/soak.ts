import { systemClock } from '../../../kube/index.ts';
import { usageTable } from '../costs.ts';
import type { ChurnResult } from '../generator/protocol.ts';
import type { Lab } from '../lab.ts';
import { type Cell, renderCell } from '../markdown.ts';
import { memoryOf, metricSum, type ProcessGroup, processGroups, UsageMeter } from '../measure.ts';
import { lineChart } from '../plot.ts';
import { figure, type Scenario } from '../scenario.ts';
import { distribution, lowest, median, slope } from '../statistics.ts';
import { describeChurn, shownTimes } from './churn.ts';

/** Memory at one moment, in bytes. */
interface Sample {
  seconds: number;
  resident: Partial<Record<ProcessGroup, number>>;
  /** JavaScript objects of the syncer, garbage included. */
  syncerHeap?: number;
}

const sampleEveryMs = 5_000;
/** Caches of code and connections fill at first: this part of the time is left out of the slope. */
const warmUpShare = 0.25;
/** Garbage is collected more often than this. */
const stretchSeconds = 60;
const bytesPerMegabyte = 1_000_000;
const secondsPerHour = 3600;

/** Changes at a steady pace for a long time, as many objects at the end as at the beginning: does memory stay flat? */
export const soak: Scenario = {
  name: 'soak',
  summary: '--soak-rate changes per second for --minutes: does memory stay flat',
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, options) {
    const { seed, lanes, timeoutMs, minutes, soakRate, tenants } = options;
    const targets = await lab.tenantTargets();
    await lab.generator.request('open', { targets }, lab.signal);
    await lab.generator.request('clear', { timeoutMs }, lab.signal);
    await lab.generator.request('prepareChurn', { lanes, timeoutMs }, lab.signal);
    await lab.waitUntilQuiet();
    const meter = new UsageMeter(() => lab.processes());
    await meter.start();
    const work = lab.generator.request(
      'churn',
      {
        ...{ seed, lanes, timeoutMs, forMs: minutes * 60_000, perSecond: soakRate },
        otherSide: { connection: lab.stack.superCluster, labelSelector: lab.superSelector() },
      },
      lab.signal,
    );
    const samples: Sample[] = [];
    const result = await sampled(lab, minutes, work, samples);
    const usage = await meter.stop();
    lab.log(`soak: ${describeChurn(result)}`);
    for (const failure of result.failures) lab.log(`  ${failure}`);
    await lab.generator.request('clear', { timeoutMs }, lab.signal);
    await lab.superPodsGone();

    const growth = growthOf(samples);
    const shown = distribution(shownTimes(result.operations));
    const title = `soak: ${soakRate} operations/s over ${tenants} tenants for ${minutes} min`;
    return {
      settings: { minutes, soakRate, lanes, seed, tenants },
      // Its operations are those of `churn`, and many.
      rounds: [{ samples, usage, result: { ...result, operations: result.operations.length }, shown }],
      figures: growth.flatMap(({ name, perHour }) => figure(`${name}, growth per hour`, 'MB', [perHour])),
      tables: [
        {
          title,
          columns: ['memory, MB', 'after the warm-up', 'at the end', 'highest', 'growth per hour'],
          rows: growth.map((row): Cell[] => [row.name, row.first, row.last, row.highest, row.perHour]),
          notes: [
            `Resident memory by group of processes. Growth: the line through the lowest value of each ${stretchSeconds} s, without the first quarter of the time. ${result.operations.length} operations, ${result.operations.filter(({ answeredMs }) => answeredMs === undefined).length} failed; shown by the super cluster after p50 ${renderCell(shown.p50)} ms, p99 ${renderCell(shown.p99)} ms; differences after it: ${result.differences}.`,
          ],
        },
        usageTable('soak: CPU, s', [['all of it', usage]]),
      ],
      plots: lineChart({
        name: 'soak',
        title,
        x: { label: 'minutes' },
        y: { label: 'MB' },
        lines: seriesOf(samples).map(({ name, points }) => ({
          name,
          points: points.map(([seconds, megabytes]) => [seconds / 60, megabytes] as const),
        })),
      }),
    };
  },
};

/** Takes samples until the work is done. */
async function sampled(
  lab: Lab,
  minutes: number,
  work: Promise<ChurnResult>,
  samples: Sample[],
): Promise<ChurnResult> {
  const done = new AbortController();
  const result = work.finally(() => done.abort());
  const from = performance.now();
  const sampling = (async () => {
    let minute = 0;
    while (!done.signal.aborted) {
      const next = await sample(lab, (performance.now() - from) / 1000);
      samples.push(next);
      if (Math.floor(next.seconds / 60) > minute) {
        minute = Math.floor(next.seconds / 60);
        const syncer = Math.round((next.resident.syncer ?? 0) / bytesPerMegabyte);
        lab.log(`soak: ${minute} of ${minutes} min, resident memory of the syncer: ${syncer} MB`);
      }
      await systemClock.sleep(sampleEveryMs, done.signal).catch(() => undefined);
    }
  })();
  // Both have ended when this returns, also after a failure.
  const [outcome, sampledAll] = await Promise.allSettled([result, sampling]);
  if (outcome.status === 'rejected') throw outcome.reason;
  if (sampledAll.status === 'rejected') throw sampledAll.reason;
  return outcome.value;
}

async function sample(lab: Lab, seconds: number): Promise<Sample> {
  const resident: Sample['resident'] = {};
  for (const { pid, group } of await lab.processes()) {
    const memory = await memoryOf(pid);
    if (memory !== undefined) resident[group] = (resident[group] ?? 0) + memory.rss;
  }
  const text = await lab.stack.syncerMetrics?.();
  const heap = text === undefined ? {} : { syncerHeap: metricSum(text, 'nodejs_heap_size_used_bytes') };
  return { seconds, resident, ...heap };
}

interface Series {
  name: string;
  points: (readonly [seconds: number, megabytes: number])[];
}

function seriesOf(samples: readonly Sample[]): Series[] {
  const series = (name: string, of: (sample: Sample) => number | undefined): Series => ({
    name,
    points: samples.flatMap((each): Series['points'] => {
      const bytes = of(each);
      return bytes === undefined ? [] : [[each.seconds, bytes / bytesPerMegabyte]];
    }),
  });
  return [
    ...processGroups.map((group) => series(group, ({ resident }) => resident[group])),
    series('heap of the syncer', ({ syncerHeap }) => syncerHeap),
  ].filter(({ points }) => points.length > 0);
}

function growthOf(samples: readonly Sample[]) {
  const warmUp = (samples.at(-1)?.seconds ?? 0) * warmUpShare;
  return seriesOf(samples).map(({ name, points }) => {
    const later = points.filter(([seconds]) => seconds >= warmUp);
    const megabytes = later.map(([, each]) => each);
    const few = Math.max(1, Math.round(megabytes.length / 10));
    return {
      name,
      first: median(megabytes.slice(0, few)),
      last: median(megabytes.slice(-few)),
      highest: Math.max(...megabytes),
      perHour: slope(lowest(later, stretchSeconds)) * secondsPerHour,
    };
  });
}
