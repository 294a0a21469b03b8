import ipaddr from 'ipaddr.js';
import { type Resource, resources } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import { originalUid } from '../../mapping/labels.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import { memoized } from '../memoized.ts';
import { hasAddress, isOfApiServer, type Service, type ServicePort } from '../services/types.ts';
import {
  type Container,
  type EnvFromSource,
  type EnvVar,
  mapContainers,
  type Pod,
  type PodStep,
} from './types.ts';

/** Where pods reach a Service of the tenant; undefined: it has no address of its own. */
export function serviceAddress(service: Service, context: SyncContext): string | undefined {
  return superAddress(service, context) ?? ownAddress(service);
}

/**
 * Where pods reach the tenant's API server: on port 443 of this address (sync rules `api-server-variables` and
 * `kubernetes-service`).
 */
function apiServerAddress(context: SyncContext): string | undefined {
  const { apiServer, serviceIpMode } = context.tenant;
  // Where the tenant's own address leads nowhere, that of the API server's Service does.
  if (apiServer.isService && serviceIpMode === 'assigned') return apiServer.address;
  const service = context.tenantObjects.get<Service>(resources.services, {
    namespace: 'default',
    name: 'kubernetes',
  });
  const address = service === undefined ? undefined : serviceAddress(service, context);
  // An API server gives its Service the first address of its range, and makes the Service again when it is gone.
  return address ?? context.tenant.serviceCidrs.map(firstAddress)[0];
}

/**
 * The tenant object is about to follow the super object, which was given its address; what is written into a pod stays
 * there.
 */
function superAddress({ metadata }: Service, context: SyncContext): string | undefined {
  const { tenant, superObjects } = context;
  if (tenant.serviceIpMode !== 'assigned') return undefined;
  const { namespace = '', name = '', uid } = metadata;
  const ref = { namespace: superNamespaceName(tenant, namespace), name };
  const s = superObjects.get<Service>(resources.services, ref);
  return s !== undefined && originalUid(s) === uid ? ownAddress(s) : undefined;
}

function ownAddress({ spec = {} }: Service): string | undefined {
  return hasAddress(spec) ? spec.clusterIP : undefined;
}

/** The one behind the base of a CIDR, which an API server never hands out. */
function firstAddress(cidr: string): string {
  const bytes = ipaddr.parseCIDR(cidr)[0].toByteArray();
  bytes.push((bytes.pop() ?? 0) + 1);
  return ipaddr.fromByteArray(bytes).toString();
}

/**
 * The variables by which kubelet tells a container where a Service is, as name and value (sync rule
 * `service-variables`).
 * A name that two Services share is not told apart.
 * https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 */
function serviceVariables(
  name: string,
  address: string,
  ports: readonly ServicePort[],
): [name: string, value: string][] {
  const [first] = ports;
  if (first === undefined) return [];
  const prefix = variableName(name);
  const named = ports.filter((port) => (port.name ?? '') !== '');
  return [
    [`${prefix}_SERVICE_HOST`, address],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...named.map((port): [string, string] => [
      `${prefix}_SERVICE_PORT_${variableName(port.name ?? '')}`,
      String(port.port),
    ]),
    [`${prefix}_PORT`, urlOf(first, address)],
    ...ports.flatMap((port) => portVariables(prefix, port, address)),
  ];
}

function portVariables(prefix: string, port: ServicePort, address: string): [string, string][] {
  const ofPort = `${prefix}_PORT_${port.port}_${protocolOf(port)}`;
  return [
    [ofPort, urlOf(port, address)],
    [`${ofPort}_PROTO`, protocolOf(port).toLowerCase()],
    [`${ofPort}_PORT`, String(port.port)],
    [`${ofPort}_ADDR`, address],
  ];
}

function urlOf(port: ServicePort, address: string): string {
  const host = address.includes(':') ? `[${address}]` : address;
  return `${protocolOf(port).toLowerCase()}://${host}:${port.port}`;
}

function protocolOf({ protocol = 'TCP' }: ServicePort): string {
  return protocol.toUpperCase();
}

function variableName(name: string): string {
  return name.replaceAll('-', '_').toUpperCase();
}

