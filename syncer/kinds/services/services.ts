import { deepEqual } from 'fast-equals';
import {
  type KubeObject,
  type MergePatch,
  mergePatch,
  resources,
  withoutUndefined,
} from '../../../kube/index.ts';
import type { KeyRef, SyncContext } from '../../context.ts';
import { staysInTenant, tenantNamespaceOf } from '../../mapping/labels.ts';
import {
  labelGoesDown,
  refusedAnnotations,
  refusedKeysPatch,
  refusedLabels,
  type SuperMetadataOptions,
  superMetadata,
  superMetadataPatch,
  transparentMetadataPatch,
} from '../../mapping/metadata.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import type { Action, Admission, DownKind, Notice, RefusedWrite } from '../contract.ts';
import { setField, unlessEmpty, withKeys } from '../patches.ts';
import { referenceId, referencesIndex } from '../references.ts';
import { refused, refusedButKept, warning } from '../validation.ts';
import { malformedAdmission, wellFormed } from '../well-formed.ts';
import { finishClusterIPChange, isChangingClusterIP, startClusterIPChange } from './cluster-ip-change.ts';
import {
  hasStaleRefusedPorts,
  portsForSuper,
  portsForTenant,
  refusedPortsAnnotation,
  samePorts,
  withRefused,
} from './node-ports.ts';
import {
  allowedClass,
  allowedRestrictedFields,
  droppedFields,
  refusedOptionsPatch,
  restrictedFieldsAnnotation,
  restrictedFieldsDigest,
  restrictedFieldsPatch,
  serviceAnnotationGoesDown,
  withoutDropped,
} from './restricted-fields.ts';
import {
  allInCidrs,
  hasAddress,
  isOfApiServer,
  type Service,
  type ServicePort,
  type ServiceSpec,
  sourceRangesAnnotation,
  specOf,
} from './types.ts';
import { validateService } from './validation.ts';

/**
 * What the tenant object asks of the super object. The address is in it where the tenant object's is to be asked for;
 * what the super cluster assigns and what a tenant may not choose are not.
 */
function wantedSpec(tenantObject: KubeObject, context: SyncContext): ServiceSpec {
  const own = specOf(tenantObject);
  if (isOfApiServer(tenantObject)) return apiServerSpec(own, context);
  const {
    clusterIP,
    clusterIPs,
    ipFamilies,
    ipFamilyPolicy,
    externalIPs: _externalIPs,
    loadBalancerIP: _loadBalancerIP,
    loadBalancerSourceRanges: _loadBalancerSourceRanges,
    loadBalancerClass: _loadBalancerClass,
    ...rest
  } = own;
  const { policy } = context.tenant;
  const spec = { ...rest, ...allowedClass(own, policy), ...allowedRestrictedFields(tenantObject, policy) };
  if (clusterIP === 'None') return { ...spec, clusterIP };
  if (!hasAddress(own) || context.tenant.serviceIpMode === 'assigned') return spec;
  if (clusterIPs === undefined || clusterIPs.length < 2) return { ...spec, clusterIP: clusterIP as string };
  // Two addresses can only be asked for together with their families.
  return {
    ...spec,
    clusterIP: clusterIP as string,
    clusterIPs,
    ...withoutUndefined({ ipFamilies, ipFamilyPolicy }),
  };
}

/** Pods reach their API server and nothing else there, whatever the tenant makes of that Service. */
function apiServerSpec(own: ServiceSpec, context: SyncContext): ServiceSpec {
  const asked = hasAddress(own) && context.tenant.serviceIpMode === 'slice';
  return {
    type: 'ClusterIP',
    ...(asked ? { clusterIP: own.clusterIP as string } : {}),
    ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: context.tenant.apiServer.port }],
    sessionAffinity: 'None',
    internalTrafficPolicy: 'Cluster',
  };
}

/**
 * Ways round a number that is taken in the super cluster. `attempted` is the super object as it was to be; one with
 * a UID is there already, and the refused write was a patch of it.
 */
