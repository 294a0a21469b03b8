import { annotationKeys } from '../../api/labels.ts';
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
import {
  findInternalSecret,
  removeInternalSecret,
  type SecretData,
  writeInternalSecret,
} from './tenant-secrets.ts';

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

/** In the PKI Secret of one that is made with certificates of a snapshot. */
const claimEntry = 'snapshot-certificates';
/** It may not be the only one yet, and nothing was started with them. */
const claimed = 'claimed';
/** It is. So is one without the entry: its Secret was there before it was made, as after its status was lost. */
const settled = 'settled';

/**
 * Of one that is made with certificates of a snapshot, and was not started yet: whether it is the only one, now that its
 * Secret is written. Two that did so at the same time see each other here, and one gets them: that which is settled or
 * started, else the older one. The other throws `CertificatesInUse`, and removes its Secret if it only claims them: one
 * that is settled may have keys of data. The older one of two that only claim them throws `CertificatesWanted` until the
 * other has given way: nobody is started beside another one. One that is settled has seen no claim when it was, so that
 * each later one sees it and gives way. `own`: what its Secret holds.
 */
export async function settleCertificates(tenant: Tenant, services: Services, own: SecretData): Promise<void> {
  const { vc, signal } = tenant;
  const isClaim = own[claimEntry] === claimed;
  // Not from the store: that may not have seen the other one yet.
  const { items } = await services.client.list<VirtualCluster>(resources.virtualClusters, { signal });
  for (const other of items) {
    const { metadata, spec, status } = other;
    const id = status?.id ?? metadata.annotations?.[annotationKeys.id];
    if (metadata.uid === tenant.uid || spec?.restoreCertificates !== true || id === undefined) continue;
    const key = `${metadata.namespace}/${metadata.name}`;
    const pki = await findInternalSecret({ key, signal }, services, id, 'pki');
    if (!hasAnyOf(pki, own)) continue;
    const isStarted = status?.version !== undefined;
    const isOtherClaim = pki?.[claimEntry] === claimed && !isStarted;
    const isFirst = isClaim === isOtherClaim ? !isStarted && isBefore(vc, other) : isOtherClaim;
    // It may have looked for others before this one was there: then it is settled, or started, in a moment.
    if (isFirst && isClaim && isOtherClaim) throw certificatesWanted(key);
    if (isFirst) continue;
    if (isClaim) await removeInternalSecret(tenant, services, 'pki');
    throw certificatesInUse(key);
  }
  if (isClaim) await writeInternalSecret(tenant, services, 'pki', { ...own, [claimEntry]: settled });
}

/** The older one, or of two of one second that with the lower UID. */
function isBefore({ metadata: one }: VirtualCluster, { metadata: other }: VirtualCluster): boolean {
  const at = ({ creationTimestamp = '', uid = '' }: VirtualCluster['metadata']): string =>
    `${creationTimestamp} ${uid}`;
  return at(one) < at(other);
}

/** The PKI of a tenant that has none yet, which is completed with what belongs to this place. */
export function pkiWith(certificates: SecretData): SecretData {
  return { ...Object.fromEntries(ofPlace.map((name) => [name, ''])), ...certificates, [claimEntry]: claimed };
}
