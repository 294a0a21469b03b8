import { setImmediate } from 'node:timers/promises';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  apiVersionOf,
  applyMergePatch,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type MergePatch,
  mergePatch,
  namespacedName,
  resources,
  type StoreEvent,
} from '../../kube/index.ts';
import type { KeyRef, TenantInfo } from '../context.ts';
import { heldPolicyLabels } from '../kinds/pods/translate.ts';
import { bucketOf, isOurs, tenantNamespaceOf, tenantUidOf } from '../mapping/labels.ts';
import {
  isolationPolicies,
  matchesSelector,
  type NetworkPolicySpec,
  ownPolicyKeysOf,
} from '../mapping/network-isolation.ts';
import { byTenantIndex, type Caches, type SuperWatch } from '../reconcile/caches.ts';
import { done, type Outcome, outcomeOf, type SpecialController } from '../reconcile/controller.ts';
import type { Drift } from '../reconcile/decide.ts';
import type { ActionGate, Work } from '../reconcile/execute.ts';
import { refOf } from '../reconcile/guarded-writes.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';

const name = 'networkisolation';
const bySuperNamespace = 'superNamespace';

/** The NetworkPolicies of this controller in all super namespaces. */
export const isolationWatch: SuperWatch = {
  name,
  resource: resources.networkPolicies,
  superScope: 'marked',
  selector: labelKeys.isolation,
  indexes: { [bySuperNamespace]: ({ metadata }) => [metadata.namespace ?? ''] },
};

interface NetworkIsolationOptions {
  superClient: KubeClient;
  superCaches: Caches;
  /** A tenant that is served, by the UID of its VirtualCluster. */
  tenant: (uid: string) => TenantState | undefined;
  enqueue: (tenant: TenantState, key: KeyRef) => void;
}

/**
 * Keeps the pods of tenants from each other, and from what is the operator's, by NetworkPolicies in every super
 * namespace, where no tenant can touch them (sync rule `tenant-isolation`). A key is a namespace of the tenant.
 */
export class NetworkIsolationController implements SpecialController {
  readonly name = name;
  readonly #options: NetworkIsolationOptions;
  /** What every super namespace of a tenant has, as long as the tenant's settings are these. */
  readonly #wanted = new WeakMap<TenantInfo, Readonly<Record<string, NetworkPolicySpec>>>();
  /** Policies that are being made, or that no cache shows yet, by super namespace. Of tenants that are served. */
  readonly #making = new Map<string, { readonly uid: string; readonly made: Promise<void> }>();

