import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { namespacedName, resources } from '../../kube/index.ts';
import type { SnapshotHeader } from '../snapshot/archive.ts';
import { isOlder } from './caches.ts';
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
  findStoredSecret,
  removeInternalSecret,
  removeStoredSecret,
  replaceStoredSecret,
  type SecretData,
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
  { certificates, id }: SnapshotHeader,
  { uid, signal }: Tenant,
  services: Pick<Services, 'virtualClusters' | 'client' | 'settings'>,
): Promise<SecretData> {
  if (certificates === undefined)
    throw certificatesAbsent(
      'the snapshot holds none: take one with "vc-manager snapshot NAME --with-certificates"',
    );
  for (const other of services.virtualClusters.list()) {
    const { metadata, spec, status } = other;
    if (metadata.uid === uid) continue;
    const key = namespacedName(metadata);
    // Not by its identity: an owner can accept any that its API server shows.
    if (spec?.restoreCertificates !== true && status?.id === id) throw certificatesInUse(key);
    if (spec?.restoreCertificates !== true || status?.id === undefined) continue;
    const pki = await findInternalSecret({ key, signal }, services, status.id, 'pki');
    // `confirmCertificates` takes its claim away.
    if (isGivenUp(other) && !isStarted(other) && (pki === undefined || isClaim(pki))) continue;
    // The first that is made with them takes the id over where that is free; where it was not, its Secret tells.
    if (status.id === id || hasAnyOf(pki, certificates)) throw certificatesInUse(key);
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
const confirmed = 'confirmed';

function isClaim(pki: SecretData): boolean {
  return pki[claimEntry] === claimed;
}

function isStarted({ status }: VirtualCluster): boolean {
  return status?.version !== undefined;
}

/** No job works at it any more, or will in a moment; a retry begins it anew. */
function isGivenUp({ metadata, status }: VirtualCluster): boolean {
  return metadata.deletionTimestamp !== undefined || status?.phase === 'Cancelled';
}

/**
 * Of one that is made with certificates of a snapshot, and was not started yet: whether it is the only one, now that its
 * Secret is written. Two that did so at the same time see each other here, and one gets them: that which is confirmed or
 * started, else the one that was not given up, else the older one. The other throws `CertificatesInUse`, and removes its
 * Secret if it only claims them: one that is confirmed may have keys of data.
 *
 * The first of two that only claim them waits for nothing: it removes the other's Secret, as it has read it. A claim is
 * read before others are looked for, and confirmed only as it was read: one whose claim was taken meanwhile, and one that
 * finds the other's confirmed meanwhile, throws `CertificatesWanted` and looks anew. So of two the one that writes its Secret
 * later sees the other, and whatever each of them does then, only one is confirmed. `own`: what its Secret holds.
 */
export async function confirmCertificates(
  tenant: Tenant,
  services: Services,
  own: SecretData,
): Promise<void> {
  const { vc, id, signal } = tenant;
  const claim = isClaim(own) ? await findStoredSecret(tenant, services, id, 'pki') : undefined;
  // Not from the store: that may not have seen the other one yet.
  const { items } = await services.client.list<VirtualCluster>(resources.virtualClusters, { signal });
  for (const other of items) {
    const { metadata, spec, status } = other;
    const otherId = status?.id ?? metadata.annotations?.[annotationKeys.id];
    if (metadata.uid === tenant.uid || spec?.restoreCertificates !== true || otherId === undefined) continue;
    const key = namespacedName(metadata);
    const found = await findStoredSecret({ key, signal }, services, otherId, 'pki');
    if (found === undefined || !hasAnyOf(found.data, own)) continue;
    const isOtherClaim = isClaim(found.data) && !isStarted(other);
    const comesFirst = isGivenUp(other) || isOlder(vc, other);
    if (isClaim(own) && isOtherClaim && comesFirst) {
      if (!(await removeStoredSecret(tenant, services, found))) throw certificatesWanted(key);
      continue;
    }
    // A claim that is written later than this one was confirmed sees it, and gives way.
    if (!isClaim(own) && (isOtherClaim || (!isStarted(other) && isOlder(vc, other)))) continue;
    if (isClaim(own)) await removeInternalSecret(tenant, services, 'pki');
    throw certificatesInUse(key);
  }
  if (!isClaim(own)) return;
  const isConfirmed =
    claim !== undefined &&
    (await replaceStoredSecret(tenant, services, claim, { ...own, [claimEntry]: confirmed }));
  if (!isConfirmed) throw certificatesWanted('another tenant');
}

/** The PKI of a tenant that has none yet, which is completed with what belongs to this place. */
export function pkiWith(certificates: SecretData): SecretData {
  return { ...Object.fromEntries(ofPlace.map((name) => [name, ''])), ...certificates, [claimEntry]: claimed };
}
