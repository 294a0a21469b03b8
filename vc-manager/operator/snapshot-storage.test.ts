import { describe, expect, it } from 'vitest';
import type { KeptSnapshot, SnapshotReason } from '../../api/virtual-cluster.ts';
import { replaceable, selectToFree } from './snapshot-storage.ts';

const kept = (name: string, reason: SnapshotReason): KeptSnapshot => ({
  ...{ name, reason, at: '2026-03-01T06:00:00Z', kubernetes: '1.36.3', entries: 1, bytes: 1 },
});
const names = (snapshots: readonly KeptSnapshot[] | undefined) => snapshots?.map(({ name }) => name);

describe('snapshots that may go for another one', () => {
  const all = [
    kept('s3', 'Scheduled'),
    kept('r2', 'Requested'),
    kept('s2', 'Scheduled'),
    kept('b1', 'BeforeRestore'),
    kept('r1', 'Requested'),
    kept('s1', 'Scheduled'),
  ];

  it('are those beyond what is kept, and then those on schedule, the oldest first', () => {
    expect(names(replaceable(all, { reason: 'Requested', keep: 2 }))).toEqual(['s1', 'r1', 's2', 's3']);
    expect(names(replaceable(all, { reason: 'Scheduled', keep: 3 }))).toEqual(['s1', 's2', 's3']);
    expect(names(replaceable(all, { reason: 'BeforeRestore', keep: 7 }))).toEqual(['s1', 's2', 's3']);
  });

  it('are as few as it takes, and none where all are not enough', () => {
    const sizes = new Map([
      ['s3', 5],
      ['s2', 5],
    ]);
    expect(names(selectToFree(all, 6, { sizes }))).toEqual(['s3', 'r2', 's2']);
    expect(selectToFree(all, 11, { sizes })).toBeUndefined();
    expect(selectToFree(all, 0, { sizes })).toEqual([]);
    expect(selectToFree(all, Number.NEGATIVE_INFINITY, { sizes: new Map() })).toEqual([]);
  });
});
