import { deepEqual } from 'fast-equals';
import { isRecord, type KubeObject, type MergePatch, mergePatch, resources } from '../../../kube/index.ts';
import {
  staysInTenant,
  superMetadata,
  superMetadataPatch,
  transparentMetadataPatch,
} from '../../mapping/index.ts';
import type { Action, KeyRef, Notice } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { ingressesOfService } from '../ingresses/index.ts';
import type { Admission, DownKind } from '../kind.ts';
import { allInside } from './cidrs.ts';
import { hasAddress, isApiServerService, type Service, type ServiceSpec, specOf } from './model.ts';
import { finishMove, isMoving, startMove } from './moving.ts';
import {
  portsForSuper,
  portsForTenant,
  refusalIsSettled,
  refusedPortsMark,
  samePorts,
} from './node-ports.ts';
import { droppedFields, optionsGiven, optionsMark, optionsPatch, withoutDropped } from './options.ts';
import { recover } from './recover.ts';
import { wantedSpec } from './spec.ts';

export { insideOf } from './cidrs.ts';
export { hasAddress, isApiServerService, type Service, type ServicePort } from './model.ts';

/** Fields of S that are the tenant's and whose absence in T means absence in S. */
const ownedFields = [
  'type',
  'selector',
  'sessionAffinity',
  'sessionAffinityConfig',
  'externalTrafficPolicy',
  'internalTrafficPolicy',
  'publishNotReadyAddresses',
  'externalName',
  'allocateLoadBalancerNodePorts',
  'trafficDistribution',
] as const;

/** Service: sync rules 22 to 24. */
export const serviceKind: DownKind = {
  name: 'services',
  resource: resources.services,
  direction: 'down',
  indexes: { tenant: { byNamespace: ({ metadata }) => [metadata.namespace ?? ''] }, super: { byAddress } },
  touches: {
    tenant: (service, context) => [...slicesOf(service, context), ...ingressesOfService(service, context)],
  },
  admit,
  toSuper(tenantObject, context) {
    const spec = wantedSpec(tenantObject, context);
    const metadata = superMetadata(withoutDropped(tenantObject, context.tenant.policy), context);
    const given = optionsGiven(spec);
    if (given !== undefined) metadata.annotations = { ...metadata.annotations, [optionsMark]: given };
    return { apiVersion: 'v1', kind: 'Service', metadata, spec };
  },
  down,
  up,
  superGone(tenantObject) {
    if (!isMoving(tenantObject)) return undefined;
    return [{ do: 'patchTenant', patch: finishMove(tenantObject, undefined) }];
  },
  recover,
};

/** Every address that leads to a Service, whoever has chosen it. */
function byAddress(service: KubeObject): readonly string[] {
  const { clusterIP = '', clusterIPs = [], externalIPs = [] } = specOf(service);
  const ingress = ((service as Service).status?.loadBalancer?.['ingress'] ?? []) as { ip?: string }[];
  const all = new Set([clusterIP, ...clusterIPs, ...externalIPs, ...ingress.map(({ ip = '' }) => ip)]);
  return [...all].filter((address) => address !== '' && address !== 'None');
}

/** Slices go down only for a Service without a selector, so they depend on it. */
function slicesOf(service: KubeObject, context: SyncContext): readonly KeyRef[] {
  if (Object.keys(specOf(service).selector ?? {}).length > 0) return [];
  const { namespace, name } = service.metadata;
  return context.tenantObjects
    .byIndex(resources.endpointSlices, 'byService', `${namespace}/${name}`)
    .map((slice) => ({ kind: 'endpointslices', namespace, name: slice.metadata.name ?? '' }));
}

function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  if (isApiServerService(tenantObject) && context.tenant.apiServer.isService) return { wanted: false };
  if (staysInTenant(tenantObject) && !isApiServerService(tenantObject)) return { wanted: false };
  const spec = specOf(tenantObject);
  const { serviceIpMode, serviceCidrs } = context.tenant;
  if (serviceIpMode === 'slice' && hasAddress(spec)) {
    const addresses = spec.clusterIPs ?? [spec.clusterIP as string];
    if (!allInside(addresses, serviceCidrs))
      return { wanted: false, notice: notAllowed(addresses, serviceCidrs) };
  }
  const notice = droppedNotice(tenantObject, context);
  return notice === undefined ? { wanted: true } : { wanted: true, notice };
}

function notAllowed(addresses: readonly string[], cidrs: readonly string[]): Notice {
  return {
    type: 'Warning',
    reason: 'ClusterIPNotAllowed',
    message: `cluster IP ${addresses.join(', ')} is not in this cluster's own range (${cidrs.join(', ')}); create the Service without one`,
  };
}

function droppedNotice(tenantObject: KubeObject, { tenant }: SyncContext): Notice | undefined {
  const dropped = droppedFields(tenantObject, tenant.policy);
  if (dropped.length === 0) return undefined;
  return {
    type: 'Warning',
    reason: 'NotSupported',
    message: `the cluster does not allow ${dropped.join(', ')}; the Service works without`,
  };
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  if (isMoving(tenantObject)) return [];
  const wanted = wantedSpec(tenantObject, context);
  const there = specOf(superObject);
  if (needsAnew(wanted, there, context)) return [{ do: 'deleteSuper' }];

  const metadata = metadataPatch(tenantObject, superObject, wanted, context);
  const spec = specPatch(wanted, there, superObject);
  if (metadata === undefined && spec === undefined) return [];
  const patch: MergePatch = { ...metadata, ...(spec === undefined ? {} : { spec }) };
  const notice = droppedNotice(tenantObject, context);
  const written: Action = { do: 'patchSuper', patch };
  return notice === undefined ? [written] : [written, { do: 'notice', notice }];
}

