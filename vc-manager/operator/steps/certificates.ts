import { hash } from 'node:crypto';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import { kubeconfigKey, secretNames } from '../../../api/names.ts';
import { type KubeObject, renderKubeconfig, resources } from '../../../kube/index.ts';
import { isHeld } from '../../jobs/job-status.ts';
import { addressAt } from '../../os/network.ts';
import {
  type EncryptionState,
  encryptionData,
  ensureEncryption,
  ensureTenantPki,
  type KeyPair,
  writingKey,
} from '../../pki/index.ts';
import { pkiLost, secretNotOurs } from '../errors.ts';
import { recordRenewed, renewalRequest, rotationRequest } from '../jobs.ts';
import { ensureObject, find } from '../objects.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';

/**
 * Authorities, keys and certificates, kept in a Secret. Written before anything uses them: keys that only
 * a process knew would be lost with it. Renews what is due, and everything when the annotation asks for it.
 */
export const certificates: Step = {
  name: 'certificates',
  doing: 'Issuing certificates',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { settings, clock } = services;
    const { spec, status } = tenant.vc;
    const heldUntil = isHeld(tenant.vc, 'renewal', clock.now()) ? status?.jobs?.renewalHeldUntil : undefined;
    const name = secretNames(tenant.ref.name).pki;
    const stored = await readSecret(tenant, services, name);
    // Components that were started trust the lost authorities.
    if (stored === undefined && tenant.wasStarted) throw pkiLost(tenant.ref.namespace, name);
    const { etcdCa } = await services.managerPki();
    const renewal = renewalRequest(tenant.vc);
    const { location } = tenant;
    const ensured = await ensureTenantPki(stored, {
      id: tenant.id,
      clusterDomain: spec?.clusterDomain ?? 'cluster.local',
      serviceAddress: addressAt(tenant.required(status?.serviceCIDR, 'service slice'), 1),
      hosts: [
        ...(location === undefined
          ? [settings.endpointHost, settings.advertiseAddress]
          : [location.host, ...location.names]),
        ...settings.extraHosts,
        ...(spec?.extraNames ?? []),
      ],
      etcdCa,
      wasStarted: tenant.wasStarted,
      renewal,
      isHeld: heldUntil !== undefined,
      ...(location?.datastore === undefined
        ? {}
        : {
            ownDatastore: {
              hosts: [location.datastore.host, ...location.datastore.names],
              isKept: location.datastore.isKept,
            },
          }),
      now: new Date(clock.now()),
    });
    const encryption = ensureEncryption(stored, {
      wasStarted: tenant.wasStarted,
      isConfigured: usesEncryption(tenant),
      reported: status?.encryption?.key,
      request: rotationRequest(tenant.vc),
      followed: status?.jobs?.rotated,
    });
    const keys = encryptionData(encryption);
    const isKeyChanged = Object.entries(keys).some(([entry, value]) => stored?.[entry] !== value);
    if (stored === undefined || ensured.changed || isKeyChanged) {
      const data = { ...ensured.data, ...keys };
      await writeSecret(tenant, services, name, data, stored === undefined ? 'absent' : 'there');
    }
    tenant.encryption = encryption;
    recordEncryption(tenant);
    recordRenewed(tenant, renewal);
    // From here on a cancel request is refused.
    if (ensured.changed) await tenant.status.flush();
    tenant.pki = ensured.pki;
    tenant.renewAt = heldUntil === undefined ? ensured.renewAt : new Date(heldUntil);
    const due = ensured.renewAt.toISOString();
    tenant.status.set({ certificatesDue: due });
    tenant.status.condition(
      'CertificatesReady',
      'True',
      'Issued',
      `Certificates are issued; the next is due ${due}.`,
    );
  },
};

function usesEncryption(tenant: Tenant): boolean {
  const { components } = tenant.required(tenant.choice, 'template').template.spec;
  return components.some(({ args = {} }) => args['encryption-provider-config'] !== undefined);
}

/** Shows in the status which key writes, and at which stage of a rotation it is. */
export function recordEncryption(tenant: Tenant): void {
  const encryption = tenant.required(tenant.encryption, 'encryption key');
  const key = writingKey(encryption);
  const { stage } = encryption.rotation ?? {};
  tenant.status.set({
    encryption: {
      ...(key === undefined ? {} : { key }),
      ...(stage === undefined ? {} : { rotation: stage }),
    },
  });
}

/** Stores a later stage of a rotation in the tenant's PKI Secret, before any API server learns of it. */
export async function writeEncryption(
  tenant: Tenant,
  services: Services,
  encryption: EncryptionState,
): Promise<void> {
  const name = secretNames(tenant.ref.name).pki;
  const stored = await readSecret(tenant, services, name);
  if (stored === undefined) throw pkiLost(tenant.ref.namespace, name);
  await writeSecret(tenant, services, name, { ...stored, ...encryptionData(encryption) });
  tenant.encryption = encryption;
  recordEncryption(tenant);
}

