import { deepEqual } from 'fast-equals';
import ipaddr from 'ipaddr.js';
import {
  isJoined,
  noEngineReason,
  noSyncerReason,
  type SyncerConditionType,
  superClusterUnknownReason,
  switchedOffReason,
} from '../../api/conditions.ts';
import { isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type Condition,
  findCondition,
  ignoreNotFound,
  type KubeClient,
  modifyStatus,
  type ObjectRef,
  resources,
  setCondition,
} from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import type { CustomResourceProblem } from '../controllers/custom-resources.ts';

export interface SyncerCondition {
  type: SyncerConditionType;
  status: Condition['status'];
  reason: string;
  message: string;
}

/** What pods use, as quantities. */
export interface UsedResources {
  cpu: string;
  memory: string;
}

type Status = NonNullable<VirtualCluster['status']>;
type Usage = NonNullable<Status['usage']>;

/** A tenant is not served, or not as it should be. */
export function notSynced(reason: string, message: string): SyncerCondition {
  return { type: 'Synced', status: 'False', reason, message };
}

const joining = notSynced('Joining', 'what the tenant has is being taken up');

/**
 * Writes the syncer's own part of a VirtualCluster's status, and only when it says something new. One write
 * of a VirtualCluster at a time, in the order in which they were asked for.
 */
export class StatusWriter {
  readonly #client: KubeClient;
  readonly #nowMs: () => number;
  readonly #cached: (ref: ObjectRef) => VirtualCluster | undefined;
  /** What was last written, by UID of the VirtualCluster and what it is about. */
  readonly #last = new Map<string, Map<string, string>>();
  /** The end of the line of writes, by UID; absent when none waits. */
  readonly #lines = new Map<string, Promise<void>>();

  /** `cached`: the VirtualCluster as last seen; what it shows already is not written. */
  constructor(
    client: KubeClient,
    nowMs: () => number,
    cached: (ref: ObjectRef) => VirtualCluster | undefined = () => undefined,
  ) {
    this.#client = client;
    this.#nowMs = nowMs;
    this.#cached = cached;
  }

  condition(ref: ObjectRef, uid: string, wanted: SyncerCondition, signal?: AbortSignal): Promise<void> {
    const said = `${wanted.status}/${wanted.reason}/${wanted.message}`;
    const shown = findCondition(this.#cached(ref)?.status?.conditions, wanted.type);
    // The manager has written meanwhile that no syncer reports anything.
    if (shown?.reason === noSyncerReason) this.#last.get(uid)?.delete(wanted.type);
    return this.#say(ref, uid, wanted.type, said, signal, (status) => ({
      ...status,
      conditions: setCondition(status.conditions, wanted, new Date(this.#nowMs())),
    }));
  }

  /** Says that a tenant is being taken up; false, and nothing is said, when it is not there or on its way out. */
  async markJoining(ref: ObjectRef, uid: string, signal: AbortSignal): Promise<boolean> {
    let stays = false;
    const change = (vc: VirtualCluster): VirtualCluster | undefined => {
      stays = vc.metadata.uid === uid && isServed(vc);
      if (!stays || isJoined(vc)) return undefined;
      const conditions = setCondition(vc.status?.conditions, joining, new Date(this.#nowMs()));
      return { ...vc, status: { ...vc.status, conditions } };
    };
    await this.#inLine(uid, async () => {
      this.#last.get(uid)?.delete(joining.type);
      const options = { signal };
      const call = modifyStatus<VirtualCluster>(
        this.#client,
        resources.virtualClusters,
        ref,
        change,
        options,
      );
      if ((await ignoreNotFound(call)) === undefined) stays = false;
    });
    return stays;
  }

