import { annotationKeys } from '../../api/labels.ts';
import { ignoreNotFound, isAlreadyExists, type KubeClient, resources } from '../../kube/index.ts';
import { isOlder } from '../reconcile/expectations.ts';
import type { IdentityGuard } from '../reconcile/guards.ts';

const ref = { namespace: 'kube-system', name: 'skerry-super-cluster' };
/** UID of its kube-system Namespace, and a resourceVersion. What a tenant has made of it is nothing. */
const form = /^([^@]{1,64})@([0-9]{1,20})$/;
/** A webhook of the tenant may hang. */
const writeTimeoutMs = 5_000;

/**
 * How far the super cluster had come, written down in the tenant, where a restored backup of the super cluster does not take
 * it back (sync rule `side-identity`). A tenant that changes it stops its own deletions, and those of no other.
 */
export class SuperClusterVersionRecord {
  readonly #tenant: KubeClient;
  readonly #super: KubeClient;
  readonly #identity: Pick<IdentityGuard, 'expectedUid' | 'distrusted'>;

  constructor(
    tenant: KubeClient,
    superCluster: KubeClient,
    identity: Pick<IdentityGuard, 'expectedUid' | 'distrusted'>,
  ) {
    this.#tenant = tenant;
    this.#super = superCluster;
    this.#identity = identity;
  }

  /** How far the super cluster has come, and what was written down where it is behind that. */
  async look(signal: AbortSignal): Promise<{ now: string; shown?: string }> {
    const lease = await ignoreNotFound(this.#tenant.get(resources.leases, ref, { signal }));
    const now = await this.#version(signal);
    const [, uid, shown] =
      form.exec(String(lease?.metadata.annotations?.[annotationKeys.superCluster])) ?? [];
    const isBehind = shown !== undefined && uid === this.#identity.expectedUid && isOlder(now, shown);
    return isBehind ? { now, shown } : { now };
  }

  /** Writes down how far it has come, as `look` has just found it. */
  async record(now: string, signal: AbortSignal): Promise<void> {
    const { expectedUid, distrusted } = this.#identity;
    if (expectedUid === undefined || distrusted !== undefined) return;
    const options = { signal, timeoutMs: writeTimeoutMs };
    const annotations = { [annotationKeys.superCluster]: `${expectedUid}@${now}` };
    const patch = { metadata: { annotations } };
    const merge = { type: 'merge', ...options } as const;
    if ((await ignoreNotFound(this.#tenant.patch(resources.leases, ref, patch, merge))) !== undefined) return;
    await this.#tenant
      .create(resources.leases, { metadata: { ...ref, annotations }, spec: {} }, options)
      .catch((raced: unknown) => {
        if (!isAlreadyExists(raced)) throw raced;
      });
  }

  /** Always of the same kind: a server may keep its events elsewhere than the rest. */
  async #version(signal: AbortSignal): Promise<string> {
    const { metadata } = await this.#super.list(resources.namespaces, { limit: 1, signal });
    return metadata.resourceVersion ?? '';
  }
}