/** Writes the kubeconfigs, one for people and one for the syncer, anew with each new certificate. */
export const credentials: Step = {
  name: 'credentials',
  doing: 'Writing kubeconfigs',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { leafs, kubeletClientCa, frontProxyCa } = tenant.required(tenant.pki, 'certificates');
    const { kubeconfig, syncer } = secretNames(tenant.ref.name);
    const forPeople = { [kubeconfigKey]: kubeconfigOf(tenant, 'admin', leafs.admin) };
    const forSyncer = {
      [kubeconfigKey]: kubeconfigOf(tenant, 'syncer', leafs.syncer),
      // With these the syncer authenticates the tenant's API server, which calls it as a kubelet and as its metrics API.
      'kubelet-client-ca.crt': kubeletClientCa.certPem,
      'front-proxy-ca.crt': frontProxyCa.certPem,
    };
    const likely = tenant.vc.status?.kubeconfigSecret === undefined ? 'absent' : 'there';
    await Promise.all([
      writeSecret(tenant, services, kubeconfig, forPeople, likely),
      writeSecret(tenant, services, syncer, forSyncer, likely),
    ]);
    tenant.status.set({
      kubeconfigSecret: { name: kubeconfig, key: kubeconfigKey },
      // After the Secret: a syncer that sees the new version reads the new content.
      syncerSecret: { name: syncer, key: kubeconfigKey, version: versionOf(forSyncer) },
    });
    // The syncer need not wait for the controllers.
    await tenant.status.flush();
  },
};

function versionOf(data: Readonly<Record<string, string>>): string {
  return hash('sha256', JSON.stringify(data), 'hex').slice(0, 16);
}

// Names are unique per tenant, so that kubeconfigs can be merged into one file.
function kubeconfigOf(tenant: Tenant, user: string, { certPem, keyPem }: KeyPair): string {
  return renderKubeconfig({
    clusterName: tenant.key,
    server: tenant.required(tenant.vc.status?.endpoint, 'endpoint'),
    ca: tenant.required(tenant.pki, 'certificates').servingCa.certPem,
    user: `${tenant.key}/${user}`,
    cert: certPem,
    key: keyPem,
  });
}

interface Secret extends KubeObject {
  type?: string;
  data?: Record<string, string>;
}

/** The decoded data of a Secret of this tenant, undefined if there is none. Throws `SecretNotOurs`. */
async function readSecret(
  tenant: Tenant,
  { client }: Services,
  name: string,
): Promise<Record<string, string> | undefined> {
  const ref = { namespace: tenant.ref.namespace, name };
  const secret = await find<Secret>(client, resources.secrets, ref, tenant.signal);
  if (secret === undefined) return undefined;
  assertOurs(tenant, secret);
  return Object.fromEntries(
    Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}

/** Writes a Secret of this tenant where it differs. Throws `SecretNotOurs` before touching another's. */
async function writeSecret(
  tenant: Tenant,
  { client }: Services,
  name: string,
  data: Readonly<Record<string, string>>,
  likely: 'there' | 'absent' = 'there',
): Promise<void> {
  const wanted: Secret = {
    metadata: {
      name,
      namespace: tenant.ref.namespace,
      labels: tenant.labels,
      annotations: { [annotationKeys.id]: tenant.id },
      ownerReferences: [tenant.ownerReference],
    },
    type: 'Opaque',
    data: Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    ),
  };
  await ensureObject(client, resources.secrets, wanted, {
    signal: tenant.signal,
    likely,
    check: (current) => assertOurs(tenant, current),
  });
}

/**
 * A Secret is this tenant's when it is owned by this very object, or by none and bears its id, as after
 * restoring from a backup.
 */
export function isOurs(tenant: Tenant, secret: KubeObject): boolean {
  const { labels, annotations, ownerReferences } = secret.metadata;
  if (labels?.[labelKeys.virtualCluster] !== tenant.ref.name) return false;
  const owners = (ownerReferences ?? []).filter((owner) => owner.kind === resources.virtualClusters.kind);
  if (owners.length > 0) return owners.some((owner) => owner.uid === tenant.uid);
  return (
    annotations?.[annotationKeys.id] !== undefined && annotations[annotationKeys.id] === tenant.vc.status?.id
  );
}

function assertOurs(tenant: Tenant, secret: KubeObject): void {
  if (!isOurs(tenant, secret)) throw secretNotOurs(tenant.ref.namespace, secret.metadata.name ?? '');
}
