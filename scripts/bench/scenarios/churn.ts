import { costFigures, costTables } from '../costs.ts';
import type { ChurnResult, Operation } from '../generator/protocol.ts';
import { groupTable, renderCell, type Table } from '../markdown.ts';
import { cumulative, lineChart } from '../plot.ts';
import { bySide, direct, type Round, runRounds, sidesToCompare, tenants } from '../rounds.ts';
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
      sides: sidesToCompare(options),
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
    const measured = bySide(rounds);
    const ofTenants = measured.get(tenants.name) ?? [];
    const medianOf = (value: (round: ChurnRound) => number) => (some: readonly ChurnRound[]) =>
      median(some.map(value));
    const total = (value: (result: ChurnResult) => number) => (some: readonly ChurnRound[]) =>
      String(sum(some.map(({ result }) => value(result))));
    const shown = (percentile: 'p50' | 'p99') =>
      medianOf(({ result }) => distribution(shownTimes(result.operations))[percentile]);
    const throughput = medianOf(perSecond);
    const compared = ratio(throughput(ofTenants), throughput(measured.get(direct.name) ?? []));
    const title = `churn: ${operations} operations over ${tenantCount} tenants`;
    return {
      settings: { operations, lanes, seed, tenants: tenantCount, repeats },
      rounds,
      figures: [...figures(rounds), ...costFigures(rounds, 'operation')],
      tables: [
        groupTable<ChurnRound>(
          title,
          ['side', measured],
          {
            'operations/s': throughput,
            'answered/s': medianOf(answeredPerSecond),
            'call p50, ms': medianOf(({ result }) => median(callTimes(result.operations))),
            'shown p50, ms': shown('p50'),
            'p99, ms': shown('p99'),
            'differences after it': total(({ differences }) => differences),
            failed: total(({ operations: all }) => failedCalls(all)),
            retries: total(({ retries }) => retries),
          },
          ofTenants.length === 0
            ? []
            : [
                `Operations/s of tenants to direct: **${renderCell(compared)}**; through tenants they count until the super cluster shows them. Objects at the end, tenants and super cluster: ${ofTenants.map(({ result }) => countsText(result)).join('; ')}.`,
              ],
        ),
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

function kindTable(rounds: readonly ChurnRound[]): Table[] {
  if (rounds.length === 0) return [];
  const byKind = Map.groupBy(allOperations(rounds), ({ kind, verb }) => `${verb} ${kind}`);
  const shown = (statistic: 'p50' | 'p99' | 'max') => (operations: readonly Operation[]) =>
    distribution(shownTimes(operations))[statistic];
  return [
    groupTable<Operation>(
      'churn: until the super cluster shows it, ms',
      ['operation', new Map([...byKind].sort())],
      {
        number: (operations) => String(operations.length),
        p50: shown('p50'),
        p99: shown('p99'),
        longest: shown('max'),
        'never shown': (all) => String(all.filter(({ shownMs }) => shownMs === undefined).length),
      },
      ['Never shown: what was deleted before it got there, and the delete of that.'],
    ),
  ];
}

function figures(rounds: readonly ChurnRound[]): Figure[] {
  return [...bySide(rounds)].flatMap(([side, ofSide]): Figure[] => {
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
