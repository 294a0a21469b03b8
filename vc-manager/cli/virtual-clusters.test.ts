import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { isReady, validRef } from './virtual-clusters.ts';

describe('checkedRef', () => {
  it('takes what Kubernetes takes', () => {
    expect(validRef('team-blue', 'default')).toEqual({ name: 'team-blue', namespace: 'default' });
  });

  it.each(['', 'Team', 'a_b', '-a', 'a-', 'a.b', 'x'.repeat(64)])(
    'refuses the name "%s" with the reason',
    (name) => {
      expect(() => validRef(name, 'default')).toThrow(/^the name ".*" is not valid: ./s);
    },
  );

  it('refuses a namespace with the reason', () => {
    expect(() => validRef('a', 'My Team')).toThrow(/^the namespace "My Team" is not valid: ./);
  });
});

describe('isReady', () => {
  const vc: VirtualCluster = {
    metadata: { generation: 2 },
    status: { phase: 'Ready', observedGeneration: 2 },
  };

  it('holds for a tenant that is as it was last asked for', () => {
    expect(isReady(vc)).toBe(true);
  });

  it('does not hold while a change has not been looked at, nor for one that is being deleted', () => {
    expect(isReady({ ...vc, metadata: { generation: 3 } })).toBe(false);
    expect(isReady({ ...vc, metadata: { generation: 2, deletionTimestamp: '2030-01-01T00:00:00Z' } })).toBe(
      false,
    );
  });
});
