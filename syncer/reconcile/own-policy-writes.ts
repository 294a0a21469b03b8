import { deepEqual } from 'fast-equals';
import { ApiError, type KubeObject, type ObjectRef, withoutUndefined } from '../../kube/index.ts';
import type { ChangingPolicies } from '../context.ts';
import { isOlder } from './expectations.ts';

/** A write by which a pod of the super cluster has labels that take it out of the default policies. */
export interface LabelWrite {
  /** The super pod as the write leaves it, by name and labels alone; of one that is made, without UID. */
  readonly pod: KubeObject;
  /** Resolves when the call has ended, however it did. */
  readonly ended: Promise<void>;
  /**
   * - `sent`: no answer yet.
   * - `written`: in the super cluster; the cache may not show it.
   * - `unknown`: the server may have written it, or may do so still.
   */
  readonly state: 'sent' | 'written' | 'unknown';
}

interface KnownWrite extends LabelWrite {
  pod: KubeObject;
  state: LabelWrite['state'];
  /** Version that the write is guarded by; undefined: the write makes the pod. */
  readonly guard: string | undefined;
  endedAtMs: number;
}

interface PolicyChange {
  readonly becomes: KubeObject | 'gone';
  /** The change is one of this version alone; undefined: of any, as that of a deletion. */
  readonly version: string | undefined;
  /** Undefined: it is about to be sent. */
  endedAtMs: number | undefined;
}

/** Longer than a call and what a server may still do of it take together. */
const unknownForMs = 90_000;
/** Longer than any watch is late that has not lost its place. */
const unseenForMs = 300_000;

/**
 * Sync rule `tenant-isolation`: which NetworkPolicies of one tenant are being changed in the super cluster, and which
 * labels are being written there that rely on them. A writer of labels looks at the changes and registers its write in
 * one go; a writer of policies registers its change first and then waits for the writes under way.
 */
export class OwnPolicyWrites implements ChangingPolicies {
  readonly #nowMs: () => number;
  /** By UID of the policy in the super cluster. */
  readonly #changes = new Map<string, PolicyChange>();
  readonly #labels = new Set<KnownWrite>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Policies that are being changed, or were a moment ago. */
  get size(): number {
    return this.#changes.size;
  }

  becomes(policy: KubeObject): KubeObject | 'gone' | undefined {
    return this.#changes.size === 0 ? undefined : this.#changeOf(policy)?.becomes;
  }

  /**
   * From now on the policy counts only for pods that it holds for both as it is and as it will be, until the cache shows
   * another version. Returns the writes of labels that may have been sent without knowing of it. Call `end` when the
   * change is about to be sent, or is not.
   */
  change(policy: KubeObject, becomes: KubeObject | 'gone'): { labels: readonly LabelWrite[]; end(): void } {
    const { uid = '', namespace, resourceVersion } = policy.metadata;
    const earlier = this.#changeOf(policy);
    const isOfAnyVersion = becomes === 'gone' || (earlier !== undefined && earlier.version === undefined);
    const change: PolicyChange = {
      // Of two that differ either may be what the server makes of it.
      becomes: earlier === undefined || deepEqual(earlier.becomes, becomes) ? becomes : 'gone',
      version: isOfAnyVersion ? undefined : resourceVersion,
      endedAtMs: undefined,
    };
    this.#changes.set(uid, change);
    const labels = [...this.#labels].filter(({ pod }) => pod.metadata.namespace === namespace);
    const end = (): void => {
      change.endedAtMs = this.#nowMs();
    };
    return { labels, end };
  }

  /** Sends a write that leaves `pod`; `guard` as in `KnownWrite`. Registers it before `send` is called. Throws what that throws. */
  async during<T extends KubeObject | undefined>(
    pod: KubeObject,
    guard: string | undefined,
    send: () => Promise<T>,
  ): Promise<T> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const write: KnownWrite = { pod: labelled(pod), guard, ended, state: 'sent', endedAtMs: 0 };
    this.#labels.add(write);
    try {
      const written = await send();
      if (written === undefined) this.#labels.delete(write);
      else {
        write.pod = labelled(written);
        write.state = 'written';
      }
      return written;
    } catch (error) {
      if (error instanceof ApiError && error.code < 500) this.#labels.delete(write);
      else write.state = 'unknown';
      throw error;
    } finally {
      write.endedAtMs = this.#nowMs();
      resolve();
    }
  }

  /** Whether a write of labels may be, or become, what the cache does not show. */
  isUnseen(write: LabelWrite, shown: KubeObject | undefined): boolean {
    const known = write as KnownWrite;
    if (!this.#labels.has(known)) return false;
    const isUnseen = known.state === 'sent' || (this.#isRecent(known) && !isShown(known, shown));
    if (!isUnseen) this.#labels.delete(known);
    return isUnseen;
  }

  /** Forgets what has outlived its use. `shown`: super pods in the cache. */
  prune(shown: (ref: ObjectRef) => KubeObject | undefined): void {
    for (const write of this.#labels) {
      const { namespace, name = '' } = write.pod.metadata;
      this.isUnseen(write, shown({ namespace, name }));
    }
    for (const [uid, { endedAtMs }] of this.#changes) if (this.#isOver(endedAtMs)) this.#changes.delete(uid);
  }

  #changeOf({ metadata: { uid = '', resourceVersion = '' } }: KubeObject): PolicyChange | undefined {
    const change = this.#changes.get(uid);
    if (change === undefined) return undefined;
    const { version } = change;
    const isShown =
      version !== undefined && version !== resourceVersion && !isOlder(resourceVersion, version);
    if (!isShown && !this.#isOver(change.endedAtMs)) return change;
    this.#changes.delete(uid);
    return undefined;
  }

  #isOver(endedAtMs: number | undefined): boolean {
    return endedAtMs !== undefined && this.#nowMs() - endedAtMs >= unknownForMs;
  }

  #isRecent({ state, endedAtMs }: KnownWrite): boolean {
    return this.#nowMs() - endedAtMs < (state === 'unknown' ? unknownForMs : unseenForMs);
  }
}

/** As much of a pod as is asked for: many are kept until the cache is known to show them. */
function labelled({ metadata: { namespace, name, uid, resourceVersion, labels } }: KubeObject): KubeObject {
  return { metadata: withoutUndefined({ namespace, name, uid, resourceVersion, labels }) };
}

function isShown({ pod, state, guard }: KnownWrite, shown: KubeObject | undefined): boolean {
  if (state === 'written') {
    const { resourceVersion = '' } = pod.metadata;
    return shown !== undefined && !isOlder(shown.metadata.resourceVersion ?? '', resourceVersion);
  }
  // A pod that is there is not made again; one that has another version, or is gone, is not patched any more.
  if (guard === undefined) return shown !== undefined;
  if (shown === undefined) return true;
  const { resourceVersion = '' } = shown.metadata;
  return resourceVersion !== guard && !isOlder(resourceVersion, guard);
}
