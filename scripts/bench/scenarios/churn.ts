import { costFigures, costTables } from '../costs.ts';
import type { ChurnResult, Operation } from '../generator/protocol.ts';
import { type Cell, renderCell } from '../markdown.ts';
import { cumulative, lineChart } from '../plot.ts';
import { direct, type Round, runRounds, sidesOf, tenants } from '../rounds.ts';
import { type Figure, figure, type Scenario } from '../scenario.ts';
import { distribution, median, ratio, sum } from '../statistics.ts';

type ChurnRound = Round<ChurnResult>;

/** Creates, updates and deletes of pods, and of the ConfigMaps and Services that go with them, in a mix. */
export const churn: Scenario = {
  name: 'churn',
  summary: '--operations creates, updates and deletes over all tenants',
  needsTenants: false,

  async run(lab, options) {
    const { operations, lanes, seed, timeoutMs, repeats, tenants: tenantCount } = options;
    const rounds = await runRounds<ChurnResult>({
      lab,
      options,
      sides: sidesOf(options),
      prepare: async () => {
        await lab.generator.request('prepareChurn', { lanes, timeoutMs }, lab.signal);
      },
      measure: async (_targets, side, repeat) => {
        const work = { seed: seed + repeat, operations, lanes, timeoutMs };
        const otherSide =
          side.through === 'super cluster'
            ? {}
            : { otherSide: { connection: lab.stack.superCluster, labelSelector: lab.superSelector() } };
        const result = await lab.generator.request('churn', { ...work, ...otherSide }, lab.signal);
        for (const failure of result.failures) lab.log(`  ${failure}`);
        return result;
      },
      count: (result) => result.operations.length,
      describe: describeChurn,
    });
    const bySide = Map.groupBy(rounds, ({ side }) => side);
    const of = (side: string, value: (round: ChurnRound) => number): number =>
      median((bySide.get(side) ?? []).map(value));
    const throughput = ratio(of(tenants.name, perSecond), of(direct.name, perSecond));
    const ofTenants = bySide.get(tenants.name) ?? [];
    const title = `churn: ${operations} operations over ${tenantCount} tenants`;
    return {
      settings: { operations, lanes, seed, tenants: tenantCount, repeats },
      rounds,
      figures: [...figures(rounds), ...costFigures(rounds, 'operation')],
      tables: [
        {
          title,
          columns: [
            'side',
            'operations/s',
            'answered/s',
            'call p50, ms',
            'shown p50, ms',
            'p99, ms',
            'differences after it',
            'failed',
            'retries',
          ],
          rows: [...bySide].map(([side, ofSide]): Cell[] => [
            side,
            of(side, perSecond),
            of(side, answeredPerSecond),
            of(side, ({ result }) => median(callTimes(result.operations))),
            of(side, ({ result }) => distribution(shownTimes(result.operations)).p50),
            of(side, ({ result }) => distribution(shownTimes(result.operations)).p99),
            String(sum(ofSide.map(({ result }) => result.differences))),
            String(sum(ofSide.map(({ result }) => failedCalls(result.operations)))),
            String(sum(ofSide.map(({ result }) => result.retries))),
          ]),
          notes:
            ofTenants.length === 0
              ? []
              : [
                  `Operations/s of tenants to direct: **${renderCell(throughput)}**; through tenants they count until the super cluster shows them. Objects at the end, tenants and super cluster: ${ofTenants.map(({ result }) => countsText(result)).join('; ')}.`,
                ],
        },
        ...kindTable(ofTenants),
        ...costTables('churn', rounds, 'operation'),
      ],
      plots: lineChart({
        name: 'churn',
        title: `${title}: until the super cluster shows them`,
        x: { label: 'ms from the call', logarithmic: true },
        y: { label: '% of operations', max: 100 },
        lines: [...Map.groupBy(allOperations(ofTenants), ({ verb }) => verb)].map(([verb, some]) =>
          cumulative(verb, shownTimes(some)),
        ),
      }),
    };
  },
};

export function describeChurn({ operations, differences }: ChurnResult): string {
  const agreement = differences === 0 ? '' : `, ${differences} objects differ between both sides`;
  return `${operations.length} operations${agreement}`;
}

/** How long it took until the other side showed them, in milliseconds. */
export function shownTimes(operations: readonly Operation[]): number[] {
  return operations.flatMap(({ sentMs, shownMs }) => (shownMs === undefined ? [] : shownMs - sentMs));
}

function callTimes(operations: readonly Operation[]): number[] {
  return operations.flatMap(({ sentMs, answeredMs }) =>
    answeredMs === undefined ? [] : answeredMs - sentMs,
  );
}

function failedCalls(operations: readonly Operation[]): number {
  return operations.filter(({ answeredMs }) => answeredMs === undefined).length;
}

function perSecond({ side, result }: ChurnRound): number {
  const { operations, answeredMs, agreedMs } = result;
  const endMs = side === direct.name ? answeredMs : agreedMs;
  return endMs === undefined ? Number.NaN : (operations.length * 1000) / endMs;
}

function answeredPerSecond({ result: { operations, answeredMs } }: ChurnRound): number {
  return (operations.length * 1000) / answeredMs;
}

function countsText({ counts: { own, other } }: ChurnResult): string {
  const text = ({ pods, configmaps, services }: typeof own): string =>
    `${pods} pods, ${configmaps} ConfigMaps, ${services} Services`;
  return other === undefined || text(own) === text(other)
    ? `${text(own)} on both`
    : `${text(own)} and ${text(other)}`;
}

function allOperations(rounds: readonly ChurnRound[]): Operation[] {
  return rounds.flatMap(({ result }) => result.operations);
}

function kindTable(rounds: readonly ChurnRound[]) {
  if (rounds.length === 0) return [];
  const byKind = Map.groupBy(allOperations(rounds), ({ kind, verb }) => `${verb} ${kind}`);
  return [
    {
      title: 'churn: until the super cluster shows it, ms',
      columns: ['operation', 'number', 'p50', 'p99', 'longest', 'never shown'],
      rows: [...byKind].sort().map(([name, operations]): Cell[] => {
        const { p50, p99, max } = distribution(shownTimes(operations));
        const never = operations.filter(({ shownMs }) => shownMs === undefined).length;
        return [name, String(operations.length), p50, p99, max, String(never)];
      }),
      notes: ['Never shown: what was deleted before it got there, and the delete of that.'],
    },
  ];
}

function figures(rounds: readonly ChurnRound[]): Figure[] {
  return [...Map.groupBy(rounds, ({ side }) => side)].flatMap(([side, ofSide]): Figure[] => {
    const speed = figure(`${side}, throughput`, 'operations/s', ofSide.map(perSecond), 'more');
    if (side === direct.name) return speed;
    const shown = (percentile: 'p50' | 'p99'): Figure[] =>
      figure(
        `${side}, shown ${percentile}`,
        'ms',
        ofSide.map(({ result }) => distribution(shownTimes(result.operations))[percentile]),
      );
    return [...speed, ...shown('p50'), ...shown('p99')];
  });
}