  usage(
    ref: ObjectRef,
    uid: string,
    usage: {
      pods: number;
      services: number;
      nodes: number;
      cpu?: string;
      memory?: string;
      resources?: Record<string, string>;
    },
    signal?: AbortSignal,
  ): Promise<void> {
    const said = JSON.stringify(usage);
    return this.#say(ref, uid, 'usage', said, signal, (status) => {
      // That is the manager's.
      const month = status.usage?.month;
      return { ...status, usage: { ...usage, ...(month === undefined ? {} : { month }) } };
    });
  }

  /**
   * What pods of a tenant use that has no session; undefined: not known. `counted`: what it has in the super cluster.
   * Nothing is written when it is not unjoined any more, or another VirtualCluster has its name.
   */
  usageUnjoined(
    ref: ObjectRef,
    uid: string,
    {
      used,
      counted,
      isUnjoined,
    }: {
      used: UsedResources | undefined;
      counted: Readonly<Record<string, string>>;
      isUnjoined: (vc: VirtualCluster) => boolean;
    },
    signal?: AbortSignal,
  ): Promise<void> {
    const change = ({ cpu: _cpu, memory: _memory, ...said }: Usage): Usage => ({
      ...said,
      ...used,
      resources: { ...said.resources, ...counted },
    });
    return this.#inLine(uid, async () => {
      const cached = this.#cached(ref)?.status?.usage;
      if (cached !== undefined && deepEqual(change(cached), cached)) return;
      // What a session has said is not there any more: the next one says it again, be it the same.
      this.#last.get(uid)?.delete('usage');
      await this.#modify(ref, uid, signal, (status, vc) =>
        isUnjoined(vc) ? { ...status, usage: change(status.usage ?? {}) } : undefined,
      );
    });
  }

  /** How far the tenant's server had come: what is older later on is a restored datastore. */
  observedVersion(ref: ObjectRef, uid: string, version: string, signal?: AbortSignal): Promise<void> {
    return this.#say(ref, uid, 'observedVersion', version, signal, (status) => ({
      ...status,
      observedResourceVersion: version,
    }));
  }

  /** How many joins in a row have been begun; undefined: the last one has succeeded. */
  joinAttempts(
    ref: ObjectRef,
    uid: string,
    attempts: number | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#say(ref, uid, 'joinAttempts', String(attempts), signal, ({ joinAttempts: _, ...status }) =>
      attempts === undefined ? status : { ...status, joinAttempts: attempts },
    );
  }

  /** Another writer has changed `joinAttempts`; queued behind a write under way, which remembers its own value when it ends. */
  forgetAttempts(uid: string): Promise<void> {
    return this.#inLine(uid, async () => void this.#last.get(uid)?.delete('joinAttempts'));
  }

  /** The operator has accepted another server on one side. */
  identity(
    ref: ObjectRef,
    uid: string,
    accepted: { tenant: string } | { superCluster: string },
    signal?: AbortSignal,
  ): Promise<void> {
    return this.#inLine(uid, () =>
      this.#modify(ref, uid, signal, (status) => ({
        ...status,
        identities: { ...status.identities, ...accepted },
      })),
    );
  }

  /** To be called when a VirtualCluster is served no more. */
  forget(uid: string): void {
    this.#last.delete(uid);
  }

  #say(
    ref: ObjectRef,
    uid: string,
    about: string,
    said: string,
    signal: AbortSignal | undefined,
    change: (status: Status) => Status,
  ): Promise<void> {
    return this.#inLine(uid, async () => {
      const before = this.#last.get(uid)?.get(about);
      if (before === said || (before === undefined && this.#isShown(ref, uid, change))) return;
      // One that is aborted may have been written: what comes next is written, whatever it says.
      this.#remember(uid, about, '');
      await this.#modify(ref, uid, signal, change);
      this.#remember(uid, about, said);
    });
  }

  #remember(uid: string, about: string, said: string): void {
    const last = this.#last.get(uid) ?? new Map<string, string>();
    this.#last.set(uid, last.set(about, said));
  }

  /** Of what was not written yet: whether an earlier syncer has said the same. The cache may be behind what was written. */
  #isShown(ref: ObjectRef, uid: string, change: (status: Status) => Status): boolean {
    const cached = this.#cached(ref);
    if (cached?.metadata.uid !== uid) return false;
    const status = cached.status ?? {};
    return deepEqual(change(status), status);
  }

  async #inLine(uid: string, write: () => Promise<void>): Promise<void> {
    const before = this.#lines.get(uid);
    const mine = before === undefined ? write() : before.then(write);
    const settled = mine.catch(() => undefined);
    this.#lines.set(uid, settled);
    try {
      await mine;
    } finally {
      if (this.#lines.get(uid) === settled) this.#lines.delete(uid);
    }
  }

  async #modify(
    ref: ObjectRef,
    uid: string,
    signal: AbortSignal | undefined,
    change: (status: Status, vc: VirtualCluster) => Status | undefined,
  ): Promise<void> {
    const changed = (vc: VirtualCluster): VirtualCluster | undefined => {
      const status = vc.metadata.uid === uid ? change(vc.status ?? {}, vc) : undefined;
      return status === undefined ? undefined : { ...vc, status };
    };
    const options = { signal };
    await ignoreNotFound(
      modifyStatus<VirtualCluster>(this.#client, resources.virtualClusters, ref, changed, options),
    );
  }
}

