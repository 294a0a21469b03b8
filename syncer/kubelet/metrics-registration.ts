import { isIPv6 } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { labelKeys } from '../../api/labels.ts';
import {
  type Clock,
  ignoreNotFound,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
  resource,
  resources,
} from '../../kube/index.ts';
import { metricsGroup } from './metrics-api.ts';

const apiServices = resource('apiregistration.k8s.io', 'v1', 'apiservices', 'APIService', false);
const apiServiceName = `v1beta1.${metricsGroup}`;
/** Our certificate, which the manager issues, has to be valid for `<name>.<namespace>.svc`. */
const service = { namespace: 'kube-system', name: 'skerry-metrics' };
const port = 443;
const portName = 'https';
const checkEveryMs = 60_000;

export interface RegistrationOptions {
  /** The tenant's API server. */
  client: KubeClient;
  clock: Clock;
  /** The address at which it reaches us. */
  endpoint: { readonly address: string; readonly port: number };
  /** PEM of the authority that has issued our present certificate. */
  ca: () => string;
  /** Whether there are metrics to serve. */
  hasSource: (signal: AbortSignal) => Promise<boolean>;
  onProblem: (error: unknown) => void;
}

/**
 * Keeps metrics.k8s.io registered with the tenant's API server, served by us, until aborted. Removes it while there are
 * no metrics to serve: an API that cannot be reached keeps namespaces from being deleted. An APIService that the tenant
 * has registered itself is left alone. `endpoint` may not be loopback.
 */
export async function keepRegistered(options: RegistrationOptions, signal: AbortSignal): Promise<void> {
  const { clock, onProblem } = options;
  while (!signal.aborted) {
    try {
      if (await options.hasSource(signal)) await register(options, signal);
    } catch (error) {
      if (!signal.aborted) onProblem(error);
    }
    await clock.sleep(checkEveryMs, signal).catch(() => undefined);
  }
}

async function register(options: RegistrationOptions, signal: AbortSignal): Promise<void> {
  const { client } = options;
  const present = await ignoreNotFound(client.get(apiServices, { name: apiServiceName }, { signal }));
  if (present !== undefined && !isOurs(present)) return;
  // In this order, as the API server tries an API as soon as it hears of it.
  await ensure(client, resources.services, serviceObject(), signal);
  await ensure(client, resources.endpointSlices, sliceObject(options.endpoint), signal);
  await ensure(client, apiServices, apiServiceObject(options.ca()), signal);
}

function isOurs(apiService: KubeObject): boolean {
  const to = (apiService['spec'] as { service?: { namespace?: string; name?: string } } | undefined)?.service;
  return to?.namespace === service.namespace && to.name === service.name;
}

/** Objects in the tenant's API server only; nothing stands for them in the super cluster. */
const labels = { 'app.kubernetes.io/managed-by': 'skerry', [labelKeys.sync]: 'false' };

function serviceObject(): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...service, labels },
    // The API server goes to the endpoint itself; an address would be one less for the tenant.
    spec: { clusterIP: 'None', ports: [{ name: portName, port, protocol: 'TCP', targetPort: port }] },
  };
}

function sliceObject({ address, port: kubeletPort }: RegistrationOptions['endpoint']): KubeObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...service, labels: { ...labels, 'kubernetes.io/service-name': service.name } },
    addressType: isIPv6(address) ? 'IPv6' : 'IPv4',
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: portName, port: kubeletPort, protocol: 'TCP' }],
  };
}

function apiServiceObject(ca: string): KubeObject {
  return {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: apiServiceName, labels },
    spec: {
      group: metricsGroup,
      version: 'v1beta1',
      service: { ...service, port },
      caBundle: Buffer.from(ca).toString('base64'),
      groupPriorityMinimum: 100,
      versionPriority: 100,
    },
  };
}

/** Creates an object, or puts back what of it matters here. */
async function ensure(
  client: KubeClient,
  kind: Resource,
  wanted: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  const { namespace, name = '' } = wanted.metadata;
  const ref = { name, namespace };
  const present = await ignoreNotFound(client.get(kind, ref, { signal }));
  if (present === undefined) {
    await client.create(kind, wanted, { signal }).catch((error: unknown) => {
      // Another client was faster; the next check looks at its object.
      if (!isAlreadyExists(error)) throw error;
    });
    return;
  }
  if (contains(present, wanted)) return;
  const { apiVersion: _apiVersion, kind: _kind, metadata, ...content } = wanted;
  const { uid, resourceVersion } = present.metadata;
  const patch = { ...content, metadata: { labels: metadata.labels, uid, resourceVersion } };
  await client.patch(kind, ref, patch, { type: 'merge', signal });
}

/** Whether all that is wanted is there; what the server or others have added does not count. */
function contains(present: unknown, wanted: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null) return isDeepStrictEqual(present, wanted);
  if (typeof present !== 'object' || present === null) return false;
  if (Array.isArray(wanted) && (!Array.isArray(present) || present.length !== wanted.length)) return false;
  return Object.entries(wanted).every(([key, value]) =>
    contains((present as Record<string, unknown>)[key], value),
  );
}
