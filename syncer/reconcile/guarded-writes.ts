import {
  applyMergePatch,
  ignoreNotFound,
  isForbidden,
  type KubeClient,
  type KubeObject,
  type MergePatch,
  mergePatch,
  type ObjectRef,
  type Resource,
  type Store,
} from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import { keyId } from './keys.ts';
import type { TenantState } from './tenant-state.ts';

/** Writes of objects that were decided upon, guarded by what the decision saw. */

/** Where an object is written, and the key that is reconciled. */
export interface WriteTarget {
  readonly client: KubeClient;
  readonly resource: Resource;
  readonly tenant: TenantState;
  readonly key: KeyRef;
  readonly signal: AbortSignal;
  /** As for a call of the client: the managedFields of an answer are not read. */
  readonly cutManagedFields: boolean;
}

export interface PatchOptions {
  readonly patch: MergePatch;
  readonly subresource?: string;
  /** The object was written in this reconcile already: its cached resourceVersion is known to be old. */
  readonly uidOnly?: boolean;
  /** With the patch applied, the object is all that the server shall have: it may be written as a whole. */
  readonly isWhole?: true;
}

/**
 * Patches an object that was decided upon, guarded by its UID and resourceVersion. Returns what the server answered, of
 * which the metadata may be all; undefined: it is gone, and left so.
 */
export async function patchObject(
  { client, resource, tenant, key, signal, cutManagedFields }: WriteTarget,
  object: KubeObject | undefined,
  { patch, subresource, uidOnly = false, isWhole }: PatchOptions,
): Promise<KubeObject | undefined> {
  if (object === undefined) return undefined;
  const { uid, resourceVersion } = object.metadata;
  const metadata = {
    ...(patch['metadata'] as Record<string, unknown> | undefined),
    uid,
    ...(uidOnly ? {} : { resourceVersion }),
  };
  const guarded = { ...patch, metadata };
  const patchWith = (body: MergePatch): Promise<KubeObject> =>
    client.patch(resource, refOf(object), body, {
      type: 'merge',
      signal,
      cutManagedFields,
      subresource,
    });
  const whole = (): KubeObject => applyMergePatch(object, guarded) as KubeObject;
  const patchToWhole = async (): Promise<KubeObject> =>
    patchWith(patchToBe(await client.get(resource, refOf(object), { signal }), whole(), guarded));
  const replaceIt = (): Promise<KubeObject> =>
    client
      .update(resource, whole(), { signal, metadataOnly: true, cutManagedFields })
      // Roles that an operator wrote for an earlier version may not have this verb.
      .catch((error: unknown) => (isForbidden(error) ? patchToWhole() : Promise.reject(error)));
  // Without a resourceVersion a whole object would undo what others have written since.
  const write = isWhole !== true ? patchWith(guarded) : uidOnly ? patchToWhole() : replaceIt();
  const patched = await ignoreNotFound(write);
  const side = client === tenant.client ? 'tenant' : 'super';
  const written = patched?.metadata.resourceVersion;
  if (written !== undefined) tenant.expectations[side].expectVersion(keyId(key), written);
  return patched;
}

/** Of the fields that the guarded patch names, what makes them those of the whole object. */
function patchToBe(live: KubeObject, whole: KubeObject, guarded: MergePatch): MergePatch {
  const { metadata, ...fields } = guarded;
  const of = (object: KubeObject): object =>
    Object.fromEntries(Object.keys(fields).map((field) => [field, object[field]]));
  return { ...mergePatch(of(live), of(whole)), metadata };
}

/**
 * Deletes an object that was decided upon, by UID; nothing happens if it is gone. A conflict (mostly another
 * object of that name) is thrown: only what the cache shows next can tell whether it was all.
 */
export async function deleteObject(
  { client, resource, signal }: WriteTarget,
  object: KubeObject | undefined,
  gracePeriodSeconds?: number,
): Promise<void> {
  if (object === undefined) return;
  const { uid } = object.metadata;
  const options = { signal, propagationPolicy: 'Background', uid, gracePeriodSeconds } as const;
  await ignoreNotFound(client.delete(resource, refOf(object), options));
}

/** Remembers what was created until the cache shows it. The watch may have been faster than the answer. */
export function expectCreated({ client, tenant, key }: WriteTarget, created: KubeObject, cache: Store): void {
  const { uid } = created.metadata;
  const side = client === tenant.client ? 'tenant' : 'super';
  const id = keyId(key);
  if (uid === undefined || tenant.tombstones[side].get(id)?.uid === uid) return;
  if (cache.get(refOf(created))?.metadata.uid === uid) return;
  tenant.expectations[side].expectCreated(id, created);
}

export function refOf({ metadata: { namespace, name = '' } }: KubeObject): ObjectRef {
  return { namespace, name };
}
