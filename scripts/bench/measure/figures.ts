import type { PodSample } from '../generator/protocol.ts';
import type { Cell } from './markdown.ts';
import { type ProcessGroup, processGroups } from './process-groups.ts';
import { type Distribution, distribution, median } from './statistics.ts';
import { totalCpuSeconds, type Usage } from './usage.ts';

/** How long pods took from the create call until a watch showed them Ready, in milliseconds. */
export function readyTimes(pods: readonly PodSample[]): Distribution {
  return distribution(timesToReady(pods));
}

export function timesToReady(pods: readonly PodSample[]): number[] {
  return pods.flatMap(({ createdMs, readyMs }) => (readyMs === undefined ? [] : readyMs - createdMs));
}

/** Pods that were Ready per second, from the first create call until the last was. */
export function podsPerSecond(pods: readonly PodSample[]): number {
  const ready = pods.flatMap(({ readyMs }) => readyMs ?? []);
  const first = Math.min(...pods.map(({ createdMs }) => createdMs));
  return (ready.length * 1000) / (Math.max(...ready) - first);
}

export function missing(pods: readonly PodSample[]): number {
  return pods.filter(({ readyMs }) => readyMs === undefined).length;
}

export const cpuColumns = ['all', ...processGroups, 'rest of the machine', 'load'] as const;

/** A round's costs, and what they are divided by. */
interface Cost {
  usage: Usage;
  count: number;
}

/** Medians over rounds, by column: milliseconds of CPU per pod or operation, and the load average. */
export function cpuPer(rounds: readonly Cost[]): Cell[] {
  const per = (seconds: (usage: Usage) => number | undefined): Cell =>
    median(
      rounds.flatMap(({ usage, count }) => {
        const spent = seconds(usage);
        return spent === undefined ? [] : (spent * 1000) / count;
      }),
    );
  return [
    per(totalCpuSeconds),
    ...processGroups.map((group: ProcessGroup) => per((usage) => usage.cpuSeconds[group])),
    per((usage) => usage.othersSeconds),
    median(rounds.map(({ usage }) => usage.load)),
  ];
}

const leastMs = 0.5;

/** Medians over rounds: milliseconds of CPU of each component that matters, the largest first. */
export function componentsPer(rounds: readonly Cost[]): [string, number][] {
  const names = new Set(rounds.flatMap(({ usage }) => Object.keys(usage.componentSeconds)));
  return [...names]
    .map((name): [string, number] => [
      name,
      median(rounds.map(({ usage, count }) => ((usage.componentSeconds[name] ?? 0) * 1000) / count)),
    ])
    .filter(([, ms]) => ms >= leastMs)
    .sort(([, a], [, b]) => b - a);
}
