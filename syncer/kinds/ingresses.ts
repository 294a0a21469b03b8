import { type KubeObject, mergePatch, resources, withoutUndefined } from '../../kube/index.ts';
import type { KeyRef, Lookup, SyncContext, TenantInfo } from '../context.ts';
import { originalUid, tenantNamespaceOf } from '../mapping/labels.ts';
import {
  allAnnotations,
  goesDown,
  isListed,
  refusedAnnotationsPatch,
  superMetadata,
  superMetadataPatch,
  transparentMetadataPatch,
} from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import type { Action, Admission, DownKind, Notice } from './contract.ts';
import { hasMoreEntries, knownPart, maxEntries, type Shape, unknownFields } from './known-fields.ts';
import { fieldsPatch } from './patches.ts';
import { isBeingPublished, isOffered, isPublishedTo } from './published-kind.ts';
import { isReserved, reservedNotice } from './reserved-names.ts';
import { refused, warning } from './validation.ts';

interface Backend {
  service?: { name: string; port?: { name?: string; number?: number } };
  resource?: unknown;
}

interface IngressRule {
  host?: string;
  http?: { paths?: { path?: string; pathType?: string; backend: Backend }[] };
}

interface IngressTls {
  hosts?: string[];
  secretName?: string;
}

export interface IngressSpec {
  ingressClassName?: string;
  defaultBackend?: Backend;
  tls?: IngressTls[];
  rules?: IngressRule[];
}

interface Ingress extends KubeObject {
  spec?: IngressSpec;
  status?: { loadBalancer?: Record<string, unknown> };
}

/** What goes down; `backend.resource` and `defaultBackend` do not, and are refused by name. */
const specShape: Shape = {
  ingressClassName: true,
  defaultBackend: true,
  tls: [{ hosts: true, secretName: true }],
  rules: [
    {
      host: true,
      http: {
        paths: [
          {
            path: true,
            pathType: true,
            backend: { service: { name: true, port: { name: true, number: true } }, resource: true },
          },
        ],
      },
    },
  ],
};

/** How an Ingress named its class before there was a field for it. */
const classAnnotation = 'kubernetes.io/ingress.class';

function specOf(ingress: KubeObject): IngressSpec {
  return (ingress as Ingress).spec ?? {};
}

function classOf(ingress: KubeObject): string | undefined {
  return specOf(ingress).ingressClassName ?? ingress.metadata.annotations?.[classAnnotation];
}

function backendsOf({ defaultBackend, rules = [] }: IngressSpec): Backend[] {
  const backends = rules.flatMap(({ http }) => (http?.paths ?? []).map(({ backend }) => backend));
  return defaultBackend === undefined ? backends : [defaultBackend, ...backends];
}

/** Names of the Services that it leads to, each once. */
function servicesOf(ingress: KubeObject): string[] {
  return unique(backendsOf(specOf(ingress)).map(({ service }) => service?.name));
}

/** Names of the Secrets that hold its certificates, each once. */
function secretsOf(ingress: KubeObject): string[] {
  return secretNames(specOf(ingress));
}

function secretNames({ tls = [] }: IngressSpec): string[] {
  return unique(tls.map(({ secretName }) => secretName));
}

function unique(names: readonly (string | undefined)[]): string[] {
  return [...new Set(names.filter((name): name is string => name !== undefined && name !== ''))];
}

/** Host names that are claimed by a rule or a certificate and not allowed; an empty one is every host. */
function hostsNotAllowed({ rules = [], tls = [] }: IngressSpec, allowed: readonly string[]): string[] {
  const claimed = [...rules.map(({ host = '' }) => host), ...tls.flatMap(({ hosts = [] }) => hosts)];
  return [...new Set(claimed)].filter((host) => !covers(allowed, host.toLowerCase()));
}

/** `*.example.com` allows every name below it, however deep, and that wildcard itself; not `example.com`. */
function covers(allowed: readonly string[], host: string): boolean {
  return allowed.some((entry) => {
    const pattern = entry.toLowerCase();
    if (!pattern.startsWith('*.')) return host !== '' && host === pattern;
    return host.endsWith(pattern.slice(1)) && host.length >= pattern.length;
  });
}

type Rules = Pick<TenantInfo, 'ingressAnnotations'>;

/**
 * The tenant object with the annotations that go down. To a controller that all tenants share, annotations are
 * configuration: a snippet in one can read the keys of all tenants. So nothing goes down that has a prefix,
 * but what the operator has allowed; a key without one means nothing to any controller.
 */
