import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster, VirtualClusterSpec, VirtualClusterStatus } from '../../api/virtual-cluster.ts';
import { isWarmPoolMember, type WarmClaim, warmClaim, warmClaimText } from '../../api/warm-pool.ts';
import { findCondition, ignoreNotFound, isConflict, isNotFound, resources } from '../../kube/index.ts';
import type { ReconcileResult } from '../jobs/job-runner.ts';
import { isOlder } from './caches.ts';
import type { Services } from './services.ts';
import { dropFinalizer, type Tenant } from './tenant.ts';
import { versionChoice } from './version-choice.ts';

/*
 * How a control plane of the warm pool gets its owner. A member is a VirtualCluster in Skerry's own namespace. It is given
 * away by one write, an annotation with the UID of the new owner: from then on it is for that one only. The new
 * one then takes its id and addresses over into its status, and what bears the member's name and UID; the member itself
 * goes when that is done. A manager that is killed in between is followed by one that reads from these two objects how
 * far it has come.
 */

/** For each field of a spec, whether a member of the pool is as it says; a new field has to be listed here. */
const matchesMember: { [field in keyof VirtualClusterSpec]-?: (spec: VirtualClusterSpec) => boolean } = {
  clusterDomain: ({ clusterDomain = 'cluster.local' }) => clusterDomain === 'cluster.local',
  extraNames: ({ extraNames = [] }) => extraNames.length === 0,
  restoreFrom: ({ restoreFrom }) => restoreFrom === undefined,
  restoreCertificates: () => true,
  driver: () => true,
  // Compared as they will be, by `suits`.
  version: () => true,
  template: () => true,
  dns: () => true,
  policy: () => true,
  // What no component is told.
  weight: () => true,
  deletionProtection: () => true,
  sleep: () => true,
  snapshots: () => true,
  nodes: () => true,
  quota: () => true,
  sync: () => true,
};

/** Whether this member is, without a restart of anything, what the tenant is to be. */
function suits(member: VirtualCluster, { vc, policy }: Tenant, services: Services): boolean {
  const { settings } = services;
  const spec = vc.spec ?? {};
  if (!Object.values(matchesMember).every((isAsMade) => isAsMade(spec))) return false;
  const { status } = member;
  if (status?.policy?.podSecurity !== policy?.podSecurity) return false;
  if (status?.driver !== (spec.driver ?? settings.driver) || dnsOf(member) !== (spec.dns ?? settings.dns))
    return false;
  try {
    const { choice } = versionChoice(vc, services);
    return choice.template.metadata.name === member.spec?.template && choice.version === status.version;
  } catch {
    // The step `version` reports what is wrong.
    return false;
  }
}

/** The DNS server that the manager has installed where the spec names none. */
export function dnsOf({ status }: { status?: VirtualClusterStatus | undefined }): 'coredns' | 'none' {
  return findCondition(status?.conditions, 'DNSReady') === undefined ? 'none' : 'coredns';
}

/** Ready, and nothing is being changed about it. */
export function isAvailable({ metadata, status }: VirtualCluster): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === 'Ready' &&
    findCondition(status.conditions, 'Ready')?.status === 'True' &&
    status.id !== undefined &&
    status.identities?.tenant !== undefined &&
    status.jobs?.current === undefined
  );
}

/**
 * Gives a member to this tenant; undefined when there is none that suits it. `checkLimit` is called before each is taken,
 * and may throw. Nothing of the tenant is written.
 */