function recover(
  write: RefusedWrite,
  tenantObject: KubeObject,
  attempted: KubeObject,
  context: SyncContext,
): readonly Action[] | undefined {
  if (addressIsTaken(write)) return moveTenant(tenantObject, context);
  const ports = specOf(attempted).ports ?? [];
  const taken = new Set(
    write.causes.flatMap((cause) => {
      const index = /^spec\.ports\[(\d+)\]\.nodePort$/.exec(cause.field)?.[1];
      const nodePort = index === undefined ? undefined : ports[Number(index)]?.nodePort;
      return nodePort === undefined ? [] : [nodePort];
    }),
  );
  if (taken.size > 0) return withoutPorts(attempted, ports, taken);
  if (healthCheckPortIsTaken(write)) return withoutHealthCheckPort(attempted);
  return undefined;
}

function addressIsTaken(refused: RefusedWrite): boolean {
  return refused.causes.some(
    (cause) => /^spec\.clusterIPs?$/.test(cause.field) && cause.message.includes('already allocated'),
  );
}

/** The server says so in an internal error, with no field named. */
function healthCheckPortIsTaken(refused: RefusedWrite): boolean {
  return /allocate requested HealthCheck NodePort/i.test(refused.message);
}

function moveTenant(tenantObject: KubeObject, context: SyncContext): readonly Action[] | undefined {
  if (context.tenant.serviceIpMode !== 'slice' || isOfApiServer(tenantObject)) return undefined;
  const address = specOf(tenantObject).clusterIP ?? '';
  const message = `cluster IP ${address} is taken in the cluster; the Service gets another one`;
  return [
    { do: 'patchTenant', patch: startClusterIPChange(tenantObject) },
    { do: 'notice', notice: { type: 'Normal', reason: 'ClusterIPChanged', message } },
  ];
}

function withoutPorts(
  attempted: KubeObject,
  ports: readonly ServicePort[],
  taken: ReadonlySet<number>,
): Action[] {
  const annotations = {
    ...attempted.metadata.annotations,
    [refusedPortsAnnotation]: withRefused(attempted, [...taken]),
  };
  const message = `node port ${[...taken].join(', ')} cannot be had in the cluster; the Service gets another one`;
  const notice: Action = { do: 'notice', notice: warning('NodePortChanged', message) };
  if (attempted.metadata.uid !== undefined) {
    const patch = {
      metadata: { annotations: { [refusedPortsAnnotation]: annotations[refusedPortsAnnotation] } },
    };
    return [{ do: 'patchSuper', patch }, notice];
  }
  const object: KubeObject = {
    ...attempted,
    metadata: { ...attempted.metadata, annotations },
    spec: {
      ...specOf(attempted),
      ports: ports.map((port) => {
        const { nodePort, ...rest } = port;
        return nodePort !== undefined && taken.has(nodePort) ? rest : port;
      }),
    },
  };
  return [{ do: 'createSuper', object }, notice];
}

function withoutHealthCheckPort(attempted: KubeObject): Action[] | undefined {
  const { healthCheckNodePort, ...spec } = specOf(attempted);
  if (healthCheckNodePort === undefined || attempted.metadata.uid !== undefined) return undefined;
  return [{ do: 'createSuper', object: { ...attempted, spec } }];
}

/**
 * Fields of the super object that are the tenant's and whose absence in the tenant object means absence in the super
 * object (sync rule `service-updates`).
 */
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

/** Service: sync rules `cluster-ip` to `kubernetes-service`. */
export const serviceKind: DownKind = {
  name: 'services',
  resource: resources.services,
  direction: 'down',
  hasConditions: true,
  indexes: {
    tenant: { byNamespace: ({ metadata }) => [metadata.namespace ?? ''], externalNames },
    super: { byAddress, externalNames },
  },
  compact: { tenant: wellFormed({ spec: 'ServiceSpec', status: 'ServiceStatus' }) },
  touches: { tenant: slicesOf, super: ingressesOfExternalName },
  admit,
  enforce,
  validate: validateService,
  toSuper(tenantObject, context) {
    const spec = wantedSpec(tenantObject, context);
    const metadata = superMetadata(
      withoutDropped(tenantObject, context.tenant.policy),
      context,
      metadataOptions(context),
    );
    const given = restrictedFieldsDigest(spec);
    if (given !== undefined)
      metadata.annotations = { ...metadata.annotations, [restrictedFieldsAnnotation]: given };
    return { apiVersion: 'v1', kind: 'Service', metadata, spec };
  },
  down,
  up,
  superGone(tenantObject) {
    if (!isChangingClusterIP(tenantObject)) return undefined;
    return [{ do: 'patchTenant', patch: finishClusterIPChange(tenantObject, undefined) }];
  },
  recover,
};

