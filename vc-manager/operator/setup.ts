import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import { labelKeys } from '../../api/labels.ts';
import { group, kubeletProxySecretName, version } from '../../api/names.ts';
import {
  type Clock,
  encodeSecretData,
  ignoreNotFound,
  isDeniedByAdmission,
  isNotFound,
  type KubeClient,
  type KubeObject,
  resources,
  serverVersion,
} from '../../kube/index.ts';
import { widestServiceRange } from '../os/network.ts';
import type { ManagerPki } from '../pki/index.ts';
import { ensureCrds } from './ensure-crds.ts';
import { ensureObject } from './objects.ts';
import type { ServicePool, Services } from './services.ts';
import type { OperatorSettings } from './settings.ts';

/** Identity of a cluster: UID of its kube-system namespace. */
export async function uidOfKubeSystem(client: KubeClient, signal: AbortSignal): Promise<string> {
  const { metadata } = await client.get(resources.namespaces, { name: 'kube-system' }, { signal });
  return metadata.uid ?? '';
}

interface SetupOptions {
  client: KubeClient;
  settings: OperatorSettings;
  templates: readonly ControlPlaneTemplate[];
  managerPki: () => Promise<ManagerPki>;
  clock: Clock;
  logger: Logger;
}

/** Creates the namespace for Skerry's own objects if it is missing; one that exists stays as it is. */
export async function ensureNamespace(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  if ((await ignoreNotFound(client.get(resources.namespaces, { name }, { signal }))) !== undefined) return;
  const namespace = { metadata: { name, labels: { [labelKeys.managedBy]: 'skerry' } } };
  await ensureObject(client, resources.namespaces, namespace, { signal, likely: 'absent' });
}

export type SuperClusterFacts = Pick<Services, 'pool' | 'superIdentity' | 'superVersion' | 'managerPki'>;

/** Reads what the leader has prepared, for a manager that does not lead. Changes nothing. */
export async function readSuperClusterFacts(
  client: KubeClient,
  settings: OperatorSettings,
  signal: AbortSignal,
): Promise<Omit<SuperClusterFacts, 'managerPki'>> {
  const [pool, superIdentity, superVersion] = await Promise.all([
    readServicePool(client, settings, signal),
    uidOfKubeSystem(client, signal),
    serverVersion(client, { signal }),
  ]);
  return { pool, superIdentity, superVersion };
}

/** All that the super cluster needs before the first VirtualCluster. May be repeated at any time. */
export async function prepareSuperCluster(
  { client, settings, templates, managerPki, clock, logger }: SetupOptions,
  signal: AbortSignal,
): Promise<SuperClusterFacts> {
  await ensureCrds(client, { clock, signal });
  await ensureDeletionProtection(client, logger, signal);
  await ensureTemplates(client, templates, signal);
  const handedOn = withKubeletProxySecret(managerPki, client, settings.namespace, signal);
  await handedOn();
  const pool = await ensureServicePool(client, settings, logger, signal);
  return {
    managerPki: handedOn,
    pool,
    superIdentity: await uidOfKubeSystem(client, signal),
    superVersion: await serverVersion(client, { signal }),
  };
}

const deletionProtectionName = 'deletion-protection.skerry.dev';
const deletionProtectionMetadata = {
  name: deletionProtectionName,
  labels: { [labelKeys.managedBy]: 'skerry' },
};

/**
 * Has the super cluster refuse to delete a VirtualCluster with `spec.deletionProtection`, for any user: a deletion
 * cannot be taken back once Kubernetes has accepted it. Namespaces with such a VirtualCluster stay as well.
 */
const deletionProtectionPolicy = {
  metadata: deletionProtectionMetadata,
  spec: {
    failurePolicy: 'Fail',
    matchConstraints: {
      matchPolicy: 'Equivalent',
      namespaceSelector: {},
      objectSelector: {},
      resourceRules: [
        {
          apiGroups: [group],
          apiVersions: [version],
          operations: ['DELETE'],
          resources: ['virtualclusters'],
          scope: '*',
        },
      ],
    },
    validations: [
      {
        expression:
          '!has(oldObject.spec) || !has(oldObject.spec.deletionProtection) || !oldObject.spec.deletionProtection',
        message: 'spec.deletionProtection is set: set it to false first',
        reason: 'Forbidden',
      },
    ],
  },
} satisfies KubeObject;