/** An address cannot be changed in place, nor can the class of a load balancer. */
function needsAnew(wanted: ServiceSpec, there: ServiceSpec, context: SyncContext): boolean {
  if (wanted.type === 'ExternalName' || there.type === 'ExternalName') return false;
  const wantsNone = wanted.clusterIP === 'None';
  if (wantsNone !== (there.clusterIP === 'None')) return true;
  const asksFor = context.tenant.serviceIpMode === 'slice' ? wanted.clusterIP : undefined;
  if (asksFor !== undefined && asksFor !== there.clusterIP) return true;
  if (wanted.type !== 'LoadBalancer' || there.type !== 'LoadBalancer') return false;
  return wanted.loadBalancerClass !== undefined && wanted.loadBalancerClass !== there.loadBalancerClass;
}

function metadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  wanted: ServiceSpec,
  context: SyncContext,
): MergePatch | undefined {
  let patch = superMetadataPatch(withoutDropped(tenantObject, context.tenant.policy), superObject, context);
  if (refusalIsSettled(tenantObject, superObject)) patch = applyAnnotation(patch, refusedPortsMark, null);
  const given = optionsGiven(wanted);
  if (given !== superObject.metadata.annotations?.[optionsMark])
    patch = applyAnnotation(patch, optionsMark, given ?? null);
  return patch;
}

function applyAnnotation(patch: MergePatch | undefined, key: string, value: string | null): MergePatch {
  const metadata = (patch?.['metadata'] ?? {}) as MergePatch;
  const annotations = { ...(metadata['annotations'] as MergePatch | undefined), [key]: value };
  return { ...patch, metadata: { ...metadata, annotations } };
}

function specPatch(wanted: ServiceSpec, there: ServiceSpec, superObject: KubeObject): MergePatch | undefined {
  const patch: MergePatch = optionsPatch(wanted, superObject);
  for (const field of ownedFields) {
    const from = there[field];
    const to = wanted[field];
    if (from === to || deepEqual(from, to)) continue;
    if (to === undefined) patch[field] = null;
    else patch[field] = isRecord(from) && isRecord(to) ? mergePatch(from, to) : to;
  }
  const ports = portsForSuper(wanted, superObject);
  if (!samePorts(ports, there.ports)) patch['ports'] = ports ?? null;
  if (there.type === 'ExternalName' && wanted.type !== 'ExternalName') {
    for (const field of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy'] as const) {
      if (wanted[field] !== undefined) patch[field] = wanted[field];
    }
  }
  if (
    there.type !== 'LoadBalancer' &&
    wanted.type === 'LoadBalancer' &&
    wanted.loadBalancerClass !== undefined
  ) {
    patch['loadBalancerClass'] = wanted.loadBalancerClass;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  if (isMoving(tenantObject)) return [{ do: 'patchTenant', patch: finishMove(tenantObject, superObject) }];
  if (superObject.metadata.deletionTimestamp !== undefined) return [];
  if (mustFollow(tenantObject, superObject, context))
    return [{ do: 'patchTenant', patch: startMove(tenantObject) }];

  const actions: Action[] = [];
  const metadata = transparentMetadataPatch(tenantObject, superObject, context);
  const ports = portsForTenant(tenantObject, superObject);
  if (metadata !== undefined || ports !== undefined) {
    actions.push({
      do: 'patchTenant',
      patch: { ...metadata, ...(ports === undefined ? {} : { spec: { ports } }) },
    });
  }
  const status = statusPatch(tenantObject as Service, superObject as Service);
  if (status !== undefined) actions.push({ do: 'patchTenant', subresource: 'status', patch: { status } });
  return actions;
}

/** Whether T has a number that cannot be changed in place and that S got otherwise. */
function mustFollow(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): boolean {
  // The address of this one is in the certificate of the tenant's API server.
  if (isApiServerService(tenantObject)) return false;
  const own = specOf(tenantObject);
  const there = specOf(superObject);
  if (context.tenant.serviceIpMode === 'assigned' && hasAddress(own) && hasAddress(there)) {
    if (own.clusterIP !== there.clusterIP) return true;
  }
  return (
    own.healthCheckNodePort !== undefined &&
    there.healthCheckNodePort !== undefined &&
    own.healthCheckNodePort !== there.healthCheckNodePort
  );
}

function statusPatch(tenantObject: Service, superObject: Service): MergePatch | undefined {
  if (specOf(tenantObject).type !== 'LoadBalancer' || specOf(superObject).type !== 'LoadBalancer')
    return undefined;
  const own = tenantObject.status?.loadBalancer ?? {};
  const there = superObject.status?.loadBalancer ?? {};
  if (deepEqual(own, there)) return undefined;
  const loadBalancer = mergePatch(own, there);
  return loadBalancer === undefined ? undefined : { loadBalancer };
}