function withAllowedAnnotations(tenantObject: KubeObject, tenant: Rules): KubeObject {
  const { annotations } = tenantObject.metadata;
  if (annotations === undefined) return tenantObject;
  const allowed = Object.entries(annotations).filter(([key]) => isAllowed(key, tenant));
  return {
    ...tenantObject,
    metadata: { ...tenantObject.metadata, annotations: Object.fromEntries(allowed) },
  };
}

/** Bookkeeping of tools, dropped without an event. */
const silent = ['kubectl.kubernetes.io/', 'meta.helm.sh/', 'skerry.dev/'];

/** Keys of annotations that stay behind and may have been meant for a controller. */
function refusedAnnotations({ metadata }: KubeObject, tenant: Rules): string[] {
  return Object.keys(metadata.annotations ?? {}).filter(
    (key) =>
      key !== classAnnotation && !isAllowed(key, tenant) && !silent.some((prefix) => key.startsWith(prefix)),
  );
}

function isAllowed(key: string, { ingressAnnotations }: Rules): boolean {
  if (key === classAnnotation) return false;
  if (!key.includes('/')) return true;
  return isListed(key, ingressAnnotations);
}

/**
 * Whether an Ingress goes down: as a whole or not at all, so that what is served is what it says. All tenants
 * share the controllers of the super cluster, so it may claim only what is the tenant's.
 */
function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  return refusalOf(tenantObject, context) ?? { wanted: true, ...leftOut(tenantObject, context) };
}

/** Undefined: it goes down. Each look at a Secret asks this of all Ingresses that refer to it. */
function refusalOf(tenantObject: KubeObject, context: SyncContext): Admission | undefined {
  const name = classOf(tenantObject);
  if (!context.tenant.syncIngresses) {
    // A controller of the tenant's own may serve it.
    if (name !== undefined && isOwnClass(name, context)) return { wanted: false };
    return refused(
      'IngressesNotSynced',
      'Ingresses of this control plane are not served by the cluster that it runs on (spec.sync.ingresses of its VirtualCluster)',
    );
  }
  if (name === undefined)
    return refused('NoIngressClass', 'the Ingress names no class, and none is the default here');
  if (isOwnClass(name, context)) return { wanted: false };
  if (
    !isOffered(resources.ingressClasses, name, context) &&
    !isBeingPublished(resources.ingressClasses, name, context)
  )
    return refused('IngressClassNotPublished', `ingress class "${name}" is not one that this cluster offers`);
  const { refusal, services } = staticAdmission(tenantObject, context.tenant);
  return refusal ?? leadsElsewhere(tenantObject, services, context);
}

/** What an Ingress and its tenant's settings say without a look at anything else. */
interface StaticAdmission {
  readonly tenant: TenantInfo;
  readonly refusal: Admission | undefined;
  /** Names of those that it leads to. */
  readonly services: ReadonlySet<string>;
}

/** No state but a memory of what is a function of Ingress and settings; objects in caches are never changed. */
const staticAdmissions = new WeakMap<KubeObject, StaticAdmission>();

function staticAdmission(tenantObject: KubeObject, tenant: TenantInfo): StaticAdmission {
  const known = staticAdmissions.get(tenantObject);
  if (known?.tenant === tenant) return known;
  const refusal = staticRefusal(tenantObject, tenant);
  const services = new Set(refusal === undefined ? servicesOf(tenantObject) : []);
  const found = { tenant, refusal, services };
  staticAdmissions.set(tenantObject, found);
  return found;
}

/** The copy of the class, which right after joining is on its way, and the certificates that the tenant has. */
function requires(tenantObject: KubeObject, context: SyncContext): readonly KeyRef[] {
  const name = classOf(tenantObject);
  const keys: KeyRef[] = [];
  if (name !== undefined && isBeingPublished(resources.ingressClasses, name, context))
    keys.push({ kind: 'ingressclasses', name });
  const { namespace } = tenantObject.metadata;
  for (const secret of secretsOf(tenantObject))
    if (hasSecret(secret, tenantObject, context)) keys.push({ kind: 'secrets', namespace, name: secret });
  return keys;
}

