import { bucketCount } from '../mapping/labels.ts';
import type { Members } from './members.ts';
import { placeOf } from './rendezvous.ts';

export interface Plan {
  /** Buckets of ours that others should have, and who. */
  readonly give: ReadonlyMap<number, string>;
  /** Buckets that we should have and that nobody serves, and who had them last. */
  readonly take: ReadonlyMap<number, string | undefined>;
}

/**
 * What this replica has to change about who has what. Only who was seen alive is given anything, and nothing is
 * taken from anybody who may be; what nobody has is left to whoever may be alive.
 */
export function planOf(self: string, owners: ReadonlyMap<number, string>, members: Members): Plan {
  const alive = [self, ...members.alive()];
  const possible = [self, ...members.possible()];
  const give = new Map<number, string>();
  const take = new Map<number, string | undefined>();
  for (let bucket = 0; bucket < bucketCount; bucket++) {
    const owner = owners.get(bucket);
    if (owner === self) {
      const to = placeOf(bucket, alive);
      if (to !== undefined && to !== self) give.set(bucket, to);
    } else if (owner === undefined || members.stateOf(owner) === 'dead') {
      if (placeOf(bucket, possible) === self) take.set(bucket, owner);
    }
  }
  return { give, take };
}
