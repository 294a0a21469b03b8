import { describe, expect, it } from 'vitest';
import { defaultQuota } from '../../api/quota.ts';
import { effectiveQuota } from './effective-quota.ts';

describe('the quota of a tenant', () => {
  it('is the default where nothing is asked for and no policy limits it', () => {
    expect(effectiveQuota()).toEqual({ quota: defaultQuota, restrictions: [] });
  });

  it('is no more than the default without a policy, and as little as is asked for', () => {
    const { quota, restrictions } = effectiveQuota({ pods: '1000000', services: '3', 'limits.cpu': '8' });
    expect(quota).toMatchObject({ pods: defaultQuota['pods'], services: '3', 'limits.cpu': '8' });
    expect(restrictions).toEqual([`quota of pods is ${defaultQuota['pods']}, not 1000000`]);
  });

  it('goes up to the policy when it is asked for, and down to the policy without asking', () => {
    const ceiling = { pods: '100000', services: '5', 'limits.memory': '1Gi' };
    expect(effectiveQuota({}, ceiling).quota).toMatchObject({
      pods: defaultQuota['pods'],
      services: '5',
      'limits.memory': '1Gi',
    });
    expect(effectiveQuota({ pods: '90000' }, ceiling)).toMatchObject({
      quota: { pods: '90000' },
      restrictions: [],
    });
  });

  it('has no limit only where the policy has none', () => {
    expect(effectiveQuota({ pods: '*' }, { pods: '*' }).quota['pods']).toBeUndefined();
    expect(effectiveQuota({}, { pods: '*' }).quota['pods']).toBe(defaultQuota['pods']);
    expect(effectiveQuota({ pods: '*' }).restrictions).toHaveLength(1);
    expect(effectiveQuota({ 'limits.cpu': '*' })).toMatchObject({ restrictions: [] });
  });

  it('compares quantities, not texts', () => {
    expect(effectiveQuota({ 'requests.memory': '2000Mi' }, { 'requests.memory': '2Gi' }).quota).toMatchObject(
      {
        'requests.memory': '2000Mi',
      },
    );
    expect(effectiveQuota({ 'requests.cpu': '1500m' }, { 'requests.cpu': '1' }).quota).toMatchObject({
      'requests.cpu': '1',
    });
  });

  it('has none of what is no resource', () => {
    const asked = JSON.parse('{"__proto__": "1", "Pods": "2", "count/": "3"}') as Record<string, string>;
    const { quota, restrictions } = effectiveQuota({ ...asked, ['a'.repeat(1_000_000)]: '1' });
    expect(quota).toEqual(defaultQuota);
    expect(restrictions).toHaveLength(4);
    expect(restrictions.join().length).toBeLessThan(500);
  });
});
