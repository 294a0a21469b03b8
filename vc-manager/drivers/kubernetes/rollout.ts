import {
  type Clock,
  ignoreNotFound,
  type KubeClient,
  type KubeObject,
  resources,
} from '../../../kube/index.ts';
import { type ComponentPlan, runInDependencyOrder, startOrder } from '../../control-plane/plan.ts';
import type {
  ComponentExit,
  ComponentObservation,
  ComponentState,
  EnsureOptions,
  OnProblem,
  StopOptions,
} from '../driver.ts';
import {
  imageUnavailable,
  insufficientMemory,
  keepsExiting,
  podsNotReady,
  podsWillNotStop,
} from '../errors.ts';
import { lastLinesOf } from './logs.ts';
import type { PodEvents } from './pod-events.ts';
import { NamespaceView, type SuperObjects } from './super-objects.ts';
import {
  apiServer,
  containerOf,
  datastore,
  dependsOnAnnotation,
  fieldManager,
  filesSecretOf,
  isReady,
  namespaceOf,
  type Pod,
  type StatefulSet,
} from './types.ts';

/** Why a pod is not ready. */
interface PodProblem {
  /** `starting`: nothing is wrong. */
  kind: 'starting' | 'unschedulable' | 'image' | 'crashing' | 'config';
  message: string;
  pod: string;
}

const imageReasons = ['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull'];
const configReasons = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'];

/** Why a pod is not ready, by its status. */
function problemOf(pod: Pod): PodProblem {
  const name = pod.metadata.name ?? '';
  const unscheduled = pod.status?.conditions?.find(
    ({ type, status }) => type === 'PodScheduled' && status === 'False',
  );
  if (unscheduled !== undefined) {
    return { kind: 'unschedulable', pod: name, message: `${name} has no node: ${unscheduled.message ?? ''}` };
  }
  const container = containerOf(pod);
  const { waiting, terminated } = container?.state ?? {};
  const said = waiting?.message === undefined ? '' : `: ${waiting.message}`;
  if (waiting?.reason !== undefined && imageReasons.includes(waiting.reason)) {
    return { kind: 'image', pod: name, message: `${name} has no image (${waiting.reason}${said})` };
  }
  if (waiting?.reason !== undefined && configReasons.includes(waiting.reason)) {
    return { kind: 'config', pod: name, message: `${name} cannot be started (${waiting.reason}${said})` };
  }
  const last = terminated ?? container?.lastState?.terminated;
  if (waiting?.reason === 'CrashLoopBackOff' || terminated !== undefined) {
    const exit = last === undefined ? 'exit status unknown' : `exit code ${last.exitCode}`;
    return { kind: 'crashing', pod: name, message: `${name} has exited (${exit})` };
  }
  if (pod.metadata.deletionTimestamp !== undefined) {
    return { kind: 'starting', pod: name, message: `${name} is being replaced` };
  }
  const doing = container?.state?.running === undefined ? 'is being started' : 'runs and is not ready yet';
  return { kind: 'starting', pod: name, message: `${name} ${doing}` };
}

/** By the word of the scheduler alone: other messages repeat what a tenant may have written. */
function lacksMemory(problem: PodProblem | undefined): boolean {
  return problem?.kind === 'unschedulable' && /\bInsufficient memory\b/.test(problem.message);
}

/** State of a component, from its StatefulSet and pods. One replica that serves is enough to be well. */
export function observationOf(statefulSet: StatefulSet, pods: readonly Pod[]): ComponentObservation {
  const running = pods
    .map((pod) => containerOf(pod)?.state?.running?.startedAt)
    .filter((startedAt) => startedAt !== undefined)
    .sort();
  const lastExit = pods
    .map((pod) => lastExitOf(pod))
    .filter((exit) => exit !== undefined)
    .sort((a, b) => a.at.getTime() - b.at.getTime())
    .at(-1);
  return {
    name: statefulSet.metadata.name ?? '',
    state: stateOf(statefulSet, pods),
    startedAt: running[0] === undefined ? undefined : new Date(running[0]),
    restarts: pods.reduce((sum, pod) => sum + (containerOf(pod)?.restartCount ?? 0), 0),
    lastExit,
  };
}

function stateOf({ spec }: StatefulSet, pods: readonly Pod[]): ComponentState {
  if (spec?.replicas === 0) return 'stopped';
  if (pods.some((pod) => isReady(pod) && pod.metadata.deletionTimestamp === undefined)) return 'running';
  return pods.some((pod) => problemOf(pod).kind !== 'starting') ? 'failed' : 'starting';
}

