import { hash } from 'node:crypto';
import { deepEqual } from 'fast-equals';
import type { Action } from '../contract.ts';
import { type Container, mapChanged, type Pod, type PodSpec, type ResourceRequirements } from './types.ts';

/**
 * Annotation on the super object: a hash of the CPU and memory that the tenant object asked for when the super object
 * was made or last resized; absent: nothing. It tells a resize by the tenant from one by the super cluster's own
 * webhooks and autoscalers.
 */
export const resourcesAnnotation = 'skerry.dev/resources';

const lists = ['containers', 'initContainers'] as const;
const resizable = ['cpu', 'memory'] as const;

/** The value of the annotation; undefined: the tenant object asks for nothing. */
export function resourcesAsked(spec: PodSpec): string | undefined {
  const asked = lists.flatMap((list) =>
    (spec[list] ?? [])
      .filter(({ resources, resizePolicy }) => resources !== undefined || resizePolicy !== undefined)
      .map(({ name, resources, resizePolicy }) => [name, ...sizes(resources), resizePolicy]),
  );
  if (
    asked.every(([, ...parts]) => parts.every((part) => part === undefined)) &&
    spec.resources === undefined
  )
    return undefined;
  return hash('sha256', JSON.stringify([asked, sizes(spec.resources)]), 'hex').slice(0, 16);
}

/**
 * Whether the tenant object was resized since the super object was made or last resized (sync rule `pod-subresources`).
 */
export function isResized({ spec: t = {} }: Pod, superPod: Pod): boolean {
  if (hasSizes(t, superPod.spec ?? {})) return false;
  return superPod.metadata.annotations?.[resourcesAnnotation] !== resourcesAsked(t);
}

/** Resizes the super object in place, as the tenant object was; sizes that the tenant object does not set stay. */
export function resizeActions(tenantPod: Pod, superPod: Pod): readonly Action[] {
  if (!isResized(tenantPod, superPod)) return [];
  const { spec: t = {} } = tenantPod;
  const { spec: s = {} } = superPod;
  const patch = {
    spec: {
      ...Object.fromEntries(
        lists.flatMap((list) => (s[list] === undefined ? [] : [[list, resized(s[list], t[list])]])),
      ),
      ...(t.resources === undefined ? {} : { resources: merged(s.resources, t.resources) }),
    },
  };
  const mark = { metadata: { annotations: { [resourcesAnnotation]: resourcesAsked(t) ?? null } } };
  return [
    { do: 'patchSuper', subresource: 'resize', patch, mayBeRefused: true },
    { do: 'patchSuper', patch: mark },
  ];
}

function hasSizes(t: PodSpec, s: PodSpec): boolean {
  return (
    lists.every((list) => resized(s[list], t[list]) === s[list]) &&
    (t.resources === undefined || deepEqual(merged(s.resources, t.resources), s.resources))
  );
}

/** The super object's containers, injected ones included, with the sizes of the tenant object's by name. */
function resized(present: Container[] | undefined, wanted: Container[] | undefined): Container[] | undefined {
  return mapChanged(present, (container: Container) => {
    const own = wanted?.find(({ name }) => name === container.name);
    if (own === undefined) return container;
    const resources =
      own.resources === undefined ? container.resources : merged(container.resources, own.resources);
    const resizePolicy = own.resizePolicy ?? container.resizePolicy;
    if (deepEqual(resources, container.resources) && deepEqual(resizePolicy, container.resizePolicy))
      return container;
    return { ...container, ...(resources && { resources }), ...(resizePolicy && { resizePolicy }) };
  });
}

/** Nothing is taken away: no API server lets a resize do that. */
function merged(
  present: ResourceRequirements | undefined,
  wanted: ResourceRequirements,
): ResourceRequirements {
  const result: ResourceRequirements = { ...present };
  for (const kind of ['requests', 'limits'] as const) {
    const own = sizesOf(wanted[kind]);
    if (Object.keys(own).length > 0) result[kind] = { ...present?.[kind], ...own };
  }
  return result;
}

function sizes(resources: ResourceRequirements | undefined): unknown[] {
  return [resources?.requests, resources?.limits].map((amounts) =>
    amounts === undefined ? undefined : resizable.map((name) => amounts[name] ?? ''),
  );
}

function sizesOf(amounts: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(
    resizable.flatMap((name) => (amounts?.[name] === undefined ? [] : [[name, amounts[name]]])),
  );
}
