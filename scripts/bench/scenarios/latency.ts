import { costFigures, costTables } from '../costs.ts';
import { groupTable, renderCell } from '../markdown.ts';
import { cumulative, lineChart } from '../plot.ts';
import {
  allNeverReady,
  bySide,
  direct,
  medianOfPods,
  type PodRound,
  readyTimes,
  runPodRounds,
  sidesToCompare,
  tenants,
  timesToReady,
} from '../rounds.ts';
import { figure, type Scenario } from '../scenario.ts';

const percentiles = ['p50', 'p99'] as const;

/** One tenant creates a few pods per second, the others are quiet: what the way through a tenant adds. */
export const latency: Scenario = {
  name: 'latency',
  summary: 'one tenant creates --rate pods per second, the others are quiet',
  needsTenants: false,

  async run(lab, options) {
    const { latencyPods: pods, rate, repeats, tenants: tenantCount } = options;
    const rounds = await runPodRounds({
      lab,
      options,
      sides: sidesToCompare(options),
      loads: (targets) =>
        targets.slice(0, 1).map(({ name }) => ({ target: name, pods, shape: 'rate', perSecond: rate })),
    });
    const sides = bySide(rounds);
    const ready = (statistic: 'p50' | 'p90' | 'p99' | 'max') =>
      medianOfPods((all) => readyTimes(all)[statistic]);
    const added = (percentile: (typeof percentiles)[number]): string => {
      const [base, ours] = [direct, tenants].map(({ name }) => ready(percentile)(sides.get(name) ?? []));
      return renderCell((ours ?? Number.NaN) - (base ?? Number.NaN));
    };
    const title = `latency: ${rate} pods/s in one of ${tenantCount} tenants, ${pods} pods`;
    const times = groupTable<PodRound>(
      title,
      ['side', sides],
      {
        'Ready p50, ms': ready('p50'),
        'p90, ms': ready('p90'),
        'p99, ms': ready('p99'),
        'longest, ms': ready('max'),
        'never Ready': allNeverReady,
      },
      sides.has(tenants.name)
        ? [`Added by Skerry: p50 **${added('p50')} ms**, p99 **${added('p99')} ms**.`]
        : [],
    );
    return {
      settings: { pods, ratePerSecond: rate, repeats, tenants: tenantCount },
      rounds,
      tables: [times, ...costTables('latency', rounds)],
      figures: [
        ...[...sides].flatMap(([side, ofSide]) =>
          percentiles.flatMap((percentile) =>
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
        lines: [...sides].map(([side, ofSide]) =>
          cumulative(
            side,
            ofSide.flatMap(({ result }) => timesToReady(result.pods)),
          ),
        ),
      }),
    };
  },
};