/**
 * What kubelet would put into each container of the tenant object beside what that asks for itself: where the API
 * server is, and the Services of the tenant object's namespace as they are now (sync rules `api-server-variables` and
 * `service-variables`). In an order that depends on nothing but names, and under a name that two Services share, always
 * with the value of the same.
 */
function clusterVariables(pod: Pod, context: SyncContext): ReadonlyMap<string, string> {
  const address = apiServerAddress(context);
  // Whatever the tenant makes of that Service: these are the names that the super cluster's kubelet sets too.
  const apiServer = address === undefined ? [] : serviceVariables('kubernetes', address, [apiServerPort]);
  const variables = new Map(apiServer);
  if (pod.spec?.enableServiceLinks === false) return variables;
  const { services } = servicesIn(context.tenantObjects, pod.metadata.namespace ?? '');
  for (const service of services) {
    const where = serviceAddress(service, context);
    if (where === undefined) continue;
    const { metadata, spec } = service;
    for (const [name, value] of serviceVariables(metadata.name ?? '', where, spec?.ports ?? [])) {
      variables.set(name, value);
    }
  }
  return variables;
}

/** What an API server's datastore accepts in one request (etcd's default), bytes. */
const maxVariablesBytes = 1_572_864;
/** JSON around a variable, the longest suffix of its name, and an address with its port, bytes. */
const variableOverheadBytes = 70;

/** What of containers their variables depend on. */
interface AskedVariables {
  /** How many containers are given variables of Services, or have them already. */
  readonly containers: number;
  /** Of those that are given variables. */
  readonly sources: readonly VariableSource[];
}

/**
 * Why containers of a pod cannot be given the variables of Services; undefined: they can. From numbers and lengths, before
 * anything is built: a tenant may have thousands of ports and keys, and a pod thousands of containers and sources, and
 * their products are what would be made.
 */
export function excessiveVariables(
  pod: Pod,
  { containers, sources }: AskedVariables,
  context: SyncContext,
): string | undefined {
  return (
    excessiveServiceVariables(pod, containers, context) ??
    excessiveSources(sources, pod.metadata.namespace, context)
  );
}

function excessiveServiceVariables(pod: Pod, containers: number, context: SyncContext): string | undefined {
  if (pod.spec?.enableServiceLinks === false) return undefined;
  const { variablesBytes: bytes } = servicesIn(context.tenantObjects, pod.metadata.namespace ?? '');
  if (bytes * containers <= maxVariablesBytes) return undefined;
  return (
    `the variables of the Services in its namespace, in each of its ${containers} containers, would take about ` +
    `${Math.ceil((bytes * containers) / 1_048_576)} MiB, more than the ${maxVariablesBytes / 1_048_576} MiB that a pod can have. ` +
    'Set spec.enableServiceLinks to false, or use fewer Services, ports or containers'
  );
}

/** All containers together. Some fifty sources with as many keys as are known of one at most. */
const maxSourcedNames = 100_000;

function excessiveSources(
  sources: readonly VariableSource[],
  namespace: string | undefined,
  context: SyncContext,
): string | undefined {
  let names = 0;
  for (const { resource, name, times } of sources)
    names += times * context.dataKeysOf(resource, { namespace, name }).length;
  if (names <= maxSourcedNames) return undefined;
  return (
    `its containers take ${names} variables from ConfigMaps and Secrets (envFrom), more than the ${maxSourcedNames} that can be ` +
    'told from the variables of Services. Use fewer sources, or sources with fewer keys'
  );
}

const apiServerPort = { name: 'https', port: 443 };