function lastExitOf(pod: Pod): ComponentExit | undefined {
  const { state, lastState } = containerOf(pod) ?? {};
  const last = state?.terminated ?? lastState?.terminated;
  if (last === undefined) return undefined;
  return {
    at: new Date(last.finishedAt ?? 0),
    code: last.exitCode,
    ...(last.signal ? { signal: String(last.signal) } : {}),
  };
}

const defaultReadyTimeoutMs = 60_000;
/** So many restarts of one container, and its kubelet waiting before the next, are reported as a failure. */
const restartsUntilFailed = 2;
const linesInErrors = 12;

interface RolloutOptions {
  id: string;
  component: ComponentPlan;
  /** The server's answer to the last write. */
  written: StatefulSet;
  client: KubeClient;
  clock: Clock;
  signal: AbortSignal;
  onProgress: NonNullable<EnsureOptions['onProgress']>;
  /** Waits only for the second replica, beside which the first one runs on as it is. */
  isSurge?: boolean;
}

/**
 * Whether the rollout has ended: the server has observed what was written, no update is under way, and at least one
 * replica serves. A control plane with one of several replicas missing is still ready.
 */
export function isRolloutComplete(written: StatefulSet): boolean {
  const {
    availableReplicas = 0,
    observedGeneration = 0,
    currentRevision,
    updateRevision,
  } = written.status ?? {};
  const isSeen = observedGeneration >= (written.metadata.generation ?? 0);
  return isSeen && currentRevision === updateRevision && availableReplicas > 0;
}