/** That some annotations or certificates stay behind; the rest works. */
function leftOut(tenantObject: KubeObject, context: SyncContext): { notice?: Notice } {
  const keys = refusedAnnotations(tenantObject, context.tenant);
  if (keys.length > 0) {
    const message = `the cluster does not allow the annotations ${keys.join(', ')}; the Ingress works without`;
    return { notice: warning('NotSupported', message) };
  }
  const missing = secretsOf(tenantObject).filter((name) => !hasSecret(name, tenantObject, context));
  if (missing.length === 0) return {};
  const message = `the Secrets ${missing.join(', ')} do not exist; until they do, the Ingress works without these certificates`;
  return { notice: warning('CertificateMissing', message) };
}

function hasSecret(name: string, { metadata }: KubeObject, { tenantObjects }: SyncContext): boolean {
  return tenantObjects.get(resources.secrets, { namespace: metadata.namespace, name }) !== undefined;
}

/** A class of the tenant's own is for a controller of its own. */
function isOwnClass(name: string, { tenantObjects }: SyncContext): boolean {
  const there = tenantObjects.get(resources.ingressClasses, { name });
  return there !== undefined && originalUid(there) === undefined;
}

function staticRefusal(tenantObject: KubeObject, tenant: TenantInfo): Admission | undefined {
  const spec = specOf(tenantObject);
  if (hasMoreEntries(spec, maxEntries))
    return refused(
      'NotSupported',
      `an Ingress can have ${maxEntries} rules, paths, certificates and hosts here, taken together: use several`,
    );
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
  const { ingressHosts } = tenant.policy;
  const hosts = hostsNotAllowed(spec, ingressHosts);
  if (hosts.length > 0) {
    const named = hosts.map((host) => (host === '' ? 'every host (a rule without one)' : host)).join(', ');
    const allowed = ingressHosts.length === 0 ? 'none' : ingressHosts.join(', ');
    return refused('HostNotAllowed', `this cluster may not claim ${named}; allowed: ${allowed}`);
  }
  const reserved = secretsOf(tenantObject).find(isReserved);
  if (reserved !== undefined) return { wanted: false, notice: reservedNotice(reserved) };
  return undefined;
}

/**
 * By what is said in the super cluster alone: it goes when it claims what its tenant may not have, and loses annotations
 * that the operator has withdrawn.
 */
function enforce(
  superObject: KubeObject,
  _: KubeObject | undefined,
  context: SyncContext,
): readonly Action[] {
  const { tenant, superObjects } = context;
  const spec = specOf(superObject);
  const { namespace } = superObject.metadata;
  const name = classOf(superObject) ?? '';
  const ingressClass = superObjects.get(resources.ingressClasses, { name });
  const isRefused =
    spec.defaultBackend !== undefined ||
    hostsNotAllowed(spec, tenant.policy.ingressHosts).length > 0 ||
    // One that is gone may be on its way back, as while a controller is installed anew; none acts on it meanwhile.
    (ingressClass !== undefined && !isPublishedTo(resources.ingressClasses, ingressClass, context)) ||
    servicesOf(superObject).some((service) =>
      isExternalName(superObjects.get(resources.services, { namespace, name: service })),
    );
  if (isRefused) return [{ do: 'deleteSuper' }];
  const patch = refusedAnnotationsPatch(
    superObject,
    (key) => isAllowed(key, tenant) && goesDown(key, tenant),
  );
  return patch === undefined ? [] : [{ do: 'patchSuper', patch }];
}

/** `namespace/name` of the Services that an Ingress leads to in the super cluster. */
function servicesInSuper(superObject: KubeObject): readonly string[] {
  return servicesOf(superObject).map((name) => `${superObject.metadata.namespace}/${name}`);
}

function ownServices(superObject: KubeObject): readonly KeyRef[] {
  const namespace = tenantNamespaceOf(superObject);
  if (namespace === undefined) return [];
  return servicesOf(superObject).map((name) => ({ kind: 'services', namespace, name }));
}

/**
 * The controller would fetch from any name that it can resolve, in the super cluster's name. There a Service can be an
 * ExternalName longer than in the tenant: while its change or its deletion is held back.
 */