/** The namespace of a Service that is an ExternalName. */
function externalNames(service: KubeObject): readonly string[] {
  return specOf(service).type === 'ExternalName' ? [service.metadata.namespace ?? ''] : [];
}

/** Every address that leads to a Service, assigned or requested. */
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

/** An Ingress may not lead to an ExternalName of the super cluster: it waits for that to change, or goes. */
function ingressesOfExternalName(
  superObject: KubeObject,
  { tenantObjects, superObjects }: SyncContext,
): readonly KeyRef[] {
  if (specOf(superObject).type !== 'ExternalName') return [];
  const { name = '' } = superObject.metadata;
  const namespace = tenantNamespaceOf(superObject);
  const id = referenceId({ kind: 'services', namespace, name });
  const superName = `${superObject.metadata.namespace}/${name}`;
  const names = new Set(
    [
      ...tenantObjects.byIndex(resources.ingresses, referencesIndex, id),
      ...superObjects.byIndex(resources.ingresses, 'byService', superName),
    ].map(({ metadata }) => metadata.name ?? ''),
  );
  return [...names].map((ingress) => ({ kind: 'ingresses', namespace, name: ingress }));
}

function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  const malformed = malformedAdmission(tenantObject);
  if (malformed !== undefined) return malformed;
  if (isOfApiServer(tenantObject) && context.tenant.apiServer.isService) return { wanted: false };
  if (staysInTenant(tenantObject) && !isOfApiServer(tenantObject)) return { wanted: false };
  const spec = specOf(tenantObject);
  const { serviceIpMode, serviceCidrs } = context.tenant;
  if (serviceIpMode === 'slice' && hasAddress(spec)) {
    const addresses = spec.clusterIPs ?? [spec.clusterIP as string];
    if (!allInCidrs(addresses, serviceCidrs))
      return refused(
        'ClusterIPNotAllowed',
        `cluster IP ${addresses.join(', ')} is not in this cluster's own range (${serviceCidrs.join(', ')}); create the Service without one`,
      );
  }
  if (isStillServed(tenantObject, context)) return stillServed;
  if (isClassRefused(tenantObject, context)) return classRefused;
  const notice = droppedNotice(tenantObject, context);
  return notice === undefined ? { wanted: true } : { wanted: true, notice };
}

/**
 * Options that the tenant has asked for, by field, label or annotation, and that are not allowed any more, are taken
 * back.
 */
function enforce(
  superObject: KubeObject,
  _: KubeObject | undefined,
  { tenant }: SyncContext,
): readonly Action[] {
  const spec = refusedOptionsPatch(superObject, tenant.policy);
  const metadata = refusedKeysPatch(superObject, {
    label: (key) => labelGoesDown(key, tenant),
    annotation: (key) => serviceAnnotationGoesDown(key, tenant),
  });
  const patch = unlessEmpty(withoutUndefined({ ...metadata, spec: unlessEmpty(spec) }));
  return patch === undefined ? [] : [{ do: 'patchSuper', patch }];
}

const stillServed = refusedButKept(
  'NotSupported',
  'an Ingress leads to this Service in the cluster: it becomes an ExternalName there when that is gone',
);

/**
 * Whether a Service is to be an ExternalName to which an Ingress leads in the super cluster, whatever the tenant has: its
 * deletion may be held back, and its controller would fetch from any name that it can resolve.
 */
function isStillServed(tenantObject: KubeObject, { tenant, superObjects }: SyncContext): boolean {
  if (specOf(tenantObject).type !== 'ExternalName' || isChangingClusterIP(tenantObject)) return false;
  const { namespace = '', name } = tenantObject.metadata;
  const superName = `${superNamespaceName(tenant, namespace)}/${name}`;
  return superObjects.byIndex(resources.ingresses, 'byService', superName).length > 0;
}

const classRefused = refusedButKept(
  'NotSupported',
  'the cluster does not let you choose a load balancer (policy: loadBalancerOptions): make the Service without spec.loadBalancerClass',
);

/**
 * Whether a Service asks for a load balancer that it may not choose and does not have. Without its class it would get the
 * one that it does not want.
 */
