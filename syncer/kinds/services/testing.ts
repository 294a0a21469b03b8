import type { KubeObject } from '../../../kube/index.ts';
import type { TenantInfo } from '../../context.ts';
import type { Action, RefusedWrite } from '../contract.ts';
import { allKinds } from '../registry.ts';
import { testContext } from '../testing.ts';
import { serviceKind } from './services.ts';

export function service(spec: Record<string, unknown> = {}, name = 'web', namespace = 'shop'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, uid: `uid-${name}`, resourceVersion: '1', labels: { app: name } },
    spec: {
      type: 'ClusterIP',
      clusterIP: '10.112.4.20',
      clusterIPs: ['10.112.4.20'],
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
      sessionAffinity: 'None',
      selector: { app: name },
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }],
      ...spec,
    },
    status: { loadBalancer: {} },
  };
}

export function context(tenant: Partial<TenantInfo> = {}, tenantObjects: KubeObject[] = []) {
  return testContext({
    tenant: { serviceCidrs: ['10.112.4.0/22'], serviceIpMode: 'slice', ...tenant },
    tenantObjects,
    kinds: allKinds,
  });
}

/** The super object as the super cluster would have it after the create. */
export function created(
  tenantObject: KubeObject,
  assigned: Record<string, unknown> = {},
  info: Partial<TenantInfo> = {},
) {
  const object = serviceKind.toSuper(tenantObject, context(info));
  return {
    ...object,
    metadata: { ...object.metadata, uid: 'super-uid', resourceVersion: '7' },
    spec: {
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      ...(object['spec'] as Record<string, unknown>),
      ...assigned,
    },
    status: { loadBalancer: {} },
  } as KubeObject;
}

export function patchOf(actions: readonly Action[] | undefined, side: 'patchTenant' | 'patchSuper') {
  const found = actions?.find((action) => action.do === side);
  if (found?.do !== 'patchTenant' && found?.do !== 'patchSuper')
    throw new Error(`no ${side} in ${JSON.stringify(actions)}`);
  return found.patch;
}

export const ipTaken: RefusedWrite = {
  code: 422,
  reason: 'Invalid',
  message: 'Service "web" is invalid',
  causes: [
    {
      reason: 'FieldValueInvalid',
      field: 'spec.clusterIPs',
      message:
        'Invalid value: ["10.112.4.20"]: failed to allocate IP 10.112.4.20: provided IP is already allocated',
    },
  ],
};

export function portTaken(index: number, nodePort: number): RefusedWrite {
  return {
    code: 422,
    reason: 'Invalid',
    message: 'Service "web" is invalid',
    causes: [
      {
        reason: 'FieldValueInvalid',
        field: `spec.ports[${index}].nodePort`,
        message: `Invalid value: ${nodePort}: provided port is already allocated`,
      },
    ],
  };
}
