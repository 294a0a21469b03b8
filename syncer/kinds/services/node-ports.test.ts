import { describe, expect, it } from 'vitest';
import { applyMergePatch, type KubeObject } from '../../../kube/index.ts';
import { refusedPortsAnnotation } from './node-ports.ts';
import { serviceKind } from './services.ts';
import { context, created, patchOf, portTaken, service } from './testing.ts';

describe('sync rule `cluster-ip`: node ports', () => {
  const ports = [
    { name: 'http', port: 80, protocol: 'TCP', targetPort: 8080, nodePort: 30080 },
    { name: 'https', port: 443, protocol: 'TCP', targetPort: 8443, nodePort: 30443 },
  ];
  const nodePort = () => service({ type: 'NodePort', externalTrafficPolicy: 'Cluster', ports });

  it("asks for the tenant object's numbers in the super object", () => {
    expect(serviceKind.toSuper(nodePort(), context())['spec']).toMatchObject({ ports });
  });

  it("creates the super object without a number that is taken, says so, and brings the super object's number up", () => {
    const tenantObject = nodePort();
    const attempted = serviceKind.toSuper(tenantObject, context());
    const actions = serviceKind.recover?.(portTaken(1, 30443), tenantObject, attempted, context());
    expect(actions?.map((action) => action.do)).toEqual(['createSuper', 'notice']);
    const [create] = actions ?? [];
    if (create?.do !== 'createSuper') throw new Error('no create');
    expect(
      (create.object['spec'] as { ports: { nodePort?: number }[] }).ports.map((port) => port.nodePort),
    ).toEqual([30080, undefined]);

    const superObject = {
      ...create.object,
      spec: { ...(create.object['spec'] as object), ports: [ports[0], { ...ports[1], nodePort: 31999 }] },
    } as KubeObject;
    expect(serviceKind.down(tenantObject, superObject, context())).toEqual([]);
    const patch = patchOf(serviceKind.up?.(tenantObject, superObject, context()), 'patchTenant');
    expect(patch).toEqual({ spec: { ports: [ports[0], { ...ports[1], nodePort: 31999 }] } });

    const after = applyMergePatch(tenantObject, patch) as KubeObject;
    expect(serviceKind.up?.(after, superObject, context())).toEqual([]);
    expect(serviceKind.down(after, superObject, context())).toEqual([
      { do: 'patchSuper', patch: { metadata: { annotations: { [refusedPortsAnnotation]: null } } } },
    ]);
  });

  it('can be refused one number after the other', () => {
    const tenantObject = nodePort();
    const first = serviceKind.recover?.(
      portTaken(0, 30080),
      tenantObject,
      serviceKind.toSuper(tenantObject, context()),
      context(),
    )?.[0];
    if (first?.do !== 'createSuper') throw new Error('no create');
    const second = serviceKind.recover?.(portTaken(1, 30443), tenantObject, first.object, context())?.[0];
    if (second?.do !== 'createSuper') throw new Error('no create');
    expect(second.object.metadata.annotations?.[refusedPortsAnnotation]).toBe('30080,30443');
    expect((second.object['spec'] as { ports: object[] }).ports.some((port) => 'nodePort' in port)).toBe(
      false,
    );
  });

  it('takes a new number of the tenant object down instead of bringing the old one up', () => {
    const superObject = created(nodePort());
    const changed = service({
      type: 'NodePort',
      externalTrafficPolicy: 'Cluster',
      ports: [{ ...ports[0], nodePort: 30081 }, ports[1]],
    });
    expect(patchOf(serviceKind.down(changed, superObject, context()), 'patchSuper')).toEqual({
      spec: { ports: [{ ...ports[0], nodePort: 30081 }, ports[1]] },
    });
    expect(serviceKind.up?.(changed, superObject, context())).toEqual([]);
  });

  it('remembers on the super object that a new number of the tenant object was refused', () => {
    const superObject = created(nodePort());
    const changed = service({
      type: 'NodePort',
      externalTrafficPolicy: 'Cluster',
      ports: [{ ...ports[0], nodePort: 30081 }, ports[1]],
    });
    const attempted = applyMergePatch(
      superObject,
      patchOf(serviceKind.down(changed, superObject, context()), 'patchSuper'),
    );
    const actions = serviceKind.recover?.(portTaken(0, 30081), changed, attempted as KubeObject, context());
    const marked = applyMergePatch(superObject, patchOf(actions, 'patchSuper')) as KubeObject;
    expect(serviceKind.down(changed, marked, context())).toEqual([]);
    expect(patchOf(serviceKind.up?.(changed, marked, context()), 'patchTenant')).toEqual({ spec: { ports } });
  });

  it("asks for the tenant object's health check port, and moves the tenant object to the super object's when that was taken", () => {
    const local = service({
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 31001,
    });
    const attempted = serviceKind.toSuper(local, context());
    expect(attempted['spec']).toMatchObject({ healthCheckNodePort: 31001 });
    const refused = {
      code: 500,
      reason: 'InternalError',
      message: 'failed to allocate requested HealthCheck NodePort 31001',
      causes: [],
    };
    const [create] = serviceKind.recover?.(refused, local, attempted, context()) ?? [];
    if (create?.do !== 'createSuper') throw new Error('no create');
    expect(create.object['spec']).not.toHaveProperty('healthCheckNodePort');

    const superObject = created(local, { healthCheckNodePort: 32002 });
    const away = patchOf(serviceKind.up?.(local, superObject, context()), 'patchTenant');
    const back = patchOf(
      serviceKind.up?.(applyMergePatch(local, away) as KubeObject, superObject, context()),
      'patchTenant',
    );
    expect(back['spec']).toMatchObject({
      type: 'LoadBalancer',
      healthCheckNodePort: 32002,
      clusterIP: '10.112.4.20',
    });
  });
});