const deletionProtectionBinding = {
  metadata: deletionProtectionMetadata,
  spec: { policyName: deletionProtectionName, validationActions: ['Deny'] },
} satisfies KubeObject;

/** Has the super cluster hold to `spec.deletionProtection`. One before 1.30 cannot, which the log says. */
export async function ensureDeletionProtection(
  client: KubeClient,
  logger: Pick<Logger, 'warn'>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await ensureObject(client, resources.validatingAdmissionPolicies, deletionProtectionPolicy, { signal });
    await ensureObject(client, resources.validatingAdmissionPolicyBindings, deletionProtectionBinding, {
      signal,
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    logger.warn(
      'the super cluster has no ValidatingAdmissionPolicies: spec.deletionProtection holds for vc-manager only, not for kubectl',
    );
  }
}

interface ServiceCIDR extends KubeObject {
  spec?: { cidrs?: string[] };
}

const servicePoolName = 'skerry-tenants';

/** The pool as the leader has prepared it. */
async function readServicePool(
  client: KubeClient,
  settings: OperatorSettings,
  signal: AbortSignal,
): Promise<ServicePool> {
  const known = await listServiceCIDRs(client, signal);
  const cidr = poolAmong(known);
  if (cidr !== undefined) return { cidr, mode: 'slice', superRanges: rangesOf(known) };
  // The leader could not make it.
  return assignedPool(client, settings, known, signal);
}

/**
 * Makes the super cluster serve the pool of service addresses. An existing pool stays, whatever the setting says: tenants
 * have addresses of it, and its range cannot be changed.
 */
async function ensureServicePool(
  client: KubeClient,
  settings: OperatorSettings,
  logger: Logger,
  signal: AbortSignal,
): Promise<ServicePool> {
  const wanted = settings.servicePool;
  const known = await listServiceCIDRs(client, signal);
  if (known === undefined) {
    logger.warn(
      'the super cluster has no ServiceCIDR: it assigns the address of every service, which is slower',
    );
    return assignedPool(client, settings, known, signal);
  }
  if (known.some((each) => isPool(each) && isTerminating(each))) {
    logger.warn(
      `ServiceCIDR ${servicePoolName} is being deleted, which takes until no Service has an address of it: the super cluster assigns the address of every service, which is slower; to change that, wait until it is gone and start the manager anew`,
    );
    return assignedPool(client, settings, known, signal);
  }
  const cidr = poolAmong(known);
  if (cidr !== undefined) {
    if (cidr !== wanted)
      logger.warn(
        { pool: cidr, setting: wanted },
        `ServiceCIDR ${servicePoolName} has another range: it is used`,
      );
    return { cidr, mode: 'slice', superRanges: rangesOf(known) };
  }
  const object: ServiceCIDR = {
    metadata: { name: servicePoolName, labels: { [labelKeys.managedBy]: 'skerry' } },
    spec: { cidrs: [wanted] },
  };
  try {
    await ensureObject(client, resources.serviceCidrs, object, { signal });
  } catch (error) {
    if (!isDeniedByAdmission(error)) throw error;
    logger.warn(
      { reason: error.message },
      `a policy of the super cluster refuses the ServiceCIDR ${servicePoolName}: the super cluster assigns the address of every service, which is slower; to change that, allow it and start the manager anew`,
    );
    return assignedPool(client, settings, known, signal);
  }
  return { cidr: wanted, mode: 'slice', superRanges: [...rangesOf(known), wanted] };
}

async function assignedPool(
  client: KubeClient,
  { servicePool }: OperatorSettings,
  known: readonly ServiceCIDR[] | undefined,
  signal: AbortSignal,
): Promise<ServicePool> {
  const superRanges = known === undefined ? await widestServiceRanges(client, signal) : rangesOf(known);
  return { cidr: servicePool, mode: 'assigned', superRanges };
}

/** Undefined: a super cluster before 1.33, which does not know the kind. */
async function listServiceCIDRs(client: KubeClient, signal: AbortSignal): Promise<ServiceCIDR[] | undefined> {
  return (await ignoreNotFound(client.list<ServiceCIDR>(resources.serviceCidrs, { signal })))?.items;
}

function isPool({ metadata }: ServiceCIDR): boolean {
  return metadata.name === servicePoolName;
}

/** The super cluster gives out no more addresses of it, not even those that a Service asks for. */
function isTerminating({ metadata }: ServiceCIDR): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function poolAmong(known: readonly ServiceCIDR[] | undefined): string | undefined {
  return known?.find((each) => isPool(each) && !isTerminating(each))?.spec?.cidrs?.[0];
}

function rangesOf(known: readonly ServiceCIDR[] | undefined): string[] {
  return (known ?? [])
    .filter((each) => !isTerminating(each))
    .flatMap(({ spec }) => spec?.cidrs ?? [])
    .filter((cidr) => !cidr.includes(':'));
}

interface Service extends KubeObject {
  spec?: { clusterIP?: string };
}

/** An API server gives its own Service the first address of the range, which nothing else tells before 1.33. */
export async function widestServiceRanges(client: KubeClient, signal: AbortSignal): Promise<string[]> {
  const ref = { namespace: 'default', name: 'kubernetes' };
  const address = (await ignoreNotFound(client.get<Service>(resources.services, ref, { signal })))?.spec
    ?.clusterIP;
  return address === undefined || address.includes(':') ? [] : [widestServiceRange(address)];
}

/** Annotation: hash of the spec that the manager wrote. An edited template has another one. */
const writtenKey = 'skerry.dev/template-hash';

/** Puts the packaged templates into the super cluster. One that an operator has edited is left alone. */
export async function ensureTemplates(
  client: KubeClient,
  templates: readonly ControlPlaneTemplate[],
  signal: AbortSignal,
): Promise<void> {
  for (const { metadata, spec } of templates) {
    const existing = await ignoreNotFound(
      client.get(resources.controlPlaneTemplates, { name: metadata.name }, { signal }),
    );
    if (existing !== undefined && existing.metadata.annotations?.[writtenKey] !== hashOf(existing['spec']))
      continue;
    const object: KubeObject = {
      metadata: {
        name: metadata.name,
        labels: { [labelKeys.managedBy]: 'skerry' },
        annotations: { [writtenKey]: hashOf(spec) },
      },
      spec,
    };
    if (existing !== undefined) {
      if (existing.metadata.annotations?.[writtenKey] === hashOf(spec)) continue;
      // Replaced, not merged: flags that the new template has dropped have to go.
      const { resourceVersion } = existing.metadata;
      const replacement = {
        ...object,
        metadata: { ...object.metadata, ...(resourceVersion && { resourceVersion }) },
      };
      await client.update(resources.controlPlaneTemplates, replacement, { signal });
    } else {
      await ensureObject(client, resources.controlPlaneTemplates, object, { signal });
    }
  }
}

function hashOf(spec: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(ordered(spec)))
    .digest('hex')
    .slice(0, 16);
}

