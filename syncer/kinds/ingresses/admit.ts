import { type KubeObject, resources } from '../../../kube/index.ts';
import { uidMark } from '../../mapping/index.ts';
import type { KeyRef, Notice } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { Admission } from '../kind.ts';
import { unknownFields } from '../known-fields.ts';
import { isOffered, isOnItsWay } from '../published/index.ts';
import { isReserved } from '../reserved-names.ts';
import { annotationsLeftBehind } from './annotations.ts';
import { hostsNotAllowed } from './hosts.ts';
import { backendsOf, classOf, secretsOf, servicesOf, specOf, specShape } from './model.ts';

/**
 * Whether an Ingress goes down: as a whole or not at all, so that what is served is what it says. All tenants
 * share the controllers of the super cluster, so it may claim only what is the tenant's.
 */
export function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  if (!context.tenant.syncIngresses) return { wanted: false };
  const name = classOf(tenantObject);
  if (name === undefined)
    return refused('NoIngressClass', 'the Ingress names no class, and none is the default here');
  if (isOwnClass(name, context)) return { wanted: false };
  if (
    !isOffered(resources.ingressClasses, name, context) &&
    !isOnItsWay(resources.ingressClasses, name, context)
  )
    return refused('IngressClassNotPublished', `ingress class "${name}" is not one that this cluster offers`);
  return hindrance(tenantObject, context) ?? { wanted: true, ...leftBehind(tenantObject, context) };
}

/** The copy of the class, which right after joining is on its way, and the certificates that the tenant has. */
export function requires(tenantObject: KubeObject, context: SyncContext): readonly KeyRef[] {
  const name = classOf(tenantObject);
  const keys: KeyRef[] = [];
  if (name !== undefined && isOnItsWay(resources.ingressClasses, name, context))
    keys.push({ kind: 'ingressclasses', name });
  const { namespace } = tenantObject.metadata;
  for (const secret of secretsOf(tenantObject)) {
    if (context.tenantObjects.get(resources.secrets, { namespace, name: secret }) !== undefined)
      keys.push({ kind: 'secrets', namespace, name: secret });
  }
  return keys;
}

/** That some annotations stay behind; the rest works. */
export function leftBehind(tenantObject: KubeObject, { tenant }: SyncContext): { notice?: Notice } {
  const keys = annotationsLeftBehind(tenantObject, tenant);
  if (keys.length === 0) return {};
  const message = `the cluster does not allow the annotations ${keys.join(', ')}; the Ingress works without`;
  return { notice: { type: 'Warning', reason: 'NotSupported', message } };
}

/** A class of the tenant's own is for a controller of its own. */
function isOwnClass(name: string, { tenantObjects }: SyncContext): boolean {
  const there = tenantObjects.get(resources.ingressClasses, { name });
  return there !== undefined && uidMark(there) === undefined;
}

function hindrance(tenantObject: KubeObject, context: SyncContext): Admission | undefined {
  const spec = specOf(tenantObject);
  const unknown = unknownFields(spec, specShape);
  if (unknown.length > 0)
    return refused(
      'NotSupported',
      `the cluster does not know ${[...new Set(unknown)].join(', ')} of an Ingress`,
    );
  if (spec.defaultBackend !== undefined)
    return refused(
      'HostNotAllowed',
      'spec.defaultBackend would answer for the host names of others; name yours in rules',
    );
  if (backendsOf(spec).some(({ resource }) => resource !== undefined))
    return refused('NotSupported', 'only Services can be backends of an Ingress');
  const { ingressHosts } = context.tenant.policy;
  const hosts = hostsNotAllowed(spec, ingressHosts);
  if (hosts.length > 0) {
    const named = hosts.map((host) => (host === '' ? 'every host (a rule without one)' : host)).join(', ');
    const allowed = ingressHosts.length === 0 ? 'none' : ingressHosts.join(', ');
    return refused('HostNotAllowed', `this cluster may not claim ${named}; allowed: ${allowed}`);
  }
  const reserved = secretsOf(tenantObject).find(isReserved);
  if (reserved !== undefined)
    return refused('ReservedName', `the name ${reserved} is reserved and cannot be used; choose another one`);
  const elsewhere = servicesOf(tenantObject).find((name) => leadsElsewhere(name, tenantObject, context));
  if (elsewhere !== undefined)
    return refused(
      'NotSupported',
      `Service ${elsewhere} is an ExternalName and cannot be a backend of an Ingress`,
    );
  return undefined;
}

/** The controller would fetch from any name that it can resolve, in the super cluster's name. */
function leadsElsewhere(name: string, { metadata }: KubeObject, { tenantObjects }: SyncContext): boolean {
  const service = tenantObjects.get(resources.services, { namespace: metadata.namespace, name });
  return (service?.['spec'] as { type?: string } | undefined)?.type === 'ExternalName';
}

function refused(reason: string, message: string): Admission {
  return { wanted: false, notice: { type: 'Warning', reason, message } };
}
