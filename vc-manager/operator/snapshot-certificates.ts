import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import type { SnapshotHeader } from '../snapshot/archive.ts';
import {
  certificatesAbsent,
  certificatesInUse,
  certificatesNotEncrypted,
  certificatesWanted,
} from './errors.ts';
import type { Services } from './services.ts';
import type { SnapshotServices } from './snapshots.ts';
import type { Tenant } from './tenant.ts';
import { findInternalSecret, removeInternalSecret, type SecretData } from './tenant-secrets.ts';

/*
 * What makes kubeconfigs and tokens of a tenant valid: it travels in a snapshot only when that is asked for, and only
 * encrypted. The authorities by which tenants are told apart, and those of datastores, belong to the place.
 */

const travelling = [
  'client-ca.crt',
  'client-ca.key',
  'serving-ca.crt',
  'serving-ca.key',
  'service-account.key',
];
/** In place of these others are made. */
const ofPlace = ['front-proxy-ca', 'kubelet-client-ca'].flatMap((name) => [`${name}.crt`, `${name}.key`]);

/** Whether the value of an annotation asks for a snapshot with them, or for them to be put back. */
export function asksForCertificates(request: string | undefined): boolean {
  return request?.endsWith(' certificates') === true;
}

/** What of the tenant's PKI goes into a snapshot. Throws when it would be readable, or is being changed. */
export function certificatesOf(
  tenant: Tenant,
  data: SecretData,
  { recipients }: SnapshotServices,
): SecretData {
  if (recipients.length === 0) throw certificatesNotEncrypted();
  if (tenant.vc.status?.authorities !== undefined)
    throw certificatesAbsent('its authorities are being renewed: ask again when that is over');
  return Object.fromEntries(travelling.map((name) => [name, data[name] ?? '']));
}

/** Throws when the snapshot has none, or the tenant that they are of is still here, or another one was made with them. */
export async function certificatesIn(
  { certificates, id, identity, namespace, name }: SnapshotHeader,
  { uid, signal }: Tenant,
  services: Pick<Services, 'virtualClusters' | 'client' | 'settings'>,
): Promise<SecretData> {
  if (certificates === undefined)
    throw certificatesAbsent(
      'the snapshot holds none: take one with "vc-manager snapshot NAME --with-certificates"',
    );
  for (const { metadata, spec, status } of services.virtualClusters.list()) {
    if (metadata.uid === uid) continue;
    if (status?.identities?.tenant === identity && identity !== '')
      throw certificatesInUse(`${namespace}/${name}`);
    if (spec?.restoreCertificates !== true || status?.id === undefined) continue;
    const key = `${metadata.namespace}/${metadata.name}`;
    // The first that is made with them takes the id over where that is free; where it was not, its Secret tells.
    if (status.id === id) throw certificatesInUse(key);
    const pki = await findInternalSecret({ key, signal }, services, status.id, 'pki');
    if (hasAnyOf(pki, certificates)) throw certificatesInUse(key);
  }
  return Object.fromEntries(travelling.map((entry) => [entry, certificates[entry] ?? '']));
}

function hasAnyOf(pki: SecretData | undefined, certificates: SecretData): boolean {
  const has = new Set(Object.values(pki ?? {}));
  return travelling.some((entry) => has.has(certificates[entry] || 'none'));
}

/**
 * Of one that is made with certificates of a snapshot, and was not started yet: whether it is the only one, now that its
 * Secret is written. Two that did so at the same time see each other here. One of them removes its Secret and throws
 * `CertificatesInUse`; the other throws `CertificatesWanted` until that is done: nobody is started beside another one.
 * `isNew`: this attempt has written the Secret. One that was there may have keys of data, and stays.
 */
export async function settleCertificates(
  tenant: Tenant,
  services: Services,
  { own, isNew }: { own: SecretData; isNew: boolean },
): Promise<void> {
  const { vc, uid, signal } = tenant;
  // Not from the store: that may not have seen the other one yet.
  const { items } = await services.client.list<VirtualCluster>(resources.virtualClusters, { signal });
  for (const other of items) {
    const { metadata, spec, status } = other;
    if (metadata.uid === uid || spec?.restoreCertificates !== true || status?.id === undefined) continue;
    const key = `${metadata.namespace}/${metadata.name}`;
    if (!hasAnyOf(await findInternalSecret({ key, signal }, services, status.id, 'pki'), own)) continue;
    const isStarted = status.version !== undefined;
    if (!isStarted && (!isNew || isBefore(vc, other))) throw certificatesWanted(key);
    if (isNew) await removeInternalSecret(tenant, services, 'pki');
    throw certificatesInUse(key);
  }
}

/** The older one, or of two of one second that with the lower UID. */
function isBefore({ metadata: one }: VirtualCluster, { metadata: other }: VirtualCluster): boolean {
  const at = ({ creationTimestamp = '', uid = '' }: VirtualCluster['metadata']): string =>
    `${creationTimestamp} ${uid}`;
  return at(one) < at(other);
}

/** The PKI of a tenant that has none yet, which is completed with what belongs to this place. */
export function pkiWith(certificates: SecretData): SecretData {
  return { ...Object.fromEntries(ofPlace.map((name) => [name, ''])), ...certificates };
}