/** With fields in one order, so that equal values have equal hashes. */
function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, each]) => [key, ordered(each)]);
}

/**
 * The manager's PKI; before it is returned for the first time, and after each renewal, the Secret is written from which
 * the syncer takes the certificate that it presents to tenants.
 */
export function withKubeletProxySecret(
  managerPki: () => Promise<ManagerPki>,
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): () => Promise<ManagerPki> {
  let written: string | undefined;
  return async () => {
    const pki = await managerPki();
    if (pki.kubeletProxy.certPem !== written) {
      await ensureKubeletProxySecret(client, namespace, pki, signal);
      written = pki.kubeletProxy.certPem;
    }
    return pki;
  };
}

/** What the syncer presents to tenant API servers that take it for a kubelet, and how it knows them. */
async function ensureKubeletProxySecret(
  client: KubeClient,
  namespace: string,
  { kubeletProxy, kubeletProxyCa }: ManagerPki,
  signal: AbortSignal,
): Promise<void> {
  const data = {
    'tls.crt': kubeletProxy.certPem,
    'tls.key': kubeletProxy.keyPem,
    'ca.crt': kubeletProxyCa.certPem,
  };
  const secret: KubeObject = {
    metadata: { name: kubeletProxySecretName, namespace, labels: { [labelKeys.managedBy]: 'skerry' } },
    type: 'kubernetes.io/tls',
    data: encodeSecretData(data),
  };
  await ensureObject(client, resources.secrets, secret, { signal });
}
