import { isDeepStrictEqual } from 'node:util';
import {
  isAlreadyExists,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
} from '../../kube/index.ts';

/** Undefined instead of NotFound. */
export async function find<T extends KubeObject = KubeObject>(
  client: KubeClient,
  resource: Resource,
  ref: ObjectRef,
  signal: AbortSignal,
): Promise<T | undefined> {
  try {
    return await client.get<T>(resource, ref, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * Makes an object be as wanted: creates it, or patches the top-level fields, labels and annotations that
 * differ. What others added stays. `check` sees an object that exists before anything is changed and may
 * throw. No call is made for an object that is as wanted already, but the one that reads it; one that is `likely`
 * absent is not even looked for.
 */
export async function ensureObject<T extends KubeObject>(
  client: KubeClient,
  resource: Resource,
  wanted: T,
  options: { signal: AbortSignal; check?: (current: T) => void; likely?: 'there' | 'absent' },
): Promise<T> {
  const { signal, check } = options;
  const ref = { name: wanted.metadata.name ?? '', namespace: wanted.metadata.namespace };
  for (let { likely = 'there' } = options; ; likely = 'there') {
    const current = likely === 'absent' ? undefined : await find<T>(client, resource, ref, signal);
    if (current === undefined) {
      try {
        return await client.create(resource, wanted, { signal });
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
        continue;
      }
    }
    check?.(current);
    const patch = difference(current, wanted);
    if (patch === undefined) return current;
    const { uid, resourceVersion } = current.metadata;
    const guarded = { ...patch, metadata: { ...(patch['metadata'] as object), uid, resourceVersion } };
    return await client.patch<T>(resource, ref, guarded, { type: 'merge', signal });
  }
}

function difference(current: KubeObject, wanted: KubeObject): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(wanted)) {
    if (field === 'apiVersion' || field === 'kind' || field === 'metadata') continue;
    if (!isDeepStrictEqual(current[field], value)) patch[field] = value;
  }
  const metadata: Record<string, unknown> = {};
  for (const field of ['labels', 'annotations'] as const) {
    const missing = Object.entries(wanted.metadata[field] ?? {}).filter(
      ([key, value]) => current.metadata[field]?.[key] !== value,
    );
    if (missing.length > 0) metadata[field] = Object.fromEntries(missing);
  }
  if (Object.keys(metadata).length > 0) patch['metadata'] = metadata;
  return Object.keys(patch).length === 0 ? undefined : patch;
}
