import { costFigures, costTables } from '../costs.ts';
import type { PodSample } from '../generator/protocol.ts';
import type { Cell } from '../markdown.ts';
import { cumulative, lineChart } from '../plot.ts';
import {
  direct,
  neverReady,
  type PodRound,
  readyTimes,
  runPodRounds,
  type Side,
  tenants,
  timesToReady,
  unfairTenants,
} from '../rounds.ts';
import { type Figure, figure, type Scenario } from '../scenario.ts';
import { type Distribution, median, sum } from '../statistics.ts';

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
    const bySide = Map.groupBy(rounds, ({ side }) => side);
    const rows: Cell[][] = [];
    for (const [side, ofSide] of bySide) {
      const regularFigures = figures(ofSide, ({ target }) => !greedy.has(target));
      const greedyFigures = figures(ofSide, ({ target }) => greedy.has(target));
      rows.push([
        side,
        regularFigures.mean,
        regularFigures.p50,
        regularFigures.p99,
        greedyFigures.mean,
        greedyFigures.p99,
        String(regularFigures.notReady + greedyFigures.notReady),
      ]);
    }
    const regularTenants = tenantCount - greedyTenants;
    const title = `fairness: ${greedyTenants} × ${greedyPods} pods at once, ${regularTenants} × ${regularPods} one after the other`;
    const isRegular = ({ target }: PodSample): boolean => !greedy.has(target);
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
        {
          title,
          columns: [
            'side',
            'regular mean, ms',
            'p50, ms',
            'p99, ms',
            'greedy mean, ms',
            'p99, ms',
            'never Ready',
          ],
          rows,
          notes:
            options.sides === 'both' && !canRestart
              ? ['Not measured without fairness: the syncer of a given stack is not restarted.']
              : [],
        },
        ...costTables('fairness', rounds),
      ],
      figures: [
        ...[...bySide].flatMap(([side, ofSide]) => [
          ...times(side, 'regular', ofSide, isRegular),
          ...times(side, 'greedy', ofSide, (pod) => !isRegular(pod)),
        ]),
        ...costFigures(rounds, 'pod'),
      ],
      plots: lineChart({
        name: 'fairness',
        title,
        x: { label: 'ms from the create call until Ready', logarithmic: true },
        y: { label: '% of pods', max: 100 },
        lines: [...bySide].flatMap(([side, ofSide]) => {
          const pods = ofSide.flatMap(({ result }) => result.pods);
          return [
            cumulative(`${side}: regular`, timesToReady(pods.filter(isRegular))),
            cumulative(`${side}: greedy`, timesToReady(pods.filter((pod) => !isRegular(pod)))),
          ];
        }),
      }),
    };
  },
};

function figures(
  rounds: readonly PodRound[],
  which: (pod: PodSample) => boolean,
): Pick<Distribution, 'mean' | 'p50' | 'p99'> & { notReady: number } {
  const all = rounds.map(({ result }) => result.pods.filter(which));
  const over = (statistic: 'mean' | 'p50' | 'p99'): number =>
    median(all.map((pods) => readyTimes(pods)[statistic]));
  return {
    mean: over('mean'),
    p50: over('p50'),
    p99: over('p99'),
    notReady: sum(all.map(neverReady)),
  };
}
