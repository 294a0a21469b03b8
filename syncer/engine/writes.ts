import {
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type MergePatch,
  type ObjectRef,
  type Resource,
  resources,
} from '../../kube/index.ts';
import { type Action, type SyncedKind, superResourceOf } from '../kinds/index.ts';
import type { Situation } from './decide.ts';
import type { DefinitionGuard } from './definition-guard.ts';
import { keyId } from './key.ts';
import type { Notices } from './notices.ts';
import type { TenantState } from './tenant-state.ts';

/** One reconcile: what it is about and what it writes with. */
export interface Work {
  readonly kind: SyncedKind;
  readonly situation: Situation;
  readonly tenant: TenantState;
  readonly notices: Notices;
  readonly signal: AbortSignal;
  /** For a kind that comes and goes: what its objects live by. */
  readonly definition?: DefinitionGuard | undefined;
}

export interface PatchOptions {
  patch: MergePatch;
  subresource?: string;
  /** The object was written in this reconcile already: its cached resourceVersion is known to be old. */
  uidOnly?: boolean;
}

/** Patches an object that was decided upon, guarded by its UID and resourceVersion. One that is gone is left so. */
export async function patchObject(
  client: KubeClient,
  work: Work,
  object: KubeObject | undefined,
  options: PatchOptions,
): Promise<void> {
  if (object === undefined) return;
  const { kind, tenant, situation, signal } = work;
  const { uid, resourceVersion } = object.metadata;
  const metadata = {
    ...(options.patch['metadata'] as Record<string, unknown> | undefined),
    uid,
    ...(options.uidOnly === true ? {} : { resourceVersion }),
  };
  const id = keyId(situation.key);
  try {
    const patched = await client.patch(
      resourceAt(client, work),
      refOf(object),
      { ...options.patch, metadata },
      {
        type: 'merge',
        signal,
        ...(options.subresource === undefined ? {} : { subresource: options.subresource }),
      },
    );
    const side = client === tenant.client ? 'tenant' : 'super';
    const { resourceVersion: written } = patched.metadata;
    if (kind.direction === 'up' && !kind.watchTenant) tenant.rememberUnwatched(id, patched);
    else if (written !== undefined) tenant.memory[side].rememberWritten(id, written);
  } catch (error) {
    // Gone, or another than remembered, which nobody watches: the next look is at the object itself.
    if (isNotFound(error) || isConflict(error)) tenant.written.delete(id);
    if (!isNotFound(error)) throw error;
  }
}

/**
 * Deletes an object that was decided upon, by UID; nothing happens if it is gone. A conflict (mostly another
 * object of that name) is thrown: only what the cache shows next can tell whether it was all.
 */
export async function deleteObject(
  client: KubeClient,
  work: Work,
  object: KubeObject | undefined,
  gracePeriodSeconds: number | undefined,
): Promise<void> {
  if (object === undefined) return;
  const { uid } = object.metadata;
  try {
    await client.delete(resourceAt(client, work), refOf(object), {
      signal: work.signal,
      propagationPolicy: 'Background',
      ...(uid === undefined ? {} : { uid }),
      ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** Binds T to a node; labels and annotations of the Binding land on the pod. */
export async function bindPod(
  work: Work,
  { node, annotations, labels }: Extract<Action, { do: 'bindTenant' }>,
): Promise<void> {
  const { tenantObject, key } = work.situation;
  if (tenantObject === undefined) return;
  const { name, namespace, uid, resourceVersion } = tenantObject.metadata;
  const binding = {
    apiVersion: 'v1',
    kind: 'Binding',
    metadata: { name, namespace, uid, annotations, ...(labels === undefined ? {} : { labels }) },
    target: { apiVersion: 'v1', kind: 'Node', name: node },
  };
  try {
    await work.tenant.client.createSubresource(resources.pods, refOf(tenantObject), 'binding', binding, {
      signal: work.signal,
    });
    if (resourceVersion !== undefined)
      work.tenant.memory.tenant.rememberReplaced(keyId(key), resourceVersion);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** The watch may have been faster than the answer; then there is nothing to remember. */
export function rememberCreated(side: 'tenant' | 'super', work: Work, created: KubeObject): void {
  const { uid } = created.metadata;
  const { tenant, situation, kind } = work;
  const id = keyId(situation.key);
  if (uid === undefined || tenant.tombstones[side].get(id)?.uid === uid) return;
  const shown =
    side === 'super' ? tenant.superObject(kind, refOf(created)) : tenant.caches.of(kind).get(refOf(created));
  if (shown?.metadata.uid === uid) return;
  tenant.memory[side].rememberCreated(id, created);
}

function resourceAt(client: KubeClient, { kind, tenant }: Work): Resource {
  return client === tenant.client ? kind.resource : superResourceOf(kind);
}

export function refOf(object: KubeObject): ObjectRef {
  const { name, namespace } = object.metadata;
  return namespace === undefined ? { name: name ?? '' } : { namespace, name: name ?? '' };
}