  constructor(options: NetworkIsolationOptions) {
    this.#options = options;
    options.superCaches.store(resources.namespaces).subscribe((event) => this.#superNamespace(event));
    options.superCaches.watched(name).subscribe((event) => this.#policy(event));
  }

  *keysOf(tenant: TenantState): Generator<KeyRef> {
    for (const superNamespace of this.#options.superCaches.byIndex(
      resources.namespaces,
      byTenantIndex,
      tenant.info.uid,
    )) {
      const namespace = tenantNamespaceOf(superNamespace);
      if (namespace !== undefined) yield { kind: name, name: namespace };
    }
  }

  async reconcile(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    try {
      for (const step of this.#steps(tenant, key)) await this.#carryOut(step, signal);
      return done;
    } catch (error) {
      if (signal.aborted) throw error;
      // Another writer was faster, or the cache is behind: what it shows next decides.
      if (isAlreadyExists(error) || isConflict(error) || isNotFound(error))
        return { is: 'retry', code: 'isolation' };
      return outcomeOf(error);
    }
  }

  /** The tenant is not served any more: the cache may not show its objects again, and another replica may change them. */
  leave(uid: string): void {
    for (const [superNamespace, making] of this.#making)
      if (making.uid === uid) this.#making.delete(superNamespace);
  }

  /**
   * Makes the policies that a namespace of the super cluster does not have yet, before the first pod is made in it: once
   * for all pods that wait for them. What is there and differs is the concern of `reconcile`. Throws what a client throws.
   */
  async beforePods(tenant: TenantState, namespace: string, signal: AbortSignal): Promise<void> {
    const superNamespace = tenant.superNamespace(namespace);
    const there = this.#options.superCaches.watched(name).byIndex(bySuperNamespace, superNamespace);
    const missing = Object.entries(this.#wantedOf(tenant.info)).filter(
      ([policyName]) => !there.some(({ metadata }) => metadata.name === policyName),
    );
    if (missing.length === 0) return;
    let making = this.#making.get(superNamespace);
    if (making === undefined) {
      making = {
        uid: tenant.info.uid,
        made: this.#make(tenant.info, { superNamespace, namespace }, missing, signal),
      };
      this.#making.set(superNamespace, making);
    }
    try {
      await making.made;
    } catch (error) {
      if (this.#making.get(superNamespace) === making) this.#making.delete(superNamespace);
      throw error;
    }
  }

  async #make(
    tenant: TenantInfo,
    namespaces: Namespaces,
    policies: readonly (readonly [string, NetworkPolicySpec])[],
    signal: AbortSignal,
  ): Promise<void> {
    const make = async ([policyName, spec]: readonly [string, NetworkPolicySpec]): Promise<void> => {
      const object = policyObject(tenant, namespaces, policyName, spec);
      const { superClient } = this.#options;
      const resource = resources.networkPolicies;
      try {
        await superClient.create(resource, object, { signal });
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
        // Of an earlier attempt, or another client's: it may have no label by which the watch shows it.
        const ref = { namespace: namespaces.superNamespace, name: policyName };
        const patch = patchOf(await superClient.get(resource, ref, { signal }), object);
        if (patch !== undefined) await superClient.patch(resource, ref, patch, { type: 'merge', signal });
      }
    };
    await Promise.all(policies.map(make));
  }

  #wantedOf(tenant: TenantInfo): Readonly<Record<string, NetworkPolicySpec>> {
    let wanted = this.#wanted.get(tenant);
    if (wanted === undefined) {
      wanted = tenant.isolation === undefined ? {} : isolationPolicies(tenant, tenant.isolation);
      this.#wanted.set(tenant, wanted);
    }
    return wanted;
  }

  driftOf(tenant: TenantState, key: KeyRef): Drift | undefined {
    return this.#steps(tenant, key).length === 0 ? undefined : 'differs';
  }

  /** What has to be written for the policies of one super namespace; nothing in one that is not ours, or ends. */
  #steps(tenant: TenantState, key: KeyRef): Step[] {
    // No pod is made either, and nothing may act on them.
    if (tenant.info.isIsolationUnknown === true) return [];
    const { superCaches } = this.#options;
    const superNamespace = tenant.superNamespace(key.name);
    const object = superCaches.get(resources.namespaces, { name: superNamespace });
    if (
      object === undefined ||
      !isOurs(object, tenant.info) ||
      object.metadata.deletionTimestamp !== undefined
    )
      return [];
    const wanted = this.#wantedOf(tenant.info);
    const there = superCaches.watched(name).byIndex(bySuperNamespace, superNamespace);
    const namespaces = { superNamespace, namespace: key.name };
    const steps: Step[] = [];
    for (const [policyName, spec] of Object.entries(wanted)) {
      const policy = policyObject(tenant.info, namespaces, policyName, spec);
      const present = there.find(({ metadata }) => metadata.name === policyName);
      const patch = present === undefined ? undefined : patchOf(present, policy);
      if (present === undefined) steps.push({ do: 'create', object: policy });
      else if (patch !== undefined) steps.push({ do: 'patch', present, patch });
    }
    // What an earlier syncer knew is better than what is taken for want of knowledge.
    if (tenant.info.isSuperClusterUnknown === true) return steps.filter((step) => step.do === 'create');
    for (const present of there)
      if (!Object.hasOwn(wanted, present.metadata.name ?? '')) steps.push({ do: 'delete', present });
    return steps;
  }

  async #carryOut(step: Step, signal: AbortSignal): Promise<void> {
    const { superClient } = this.#options;
    const resource = resources.networkPolicies;
    if (step.do === 'create') {
      await superClient.create(resource, step.object, { signal });
      return;
    }
    const { uid, resourceVersion } = step.present.metadata;
    if (step.do === 'delete') {
      await superClient.delete(resource, refOf(step.present), { signal, uid });
      return;
    }
    const { metadata, ...rest } = step.patch;
    const guarded = { ...rest, metadata: { ...(metadata as MergePatch), uid, resourceVersion } };
    await superClient.patch(resource, refOf(step.present), guarded, { type: 'merge', signal });
  }

  #superNamespace({ type, object }: StoreEvent<KubeObject>): void {
    if (type === 'deleted') this.#making.delete(object.metadata.name ?? '');
    else this.#enqueue(object);
  }

  #policy({ object }: StoreEvent<KubeObject>): void {
    this.#making.delete(object.metadata.namespace ?? '');
    this.#enqueue(object);
  }

  #enqueue(superObject: KubeObject): void {
    const uid = tenantUidOf(superObject);
    const tenant = uid === undefined ? undefined : this.#options.tenant(uid);
    const namespace = tenantNamespaceOf(superObject);
    if (tenant === undefined || namespace === undefined) return;
    const key: KeyRef = { kind: name, name: namespace };
    if (this.#steps(tenant, key).length > 0) this.#options.enqueue(tenant, key);
  }
}

type Step =
  | { readonly do: 'create'; readonly object: KubeObject }
  | { readonly do: 'patch'; readonly present: KubeObject; readonly patch: MergePatch }
  | { readonly do: 'delete'; readonly present: KubeObject };