/** What becomes of the custom resources that a tenant has opted in to, for its operator to read. */
export function customResourcesCondition(
  { customResources }: Pick<TenantInfo, 'customResources'>,
  problems: readonly CustomResourceProblem[],
): SyncerCondition {
  const type = 'CustomResourcesSynced';
  if (customResources.length === 0) {
    return { type, status: 'True', reason: 'NoneWanted', message: 'spec.sync.customResources is empty' };
  }
  if (problems.length === 0) {
    return { type, status: 'True', reason: 'Synced', message: 'all of spec.sync.customResources are synced' };
  }
  const message = problems.map(({ name, reason }) => `${name} ${reason}`).join('; ');
  return { type, status: 'False', reason: 'NotSynced', message };
}

/**
 * Whether pods of others are kept from those of a tenant (sync rule `tenant-isolation`). `podAddresses` are some that its
 * pods have in the super cluster, but for those on the network of their node.
 */
export function isolationCondition(
  {
    isolation,
    networkPoliciesEnforced,
    isIsolationUnknown,
  }: Pick<TenantInfo, 'isolation' | 'networkPoliciesEnforced' | 'isIsolationUnknown'>,
  podAddresses: readonly string[],
): SyncerCondition {
  const type = 'TenantsIsolated';
  const notIsolated = (reason: string, message: string): SyncerCondition => ({
    type,
    status: 'False',
    reason,
    message,
  });
  if (isIsolationUnknown === true) {
    const message =
      'vc-syncer has not found out yet whether anything in the super cluster acts on NetworkPolicies, and makes no new pods until it has';
    return { type, status: 'Unknown', reason: superClusterUnknownReason, message };
  }
  if (!networkPoliciesEnforced)
    return notIsolated(noEngineReason, 'nothing in the super cluster is known to act on NetworkPolicies');
  if (isolation === undefined)
    return notIsolated(switchedOffReason, 'vc-syncer was started with --no-isolate-tenants');
  const remedy = 'start vc-syncer with --pod-cidr RANGE for each range that pods get their addresses from';
  if (isolation.podCIDRs.length === 0)
    return notIsolated(
      'PodRangesUnknown',
      `no node says which addresses its pods get (spec.podCIDRs), so pods of other tenants are not kept out; ${remedy}`,
    );
  const ranges = isolation.podCIDRs.map((cidr) => ipaddr.parseCIDR(cidr));
  const isOutside = podAddresses.some((address) => {
    const parsed = ipaddr.parse(address);
    return !ranges.some(
      ([base, bits]) => base.kind() === parsed.kind() && parsed.match([base, bits] as never),
    );
  });
  if (isOutside)
    return notIsolated(
      'PodOutsideRanges',
      `a pod has an address that is in none of ${isolation.podCIDRs.join(', ')}: pods of other tenants with such addresses are not kept out; ${remedy}`,
    );
  const message = 'NetworkPolicies in the super cluster keep pods of other tenants from those of this one';
  return { type, status: 'True', reason: 'Isolated', message };
}

const type = 'NetworkPoliciesEnforced';

/** What becomes of the NetworkPolicies of a tenant, for its operator to read. */
export function networkPoliciesCondition(
  tenant: Pick<TenantInfo, 'syncNetworkPolicies' | 'networkPoliciesEnforced' | 'isIsolationUnknown'>,
): SyncerCondition {
  if (!tenant.syncNetworkPolicies) {
    const message = 'they stay in the tenant, as spec.sync.networkPolicies says';
    return { type, status: 'False', reason: 'NotSynced', message };
  }
  if (tenant.isIsolationUnknown === true) {
    const message = 'vc-syncer has not found out yet whether anything in the super cluster acts on them';
    return { type, status: 'Unknown', reason: superClusterUnknownReason, message };
  }
  if (!tenant.networkPoliciesEnforced) {
    const message =
      'vc-syncer knows of nothing in the super cluster that acts on them; if something does, start vc-syncer with --network-policies enforced';
    return { type, status: 'False', reason: noEngineReason, message };
  }
  const message = 'they are carried over to a super cluster that acts on them';
  return { type, status: 'True', reason: 'Enforced', message };
}