/** Waits until all replicas are up to date and ready. Rejects with a DriverError when there is no progress any more. */
export async function awaitRollout(view: NamespaceView, options: RolloutOptions): Promise<void> {
  const { id, component, clock, signal, client, onProgress } = options;
  const where = { id, component: component.name };
  const timeoutMs = component.probe?.timeoutMs ?? defaultReadyTimeoutMs;
  let movedAt = clock.monotonic();
  let seen = '';
  let problem: PodProblem | undefined;
  const look = (): 'complete' | 'crashing' | undefined => {
    const current = view.statefulSet(component.name);
    const pods = view.pods(component.name);
    const isDone =
      options.isSurge === true
        ? current !== undefined && isSeen(current, options) && pods.some((pod) => isSecond(pod, current))
        : current !== undefined && isComplete(current, options);
    if (isDone) return 'complete';
    problem = worst(pods.filter((pod) => !isReady(pod)).map(problemOf));
    const message = progressOf(current, pods, component, problem);
    if (message !== seen) {
      seen = message;
      movedAt = clock.monotonic();
      onProgress(message, lacksMemory(problem) ? insufficientMemory : undefined);
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
  const code = lacksMemory(problem) ? insufficientMemory : 'NotReady';
  throw podsNotReady(where, timeoutMs, refusal ?? seen, tail, code);
}

/** The second replica, up to date and ready. */
function isSecond(pod: Pod, { metadata, status }: StatefulSet): boolean {
  return (
    pod.metadata.name === `${metadata.name}-1` &&
    pod.metadata.labels?.['controller-revision-hash'] === status?.updateRevision &&
    pod.metadata.deletionTimestamp === undefined &&
    isReady(pod)
  );
}

/** Whether there is no node for one of them. */
export function hasNoNode(pods: readonly Pod[]): boolean {
  return pods.some((pod) => problemOf(pod).kind === 'unschedulable');
}

function isSeen({ metadata, status }: StatefulSet, { written }: RolloutOptions): boolean {
  return (
    metadata.uid === written.metadata.uid &&
    (status?.observedGeneration ?? 0) >= (written.metadata.generation ?? 0)
  );
}

function isComplete(current: StatefulSet, options: RolloutOptions): boolean {
  const { replicas = 1 } = options.component;
  const {
    availableReplicas = 0,
    updatedReplicas = 0,
    currentRevision,
    updateRevision,
  } = current.status ?? {};
  return (
    isSeen(current, options) &&
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

/** Of pods that are up to date: one of an earlier revision may have failed long ago, and is about to go. */
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

/** Why there is no pod at all. A quota or a webhook is named only in an event. */
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

/** What a kubelet may need beyond the grace period until a pod is gone. */
const kubeletSlackMs = 45_000;

interface Stopping {
  objects: SuperObjects;
  clock: Clock;
  events: PodEvents;
  onProblem: OnProblem;
}

/** Scales components to nothing, those that depend on others first, and waits until their pods are gone. */
export async function stopComponents(stopping: Stopping, id: string, options: StopOptions): Promise<void> {
  const { objects, clock, onProblem } = stopping;
  const { signal, components, timeoutMs } = options;
  const all = await objects.statefulSets(id, signal);
  const chosen = all.filter((set) => components?.includes(nameOf(set)) ?? true);
  if (chosen.length === 0) return;
  const reversed = chosen.map((set) => ({
    name: nameOf(set),
    set,
    dependsOn: chosen.filter((other) => dependsOn(other).includes(nameOf(set))).map(nameOf),
  }));
  await using view = new NamespaceView({
    ...{ client: objects.client, namespace: namespaceOf(id), clock, onProblem },
  });
  await runInDependencyOrder(startOrder(reversed), signal, ({ set }, stopSignal) =>
    stopOne(stopping, id, set, { view, timeoutMs, signal: stopSignal }),
  );
}

/**
 * Removes all objects of a component that no plan names any more; its pods are gone by then. Where it is located stays
 * unless `withAddress`: another Service would have another address, and the plan may name it again.
 */
export async function forgetComponent(
  objects: SuperObjects,
  id: string,
  component: string,
  { signal, withAddress = false }: { signal: AbortSignal; withAddress?: boolean },
): Promise<void> {
  const namespace = namespaceOf(id);
  const { statefulSets, services, podDisruptionBudgets, networkPolicies, secrets } = resources;
  const isLocated = component === apiServer || component === datastore;
  for (const kind of [statefulSets, services, podDisruptionBudgets, networkPolicies]) {
    if (kind === services && isLocated && !withAddress) continue;
    await objects.delete(kind, { namespace, name: component }, { signal });
  }
  await objects.delete(secrets, { namespace, name: filesSecretOf(component) }, { signal });
}

async function stopOne(
  { objects, clock, events }: Stopping,
  id: string,
  set: StatefulSet,
  { view, signal, timeoutMs }: { view: NamespaceView; signal: AbortSignal; timeoutMs: number | undefined },
): Promise<void> {
  const name = nameOf(set);
  const pods = await objects.pods(id, name, signal);
  events.ask(pods);
  await scaleToNothing(objects, id, name, signal);
  if (timeoutMs !== undefined) await objects.deletePods(pods, Math.ceil(timeoutMs / 1000), signal);
  const isGone = async (withinMs: number): Promise<boolean> => {
    const deadline = clock.monotonic() + withinMs;
    const look = (): true | undefined => (view.pods(name).length === 0 ? true : undefined);
    await view.until(look, { signal, clock, timeoutMs: () => deadline - clock.monotonic() });
    // The cache may be behind: ask the server.
    return (await objects.pods(id, name, signal)).length === 0;
  };
  if (await isGone((timeoutMs ?? graceMsOf(set)) + kubeletSlackMs)) return;
  const left = await objects.pods(id, name, signal);
  // Two that write to one volume would be worse than one that cannot be stopped.
  const keepsData = (set.spec?.volumeClaimTemplates ?? []).length > 0;
  if (!keepsData) {
    await objects.deletePods(left, 0, signal);
    if (await isGone(kubeletSlackMs)) return;
  }
  throw podsWillNotStop(
    { id, component: name },
    left.map(({ metadata }) => metadata.name ?? ''),
  );
}

async function scaleToNothing(
  { client }: SuperObjects,
  id: string,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const ref = { namespace: namespaceOf(id), name };
  const options = { type: 'merge', fieldManager, signal } as const;
  await ignoreNotFound(client.patch(resources.statefulSets, ref, { spec: { replicas: 0 } }, options));
}

function graceMsOf({ spec }: StatefulSet): number {
  const template = spec?.['template'] as { spec?: { terminationGracePeriodSeconds?: number } } | undefined;
  return (template?.spec?.terminationGracePeriodSeconds ?? 30) * 1000;
}

function dependsOn({ metadata }: StatefulSet): string[] {
  return (metadata.annotations?.[dependsOnAnnotation] ?? '').split(',').filter((name) => name !== '');
}

function nameOf({ metadata }: StatefulSet): string {
  return metadata.name ?? '';
}
