import { type Clock, type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import type { ComponentPlan } from '../../control-plane/index.ts';
import { imageUnavailable, keepsExiting, podsNotReady } from '../errors.ts';
import { namespaceOf } from './names.ts';
import type { NamespaceView } from './namespace-view.ts';
import { lastLinesOf } from './pod-log.ts';
import { type PodProblem, problemOf } from './pod-problem.ts';
import { containerOf, isReady, type Pod, type StatefulSet } from './types.ts';

const defaultReadyTimeoutMs = 60_000;
/** So many restarts of one container, and its kubelet waiting before the next, are reported as a failure. */
const restartsUntilFailed = 2;
const linesInErrors = 12;

export interface RolloutOptions {
  id: string;
  component: ComponentPlan;
  /** As the server had it after it was written. */
  written: StatefulSet;
  client: KubeClient;
  clock: Clock;
  signal: AbortSignal;
  onProgress: (message: string) => void;
}

/**
 * Whether nothing is left to wait for: the server has told of what was written before, no update is under way, and one
 * at least serves. That one of several is missing is no reason to call a control plane unready.
 */
export function isSettled(written: StatefulSet): boolean {
  const {
    availableReplicas = 0,
    observedGeneration = 0,
    currentRevision,
    updateRevision,
  } = written.status ?? {};
  const isSeen = observedGeneration >= (written.metadata.generation ?? 0);
  return isSeen && currentRevision === updateRevision && availableReplicas > 0;
}

/** Waits until all replicas are as written and ready. Rejects with a DriverError when nothing moves any more. */
export async function awaitRollout(view: NamespaceView, options: RolloutOptions): Promise<void> {
  const { id, component, clock, signal, client, onProgress } = options;
  const where = { id, component: component.name };
  const timeoutMs = component.probe?.timeoutMs ?? defaultReadyTimeoutMs;
  let movedAt = clock.monotonic();
  let seen = '';
  let problem: PodProblem | undefined;
  const look = (): 'complete' | 'crashing' | undefined => {
    const current = view.statefulSet(component.name);
    if (current !== undefined && isComplete(current, options)) return 'complete';
    const pods = view.pods(component.name);
    problem = worst(pods.filter((pod) => !isReady(pod)).map(problemOf));
    const message = progressOf(current, pods, component, problem);
    if (message !== seen) {
      seen = message;
      movedAt = clock.monotonic();
      onProgress(message);
    }
    return current !== undefined && isSeen(current, options) && pods.some((pod) => hasGivenUp(pod, current))
      ? 'crashing'
      : undefined;
  };
  const outcome = await view.until(look, {
    signal,
    clock,
    timeoutMs: () => movedAt + timeoutMs - clock.monotonic(),
  });
  if (outcome === 'complete') return;
  const set = view.statefulSet(component.name);
  const crashing = view.pods(component.name).find((pod) => set !== undefined && hasGivenUp(pod, set));
  if (crashing !== undefined) {
    throw keepsExiting(
      where,
      restartsOf(crashing) + 1,
      exitOf(crashing),
      await tailOf(options, crashing.metadata.name ?? '', true),
    );
  }
  if (problem?.kind === 'image')
    throw imageUnavailable(where, imageOf(view.pods(component.name)), problem.message);
  const refusal = problem === undefined ? await latestWarning(client, options) : undefined;
  const tail = problem === undefined ? [] : await tailOf(options, problem.pod, false);
  throw podsNotReady(where, timeoutMs, refusal ?? seen, tail);
}

function isSeen({ metadata, status }: StatefulSet, { written }: RolloutOptions): boolean {
  return (
    metadata.uid === written.metadata.uid &&
    (status?.observedGeneration ?? 0) >= (written.metadata.generation ?? 0)
  );
}

function isComplete(current: StatefulSet, { component, written }: RolloutOptions): boolean {
  const { replicas = 1 } = component;
  const {
    availableReplicas = 0,
    updatedReplicas = 0,
    observedGeneration = 0,
    currentRevision,
    updateRevision,
  } = current.status ?? {};
  return (
    current.metadata.uid === written.metadata.uid &&
    observedGeneration >= (written.metadata.generation ?? 0) &&
    currentRevision === updateRevision &&
    updatedReplicas >= replicas &&
    availableReplicas >= replicas
  );
}

function progressOf(
  current: StatefulSet | undefined,
  pods: readonly Pod[],
  { name, replicas = 1 }: ComponentPlan,
  problem: PodProblem | undefined,
): string {
  if (problem !== undefined && problem.kind !== 'starting') return problem.message;
  const { updatedReplicas = 0, readyReplicas = 0 } = current?.status ?? {};
  const counts =
    replicas > 1 ? ` (${updatedReplicas} of ${replicas} up to date, ${readyReplicas} ready)` : '';
  if (problem !== undefined) return `${problem.message}${counts}`;
  return pods.length === 0 ? `${name} has no pod yet${counts}` : `${name} is being updated${counts}`;
}

const severity: readonly PodProblem['kind'][] = ['crashing', 'image', 'config', 'unschedulable', 'starting'];

function worst(problems: readonly PodProblem[]): PodProblem | undefined {
  return problems.toSorted((a, b) => severity.indexOf(a.kind) - severity.indexOf(b.kind))[0];
}

/** Of those that are as written: one of an earlier state may have given up long ago, and is about to go. */
function hasGivenUp(pod: Pod, { status }: StatefulSet): boolean {
  if (pod.metadata.labels?.['controller-revision-hash'] !== status?.updateRevision) return false;
  const container = containerOf(pod);
  return (
    container?.state?.waiting?.reason === 'CrashLoopBackOff' && container.restartCount >= restartsUntilFailed
  );
}

function restartsOf(pod: Pod): number {
  return containerOf(pod)?.restartCount ?? 0;
}

function exitOf(pod: Pod): string {
  const last = containerOf(pod)?.lastState?.terminated;
  if (last === undefined) return 'exit status unknown';
  return last.signal ? `signal ${last.signal}` : `exit code ${last.exitCode}`;
}

function imageOf(pods: readonly Pod[]): string {
  const spec = pods[0]?.['spec'] as { containers?: { image?: string }[] } | undefined;
  return spec?.containers?.[0]?.image ?? 'the image';
}

function tailOf(
  { client, id, component, signal }: RolloutOptions,
  pod: string,
  previous: boolean,
): Promise<string[]> {
  const namespace = namespaceOf(id);
  return lastLinesOf(client, {
    namespace,
    pod,
    container: component.name,
    previous,
    tailLines: linesInErrors,
    signal,
  });
}

interface EventObject extends KubeObject {
  message?: string;
  lastTimestamp?: string | null;
}

/** Why there is no pod at all: a quota or a webhook says so only in an event. */
async function latestWarning(
  client: KubeClient,
  { id, component, signal }: RolloutOptions,
): Promise<string | undefined> {
  const fieldSelector = `involvedObject.kind=StatefulSet,involvedObject.name=${component.name},type=Warning`;
  const { items } = await client.list<EventObject>(resources.events, {
    namespace: namespaceOf(id),
    fieldSelector,
    signal,
  });
  const at = ({ lastTimestamp }: EventObject): number => Date.parse(lastTimestamp ?? '') || 0;
  return items.toSorted((a, b) => at(a) - at(b)).at(-1)?.message;
}
