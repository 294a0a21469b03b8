import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { allKinds, type SyncedKind } from '../../kinds/index.ts';
import { keyId } from '../key.ts';
import { Patrol, type PatrolOptions } from '../patrol.ts';
import { Reconciler } from '../reconcile.ts';
import { Router } from '../router.ts';
import type { Bench } from './bench.ts';

/** A patrol over the caches of a bench, with nobody at work. `queued` is what it wants to be looked at. */
export function patrolOf(
  bench: Bench,
  parts: Partial<PatrolOptions> & { kinds?: readonly SyncedKind[] } = {},
): { patrol: Patrol; queued: string[] } {
  const queued: string[] = [];
  const kinds = parts.kinds ?? allKinds;
  const router = new Router({ kinds, superCaches: bench.superCaches, enqueue: () => undefined });
  router.join(bench.state);
  const reconciler = new Reconciler({
    kinds,
    superClient: bench.super.client,
    superCaches: bench.superCaches,
    superIdentity: bench.superIdentity,
    enqueue: () => undefined,
    onMismatch: () => undefined,
    onHeld: () => undefined,
    nowMs: () => bench.clock.now(),
  });
  const patrol = new Patrol({
    clock: bench.clock,
    keysOf: (tenant) => router.keysOf(tenant),
    findingOf: (tenant, key) => reconciler.findingOf(tenant, key),
    isQueued: () => false,
    enqueue: (_tenant, key) => queued.push(keyId(key)),
    isServed: () => true,
    ...parts,
  });
  return { patrol, queued };
}

/** A ConfigMap of the namespace `shop` that is synced whether a pod uses it or not. */
export const settings = (name: string): KubeObject => ({
  metadata: { name, namespace: 'shop', labels: { [labelKeys.sync]: 'true' } },
});
