import { costFigures, costTables } from '../costs.ts';
import { type Cell, renderCell } from '../markdown.ts';
import { cumulative, lineChart } from '../plot.ts';
import {
  direct,
  neverReady,
  type PodRound,
  readyTimes,
  runPodRounds,
  sidesOf,
  tenants,
  timesToReady,
} from '../rounds.ts';
import { figure, type Scenario } from '../scenario.ts';
import { type Distribution, median, sum } from '../statistics.ts';

/** One tenant creates a few pods per second, the others are quiet: what the way through a tenant adds. */
export const latency: Scenario = {
  name: 'latency',
  summary: 'one tenant creates --rate pods per second, the others are quiet',
  needsTenants: false,

  async run(lab, options) {
    const rounds = await runPodRounds({
      lab,
      options,
      sides: sidesOf(options),
      loads: ([target]) =>
        target === undefined
          ? []
          : [
              {
                target: target.name,
                pods: options.latencyPods,
                shape: 'rate',
                perSecond: options.rate,
              },
            ],
    });
    const sides = new Map(
      [...Map.groupBy(rounds, ({ side }) => side)].map(([side, ofSide]) => [side, figures(ofSide)]),
    );
    const [base, ours] = [sides.get(direct.name), sides.get(tenants.name)];
    const added = (figure: 'p50' | 'p99'): number =>
      (ours?.[figure] ?? Number.NaN) - (base?.[figure] ?? Number.NaN);
    const notes =
      ours === undefined
        ? []
        : [
            `Added by Skerry: p50 **${renderCell(added('p50'))} ms**, p99 **${renderCell(added('p99'))} ms**.`,
          ];
    const { latencyPods: pods, rate, repeats, tenants: tenantCount } = options;
    const title = `latency: ${rate} pods/s in one of ${tenantCount} tenants, ${pods} pods`;
    const bySide = Map.groupBy(rounds, ({ side }) => side);
    return {
      settings: { pods, ratePerSecond: rate, repeats, tenants: tenantCount },
      rounds,
      tables: [
        {
          title,
          columns: ['side', 'Ready p50, ms', 'p90, ms', 'p99, ms', 'longest, ms', 'never Ready'],
          rows: [...sides].map(([side, each]): Cell[] => [
            side,
            each.p50,
            each.p90,
            each.p99,
            each.max,
            String(each.notReady),
          ]),
          notes,
        },
        ...costTables('latency', rounds),
      ],
      figures: [
        ...[...bySide].flatMap(([side, ofSide]) =>
          (['p50', 'p99'] as const).flatMap((percentile) =>
            figure(
              `${side}, Ready ${percentile}`,
              'ms',
              ofSide.map(({ result }) => readyTimes(result.pods)[percentile]),
            ),
          ),
        ),
        ...costFigures(rounds, 'pod'),
      ],
      plots: lineChart({
        name: 'latency',
        title,
        x: { label: 'ms from the create call until Ready', logarithmic: true },
        y: { label: '% of pods', max: 100 },
        lines: [...bySide].map(([side, ofSide]) =>
          cumulative(
            side,
            ofSide.flatMap(({ result }) => timesToReady(result.pods)),
          ),
        ),
      }),
    };
  },
};

/** Median over rounds of each figure. */
function figures(rounds: readonly PodRound[]): Distribution & { notReady: number } {
  const all = rounds.map(({ result }) => readyTimes(result.pods));
  const over = (figure: keyof Distribution): number => median(all.map((each) => each[figure]));
  return {
    ...{ count: over('count'), mean: over('mean'), max: over('max') },
    ...{ p50: over('p50'), p90: over('p90'), p99: over('p99') },
    notReady: sum(rounds.map(({ result }) => neverReady(result.pods))),
  };
}
