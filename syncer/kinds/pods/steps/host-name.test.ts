import { describe, expect, it } from 'vitest';
import { podKind } from '../index.ts';
import { podContext, tenantPod } from '../testing.ts';
import type { Pod, PodSpec } from '../types.ts';

function superNames(spec: PodSpec) {
  const { spec: made = {} } = podKind.toSuper(tenantPod({ spec }), podContext()) as Pod;
  const fields = ['hostname', 'subdomain', 'setHostnameAsFQDN', 'hostnameOverride'];
  return Object.fromEntries(fields.filter((field) => field in made).map((field) => [field, made[field]]));
}

describe('host names (rule 12)', () => {
  it('keep the host name and drop the subdomain', () => {
    expect(superNames({ hostname: 'db-0', subdomain: 'db' })).toEqual({ hostname: 'db-0' });
    expect(superNames({ hostname: 'db-0' })).toEqual({ hostname: 'db-0' });
    expect(superNames({})).toEqual({});
  });

  it("are T's qualified one for a pod that wants it", () => {
    expect(superNames({ hostname: 'db-0', subdomain: 'db', setHostnameAsFQDN: true })).toEqual({
      hostname: 'db-0',
      hostnameOverride: 'db-0.db.shop.svc.cluster.local',
    });
    expect(superNames({ subdomain: 'db', setHostnameAsFQDN: true })).toEqual({
      hostnameOverride: 'web.db.shop.svc.cluster.local',
    });
  });

  it('are not overridden where kubelet would not qualify them, or the API server would refuse it', () => {
    expect(superNames({ setHostnameAsFQDN: true })).toEqual({ setHostnameAsFQDN: true });
    expect(superNames({ subdomain: 'db', setHostnameAsFQDN: false })).toEqual({ setHostnameAsFQDN: false });
    expect(superNames({ subdomain: 'db', setHostnameAsFQDN: true, hostNetwork: true })).toEqual({
      setHostnameAsFQDN: true,
    });
  });

  it('keep an override of T itself', () => {
    expect(superNames({ subdomain: 'db', hostnameOverride: 'mine.example.org' })).toEqual({
      hostnameOverride: 'mine.example.org',
    });
  });

  it('of more than 64 characters start no pod, and the tenant is told why', () => {
    const admitted = (length: number) => {
      const hostname = 'h'.repeat(length - '.db.shop.svc.cluster.local'.length);
      const t = tenantPod({ spec: { hostname, subdomain: 'db', setHostnameAsFQDN: true } });
      return podKind.admit?.(t, podContext());
    };
    expect(admitted(64)).toEqual({ wanted: true });
    expect(admitted(65)).toMatchObject({
      wanted: false,
      notice: { reason: 'NotSupported', message: expect.stringMatching(/setHostnameAsFQDN.*64/) },
    });
  });
});
