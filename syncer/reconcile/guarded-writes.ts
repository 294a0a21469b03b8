import {
  applyMergePatch,
  isForbidden,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type MergePatch,
  type ObjectRef,
  type Resource,
  type Store,
} from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import { keyId } from './keys.ts';
import type { TenantState } from './tenant-state.ts';

/** Writes of objects that were decided upon, guarded by what the decision saw. */

/** Where an object is written, and the key that is reconciled. */
export interface WritePlace {
  readonly client: KubeClient;
  readonly resource: Resource;
  readonly tenant: TenantState;
  readonly key: KeyRef;
  readonly signal: AbortSignal;
}

export interface PatchOptions {
  readonly patch: MergePatch;
  readonly subresource?: string;
  /** The object was written in this reconcile already: its cached resourceVersion is known to be old. */
  readonly uidOnly?: boolean;
  /** The object is all that the server has of it: it may be written as a whole. */
  readonly isWhole?: true;
}

/** Patches an object that was decided upon, guarded by its UID and resourceVersion. One that is gone is left so. */
export async function patchObject(
  { client, resource, tenant, key, signal }: WritePlace,
  object: KubeObject | undefined,
  { patch, subresource, uidOnly = false, isWhole }: PatchOptions,
): Promise<void> {
  if (object === undefined) return;
  const { uid, resourceVersion } = object.metadata;
  const metadata = {
    ...(patch['metadata'] as Record<string, unknown> | undefined),
    uid,
    ...(uidOnly ? {} : { resourceVersion }),
  };
  const guarded = { ...patch, metadata };
  const patchIt = (): Promise<KubeObject> =>
    client.patch(resource, refOf(object), guarded, {
      type: 'merge',
      signal,
      ...(subresource === undefined ? {} : { subresource }),
    });
  const replaceIt = (): Promise<KubeObject> =>
    client
      .update(resource, applyMergePatch(object, guarded) as KubeObject, { signal, metadataOnly: true })
      // Roles that an operator wrote for an earlier version may not have this verb.
      .catch((error: unknown) => (isForbidden(error) ? patchIt() : Promise.reject(error)));
  try {
    // Without a resourceVersion a whole object would undo what others have written since.
    const replaces = isWhole === true && !uidOnly && subresource === undefined;
    const patched = await (replaces ? replaceIt() : patchIt());
    const side = client === tenant.client ? 'tenant' : 'super';
    const { resourceVersion: written } = patched.metadata;
    if (written !== undefined) tenant.expectations[side].expectVersion(keyId(key), written);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/**
 * Deletes an object that was decided upon, by UID; nothing happens if it is gone. A conflict (mostly another
 * object of that name) is thrown: only what the cache shows next can tell whether it was all.
 */
export async function deleteObject(
  { client, resource, signal }: WritePlace,
  object: KubeObject | undefined,
  gracePeriodSeconds?: number,
): Promise<void> {
  if (object === undefined) return;
  const { uid } = object.metadata;
  try {
    await client.delete(resource, refOf(object), {
      signal,
      propagationPolicy: 'Background',
      ...(uid === undefined ? {} : { uid }),
      ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** Remembers what was created until the cache shows it. The watch may have been faster than the answer. */
export function expectCreated({ client, tenant, key }: WritePlace, created: KubeObject, cache: Store): void {
  const { uid } = created.metadata;
  const side = client === tenant.client ? 'tenant' : 'super';
  const id = keyId(key);
  if (uid === undefined || tenant.tombstones[side].get(id)?.uid === uid) return;
  if (cache.get(refOf(created))?.metadata.uid === uid) return;
  tenant.expectations[side].expectCreated(id, created);
}

export function refOf({ metadata: { namespace, name = '' } }: KubeObject): ObjectRef {
  return namespace === undefined ? { name } : { namespace, name };
}