/** One of the tenant's, and where it is in the super cluster. */
interface Namespaces {
  readonly namespace: string;
  readonly superNamespace: string;
}

function policyObject(
  tenant: TenantInfo,
  { namespace, superNamespace }: Namespaces,
  policyName: string,
  spec: object,
): KubeObject {
  return {
    apiVersion: apiVersionOf(resources.networkPolicies),
    kind: resources.networkPolicies.kind,
    metadata: {
      name: policyName,
      namespace: superNamespace,
      labels: {
        [labelKeys.tenant]: tenant.uid,
        [labelKeys.bucket]: String(bucketOf(tenant.uid)),
        [labelKeys.namespace]: namespace,
        [labelKeys.isolation]: 'true',
      },
      annotations: { [annotationKeys.tenantName]: namespacedName(tenant) },
    },
    spec,
  };
}

function patchOf(present: KubeObject, wanted: KubeObject): MergePatch | undefined {
  const { labels, annotations } = wanted.metadata;
  const metadata = mergePatch(
    {
      labels: pick(present.metadata.labels, labels),
      annotations: pick(present.metadata.annotations, annotations),
    },
    { labels, annotations },
  );
  const spec = mergePatch(present['spec'] as object, wanted['spec'] as object);
  if (metadata === undefined && spec === undefined) return undefined;
  return { ...(metadata && { metadata }), ...(spec && { spec }) };
}

/** Of what others have put there, nothing. */
function pick(all: Record<string, string> = {}, like: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(all).filter(([key]) => Object.hasOwn(like, key)));
}

/** Of policies at pods. A tenant may have thousands of either: after so many, other work has a turn. */
const looksInTurn = 2_000;

/**
 * Before a policy of the tenant's own is taken away or changed in the super cluster, the pods that it held for are put
 * back under those of this controller: there is no moment in which neither holds. From then on it counts for none that
 * it will not hold for, and pods whose labels are being written without knowing of that are waited for.
 */
export function ownPolicyGate(superClient: KubeClient, superCaches: Caches): ActionGate {
  return async (work, action) => {
    const { tenant, situation, signal } = work;
    const { superObject } = situation;
    const changes = action.do === 'deleteSuper' || action.do === 'patchSuper';
    if (!changes || tenant.info.isolation === undefined || superObject === undefined) return action;
    const becomes =
      action.do === 'deleteSuper' ? 'gone' : (applyMergePatch(superObject, action.patch) as KubeObject);
    const { labels, end } = tenant.ownPolicyWrites.change(superObject, becomes);
    try {
      await Promise.all(labels.map(({ ended }) => ended));
      for (const write of labels) {
        const shown = superCaches.get(resources.pods, refOf(write.pod));
        if (!tenant.ownPolicyWrites.isUnseen(write, shown)) continue;
        if (write.state === 'unknown') return { is: 'retry', code: 'isolation' };
        const held = heldPolicyLabels(write.pod, tenant.context()) ?? {};
        const over = ownPolicyKeysOf(write.pod.metadata.labels).filter((key) => held[key] === undefined);
        await takeOff(superClient, write.pod, over, signal);
      }
      await putBackUnderDefaults(superObject, work, superClient, superCaches);
      return action;
    } finally {
      end();
    }
  };
}

/** Of the pods that the policy selects, those that the cache shows. */
async function putBackUnderDefaults(
  policy: KubeObject,
  { tenant, signal }: Work,
  superClient: KubeClient,
  superCaches: Caches,
): Promise<void> {
  const context = tenant.context();
  const { namespace = '' } = policy.metadata;
  const { podSelector = {} } = (policy['spec'] ?? {}) as NetworkPolicySpec;
  const policies = superCaches.byIndex(resources.networkPolicies, 'byNamespace', namespace).length;
  let looks = 0;
  for (const superPod of superCaches.byIndex(resources.pods, 'byNamespace', namespace)) {
    const { labels = {} } = superPod.metadata;
    if (!matchesSelector(podSelector, labels)) continue;
    looks += policies;
    if (looks >= looksInTurn) {
      looks = 0;
      await setImmediate(undefined, { signal });
    }
    const carried = ownPolicyKeysOf(labels);
    if (carried.length === 0 || !isOurs(superPod, tenant.info)) continue;
    const held = heldPolicyLabels(superPod, context) ?? {};
    const over = carried.filter((key) => held[key] === undefined);
    await takeOff(superClient, superPod, over, signal);
  }
}

/** Takes labels off a pod of the super cluster, if it is there. */
async function takeOff(
  superClient: KubeClient,
  pod: KubeObject,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  if (keys.length === 0) return;
  const labels = Object.fromEntries(keys.map((key) => [key, null]));
  const patch = { metadata: { uid: pod.metadata.uid, labels } };
  await ignoreNotFound(superClient.patch(resources.pods, refOf(pod), patch, { type: 'merge', signal }));
}
