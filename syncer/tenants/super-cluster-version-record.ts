import { annotationKeys } from '../../api/labels.ts';
import {
  type CallOptions,
  isAlreadyExists,
  isNotFound,
  type KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';
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
    const lease = await this.#read(signal);
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
    try {
      await this.#write(annotations, options);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      await this.#tenant
        .create(resources.leases, { metadata: { ...ref, annotations }, spec: {} }, options)
        .catch((raced: unknown) => {
          if (!isAlreadyExists(raced)) throw raced;
        });
    }
  }

  async #write(annotations: Record<string, string>, options: CallOptions): Promise<void> {
    await this.#tenant.patch(
      resources.leases,
      ref,
      { metadata: { annotations } },
      { type: 'merge', ...options },
    );
  }

  async #read(signal: AbortSignal): Promise<KubeObject | undefined> {
    try {
      return await this.#tenant.get(resources.leases, ref, { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Always of the same kind: a server may keep its events elsewhere than the rest. */
  async #version(signal: AbortSignal): Promise<string> {
    const { metadata } = await this.#super.list(resources.namespaces, { limit: 1, signal });
    return metadata.resourceVersion ?? '';
  }
}
