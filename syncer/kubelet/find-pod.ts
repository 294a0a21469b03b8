import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, type ObjectRef, resources } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { allContainers, type Pod } from '../kinds/pods/types.ts';
import { isOurs, originalUid, tenantNamespaceOf } from '../mapping/labels.ts';
import { byTenantIndex } from '../reconcile/caches.ts';
import { notReady, podNotFound, Refusal } from './refusal.ts';
import type { PodRequest } from './request-path.ts';

/** What this room has to know of a tenant that is served. */
export interface KubeletTenant {
  /** Whether the caches hold all that there is. */
  readonly isComplete: boolean;
  /** Resolves when they do; may never. Absent: no request waits for it. */
  readonly complete?: Promise<void>;
  context(): SyncContext;
  superNamespace(tenantNamespace: string): string;
}

/**
 * Where the pod that a tenant asks for runs. It has to be the tenant's own in both worlds: known to its API
 * server, and in the super cluster marked with this tenant and the UID of just that pod. Throws Refusal.
 */
export function findPod(tenant: KubeletTenant, request: PodRequest): Required<ObjectRef> {
  const { namespace, pod: name, uid, container, verb } = request;
  const { tenantObjects, superObjects } = tenant.context();
  const tenantPod = tenantObjects.get<Pod>(resources.pods, { namespace, name });
  if (tenantPod === undefined) throw tenant.isComplete ? podNotFound(name) : notReady();
  if (uid !== undefined && uid !== tenantPod.metadata.uid) throw podNotFound(name);
  const superPod = superPodOf(tenant, tenantPod);
  if (superPod === undefined) throw podNotFound(name);
  if (container !== undefined && !isTenantContainer(container, tenantPod, superPod))
    throw new Refusal(404, `container "${container}" not found in pod "${name}"`);
  const node = superObjects.get(resources.nodes, { name: superPod.spec?.nodeName ?? '' });
  if (node !== undefined && isSimulated(node))
    // 500 is what an API server passes on together with the words that came with it.
    throw new Refusal(
      500,
      `${verb} is not available for pod ${name}: its node is simulated and runs no containers`,
    );
  return { namespace: tenant.superNamespace(namespace), name };
}

/** A pod in the tenant's API server, and what it is in the super cluster. */
export interface PodPair {
  readonly pod: Pod;
  readonly superPod: Pod;
}

/** The tenant's pods in the super cluster: its quota bounds them, whatever its API server says that there is. */
export function superPodsOf(tenant: KubeletTenant): readonly Pod[] {
  const { tenant: info, superObjects } = tenant.context();
  return superObjects.byIndex<Pod>(resources.pods, byTenantIndex, info.uid);
}

/** Undefined for a super pod that is not made from just the pod that the tenant has there now. */
export function pairOf(tenant: KubeletTenant, superPod: Pod): PodPair | undefined {
  const namespace = tenantNamespaceOf(superPod) ?? '';
  const { name = '' } = superPod.metadata;
  const pod = tenant.context().tenantObjects.get<Pod>(resources.pods, { namespace, name });
  return pod !== undefined && superPodOf(tenant, pod) === superPod ? { pod, superPod } : undefined;
}

/** What a tenant's pod is in the super cluster, if that pod is made from just this one. */
export function superPodOf(tenant: KubeletTenant, tenantPod: KubeObject): Pod | undefined {
  const { tenant: info, superObjects } = tenant.context();
  const { namespace = '', name = '', uid } = tenantPod.metadata;
  const ref = { namespace: tenant.superNamespace(namespace), name };
  const superPod = superObjects.get<Pod>(resources.pods, ref);
  const isIt =
    superPod !== undefined &&
    isOurs(superPod, info) &&
    tenantNamespaceOf(superPod) === namespace &&
    originalUid(superPod) === uid;
  return isIt ? superPod : undefined;
}

/**
 * Whether a container is one that the tenant has put into its pod: those that the super cluster's webhooks have added
 * are not the tenant's to enter, nor debug containers of its people. What the super object is marked with decides, as the
 * tenant object is what the tenant's API server says it is.
 */
function isTenantContainer(container: string, tenantPod: Pod, superPod: Pod): boolean {
  if (!containersOf(tenantPod).has(container)) return false;
  const sent = superPod.metadata.annotations?.[annotationKeys.containers];
  return sent?.split(',').includes(container) === true;
}

export function isSimulated(superNode: KubeObject): boolean {
  return superNode.metadata.labels?.[labelKeys.simulated] === 'true';
}

/** Names of all that runs in a pod as its owner has written it, who may have written any number. */
export function containersOf({ spec = {} }: Pod): ReadonlySet<string> {
  return new Set(allContainers(spec).map(({ name }) => name));
}
