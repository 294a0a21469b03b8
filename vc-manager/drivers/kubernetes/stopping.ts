import { type Clock, isNotFound, resources } from '../../../kube/index.ts';
import { startOrder } from '../../control-plane/index.ts';
import type { StopOptions } from '../driver.ts';
import { podsWillNotStop } from '../errors.ts';
import { inOrder } from '../in-order.ts';
import { dependsOnAnnotation, fieldManager, filesSecretOf, namespaceOf } from './names.ts';
import { NamespaceView } from './namespace-view.ts';
import type { PodEvents } from './pod-events.ts';
import type { SuperObjects } from './super-objects.ts';
import type { StatefulSet } from './types.ts';

/** What a kubelet may need beyond the grace period until a pod is gone. */
const kubeletSlackMs = 45_000;

export interface Stopping {
  objects: SuperObjects;
  clock: Clock;
  events: PodEvents;
}

/** Scales components to nothing, those that depend on others first, and waits until their pods are gone. */
export async function stopComponents(stopping: Stopping, id: string, options: StopOptions): Promise<void> {
  const { objects, clock } = stopping;
  const { signal, components, timeoutMs } = options;
  const all = await objects.statefulSets(id, signal);
  const chosen = all.filter((set) => components?.includes(nameOf(set)) ?? true);
  if (chosen.length === 0) return;
  const reversed = chosen.map((set) => ({
    name: nameOf(set),
    set,
    dependsOn: chosen.filter((other) => dependsOn(other).includes(nameOf(set))).map(nameOf),
  }));
  await using view = new NamespaceView(objects.client, namespaceOf(id), clock);
  await inOrder(startOrder(reversed), signal, ({ set }, stopSignal) =>
    stopOne(stopping, id, set, { view, timeoutMs, signal: stopSignal }),
  );
}

/** Takes away all of a component that no plan names any more; its pods are gone. */
export async function forgetComponent(
  objects: SuperObjects,
  id: string,
  component: string,
  signal: AbortSignal,
): Promise<void> {
  const namespace = namespaceOf(id);
  const { statefulSets, services, podDisruptionBudgets, networkPolicies, secrets } = resources;
  for (const kind of [statefulSets, services, podDisruptionBudgets, networkPolicies]) {
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
    // The view may be behind: the server has the last word.
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
  try {
    const options = { type: 'merge', fieldManager, signal } as const;
    await client.patch(resources.statefulSets, ref, { spec: { replicas: 0 } }, options);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
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
