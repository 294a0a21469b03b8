import { Transform } from 'node:stream';
import { defaultSnapshotStorage } from '../../api/policy.ts';
import type { KeptSnapshot, SnapshotReason } from '../../api/virtual-cluster.ts';
import { parseExactQuantity } from '../../kube/index.ts';
import type { SnapshotStore } from '../snapshot/store.ts';
import { limitingPolicy } from './effective-policy.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

/** What everything below the name of one namespace takes in the store, also what is of deleted tenants, and may take. */
export interface SnapshotStorage {
  readonly usedBytes: number;
  /** Infinity: no limit, and what is used was not looked up. */
  readonly maxBytes: number;
  /** By name. */
  readonly sizes: ReadonlyMap<string, number>;
}

/** Looks into the store. Throws SnapshotError. */
export async function snapshotStorage(
  { ref, signal }: Tenant,
  { policies }: Pick<Services, 'policies'>,
  store: SnapshotStore,
): Promise<SnapshotStorage> {
  const quantity =
    limitingPolicy(ref.namespace, policies.list())?.spec?.maxSnapshotStorage ?? defaultSnapshotStorage;
  if (quantity === '*') return { usedBytes: 0, maxBytes: Number.POSITIVE_INFINITY, sizes: new Map() };
  const sizes = await store.sizes(ref.namespace, { signal });
  let usedBytes = 0;
  for (const bytes of sizes.values()) usedBytes += bytes;
  // In billionths. What is no quantity allows nothing.
  return { usedBytes, maxBytes: Number(parseExactQuantity(quantity) ?? 0n) / 1e9, sizes };
}

/**
 * Which may go so that another one has room, those that go first in front: what is more than `keep` of its reason with the new
 * one, then those on schedule, the oldest first. `kept`: the latest first, of this tenant, and none that is in use.
 */
export function replaceable(
  kept: readonly KeptSnapshot[],
  { reason, keep }: { reason: SnapshotReason; keep: number },
): KeptSnapshot[] {
  const seen = new Map<SnapshotReason, number>([[reason, 1]]);
  const over: KeptSnapshot[] = [];
  const scheduled: KeptSnapshot[] = [];
  for (const each of kept) {
    const count = (seen.get(each.reason) ?? 0) + 1;
    seen.set(each.reason, count);
    if (count > keep) over.push(each);
    else if (each.reason === 'Scheduled') scheduled.push(each);
  }
  return [...over.reverse(), ...scheduled.reverse()];
}

/** What these take in the store. */
export function sizeOf(
  snapshots: readonly KeptSnapshot[],
  { sizes }: Pick<SnapshotStorage, 'sizes'>,
): number {
  return snapshots.reduce((sum, { name }) => sum + (sizes.get(name) ?? 0), 0);
}

/** The first of them that take so much together; undefined when all take less. */
export function selectToFree(
  snapshots: readonly KeptSnapshot[],
  bytes: number,
  { sizes }: Pick<SnapshotStorage, 'sizes'>,
): KeptSnapshot[] | undefined {
  const enough: KeptSnapshot[] = [];
  let left = bytes;
  for (const each of snapshots) {
    if (left <= 0) break;
    enough.push(each);
    left -= sizes.get(each.name) ?? 0;
  }
  return left <= 0 ? enough : undefined;
}

/** Passes on no more than so many bytes, and fails with this error instead. */
export function within(room: number, tooMuch: () => Error): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length;
      if (bytes > room) done(tooMuch());
      else done(null, chunk);
    },
  });
}