function isClassRefused(tenantObject: KubeObject, { tenant, superObjects }: SyncContext): boolean {
  const { type, loadBalancerClass } = specOf(tenantObject);
  if (type !== 'LoadBalancer' || loadBalancerClass === undefined || tenant.policy.loadBalancerOptions)
    return false;
  const { namespace = '', name = '' } = tenantObject.metadata;
  const ref = { namespace: superNamespaceName(tenant, namespace), name };
  const superObject = superObjects.get(resources.services, ref);
  return superObject === undefined || specOf(superObject).loadBalancerClass !== loadBalancerClass;
}

function droppedNotice(tenantObject: KubeObject, { tenant }: SyncContext): Notice | undefined {
  const annotations = refusedAnnotations(tenantObject, tenant).filter(
    (key) => !serviceAnnotationGoesDown(key, tenant) && key !== sourceRangesAnnotation,
  );
  const labels = refusedLabels(tenantObject, tenant);
  const dropped = [...new Set([...droppedFields(tenantObject, tenant.policy), ...annotations, ...labels])];
  if (dropped.length === 0) return undefined;
  return warning(
    'NotSupported',
    `the cluster does not allow ${dropped.join(', ')}; the Service works without`,
  );
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  if (isChangingClusterIP(tenantObject)) return [];
  const wanted = wantedSpec(tenantObject, context);
  const there = specOf(superObject);
  if (needsAnew(wanted, there, context)) return [{ do: 'deleteSuper' }];

  const metadata = metadataPatch(tenantObject, superObject, wanted, context);
  const spec = specPatch(wanted, there, superObject);
  if (metadata === undefined && spec === undefined) return [];
  const patch: MergePatch = withoutUndefined({ ...metadata, spec });
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

/** Annotations that stand for fields go by the policy of those fields. */
function metadataOptions({ tenant }: SyncContext): SuperMetadataOptions {
  return {
    goesDown: (key) => labelGoesDown(key, tenant),
    annotationGoesDown: (key) => serviceAnnotationGoesDown(key, tenant),
  };
}

function metadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  wanted: ServiceSpec,
  context: SyncContext,
): MergePatch | undefined {
  const patch = superMetadataPatch(
    withoutDropped(tenantObject, context.tenant.policy),
    superObject,
    context,
    metadataOptions(context),
  );
  const annotations: Record<string, string | null> = {};
  if (hasStaleRefusedPorts(tenantObject, superObject)) annotations[refusedPortsAnnotation] = null;
  const given = restrictedFieldsDigest(wanted);
  if (given !== superObject.metadata.annotations?.[restrictedFieldsAnnotation])
    annotations[restrictedFieldsAnnotation] = given ?? null;
  return withKeys(patch, 'annotations', annotations);
}

function specPatch(wanted: ServiceSpec, there: ServiceSpec, superObject: KubeObject): MergePatch | undefined {
  const patch: MergePatch = restrictedFieldsPatch(wanted, superObject);
  for (const field of ownedFields) setField(patch, field, there[field], wanted[field]);
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
  return unlessEmpty(patch);
}

function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  if (isChangingClusterIP(tenantObject))
    return [{ do: 'patchTenant', patch: finishClusterIPChange(tenantObject, superObject) }];
  if (superObject.metadata.deletionTimestamp !== undefined) return [];
  if (mustFollow(tenantObject, superObject, context))
    return [{ do: 'patchTenant', patch: startClusterIPChange(tenantObject) }];

  const actions: Action[] = [];
  const metadata = transparentMetadataPatch(tenantObject, superObject, context);
  const ports = portsForTenant(tenantObject, superObject);
  const patch = withoutUndefined({ ...metadata, spec: ports && { ports } });
  if (unlessEmpty(patch) !== undefined) actions.push({ do: 'patchTenant', patch });
  const status = statusPatch(tenantObject as Service, superObject as Service);
  if (status !== undefined) actions.push({ do: 'patchTenant', subresource: 'status', patch: { status } });
  return actions;
}

/** Whether the tenant object has a number that cannot be changed in place and that the super object got otherwise. */
function mustFollow(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): boolean {
  // The address of this one is in the certificate of the tenant's API server.
  if (isOfApiServer(tenantObject)) return false;
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
