import { costFigures, costTables } from '../costs.ts';
import { groupTable, renderCell } from '../markdown.ts';
import {
  allNeverReady,
  bySide,
  medianOfPods,
  type PodRound,
  podsPerSecond,
  readyTimes,
  runPodRounds,
  type Side,
  tenants,
} from '../rounds.ts';
import { figure, type Scenario } from '../scenario.ts';

const sides: readonly Side[] = [
  tenants,
  ...[5, 30].map((delayMs) => ({ name: `tenants, ${delayMs} ms away`, through: { fair: true, delayMs } })),
];

/** The syncer is away from the super cluster and from tenants: calls take longer, and must not become fewer. */
export const distance: Scenario = {
  name: 'distance',
  summary: 'burst while all that the syncer sends and gets is 5 and 30 ms under way',
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, options) {
    if (lab.stack.setSyncer === undefined)
      throw new Error(
        'distance restarts the syncer, which is not done to that of a given stack: leave out --state-dir and --kubeconfig',
      );
    const { tenants: tenantCount, pods, inFlight, repeats } = options;
    let rounds: PodRound[];
    try {
      rounds = await runPodRounds({
        lab,
        options,
        sides,
        loads: (targets) => targets.map(({ name }) => ({ target: name, pods, shape: 'burst', inFlight })),
      });
    } finally {
      await lab.stack.setSyncer({ fair: true }, lab.signal);
    }
    const ofSides = bySide(rounds);
    const throughput = medianOfPods(podsPerSecond);
    const near = throughput(ofSides.get(tenants.name) ?? []);
    const title = `distance: ${tenantCount} × ${pods} pods`;
    return {
      settings: { tenants: tenantCount, pods, inFlight, repeats },
      rounds,
      tables: [
        groupTable<PodRound>(title, ['side', ofSides], {
          'pods/s': throughput,
          'to near': (all) => renderCell(throughput(all) / near),
          'Ready p50, ms': medianOfPods((all) => readyTimes(all).p50),
          'p99, ms': medianOfPods((all) => readyTimes(all).p99),
          'never Ready': allNeverReady,
        }),
        ...costTables('distance', rounds),
      ],
      figures: [
        ...[...ofSides].flatMap(([side, all]) =>
          figure(
            `${side}, throughput`,
            'pods/s',
            all.map(({ result }) => podsPerSecond(result.pods)),
            'more',
          ),
        ),
        ...costFigures(rounds, 'pod'),
      ],
      plots: [],
    };
  },
};
