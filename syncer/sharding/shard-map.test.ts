import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bucketCount } from '../mapping/labels.ts';
import { preferredReplica } from './shard-map.ts';

const buckets = [...Array(bucketCount).keys()];
const replicas = fc.uniqueArray(fc.stringMatching(/^[a-z0-9-]{1,20}$/), { minLength: 1, maxLength: 6 });

describe('the place of a bucket', () => {
  it('does not depend on the order in which replicas are named', () => {
    fc.assert(
      fc.property(replicas, (names) => {
        const reversed = names.toReversed();
        expect(buckets.map((bucket) => preferredReplica(bucket, reversed))).toEqual(
          buckets.map((bucket) => preferredReplica(bucket, names)),
        );
      }),
    );
  });

  it('changes only for those that one who leaves had, and those that one who joins gets', () => {
    fc.assert(
      fc.property(replicas, fc.nat(), (names, index) => {
        const one = names[index % names.length];
        const others = names.filter((name) => name !== one);
        const moved = buckets.filter((bucket) => {
          const together = preferredReplica(bucket, names);
          return together !== one && preferredReplica(bucket, others) !== together;
        });
        expect(moved).toEqual([]);
      }),
    );
  });

  it('is spread: replicas as a StatefulSet names them have about the same', () => {
    for (const count of [2, 3, 4, 8]) {
      const names = Array.from({ length: count }, (_, index) => `vc-syncer-${index}`);
      const shares = names.map(
        (name) => buckets.filter((bucket) => preferredReplica(bucket, names) === name).length,
      );
      expect(Math.min(...shares)).toBeGreaterThan(bucketCount / count / 2.5);
      expect(Math.max(...shares)).toBeLessThan((bucketCount / count) * 1.8);
    }
  });

  it('is nowhere where there is nobody', () => {
    expect(preferredReplica(0, [])).toBeUndefined();
  });
});