/** The Services of a namespace of the tenant that its pods have variables of, by name, and what those take. */
const servicesIn = memoized(resources.services, (objects, namespace) => {
  const services = objects
    .byIndex<Service>(resources.services, 'byNamespace', namespace)
    .filter((service) => !isOfApiServer(service))
    .sort((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
  let variablesBytes = 0;
  for (const { metadata, spec: { ports = [] } = {} } of services) {
    const variables = 3 + 5 * ports.length;
    variablesBytes += variables * ((metadata.name ?? '').length + variableOverheadBytes);
  }
  return { services, variablesBytes };
});

/**
 * Names of variables of which a container would see nothing, were they the first in its `env`: its own
 * entries replace them before any entry refers to them. Not among them is one whose entry may come to nothing
 * (`optional`), and one that an entry asks for as `$(NAME)` before, or while, it is set.
 */
function replacedNames(env: readonly EnvVar[]): Set<string> {
  const asked = new Set<string>();
  const replaced = new Set<string>();
  for (const variable of env) {
    for (const [, name = ''] of (variable.value ?? '').matchAll(references)) asked.add(name);
    if (!isOptional(variable) && !asked.has(variable.name)) replaced.add(variable.name);
  }
  return replaced;
}

/**
 * Every beginning of a reference counts: which of them is escaped depends on all that stands before. No longer than
 * any name that is written here: a value may be a megabyte of beginnings.
 */
const references = /\$\((?=([^)]{1,256})\))/g;

function isOptional({ valueFrom = {} }: EnvVar): boolean {
  const { configMapKeyRef, secretKeyRef, fileKeyRef } = valueFrom;
  return [configMapKeyRef, secretKeyRef, fileKeyRef].some((source) => source?.optional === true);
}

/** A ConfigMap or Secret of which containers take all keys as variables, by the tenant object's name. */
export interface VariableSource {
  readonly resource: Resource;
  readonly name: string;
  /** In how many entries of `envFrom`. */
  readonly times: number;
}

/** Each once. */
export function variableSources(containers: readonly Container[]): readonly VariableSource[] {
  const found = new Map<string, VariableSource>();
  for (const { envFrom } of containers) {
    for (const entry of envFrom ?? []) {
      const source = sourceOf(entry);
      if (source === undefined) continue;
      const id = `${source.resource.plural}/${source.name}`;
      found.set(id, { ...source, times: (found.get(id)?.times ?? 0) + 1 });
    }
  }
  return [...found.values()];
}

function sourceOf({ configMapRef, secretRef }: EnvFromSource): Omit<VariableSource, 'times'> | undefined {
  const resource = configMapRef === undefined ? resources.secrets : resources.configMaps;
  const { name } = configMapRef ?? secretRef ?? {};
  return name === undefined ? undefined : { resource, name };
}

/** No variable of a Service has a longer name. */
const longestName = 256;

/**
 * Names of variables that a container takes from whole ConfigMaps and Secrets, as far as those are there;
 * `binaryData` of a ConfigMap becomes no variables. Without those that no variable of a Service can have: a prefix may be a
 * megabyte.
 * The container's sources are in the tenant object's names.
 */
function sourcedNames(
  { envFrom }: Container,
  namespace: string | undefined,
  context: SyncContext,
): Set<string> {
  const names = new Set<string>();
  for (const entry of envFrom ?? []) {
    const source = sourceOf(entry);
    if (source === undefined) continue;
    const { prefix = '' } = entry;
    for (const key of context.dataKeysOf(source.resource, { namespace, name: source.name }))
      if (prefix.length + key.length <= longestName) names.add(prefix + key);
  }
  return names;
}

/**
 * Sync rules `api-server-variables` and `service-variables`: kubelet would tell of the super cluster's API server and
 * the super namespace's Services. It is told not to of the latter, and both are written here as the tenant object's
 * kubelet would tell of them.
 */
export const environment: PodStep = (spec, pod, context) => {
  const variables = clusterVariables(pod, context);
  const { namespace } = pod.metadata;
  const told = { ...spec, enableServiceLinks: false };
  if (variables.size === 0) return told;
  return mapContainers(told, (container) =>
    withVariables(container, variables, sourcedNames(container, namespace, context)),
  );
};

/**
 * They come first, so that the container's own entries replace them and can ask for their values. To
 * kubelet an entry also comes before any source: what a source defines must not be written.
 */
function withVariables(
  container: Container,
  variables: ReadonlyMap<string, string>,
  sourced: ReadonlySet<string>,
): Container {
  const own = container.env ?? [];
  const replaced = replacedNames(own);
  const written = [...variables]
    .filter(([name]) => !sourced.has(name) && !replaced.has(name))
    .map(([name, value]) => ({ name, value }));
  return written.length === 0 ? container : { ...container, env: [...written, ...own] };
}
