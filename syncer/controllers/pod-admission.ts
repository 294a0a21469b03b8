import {
  type Clock,
  type KubeObject,
  namespacedName,
  resources,
  type StoreEvent,
  Wakeup,
} from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { Pod } from '../kinds/pods/types.ts';
import { warning } from '../kinds/validation.ts';
import { tenantNamespaceOf, tenantUidOf } from '../mapping/labels.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';
import { done } from '../reconcile/controller.ts';
import { type ActionGate, recordNotice, type Work } from '../reconcile/execute.ts';
import { keyId } from '../reconcile/keys.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import {
  type PodState,
  SchedulingWindow,
  type TenantCounts,
  type WindowDecision,
} from '../scheduling/scheduling-window.ts';

const tooManyUnschedulable = warning(
  'TooManyUnschedulable',
  'so many of your pods find no node that this one waits until some of them do, or are deleted; see their FailedScheduling events',
);

/** Called about pods at the window. Must not throw. */
export interface PodAdmissionObserver {
  /** A pod is kept back, as its tenant has its share of the scheduler's work; it may go on. */
  held?(tenant: TenantState, key: KeyRef): void;
  admitted?(tenant: TenantState, key: KeyRef): void;
}

interface PodAdmissionOptions {
  superCaches: Caches;
  clock: Clock;
  /** Queues the key of a pod whose turn has come. */
  wake: (uid: string, key: KeyRef) => void;
  /** How many live items of a tenant wait for a worker. */
  waiting: (uid: string) => number;
  observer?: PodAdmissionObserver | undefined;
}

const sweepEveryMs = 1_000;

/**
 * Keeps the scheduling window informed by the caches and by the runs of pods' keys, and asks it before a pod is
 * created.
 */
export class PodAdmission {
  readonly #options: PodAdmissionOptions;
  readonly #window: SchedulingWindow;
  /** A slot begins to rest. */
  readonly #rested = new Wakeup();

