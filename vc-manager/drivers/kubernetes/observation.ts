import type { ComponentExit, ComponentObservation, ComponentState } from '../driver.ts';
import { problemOf } from './pod-problem.ts';
import { containerOf, isReady, type Pod, type StatefulSet } from './types.ts';

/** How a component is, from what runs it and its pods. One that serves is well, however many of it there should be. */
export function observationOf(statefulSet: StatefulSet, pods: readonly Pod[]): ComponentObservation {
  const running = pods
    .map((pod) => containerOf(pod)?.state?.running?.startedAt)
    .filter((startedAt) => startedAt !== undefined)
    .sort();
  const lastExit = pods
    .map((pod) => exitOf(pod))
    .filter((exit) => exit !== undefined)
    .sort((a, b) => a.at.getTime() - b.at.getTime())
    .at(-1);
  return {
    name: statefulSet.metadata.name ?? '',
    state: stateOf(statefulSet, pods),
    ...(running[0] === undefined ? {} : { startedAt: new Date(running[0]) }),
    restarts: pods.reduce((sum, pod) => sum + (containerOf(pod)?.restartCount ?? 0), 0),
    ...(lastExit === undefined ? {} : { lastExit }),
  };
}

function stateOf({ spec }: StatefulSet, pods: readonly Pod[]): ComponentState {
  if (spec?.replicas === 0) return 'stopped';
  if (pods.some((pod) => isReady(pod) && pod.metadata.deletionTimestamp === undefined)) return 'running';
  return pods.some((pod) => problemOf(pod).kind !== 'starting') ? 'failed' : 'starting';
}

function exitOf(pod: Pod): ComponentExit | undefined {
  const { state, lastState } = containerOf(pod) ?? {};
  const last = state?.terminated ?? lastState?.terminated;
  if (last === undefined) return undefined;
  return {
    at: new Date(last.finishedAt ?? 0),
    code: last.exitCode,
    ...(last.signal ? { signal: String(last.signal) } : {}),
  };
}
