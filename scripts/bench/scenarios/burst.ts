import { costFigures, costTables } from '../costs.ts';
import type { Lab } from '../lab.ts';
import { groupTable, renderCell } from '../markdown.ts';
import { type Memory, memoryOf } from '../measure.ts';
import type { BenchOptions } from '../options.ts';
import { countedOverTime, lineChart } from '../plot.ts';
import {
  allNeverReady,
  bySide,
  direct,
  medianOfPods,
  type PodRound,
  podsPerSecond,
  readyTimes,
  runPodRounds,
  sidesToCompare,
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

/** The same with pods as they are by default, each with a token that the tenant's API server issues. */
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
    sides: sidesToCompare(options),
    loads: (targets) => targets.map((target) => ({ target: target.name, pods, shape: 'burst', inFlight })),
    whileLoaded: async ({ side }) => {
      const syncer = (await lab.processes()).find(({ group }) => group === 'syncer');
      const memory = syncer === undefined ? undefined : await memoryOf(syncer.pid);
      if (memory !== undefined && side === tenants.name) syncerMemory.push(memory);
    },
  });
  const sides = bySide(rounds);
  const throughput = medianOfPods(podsPerSecond);
  const compared = ratio(throughput(sides.get(tenants.name) ?? []), throughput(sides.get(direct.name) ?? []));
  const syncerMegabytes = syncerMemory.map(({ rss }) => rss / bytesPerMegabyte);
  const title = `${name}: ${tenantCount} × ${pods} pods${withTokens ? ' with tokens' : ''}`;
  const times = groupTable<PodRound>(
    title,
    ['side', sides],
    {
      'pods/s': throughput,
      'create call p50, ms': medianOfPods((all) =>
        median(all.map(({ createdMs, acceptedMs = Number.NaN }) => acceptedMs - createdMs)),
      ),
      'Ready p50, ms': medianOfPods((all) => readyTimes(all).p50),
      'p99, ms': medianOfPods((all) => readyTimes(all).p99),
      'never Ready': allNeverReady,
      retries: (some) => String(sum(some.map(({ result }) => result.retries))),
    },
    sides.has(tenants.name)
      ? [
          `Throughput of tenants to direct: **${renderCell(compared)}**. Resident memory of the syncer with all pods: ${renderCell(median(syncerMegabytes))} MB.`,
        ]
      : [],
  );
  return {
    settings: { tenants: tenantCount, pods, inFlight, repeats, withTokens },
    rounds: [...rounds, ...syncerMemory.map((memory) => ({ syncerMemory: memory }))],
    figures: [
      ...throughputFigures(sides),
      ...costFigures(rounds, 'pod'),
      ...figure('syncer, resident', 'MB', syncerMegabytes),
    ],
    tables: [times, ...costTables(name, rounds)],
    plots: lineChart({
      name,
      title,
      x: { label: 'seconds since the first create call' },
      y: { label: 'pods Ready' },
      lines: rounds.map(({ side, repeat, result }) =>
        countedOverTime(
          `${side} ${repeat + 1}`,
          result.pods.flatMap(({ readyMs }) => readyMs ?? []),
        ),
      ),
    }),
  };
}

function throughputFigures(sides: ReadonlyMap<string, readonly PodRound[]>): Figure[] {
  const throughput = ({ result }: PodRound): number => podsPerSecond(result.pods);
  const ratios = (sides.get(tenants.name) ?? []).flatMap((round) => {
    const base = sides.get(direct.name)?.find(({ repeat }) => repeat === round.repeat);
    return base === undefined ? [] : [ratio(throughput(round), throughput(base))];
  });
  return [
    ...[...sides].flatMap(([side, ofSide]) =>
      figure(`${side}, throughput`, 'pods/s', ofSide.map(throughput), 'more'),
    ),
    ...figure('tenants to direct', 'ratio', ratios, 'more'),
  ];
}
