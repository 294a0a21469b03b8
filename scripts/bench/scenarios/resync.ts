import { systemClock } from '../../../kube/index.ts';
import { usageTable } from '../costs.ts';
import type { Lab } from '../lab.ts';
import { groupTable } from '../markdown.ts';
import { metricSeries, metricSum, type Usage, UsageMeter } from '../measure.ts';
import { barChart } from '../plot.ts';
import { figure, type Scenario } from '../scenario.ts';
import { median, sum } from '../statistics.ts';

/** One comparison of every tenant. */
interface Resync {
  pods: number;
  repeat: number;
  /** Time of the syncer's only thread, over all tenants, without what it did in between. */
  busySeconds: number;
  /** Differences found: 0 when both sides agree. */
  findings: number;
  /** Of everything while the comparisons were waited for. */
  usage: Usage;
}

const lookEveryMs = 500;
/** A tenant's turn comes once a minute. */
const longestWaitMs = 150_000;
const counter = 'skerry_syncer_resyncs_total';

/** Both sides of all standing pods compared once, as the syncer does every minute. */
export const resync: Scenario = {
  name: 'resync',
  summary: 'one comparison of both sides of --standing pods: time and CPU',
  needsTenants: true,

  async run(lab, options) {
    const rounds: Resync[] = [];
    for (const wanted of lab.stack.syncerMetrics === undefined ? [] : options.standing) {
      const pods = await lab.ensureStandingPods(wanted);
      for (let repeat = 0; repeat < options.repeats; repeat++) {
        await lab.waitUntilQuiet();
        const round = await resyncOnce(lab, options.tenants, { pods, repeat });
        rounds.push(round);
        const ms = (round.busySeconds * 1000).toFixed(0);
        lab.log(`resync of ${pods} pods, ${repeat + 1} of ${options.repeats}: ${ms} ms`);
      }
    }
    const bySize = Map.groupBy(rounds, ({ pods }) => pods);
    const title = `resync: one comparison of both sides, ${options.tenants} tenants`;
    const busyMs = (all: readonly Resync[]): number => median(all.map((each) => each.busySeconds * 1000));
    return {
      settings: { standing: [...bySize.keys()], repeats: options.repeats, tenants: options.tenants },
      rounds,
      figures: [...bySize].flatMap(([pods, all]) =>
        figure(
          `${pods} pods`,
          'ms',
          all.map(({ busySeconds }) => busySeconds * 1000),
        ),
      ),
      tables: [
        groupTable<Resync>(
          title,
          ['pods', bySize],
          {
            'time, ms': busyMs,
            'µs per pod': (all) => (busyMs(all) * 1000) / (all[0]?.pods ?? 0),
            'syncer in all, CPU s per minute': (all) =>
              median(
                all.map(({ usage }) => ((usage.cpuSeconds.syncer ?? Number.NaN) * 60) / usage.elapsedSeconds),
              ),
            findings: (all) => String(sum(all.map(({ findings }) => findings))),
          },
          [
            'Comparing waits for nothing, so that its time is CPU of one thread, and whatever else the machine gave to others meanwhile. It is done in slices of a few milliseconds; what is done between them is not counted.',
            ...(lab.stack.syncerMetrics === undefined
              ? ["Not measured: a given stack's metrics are not read."]
              : []),
          ],
        ),
        usageTable(
          'resync: CPU while it was waited for, s',
          rounds.map(({ pods, repeat, usage }) => [`${pods} pods, ${repeat + 1}`, usage] as const),
        ),
      ],
      plots: barChart({
        name: 'resync',
        title,
        label: 'ms',
        parts: ['time'],
        bars: [...bySize].map(([pods, all]) => ({ name: `${pods} pods`, values: [busyMs(all)] })),
      }),
    };
  },
};

/** Waits until the turn of every tenant has come, and takes of each the mean of its comparisons. */
async function resyncOnce(
  lab: Lab,
  tenants: number,
  { pods, repeat }: { pods: number; repeat: number },
): Promise<Resync> {
  const metrics = async (): Promise<string> => (await lab.stack.syncerMetrics?.()) ?? '';
  const meter = new UsageMeter(() => lab.processes());
  await meter.start();
  const before = await metrics();
  const turnsBefore = turnsOf(before);
  const deadline = performance.now() + longestWaitMs;
  for (;;) {
    await systemClock.sleep(lookEveryMs, lab.signal);
    const after = await metrics();
    const turns = turnsOf(after);
    const done = [...turns].filter(([tenant, count]) => count > (turnsBefore.get(tenant) ?? 0)).length;
    if (done >= tenants) {
      const since = (name: string): number => metricSum(after, name) - metricSum(before, name);
      const each = since('skerry_syncer_resync_seconds_sum') / since('skerry_syncer_resync_seconds_count');
      const findings = since('skerry_syncer_drift_findings_total');
      return { pods, repeat, busySeconds: each * tenants, findings, usage: await meter.stop() };
    }
    if (performance.now() > deadline) {
      const what =
        turns.size === 0 ? `the syncer has no metric ${counter}` : `of ${tenants} tenants ${done} were`;
      throw new Error(`not every tenant was compared within ${longestWaitMs / 1000} s: ${what}`);
    }
  }
}

/** How often each tenant was compared. */
function turnsOf(text: string): Map<string, number> {
  return new Map(
    [...metricSeries(text, counter)].map(([labels, count]) => [labels.get('tenant') ?? '', count]),
  );
}