  constructor(options: PodAdmissionOptions) {
    this.#options = options;
    this.#window = new SchedulingWindow({
      wake: (uid, id) => options.wake(uid, keyOf(id)),
      waiting: options.waiting,
      onRest: () => this.#rested.signal(),
    });
    options.superCaches.store(resources.pods).subscribe((event) => this.#superEvent(event));
  }

  /** Pods that may be with the scheduler at once. */
  get size(): number {
    return this.#window.size;
  }

  /** Whether a pod waits for its turn with the scheduler. */
  get isFull(): boolean {
    return this.#window.isFull;
  }

  counts(): TenantCounts[] {
    return this.#window.counts();
  }

  /** Keeps a pod's super object from being created until there is room for it; its key is queued again then. */
  readonly gate: ActionGate = async (work, action) => {
    if (action.do !== 'createSuper') return action;
    const { tenant, situation } = work;
    const mayGo = await this.#mayGo(work, (...ask) => this.#window.ask(...ask));
    if (!mayGo) return done;
    this.#options.observer?.admitted?.(tenant, situation.key);
    return action;
  };

  /**
   * The same before the super object is made, which costs more than to wait: whether there is no room. No slot is taken:
   * what comes before the gate may take as long as the tenant's API server likes.
   */
  readonly holdsBack = async (work: Work): Promise<boolean> =>
    work.kind.name === 'pods' && !(await this.#mayGo(work, (...ask) => this.#window.mayAsk(...ask)));

  async #mayGo(work: Work, ask: (uid: string, id: string, now: number) => WindowDecision): Promise<boolean> {
    const { tenant, situation } = work;
    const { key, tenantObject } = situation;
    if (tenantObject !== undefined && !isWindowed(tenantObject)) return true;
    const answer = ask(tenant.info.uid, namespacedName(key), this.#options.clock.monotonic());
    if (answer !== 'go') this.#options.observer?.held?.(tenant, key);
    if (answer === 'full') await recordNotice(work, tooManyUnschedulable);
    return answer === 'go';
  }

  /** Takes part in sharing the window out, with the pods that are in the super cluster already. */
  join(tenant: TenantState, weight: number): void {
    this.#window.join(tenant.info.uid, weight);
    this.#count(tenant.info.uid);
  }

  setWeight(uid: string, weight: number): void {
    this.#window.join(uid, weight);
  }

  leave(uid: string): void {
    this.#window.leave(uid);
  }

  began(uid: string, key: KeyRef): void {
    if (key.kind === 'pods') this.#window.began(uid, namespacedName(key));
  }

  ended(tenant: TenantState, key: KeyRef): void {
    if (key.kind !== 'pods') return;
    const { uid } = tenant.info;
    const now = this.#options.clock.monotonic();
    const shown = this.#superPod(tenant, key);
    if (shown !== undefined) this.#window.observe(uid, namespacedName(key), podStateOf(shown), now);
    const exists = tenant.expectations.super.createdUid(keyId(key)) !== undefined;
    this.#window.ended(uid, namespacedName(key), exists, now);
  }

  isParked(tenant: TenantState, key: KeyRef): boolean {
    return key.kind === 'pods' && this.#window.isParked(tenant.info.uid, namespacedName(key));
  }

  /** Corrects by the caches what an event that never came has left behind. */
  recount(tenant: TenantState): void {
    const { uid } = tenant.info;
    const now = this.#options.clock.monotonic();
    for (const { id, phase } of this.#window.ids(uid)) {
      const key = keyOf(id);
      if (phase === 'waiting' || phase === 'refused') {
        const shown = this.#superPod(tenant, key);
        const isUnseen =
          shown === undefined && tenant.expectations.super.createdUid(keyId(key)) !== undefined;
        if (!isUnseen) this.#window.observe(uid, id, shown && podStateOf(shown), now, false);
      } else if (tenant.caches.get(resources.pods, key) === undefined) {
        // Its run finds nothing to do, and the window lets go of it.
        this.#options.wake(uid, key);
      }
    }
    this.#count(uid);
  }

  /** Until aborted: gives out slots whose rest has ended, and takes back those that nothing is made of. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    let sweepAt = clock.monotonic() + sweepEveryMs;
    try {
      while (!signal.aborted) {
        const at = Math.min(sweepAt, this.#window.nextRestEndsAt() ?? sweepAt);
        await this.#rested.waitFor(Math.max(0, at - clock.monotonic()), clock, signal);
        const now = clock.monotonic();
        this.#window.endRests(now);
        if (now < sweepAt) continue;
        this.#window.sweep(now);
        sweepAt = now + sweepEveryMs;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #count(uid: string): void {
    const now = this.#options.clock.monotonic();
    for (const superPod of this.#options.superCaches.byIndex(resources.pods, byTenantIndex, uid)) {
      const state = podStateOf(superPod);
      const id = idOfSuper(superPod);
      if (id !== undefined && (state === 'waiting' || state === 'refused'))
        this.#window.observe(uid, id, state, now, false);
    }
  }

  #superEvent({ type, object, previous }: StoreEvent<KubeObject>): void {
    const state = type === 'deleted' ? undefined : podStateOf(object);
    // Most events are of pods that have their node, and had it before.
    if (state === 'placed' && previous !== undefined && podStateOf(previous) === 'placed') return;
    const uid = tenantUidOf(object);
    const id = idOfSuper(object);
    if (uid === undefined || id === undefined) return;
    this.#window.observe(uid, id, state, this.#options.clock.monotonic(), type === 'added');
  }

  #superPod(tenant: TenantState, { namespace = '', name }: KeyRef): KubeObject | undefined {
    const ref = { namespace: tenant.superNamespace(namespace), name };
    return this.#options.superCaches.get(resources.pods, ref);
  }
}

function idOfSuper(superPod: KubeObject): string | undefined {
  const namespace = tenantNamespaceOf(superPod);
  return namespace === undefined ? undefined : `${namespace}/${superPod.metadata.name ?? ''}`;
}

function keyOf(id: string): KeyRef {
  const slash = id.indexOf('/');
  return { kind: 'pods', namespace: id.slice(0, slash), name: id.slice(slash + 1) };
}

export function podStateOf(superPod: KubeObject): PodState {
  const { metadata, spec, status } = superPod as Pod;
  if ((spec?.nodeName ?? '') !== '') return 'placed';
  if (metadata.deletionTimestamp !== undefined || !isWindowed(superPod)) return 'none';
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return 'none';
  for (const { type, status: is } of status?.conditions ?? [])
    if (type === 'PodScheduled' && is === 'False') return 'refused';
  return 'waiting';
}

/** Whether the pod goes to the scheduler that the window guards. Others have queues, and orders, of their own. */
function isWindowed(pod: KubeObject): boolean {
  const { schedulerName = '' } = (pod as Pod).spec ?? {};
  return schedulerName === '' || schedulerName === 'default-scheduler';
}
