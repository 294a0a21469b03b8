import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { serviceKind } from './services.ts';
import { context, created, service } from './testing.ts';
import { validateService } from './validation.ts';

function sent(spec: object, info = context()): string | undefined {
  const made = serviceKind.toSuper(service(), info);
  return validateService(
    { creates: { ...made, spec: { ...(made['spec'] as object), ...spec } } as KubeObject },
    info,
  )?.reason;
}

describe('a Service that is about to be created (sync rule `validated-writes`)', () => {
  it.each<[string, Record<string, unknown>]>([
    ['with an address', {}],
    ['headless', { clusterIP: 'None', clusterIPs: ['None'] }],
    ['with node ports', { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] }],
    [
      'with a load balancer',
      { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 31_000 },
    ],
    ['elsewhere', { type: 'ExternalName', externalName: 'db.example.com', clusterIP: '', clusterIPs: [] }],
  ])('is sent: one %s', (_what, spec) => {
    const info = context();
    expect(validateService({ creates: serviceKind.toSuper(service(spec), info) }, info)).toBeUndefined();
  });

  it.each<[string, object, string]>([
    ['a field of a newer Kubernetes', { steal: true }, 'UnknownField'],
    ['an address of another tenant', { clusterIP: '10.112.8.20' }, 'ClusterIPNotAllowed'],
    ['another address first', { clusterIP: '10.112.4.20', clusterIPs: ['10.112.8.20'] }, 'InvalidField'],
    ['an address only in the list', { clusterIP: undefined, clusterIPs: ['10.112.8.20'] }, 'InvalidField'],
    [
      'a second address',
      { clusterIP: '10.112.4.20', clusterIPs: ['10.112.4.20', '10.112.8.20'] },
      'ClusterIPNotAllowed',
    ],
    ['a family that is not its address’s', { ipFamilies: ['IPv6'] }, 'InvalidField'],
    ['one family twice', { ipFamilies: ['IPv4', 'IPv4'] }, 'InvalidField'],
    ['external addresses', { externalIPs: ['192.0.2.1'] }, 'NotSupported'],
    ['the load balancer of another', { loadBalancerIP: '192.0.2.1' }, 'NotSupported'],
    ['a load balancer of its choice', { loadBalancerClass: 'theirs/internal' }, 'NotSupported'],
    ['an unheard-of type', { type: 'Everything' }, 'InvalidField'],
    ['a null', { selector: null }, 'InvalidField'],
  ])('is not, with %s', (_what, spec, reason) => {
    expect(sent(spec)).toBe(reason);
  });

  it('has no external addresses, whoever has them now, but by policy', () => {
    // Of a node, of an API server, of a metadata server.
    const externalIPs = ['192.0.2.10', '192.0.2.11', '169.254.169.254'];
    const allowed = context({ policy: { ...defaultPolicy, externalIPs: true } });
    for (const [info, reason] of [
      [context(), 'NotSupported'],
      [allowed, undefined],
    ] as const) {
      const made = serviceKind.toSuper(service({ externalIPs }), info);
      expect(validateService({ creates: made }, info)).toBeUndefined();
      expect((made['spec'] as { externalIPs?: string[] }).externalIPs).toEqual(
        reason ? undefined : externalIPs,
      );
      expect(sent({ externalIPs }, info)).toBe(reason);
    }
  });

  it('asks for no address where the super cluster chooses', () => {
    expect(sent({ clusterIP: '10.112.4.20' }, context({ serviceIpMode: 'assigned' }))).toBe(
      'ClusterIPNotAllowed',
    );
  });
});

describe('a change of a Service that is there (sync rule `validated-writes`)', () => {
  const there = created(service(), { clusterIP: '10.112.4.20', internalTrafficPolicy: 'Cluster' });
  const change = (patch: object, subresource?: string) =>
    validateService({ patches: there, patch: patch as never, subresource }, context())?.reason;

  it('is sent, if it is what tenants change', () => {
    expect(change({ spec: { selector: { app: null, tier: 'web' }, externalName: null } })).toBeUndefined();
    expect(change({ spec: { type: 'NodePort', ports: [{ port: 80 }] } })).toBeUndefined();
  });

  it.each<[string, object, string | undefined, string]>([
    ['an unknown field', { spec: { steal: true } }, undefined, 'UnknownField'],
    ['external addresses', { spec: { externalIPs: ['192.0.2.1'] } }, undefined, 'NotSupported'],
    ['a status', { status: { loadBalancer: {} } }, 'status', 'UnknownField'],
    [
      'an annotation by which a load balancer is taken over',
      { metadata: { annotations: { 'load-balancer.hetzner.cloud/id': '7' } } },
      undefined,
      'UnknownField',
    ],
  ])('is not, with %s', (_what, patch, subresource, reason) => {
    expect(change(patch, subresource)).toBe(reason);
  });
});