export async function claimWarm(
  tenant: Tenant,
  services: Services,
  checkLimit: () => void,
): Promise<VirtualCluster | undefined> {
  const { allocations, client, settings, virtualClusters } = services;
  if (isWarmPoolMember(tenant.vc, settings.namespace)) return undefined;
  const { uid, signal } = tenant;
  const members = [...virtualClusters.list()]
    .filter((vc) => isWarmPoolMember(vc, settings.namespace))
    .sort((a, b) => (isOlder(a, b) ? -1 : 1));
  // By an attempt that was cut off.
  const given = members.find((vc) => givenTo(vc, services) === uid);
  const own = given && (await asClaimed(given, tenant, services));
  if (own?.status?.id !== undefined && suits(own, tenant, services)) return own;
  if (given !== undefined && own === undefined && !suits(given, tenant, services))
    allocations.takeBack(given, uid);
  // Restored from a backup, under the id that it had.
  if (tenant.vc.metadata.annotations?.[annotationKeys.id] !== undefined) return undefined;
  // The one first of which it is not known whether it was given: a write may be on its way still.
  for (const member of members.toSorted((a, b) => Number(b === given) - Number(a === given))) {
    const isFree = [undefined, uid].includes(givenTo(member, services));
    if (!isAvailable(member) || !isFree || !suits(member, tenant, services)) continue;
    checkLimit();
    // No pause since the last look: no other reconcile of this manager has taken it, or a place in the namespace.
    allocations.give(member, uid);
    const { name = '', namespace, uid: memberUid, resourceVersion } = member.metadata;
    const annotations = { [annotationKeys.warmFor]: warmClaimText({ uid, ...tenant.ref }) };
    const patch = { metadata: { annotations, uid: memberUid, resourceVersion } };
    try {
      return await client.patch<VirtualCluster>(resources.virtualClusters, { namespace, name }, patch, {
        type: 'merge',
        signal,
      });
    } catch (error) {
      // A call that has timed out may have been carried out, and one before it.
      const claimed = await asClaimed(member, tenant, services);
      if (claimed !== undefined) return claimed;
      // Else it is asked for again.
      if (!isConflict(error) && !isNotFound(error)) throw error;
      // It has changed since the last look, or is gone.
      allocations.takeBack(member, uid);
    }
  }
  return undefined;
}

/** The member where it is this tenant's: if the cache does not say so, as the super cluster has it now. */
async function asClaimed(
  member: VirtualCluster,
  { uid, signal }: Tenant,
  { client }: Services,
): Promise<VirtualCluster | undefined> {
  if (warmClaim(member)?.uid === uid) return member;
  const { namespace, name = '' } = member.metadata;
  const live = await ignoreNotFound(
    client.get<VirtualCluster>(resources.virtualClusters, { namespace, name }, { signal }),
  );
  const isSame = live !== undefined && live.metadata.uid === member.metadata.uid;
  return isSame && warmClaim(live)?.uid === uid ? live : undefined;
}

function givenTo(member: VirtualCluster, { allocations }: Services): string | undefined {
  return warmClaim(member)?.uid ?? allocations.givenTo(member);
}

const inherited = [
  'endpoint',
  'gateway',
  'advertisedAddress',
  'advertisedPort',
  'datastorePorts',
  'serviceCIDR',
  'serviceIPMode',
  'version',
  'certificatesDue',
  'encryption',
  'driver',
  'datastore',
  'template',
  'identities',
] as const satisfies (keyof VirtualClusterStatus)[];

/** What a tenant has of the member that is its own now, but for the id. */
export function statusFromMember({ metadata, status = {} }: VirtualCluster): Partial<VirtualClusterStatus> {
  const entries = inherited.filter((field) => status[field] !== undefined).map((key) => [key, status[key]]);
  const fromPool = { member: metadata.name ?? '', uid: metadata.uid ?? '' };
  return { ...Object.fromEntries(entries), fromPool };
}

const pollMs = 500;

/**
 * Of a member that is given away: looks how far the one that it is for has come, and lets the member go. Undefined: it
 * is to be removed with all that it has, as it will never be taken over.
 */
export async function releaseClaimedMember(
  tenant: Tenant,
  services: Services,
  claim: WarmClaim,
): Promise<ReconcileResult | undefined> {
  const { client } = services;
  const { signal, vc } = tenant;
  const { uid, ...ref } = claim;
  const owner = await ignoreNotFound(client.get<VirtualCluster>(resources.virtualClusters, ref, { signal }));
  const id = owner?.metadata.uid === uid ? owner.status?.id : undefined;
  const isGone = owner?.metadata.uid !== uid || (id !== undefined && id !== vc.status?.id);
  // It is being deleted, or another manager works on it: it may still get the id.
  if (!isGone && (id === undefined || owner?.status?.fromPool?.moved !== true))
    return { kind: 'done', againAfterMs: pollMs };
  if (vc.metadata.deletionTimestamp === undefined) {
    await client.delete(resources.virtualClusters, tenant.ref, { uid: tenant.uid, signal });
    return { kind: 'done', againAfterMs: pollMs };
  }
  if (isGone) return undefined;
  // What is under its id stays.
  await dropFinalizer(tenant, services);
  return { kind: 'done' };
}
