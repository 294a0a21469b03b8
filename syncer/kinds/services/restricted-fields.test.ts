import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { SyncContext, TenantInfo } from '../../context.ts';
import { carryOut } from '../testing.ts';
import { serviceKind } from './services.ts';
import { context, created, service } from './testing.ts';

const asked = {
  type: 'LoadBalancer',
  externalIPs: ['192.0.2.7'],
  loadBalancerIP: '192.0.2.8',
  loadBalancerSourceRanges: ['198.51.100.0/24'],
};
const rangesKey = 'service.beta.kubernetes.io/load-balancer-source-ranges';

function infoWith(policy: Partial<TenantPolicy>): Partial<TenantInfo> {
  return { policy: { ...defaultPolicy, ...policy } };
}

function withPolicy(policy: Partial<TenantPolicy>): SyncContext {
  return context(infoWith(policy));
}

function settled(t: KubeObject, s: KubeObject, over: SyncContext): Record<string, unknown> {
  const after = carryOut({ tenantObject: t, superObject: s }, serviceKind.down(t, s, over)).superObject;
  expect(serviceKind.down(t, after as KubeObject, over)).toEqual([]);
  return after?.['spec'] as Record<string, unknown>;
}

describe('sync rule `cluster-ip`: what a policy allows of a Service', () => {
  const info = infoWith({ externalIPs: true, loadBalancerOptions: true });
  const everything = context(info);

  it('goes down, and nobody is told that it is left out', () => {
    const t = service(asked);
    t.metadata.annotations = { [rangesKey]: '198.51.100.0/24' };
    const s = serviceKind.toSuper(t, everything);
    expect(s['spec']).toMatchObject(asked);
    expect(s.metadata.annotations).toMatchObject({ [rangesKey]: '198.51.100.0/24' });
    expect(serviceKind.admit?.(t, everything)).toEqual({ wanted: true });
  });

  it('is allowed one by one', () => {
    const t = service(asked);
    const ips = serviceKind.toSuper(t, withPolicy({ externalIPs: true }))['spec'];
    expect(ips).toMatchObject({ externalIPs: asked.externalIPs });
    expect(ips).not.toHaveProperty('loadBalancerIP');
    const options = serviceKind.toSuper(t, withPolicy({ loadBalancerOptions: true }))['spec'];
    expect(options).toMatchObject({ loadBalancerIP: asked.loadBalancerIP });
    expect(options).not.toHaveProperty('externalIPs');
    expect(serviceKind.admit?.(t, withPolicy({ loadBalancerOptions: true }))?.notice?.message).toContain(
      'does not allow externalIPs;',
    );
  });

  it('follows changes, and goes when the tenant object asks for it no more', () => {
    const s = created(service(asked), {}, info);
    const changed = service({ ...asked, externalIPs: ['192.0.2.9'] });
    expect(settled(changed, s, everything)).toMatchObject({ externalIPs: ['192.0.2.9'] });
    const spec = settled(service({ type: 'LoadBalancer' }), s, everything);
    for (const field of ['externalIPs', 'loadBalancerIP', 'loadBalancerSourceRanges'])
      expect(spec).not.toHaveProperty(field);
  });

  it('goes when the policy takes it back', () => {
    const t = service(asked);
    const spec = settled(t, created(t, {}, info), context());
    for (const field of ['externalIPs', 'loadBalancerIP', 'loadBalancerSourceRanges'])
      expect(spec).not.toHaveProperty(field);
  });

  it.each([
    'metallb.io/loadBalancerIPs',
    'metallb.universe.tf/allow-shared-ip',
    'kube-vip.io/loadbalancerIPs',
    'lbipam.cilium.io/ips',
  ])('includes the address of its load balancer, by the annotation %s too', (key) => {
    const t = service({ type: 'LoadBalancer' });
    t.metadata.annotations = { [key]: '192.0.2.8' };
    const allowed = serviceKind.toSuper(t, everything);
    expect(allowed.metadata.annotations).toHaveProperty([key]);
    expect(serviceKind.admit?.(t, everything)).toEqual({ wanted: true });
    expect(serviceKind.toSuper(t, context()).metadata.annotations).not.toHaveProperty([key]);
    expect(serviceKind.admit?.(t, context())?.notice?.message).toContain(`does not allow ${key};`);
    const { superObject } = carryOut(
      { tenantObject: t, superObject: allowed },
      serviceKind.down(t, allowed, context()),
    );
    expect(superObject?.metadata.annotations).not.toHaveProperty([key]);
  });

  it('is told from what a controller of the super cluster has chosen', () => {
    const t = service({ type: 'LoadBalancer' });
    const s = created(t, { loadBalancerIP: '203.0.113.5' });
    for (const over of [context(), everything]) expect(serviceKind.down(t, s, over)).toEqual([]);
  });
});
