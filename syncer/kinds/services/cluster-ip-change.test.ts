import { describe, expect, it } from 'vitest';
import { applyMergePatch, type KubeObject } from '../../../kube/index.ts';
import { clusterIPChangeAnnotation } from './cluster-ip-change.ts';
import { serviceKind } from './services.ts';
import { context, created, ipTaken, patchOf, service } from './testing.ts';

describe('sync rule `cluster-ip`: the address', () => {
  it("asks for the tenant object's ClusterIP in the super object", () => {
    const spec = serviceKind.toSuper(service(), context())['spec'];
    expect(spec).toMatchObject({ clusterIP: '10.112.4.20', selector: { app: 'web' } });
    expect(spec).not.toHaveProperty('ipFamilies');
    expect(spec).not.toHaveProperty('clusterIPs');
  });

  it("refuses an address outside the VirtualCluster's own slice", () => {
    const foreign = service({ clusterIP: '10.112.8.1', clusterIPs: ['10.112.8.1'] });
    expect(serviceKind.admit?.(foreign, context())).toMatchObject({
      wanted: false,
      notice: { type: 'Warning', reason: 'ClusterIPNotAllowed' },
    });
    expect(serviceKind.admit?.(service(), context())).toEqual({ wanted: true });
  });

  it('takes an address of any of the slices', () => {
    const second = service({ clusterIP: '10.112.16.9', clusterIPs: ['10.112.16.9'] });
    const tenant = context({ serviceCidrs: ['10.112.4.0/22', '10.112.16.0/22'] });
    expect(serviceKind.admit?.(second, tenant)).toEqual({ wanted: true });
  });

  it('refuses when only one of two addresses is inside', () => {
    const dual = service({ clusterIPs: ['10.112.4.20', 'fd00::20'], ipFamilies: ['IPv4', 'IPv6'] });
    expect(serviceKind.admit?.(dual, context())).toMatchObject({ wanted: false });
    expect(serviceKind.admit?.(dual, context({ serviceCidrs: ['10.112.4.0/22', 'fd00::/112'] }))).toEqual({
      wanted: true,
    });
  });

  it('lets headless and ExternalName Services through as they are', () => {
    const headless = service({ clusterIP: 'None', clusterIPs: ['None'] });
    expect(serviceKind.admit?.(headless, context())).toEqual({ wanted: true });
    expect(serviceKind.toSuper(headless, context())['spec']).toMatchObject({ clusterIP: 'None' });
    const external = service({
      type: 'ExternalName',
      externalName: 'x.example',
      clusterIP: undefined,
      clusterIPs: undefined,
    });
    expect(serviceKind.toSuper(external, context())['spec']).toMatchObject({ externalName: 'x.example' });
    expect(serviceKind.admit?.(external, context())).toEqual({ wanted: true });
  });

  it('moves the tenant object when the address is taken, in two steps that keep its UID and all else', () => {
    const tenantObject = service({
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      allocateLoadBalancerNodePorts: true,
      loadBalancerSourceRanges: ['192.0.2.0/24'],
      healthCheckNodePort: 31001,
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080, nodePort: 30080 }],
    });
    const away = patchOf(
      serviceKind.recover?.(ipTaken, tenantObject, {} as KubeObject, context()),
      'patchTenant',
    );
    expect(away['spec']).toMatchObject({ type: 'ExternalName', loadBalancerSourceRanges: null });

    // What the API server makes of that patch.
    const between = applyMergePatch(tenantObject, away) as KubeObject;
    const spec = between['spec'] as Record<string, unknown>;
    for (const field of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy', 'externalTrafficPolicy'])
      delete spec[field];
    for (const field of ['internalTrafficPolicy', 'allocateLoadBalancerNodePorts', 'healthCheckNodePort'])
      delete spec[field];
    spec['ports'] = [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }];

    const back = patchOf(serviceKind.superGone?.(between, context()), 'patchTenant');
    const after = applyMergePatch(between, back) as KubeObject;
    expect(after.metadata).toEqual({ ...tenantObject.metadata, annotations: {} });
    const { clusterIP, clusterIPs, ipFamilies, ...rest } = tenantObject['spec'] as Record<string, unknown>;
    expect(after['spec']).toEqual(rest);
    expect([clusterIP, clusterIPs, ipFamilies]).toEqual(['10.112.4.20', ['10.112.4.20'], ['IPv4']]);
  });

  it('does nothing to the super object while the tenant object moves', () => {
    const tenantObject = service();
    const superObject = created(tenantObject);
    const moving = applyMergePatch(tenantObject, {
      metadata: { annotations: { [clusterIPChangeAnnotation]: '{}' } },
      spec: { type: 'ExternalName', externalName: 'moving.skerry.invalid' },
    }) as KubeObject;
    expect(serviceKind.down(moving, superObject, context())).toEqual([]);
  });

  it('takes a moving mark away that is not ours or that somebody has overtaken', () => {
    const patch = { metadata: { annotations: { [clusterIPChangeAnnotation]: null } } };
    for (const text of ['', 'null', '{"spec":{}}', '{"spec":{"type":"ClusterIP"},"nodePorts":{}}']) {
      const tenantObject = service();
      tenantObject.metadata.annotations = { [clusterIPChangeAnnotation]: text };
      expect(serviceKind.superGone?.(tenantObject, context())).toEqual([{ do: 'patchTenant', patch }]);
    }
  });

  it('never moves the Service of the API server', () => {
    const kubernetes = service({}, 'kubernetes', 'default');
    expect(serviceKind.recover?.(ipTaken, kubernetes, {} as KubeObject, context())).toBeUndefined();
    const assigned = { serviceIpMode: 'assigned' as const, serviceCidrs: [] };
    const superObject = created(kubernetes, { clusterIP: '10.96.7.7' }, assigned);
    expect(serviceKind.up?.(kubernetes, superObject, context(assigned))).toEqual([]);
  });

  it('lets another refusal stand', () => {
    const invalid = {
      ...ipTaken,
      causes: [{ reason: 'FieldValueInvalid', field: 'spec.clusterIPs', message: 'not in the valid range' }],
    };
    expect(serviceKind.recover?.(invalid, service(), created(service()), context())).toBeUndefined();
  });

  it("follows the super cluster's choice in assigned mode", () => {
    const tenantObject = service();
    const assigned = { serviceIpMode: 'assigned' as const, serviceCidrs: [] };
    expect(serviceKind.admit?.(tenantObject, context(assigned))).toEqual({ wanted: true });
    expect(serviceKind.toSuper(tenantObject, context(assigned))['spec']).not.toHaveProperty('clusterIP');
    const superObject = created(tenantObject, { clusterIP: '10.96.7.7' }, assigned);
    expect(serviceKind.down(tenantObject, superObject, context(assigned))).toEqual([]);

    const away = patchOf(serviceKind.up?.(tenantObject, superObject, context(assigned)), 'patchTenant');
    const between = applyMergePatch(tenantObject, away) as KubeObject;
    const back = patchOf(serviceKind.up?.(between, superObject, context(assigned)), 'patchTenant');
    expect(back['spec']).toMatchObject({ type: 'ClusterIP', externalName: null, clusterIP: '10.96.7.7' });
  });

  it('makes the super object anew when the tenant object has come to another address', () => {
    const superObject = created(service({ clusterIP: '10.112.4.99' }));
    expect(serviceKind.down(service(), superObject, context())).toEqual([{ do: 'deleteSuper' }]);
  });
});
