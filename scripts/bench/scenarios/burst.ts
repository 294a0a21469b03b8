import { costFigures, costTables } from '../costs.ts';
import type { Lab } from '../lab.ts';
import { type Cell, renderCell, type Table } from '../markdown.ts';
import { type Memory, memoryOf } from '../measure.ts';
import type { BenchOptions } from '../options.ts';
import { type Line, lineChart } from '../plot.ts';
import {
  direct,
  neverReady,
  type PodRound,
  podsPerSecond,
  readyTimes,
  runPodRounds,
  sidesOf,
  tenants,
} from '../rounds.ts';
import { type Figure, figure, type Scenario, type ScenarioResult } from '../scenario.ts';
import { median, ratio, sum } from '../statistics.ts';

const bytesPerMegabyte = 1_000_000;

/** All tenants create all of their pods at once: how many become Ready per second. */
export const burst: Scenario = {
  name: 'burst',
  summary: 'every tenant creates --pods pods at once',
  needsTenants: false,
  run: (lab, options) => runBurst('burst', false, lab, options),
};

/** The same with what pods have that say nothing: a token each, which the tenant's API server issues. */
export const burstTokens: Scenario = {
  name: 'burst-tokens',
  summary: 'the same with default service account tokens',
  needsTenants: false,
  run: (lab, options) => runBurst('burst-tokens', true, lab, options),
};

async function runBurst(
  name: string,
  withTokens: boolean,
  lab: Lab,
  options: BenchOptions,
): Promise<ScenarioResult> {
  const syncerMemory: Memory[] = [];
  const { tenants: tenantCount, pods, inFlight, repeats } = options;
  const rounds = await runPodRounds({
    lab,
    options,
    withTokens,
    sides: sidesOf(options),
    loads: (targets) => targets.map((target) => ({ target: target.name, pods, shape: 'burst', inFlight })),
    whileLoaded: async ({ side }) => {
      const syncer = (await lab.processes()).find(({ group }) => group === 'syncer');
      const memory = syncer === undefined ? undefined : await memoryOf(syncer.pid);
      if (memory !== undefined && side === tenants.name) syncerMemory.push(memory);
    },
  });
  const sides = figures(rounds);
  const [base, ours] = [sides.get(direct.name), sides.get(tenants.name)];
  const throughput = ratio(ours?.podsPerSecond ?? Number.NaN, base?.podsPerSecond ?? 0);
  const syncerMegabytes = syncerMemory.map(({ rss }) => rss / bytesPerMegabyte);
  const notes =
    ours === undefined
      ? []
      : [
          `Throughput of tenants to direct: **${renderCell(throughput)}**. Resident memory of the syncer with all pods: ${renderCell(median(syncerMegabytes))} MB.`,
        ];
  const title = `${name}: ${tenantCount} × ${pods} pods${withTokens ? ' with tokens' : ''}`;
  return {
    settings: { tenants: tenantCount, pods, inFlight, repeats, withTokens },
    rounds: [...rounds, ...syncerMemory.map((memory) => ({ syncerMemory: memory }))],
    figures: [
      ...throughputFigures(rounds),
      ...costFigures(rounds, 'pod'),
      ...figure('syncer, resident', 'MB', syncerMegabytes),
    ],
    tables: [timeTable(title, sides, notes), ...costTables(name, rounds)],
    plots: lineChart({
      name,
      title,
      x: { label: 'seconds since the first create call' },
      y: { label: 'pods Ready' },
      lines: readyLines(rounds),
    }),
  };
}

interface SideFigures {
  podsPerSecond: number;
  acceptedP50: number;
  p50: number;
  p99: number;
  notReady: number;
  retries: number;
}

function figures(rounds: readonly PodRound[]): Map<string, SideFigures> {
  return new Map(
    [...Map.groupBy(rounds, ({ side }) => side)].map(([side, ofSide]) => {
      const over = (value: (round: PodRound) => number): number => median(ofSide.map(value));
      return [
        side,
        {
          podsPerSecond: over(({ result }) => podsPerSecond(result.pods)),
          acceptedP50: over(({ result }) =>
            median(result.pods.map(({ createdMs, acceptedMs = Number.NaN }) => acceptedMs - createdMs)),
          ),
          p50: over(({ result }) => readyTimes(result.pods).p50),
          p99: over(({ result }) => readyTimes(result.pods).p99),
          notReady: sum(ofSide.map(({ result }) => neverReady(result.pods))),
          retries: sum(ofSide.map(({ result }) => result.retries)),
        },
      ];
    }),
  );
}

function throughputFigures(rounds: readonly PodRound[]): Figure[] {
  const throughput = ({ result }: PodRound): number => podsPerSecond(result.pods);
  const of = (name: string): PodRound[] => rounds.filter(({ side }) => side === name);
  const bySide = [...Map.groupBy(rounds, ({ side }) => side)].flatMap(([side, ofSide]) =>
    figure(`${side}, throughput`, 'pods/s', ofSide.map(throughput), 'more'),
  );
  const ratios = of(tenants.name).flatMap((round) => {
    const base = of(direct.name).find(({ repeat }) => repeat === round.repeat);
    return base === undefined ? [] : [ratio(throughput(round), throughput(base))];
  });
  return [...bySide, ...figure('tenants to direct', 'ratio', ratios, 'more')];
}

/** How many pods are Ready as time goes by, for every round. */
function readyLines(rounds: readonly PodRound[]): Line[] {
  return rounds.map(({ side, repeat, result }) => {
    const ready = result.pods.flatMap(({ readyMs }) => readyMs ?? []).sort((a, b) => a - b);
    return { name: `${side} ${repeat + 1}`, points: ready.map((ms, index) => [ms / 1000, index + 1]) };
  });
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
