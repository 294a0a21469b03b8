import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { SyncedKind } from '../../kinds/contract.ts';
import { allKinds } from '../../kinds/registry.ts';
import { keyId } from '../keys.ts';
import { Reconciler } from '../reconciler.ts';
import { Resync, type ResyncOptions } from '../resync.ts';
import { Router } from '../router.ts';
import type { ReconcilerHarness } from './reconciler-harness.ts';

/**
 * A resync over the caches of a harness, without an engine at work. `queued` takes the ids of the keys that it queues.
 */
export function resyncOf(
  harness: ReconcilerHarness,
  parts: Partial<ResyncOptions> & { kinds?: readonly SyncedKind[] } = {},
): { resync: Resync; queued: string[] } {
  const queued: string[] = [];
  const kinds = parts.kinds ?? allKinds;
  const router = new Router({
    kinds,
    superCaches: harness.superCaches,
    clock: harness.clock,
    enqueue: () => undefined,
    enqueueFirst: () => undefined,
    onError: (_tenant, _key, error) => {
      throw error;
    },
  });
  router.join(harness.state);
  const reconciler = new Reconciler({
    kinds,
    superClient: harness.super.client,
    superCaches: harness.superCaches,
    superIdentity: harness.superIdentity,
    enqueue: () => undefined,
    onMismatch: () => undefined,
    onHeld: () => undefined,
  });
  const resync = new Resync({
    clock: harness.clock,
    keysOf: (tenant) => router.keysOf(tenant),
    driftOf: (tenant, key) => reconciler.driftOf(tenant, key),
    isDemanded: (tenant, key) => reconciler.isDemanded(tenant, key),
    isQueued: () => false,
    enqueue: (_tenant, key) => queued.push(keyId(key)),
    isServed: () => true,
    onError: (_tenant, _key, error) => {
      throw error;
    },
    ...parts,
  });
  return { resync, queued };
}

/** A ConfigMap of the namespace `shop` that is synced whether a pod uses it or not. */
export const settings = (name: string): KubeObject => ({
  metadata: { name, namespace: 'shop', labels: { [labelKeys.sync]: 'true' } },
});