function leadsElsewhere(
  tenantObject: KubeObject,
  services: ReadonlySet<string>,
  { tenant, tenantObjects, superObjects }: SyncContext,
): Admission | undefined {
  const { namespace = '' } = tenantObject.metadata;
  const among = (objects: Lookup, of: string): string | undefined =>
    objects
      .byIndex(resources.services, 'externalNames', of)
      .map(({ metadata: { name = '' } }) => name)
      .find((name) => services.has(name));
  const own = among(tenantObjects, namespace);
  if (own !== undefined)
    return refused('NotSupported', `Service ${own} is an ExternalName and cannot be a backend of an Ingress`);
  const below = among(superObjects, superNamespaceName(tenant, namespace));
  if (below === undefined) return undefined;
  return refused(
    'NotSupported',
    `Service ${below} is still an ExternalName in the cluster, and no backend of an Ingress until it is none there`,
  );
}

function isExternalName(service: KubeObject | undefined): boolean {
  return (service?.['spec'] as { type?: string } | undefined)?.type === 'ExternalName';
}

/** Ingress: host names of the tenant, served by controllers that all tenants share. */
export const ingressKind: DownKind = {
  name: 'ingresses',
  resource: resources.ingresses,
  direction: 'down',
  references: {
    of: referencesOf,
    needed: ['secrets'],
    needs: (ingress, context) => refusalOf(ingress, context) === undefined,
    // Whether a class is offered, and what a Service leads to, decides whether an Ingress goes down; whether there is
    // a Secret, whether its name does.
    followed: ['ingressclasses', 'services', 'secrets'],
  },
  // A Service becomes an ExternalName when no Ingress leads to it any more.
  indexes: { super: { byService: servicesInSuper } },
  touches: { super: ownServices },
  admit,
  enforce,
  requires,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      metadata: superMetadata(
        withAllowedAnnotations(tenantObject, context.tenant),
        context,
        allAnnotations(context),
      ),
      spec: wantedSpec(tenantObject, context),
    };
  },
  down,
  up,
};

/** Each once: the Secrets and Services that it names, and its class. */
function referencesOf(ingress: KubeObject): KeyRef[] {
  const { namespace } = ingress.metadata;
  const name = classOf(ingress);
  return [
    ...(name === undefined ? [] : [{ kind: 'ingressclasses', name }]),
    ...secretsOf(ingress).map((name) => ({ kind: 'secrets', namespace, name })),
    ...servicesOf(ingress).map((name) => ({ kind: 'services', namespace, name })),
  ];
}

/**
 * Hosts of a certificate are said where the tenant object leaves them out, or empty: to a controller that could mean every
 * host. One that is for none does not go down.
 * A Secret that the tenant does not have is not named: a Secret of its name in the super namespace is not the tenant's.
 */
function wantedSpec(tenantObject: KubeObject, context: SyncContext): IngressSpec {
  const { rules = [], tls } = knownPart(specOf(tenantObject), specShape) as IngressSpec;
  const className = classOf(tenantObject);
  const hosts = [...new Set(rules.flatMap(({ host }) => (host === undefined ? [] : [host])))];
  const certificate = ({ secretName = '', hosts: own = [], ...rest }: IngressTls): IngressTls[] => {
    const ofHosts = own.length > 0 ? own : hosts;
    const known = secretName !== '' && hasSecret(secretName, tenantObject, context);
    return ofHosts.length === 0 ? [] : [{ ...rest, hosts: ofHosts, ...(known ? { secretName } : {}) }];
  };
  return withoutUndefined({ ingressClassName: className, tls: tls?.flatMap(certificate), rules });
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const allowed = withAllowedAnnotations(tenantObject, context.tenant);
  const metadata = superMetadataPatch(allowed, superObject, context, allAnnotations(context));
  const wanted = wantedSpec(tenantObject, context);
  const there = knownPart(specOf(superObject), specShape) as IngressSpec;
  const spec = fieldsPatch(there, wanted, ownedFields);
  if (metadata === undefined && spec === undefined) return [];
  const actions: Action[] = [];
  // A Secret goes down before its name, as where an Ingress is made.
  const named = secretsOf(superObject);
  const { namespace } = tenantObject.metadata;
  const keys = secretNames(wanted)
    .filter((name) => !named.includes(name))
    .map((name): KeyRef => ({ kind: 'secrets', namespace, name }));
  if (keys.length > 0) actions.push({ do: 'require', keys });
  actions.push({ do: 'patchSuper', patch: withoutUndefined({ ...metadata, spec }) });
  const { notice } = leftOut(tenantObject, context);
  if (notice !== undefined) actions.push({ do: 'notice', notice });
  return actions;
}

const ownedFields = ['ingressClassName', 'defaultBackend', 'tls', 'rules'] as const;

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
