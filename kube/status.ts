import type { CallOptions, KubeClient } from './client.ts';
import { isConflict, printable } from './errors.ts';
import type { Condition, KubeObject, ObjectRef, Resource } from './types.ts';

export interface NewCondition {
  type: string;
  status: Condition['status'];
  reason: string;
  message: string;
  observedGeneration?: number;
}

export function findCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** As metav1.Time, which has whole seconds: what is written must be what is read back. */
export function metaTime(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Of a condition's message; Kubernetes takes 32,768. */
const longestMessage = 8_192;

/**
 * The conditions with one of them set; the others and their order stay. `lastTransitionTime` moves
 * only when the status changes. Never changes its argument. Messages repeat what servers said: they become printable.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  wanted: NewCondition,
  now: Date,
): Condition[] {
  const current = findCondition(conditions, wanted.type);
  const since = current?.status === wanted.status ? current.lastTransitionTime : undefined;
  const updated: Condition = {
    ...current,
    ...wanted,
    message: printable(wanted.message, longestMessage),
    lastTransitionTime: since ?? metaTime(now),
  };
  if (current === undefined) return [...(conditions ?? []), updated];
  return (conditions ?? []).map((condition) => (condition === current ? updated : condition));
}

const attempts = 10;

/**
 * Reads an object, changes it, and writes its status; after a conflict with another writer, does so again
 * with the new state. `change` may return undefined: there is nothing to do. It may change the
 * object that it is given, and is called once per attempt. Returns the object as the server has it.
 * The first attempt trusts `known`, where there is one, instead of reading; an outdated one only costs a call.
 */
export async function modifyStatus<T extends KubeObject>(
  client: KubeClient,
  resource: Resource,
  ref: ObjectRef,
  change: (current: T) => T | undefined,
  { known, ...options }: CallOptions & { known?: T } = {},
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const current =
      attempt === 1 && known !== undefined ? known : await client.get<T>(resource, ref, options);
    const resourceVersion = current.metadata.resourceVersion;
    const changed = change(current);
    if (changed === undefined) return current;
    const object = { ...changed, metadata: { ...changed.metadata, resourceVersion } } as T;
    try {
      return await client.update<T>(resource, object, { ...options, subresource: 'status' });
    } catch (error) {
      if (!isConflict(error) || attempt === attempts) throw error;
    }
  }
}
