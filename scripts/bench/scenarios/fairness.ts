import { costFigures, costTables } from '../costs.ts';
import type { PodSample } from '../generator/protocol.ts';
import { groupTable } from '../markdown.ts';
import { cumulative, lineChart } from '../plot.ts';
import {
  allNeverReady,
  bySide,
  direct,
  medianOfPods,
  type PodRound,
  readyTimes,
  runPodRounds,
  type Side,
  tenants,
  timesToReady,
  unfairTenants,
} from '../rounds.ts';
import { type Figure, figure, type Scenario } from '../scenario.ts';

/** Greedy tenants create many pods at once while the others create one after the other: who waits for whom. */
export const fairness: Scenario = {
  name: 'fairness',
  summary: 'greedy tenants create all at once, the others one pod after the other',
  needsTenants: false,

  async run(lab, options) {
    const {
      greedy: greedyTenants,
      greedyPods,
      regularPods,
      inFlight,
      repeats,
      tenants: tenantCount,
    } = options;
    const canRestart = lab.stack.setSyncer !== undefined;
    const sides: Side[] = [direct];
    if (options.sides === 'both') sides.push(tenants, ...(canRestart ? [unfairTenants] : []));
    const greedy = new Set<string>();
    const rounds = await runPodRounds({
      lab,
      options,
      sides,
      loads: (targets) =>
        targets.map((target, index) => {
          if (index >= greedyTenants) return { target: target.name, pods: regularPods, shape: 'sequence' };
          greedy.add(target.name);
          return { target: target.name, pods: greedyPods, shape: 'burst', inFlight };
        }),
    });
    if (options.sides === 'both') await lab.stack.setSyncer?.({ fair: true }, lab.signal);
    const measured = bySide(rounds);
    const regularTenants = tenantCount - greedyTenants;
    const title = `fairness: ${greedyTenants} × ${greedyPods} pods at once, ${regularTenants} × ${regularPods} one after the other`;
    const isRegular = ({ target }: PodSample): boolean => !greedy.has(target);
    const isGreedy = ({ target }: PodSample): boolean => greedy.has(target);
    const over = (which: typeof isRegular, statistic: 'mean' | 'p50' | 'p99') =>
      medianOfPods((pods) => readyTimes(pods.filter(which))[statistic]);
    const times = (side: string, what: string, ofSide: PodRound[], isOne: typeof isRegular): Figure[] =>
      (['mean', 'p99'] as const).flatMap((statistic) =>
        figure(
          `${side}, ${what} ${statistic}`,
          'ms',
          ofSide.map(({ result }) => readyTimes(result.pods.filter(isOne))[statistic]),
        ),
      );
    return {
      settings: { greedyTenants, greedyPods, regularTenants, regularPods, inFlight, repeats },
      rounds,
      tables: [
        groupTable<PodRound>(
          title,
          ['side', measured],
          {
            'regular mean, ms': over(isRegular, 'mean'),
            'p50, ms': over(isRegular, 'p50'),
            'p99, ms': over(isRegular, 'p99'),
            'greedy mean, ms': over(isGreedy, 'mean'),
            'greedy p99, ms': over(isGreedy, 'p99'),
            'never Ready': allNeverReady,
          },
          options.sides === 'both' && !canRestart
            ? ['Not measured without fairness: the syncer of a given stack is not restarted.']
            : [],
        ),
        ...costTables('fairness', rounds),
      ],
      figures: [
        ...[...measured].flatMap(([side, ofSide]) => [
          ...times(side, 'regular', ofSide, isRegular),
          ...times(side, 'greedy', ofSide, isGreedy),
        ]),
        ...costFigures(rounds, 'pod'),
      ],
      plots: lineChart({
        name: 'fairness',
        title,
        x: { label: 'ms from the create call until Ready', logarithmic: true },
        y: { label: '% of pods', max: 100 },
        lines: [...measured].flatMap(([side, ofSide]) => {
          const pods = ofSide.flatMap(({ result }) => result.pods);
          return [
            cumulative(`${side}: regular`, timesToReady(pods.filter(isRegular))),
            cumulative(`${side}: greedy`, timesToReady(pods.filter(isGreedy))),
          ];
        }),
      }),
    };
  },
};
