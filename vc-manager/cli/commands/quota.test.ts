import { describe, expect, it } from 'vitest';
import { quotaOf } from '../virtual-clusters.ts';
import { shareOf } from './quota.ts';

describe('the quota of a tenant', () => {
  it('is what is allowed, with what syncer and manager say is used', () => {
    const status = {
      policy: { quota: { pods: '10', 'datastore.keys': '1000', 'datastore.bytes': '1Mi', secrets: '5' } },
      usage: { resources: { pods: '4' } },
      datastoreUsage: { keys: 250, bytes: 524_288, measured: '2030-01-01T00:00:00Z' },
    };
    const rows = quotaOf({ metadata: {}, status } as unknown as Parameters<typeof quotaOf>[0]);
    expect(rows).toEqual([
      { resource: 'pods', used: '4', allowed: '10' },
      { resource: 'datastore.keys', used: '250', allowed: '1000' },
      { resource: 'datastore.bytes', used: '512Ki', allowed: '1Mi' },
      { resource: 'secrets', allowed: '5' },
    ]);
    expect(rows.map(shareOf)).toEqual([0.4, 0.25, 0.5, undefined]);
  });

  it('is used up where nothing is allowed and something is there', () => {
    expect(shareOf({ used: '1', allowed: '0' })).toBe(1);
    expect(shareOf({ used: '0', allowed: '0' })).toBe(0);
    expect(shareOf({ used: '15k', allowed: '10k' })).toBe(1.5);
  });
});
