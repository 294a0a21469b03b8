import { costTables } from '../cost-tables.ts';
import { missing, podsPerSecond, readyTimes } from '../measure/figures.ts';
import { type Cell, renderCell, type Table } from '../measure/markdown.ts';
import { type Memory, memoryOf } from '../measure/proc.ts';
import { median, ratio } from '../measure/statistics.ts';
import { direct, type Round, runPodRounds, tenants } from '../pod-rounds.ts';
import type { Scenario } from '../scenario.ts';

const bytesPerMegabyte = 1_000_000;

/** All tenants create all of their pods at once: how many become Ready per second. */
export const burst: Scenario = {
  name: 'burst',
  summary: 'every tenant creates --pods pods at once',
  needsTenants: false,

  async run(lab, options) {
    const syncerMemory: Memory[] = [];
    const rounds = await runPodRounds({
      lab,
      options,
      sides: options.sides === 'direct' ? [direct] : [direct, tenants],
      loads: (targets) =>
        targets.map(({ name }) => ({
          target: name,
          pods: options.pods,
          shape: 'burst',
          inFlight: options.inFlight,
        })),
      whileLoaded: async ({ side }) => {
        const syncer = (await lab.processes()).find(({ group }) => group === 'syncer');
        const memory = syncer === undefined ? undefined : await memoryOf(syncer.pid);
        if (memory !== undefined && side === tenants.name) syncerMemory.push(memory);
      },
    });
    const sides = figures(rounds);
    const [base, ours] = [sides.get(direct.name), sides.get(tenants.name)];
    const throughput = ratio(ours?.podsPerSecond ?? Number.NaN, base?.podsPerSecond ?? 0);
    const syncerMegabytes = median(syncerMemory.map(({ rss }) => rss / bytesPerMegabyte));
    const notes =
      ours === undefined
        ? []
        : [
            `Throughput of tenants to direct: **${renderCell(throughput)}**. Resident memory of the syncer with all pods: ${renderCell(syncerMegabytes)} MB.`,
          ];
    const { tenants: tenantCount, pods, inFlight, repeats } = options;
    return {
      settings: { tenants: tenantCount, pods, inFlight, repeats },
      rounds: [...rounds, ...syncerMemory.map((memory) => ({ syncerMemory: memory }))],
      summary: { ...Object.fromEntries(sides), ratio: throughput, syncerRssMegabytes: syncerMegabytes },
      tables: [
        timeTable(`burst: ${tenantCount} × ${pods} pods`, sides, notes),
        ...costTables('burst', rounds),
      ],
    };
  },
};

interface SideFigures {
  podsPerSecond: number;
  acceptedP50: number;
  p50: number;
  p99: number;
  notReady: number;
  retries: number;
}

function figures(rounds: readonly Round[]): Map<string, SideFigures> {
  return new Map(
    [...Map.groupBy(rounds, ({ side }) => side)].map(([side, ofSide]) => {
      const over = (figure: (round: Round) => number): number => median(ofSide.map(figure));
      return [
        side,
        {
          podsPerSecond: over(({ result }) => podsPerSecond(result.pods)),
          acceptedP50: over(({ result }) =>
            median(result.pods.map(({ createdMs, acceptedMs = Number.NaN }) => acceptedMs - createdMs)),
          ),
          p50: over(({ result }) => readyTimes(result.pods).p50),
          p99: over(({ result }) => readyTimes(result.pods).p99),
          notReady: ofSide.reduce((sum, { result }) => sum + missing(result.pods), 0),
          retries: ofSide.reduce((sum, { result }) => sum + result.retries, 0),
        },
      ];
    }),
  );
}

function timeTable(title: string, sides: ReadonlyMap<string, SideFigures>, notes: string[]): Table {
  return {
    title,
    columns: ['side', 'pods/s', 'create call p50, ms', 'Ready p50, ms', 'p99, ms', 'never Ready', 'retries'],
    rows: [...sides].map(([side, each]): Cell[] => [
      side,
      each.podsPerSecond,
      each.acceptedP50,
      each.p50,
      each.p99,
      String(each.notReady),
      String(each.retries),
    ]),
    notes,
  };
}
