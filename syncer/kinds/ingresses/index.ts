import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch, resources } from '../../../kube/index.ts';
import { superMetadata, superMetadataPatch, transparentMetadataPatch } from '../../mapping/index.ts';
import type { Action, KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { DownKind } from '../kind.ts';
import { knownPart } from '../known-fields.ts';
import { admit, leftBehind, requires } from './admit.ts';
import { withAllowedAnnotations } from './annotations.ts';
import {
  classOf,
  type Ingress,
  type IngressSpec,
  secretsOf,
  servicesOf,
  specOf,
  specShape,
} from './model.ts';

/** Ingress: host names of the tenant, served by controllers that all tenants share. */
export const ingressKind: DownKind = {
  name: 'ingresses',
  resource: resources.ingresses,
  direction: 'down',
  indexes: {
    tenant: {
      /** `<kind>/<namespace>/<name>` of each object that the Ingress refers to. */
      byReference: (ingress) =>
        referencesOf(ingress).map(({ kind, namespace, name }) => `${kind}/${namespace}/${name}`),
      byClass: (ingress) => [classOf(ingress) ?? ''],
    },
  },
  touches: { tenant: certificatesOf },
  admit,
  requires,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      metadata: superMetadata(withAllowedAnnotations(tenantObject, context.tenant), context),
      spec: wantedSpec(tenantObject),
    };
  },
  down,
  up,
};

/** Whether an Ingress that goes down needs this Secret. */
export function usesSecret(namespace: string, name: string, context: SyncContext): boolean {
  if (!context.tenant.syncIngresses) return false;
  return ingressesReferring('secrets', namespace, name, context).some(
    (ingress) => admit(ingress, context).wanted,
  );
}

/** Ingresses that lead to a Service: what it is decides whether they go down. */
export function ingressesOfService({ metadata }: KubeObject, context: SyncContext): readonly KeyRef[] {
  if (!context.tenant.syncIngresses) return [];
  const { namespace = '', name = '' } = metadata;
  return ingressesReferring('services', namespace, name, context).map(keyOf);
}

/** Ingresses that name a class: whether it is offered decides whether they go down. */
export function ingressesOfClass({ metadata }: KubeObject, context: SyncContext): readonly KeyRef[] {
  if (!context.tenant.syncIngresses) return [];
  return context.tenantObjects.byIndex(resources.ingresses, 'byClass', metadata.name ?? '').map(keyOf);
}

function ingressesReferring(
  kind: 'secrets' | 'services',
  namespace: string,
  name: string,
  { tenantObjects }: SyncContext,
): readonly KubeObject[] {
  return tenantObjects.byIndex(resources.ingresses, 'byReference', `${kind}/${namespace}/${name}`);
}

function keyOf({ metadata }: KubeObject): KeyRef {
  return { kind: 'ingresses', namespace: metadata.namespace, name: metadata.name ?? '' };
}

function referencesOf(ingress: KubeObject): KeyRef[] {
  const { namespace } = ingress.metadata;
  return [
    ...secretsOf(ingress).map((name) => ({ kind: 'secrets', namespace, name })),
    ...servicesOf(ingress).map((name) => ({ kind: 'services', namespace, name })),
  ];
}

/** Secrets go down because an Ingress needs them. */
function certificatesOf(ingress: KubeObject, { tenant }: SyncContext): readonly KeyRef[] {
  return tenant.syncIngresses ? referencesOf(ingress).filter(({ kind }) => kind === 'secrets') : [];
}

/** Hosts of a certificate are said where T leaves them out: to a controller that could mean every host. */
function wantedSpec(tenantObject: KubeObject): IngressSpec {
  const { rules = [], tls } = knownPart(specOf(tenantObject), specShape) as IngressSpec;
  const className = classOf(tenantObject);
  const hosts = [...new Set(rules.flatMap(({ host }) => (host === undefined ? [] : [host])))];
  return {
    ...(className === undefined ? {} : { ingressClassName: className }),
    ...(tls === undefined ? {} : { tls: tls.map((each) => ({ ...each, hosts: each.hosts ?? hosts })) }),
    rules,
  };
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const allowed = withAllowedAnnotations(tenantObject, context.tenant);
  const metadata = superMetadataPatch(allowed, superObject, context);
  const spec = specPatch(wantedSpec(tenantObject), superObject);
  if (metadata === undefined && spec === undefined) return [];
  const { notice } = leftBehind(tenantObject, context);
  const written: Action = {
    do: 'patchSuper',
    patch: { ...metadata, ...(spec === undefined ? {} : { spec }) },
  };
  return notice === undefined ? [written] : [written, { do: 'notice', notice }];
}

function specPatch(wanted: IngressSpec, superObject: KubeObject): MergePatch | undefined {
  const there = knownPart(specOf(superObject), specShape) as IngressSpec;
  const patch: MergePatch = {};
  for (const field of ['ingressClassName', 'defaultBackend', 'tls', 'rules'] as const) {
    if (!deepEqual(wanted[field], there[field])) patch[field] = wanted[field] ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const actions: Action[] = [];
  const metadata = transparentMetadataPatch(tenantObject, superObject, context);
  if (metadata !== undefined) actions.push({ do: 'patchTenant', patch: metadata });
  const own = (tenantObject as Ingress).status?.loadBalancer ?? {};
  const loadBalancer = mergePatch(own, (superObject as Ingress).status?.loadBalancer ?? {});
  if (loadBalancer !== undefined)
    actions.push({ do: 'patchTenant', subresource: 'status', patch: { status: { loadBalancer } } });
  return actions;
}
