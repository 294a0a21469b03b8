import { describe, expect, it } from 'vitest';
import type { VirtualCluster, VirtualClusterPhase } from '../../../api/virtual-cluster.ts';
import { describeChange } from './supervise.ts';

function tenant(phase: VirtualClusterPhase): VirtualCluster {
  const conditions = [{ type: 'Ready', status: 'False' as const, message: 'no port is free' }];
  return {
    metadata: { namespace: 'default', name: 'blue' },
    status: { phase, endpoint: 'https://x:1', conditions },
  };
}

describe('describeChange', () => {
  it('tells of a tenant what people want to know', () => {
    expect(describeChange('added', tenant('Pending'), undefined)).toBe('tenant default/blue was created');
    expect(describeChange('modified', tenant('Ready'), tenant('Provisioning'))).toBe(
      'tenant default/blue is Ready at https://x:1',
    );
    expect(describeChange('modified', tenant('Failed'), tenant('Provisioning'))).toContain('no port is free');
    expect(describeChange('modified', tenant('Deleting'), tenant('Ready'))).toContain('is being deleted');
    expect(describeChange('deleted', tenant('Deleting'), undefined)).toContain('is gone');
  });

  it('keeps quiet about the rest', () => {
    expect(describeChange('modified', tenant('Ready'), tenant('Ready'))).toBeUndefined();
    expect(describeChange('modified', tenant('Provisioning'), tenant('Pending'))).toBeUndefined();
  });
});
