import { isJoined } from '../../api/conditions.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type CallRecord, type Clock, findCondition, type Resource, resources } from '../../kube/index.ts';
import type { TenantCustomResources } from '../controllers/custom-resources.ts';
import type { SyncEngine } from '../engine.ts';
import { byTenantIndex } from '../reconcile/caches.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import type { DeletionFreeze, MassDeletionHolds } from './deletion-holds.ts';
import {
  customResourcesCondition,
  isolationCondition,
  networkPoliciesCondition,
  notSynced,
  type StatusWriter,
  type SyncerCondition,
  type UsedResources,
} from './status-writer.ts';

/** Calls of one sort that have failed without one in between that did not. */
interface Streak {
  readonly sinceMs: number;
  lastMs: number;
  count: number;
  why: string;
}

const fewestFailures = 3;
const shortestStreakMs = 30_000;
/** What was not tried for so long says nothing any more. Longer than any back-off of the syncer. */
const forgottenAfterMs = 15 * 60_000;

/**
 * Whether the calls to one tenant succeed, each resource and verb by itself: a server may answer health checks and fail,
 * or lie, in everything else. What is claimed of the tenant must not be older than this.
 */
export class CallHealth {
  readonly #nowMs: () => number;
  readonly #streaks = new Map<string, Streak>();

  /** `nowMs`: monotonic. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** A call has been answered, or not. Lists and watches are judged by their reflectors. */
  called({ verb, resource, status }: Pick<CallRecord, 'verb' | 'resource' | 'status'>): void {
    if (resource === '' || status === 429 || verb === 'list' || verb === 'watch') return;
    // What a tenant's own admission refuses is its own affair.
    const isRefused = verb === 'get' && (status === 401 || status === 403);
    if (status !== 0 && status < 500 && !isRefused) this.succeeded(`${verb} ${resource}`);
    else this.failed(`${verb} ${resource}`, status === 0 ? 'no answer' : `status ${status}`);
  }

  succeeded(what: string): void {
    this.#streaks.delete(what);
  }

  failed(what: string, why: string): void {
    const nowMs = this.#nowMs();
    const streak = this.#streaks.get(what);
    if (streak === undefined) this.#streaks.set(what, { sinceMs: nowMs, lastMs: nowMs, count: 1, why });
    else Object.assign(streak, { lastMs: nowMs, count: streak.count + 1, why });
  }

  /** What has not succeeded for a while, in words; undefined: all does. */
  problem(): string | undefined {
    const nowMs = this.#nowMs();
    const failing: string[] = [];
    for (const [what, { sinceMs, lastMs, count, why }] of this.#streaks) {
      if (nowMs - lastMs > forgottenAfterMs) this.#streaks.delete(what);
      // A moment in which all of them failed says nothing of the time since.
      else if (count >= fewestFailures && lastMs - sinceMs >= shortestStreakMs)
        failing.push(`${what} (${why})`);
    }
    if (failing.length === 0) return undefined;
    const named = failing.sort().slice(0, 5).join(', ');
    return failing.length > 5 ? `${named} and ${failing.length - 5} more` : named;
  }
}

interface HealthOptions {
  state: TenantState;
  engine: SyncEngine;
  status: StatusWriter;
  freeze: DeletionFreeze;
  holds: MassDeletionHolds;
  custom: TenantCustomResources;
  calls: Pick<CallHealth, 'problem'>;
  /** The VirtualCluster as it is now. */
  latest: () => VirtualCluster;
  /** Whether the caches of the tenant hold all that it has. */
  isJoined: () => boolean;
  /** What its pods use now; undefined where nothing says so. */
  used?: (signal: AbortSignal) => Promise<UsedResources | undefined>;
  clock: Clock;
  logger: { warn(fields: object, message: string): void };
}

/** Kubelets are asked for all pods at once, and each change is a write; sooner when pods have come or gone. */
export const usedEveryMs = 5 * 60_000;
const usedSoonMs = 60_000;
const checkEveryMs = 10_000;
const probeTimeoutMs = 5_000;
/** Bytes of the answer: `ok`, or a line for each check. */
const longestProbe = 16 * 1024;
const versionEveryMs = 5 * 60_000;
const resourcesEveryMs = 60_000;
const maxAddresses = 20;

/** Looks at one tenant from time to time: is its API server there, is it the right one, how much does it hold. */
export class Health {
  readonly #options: HealthOptions;
  readonly #ref: { namespace: string; name: string };
  #isWell = true;
  #hasChecked = false;
  #failedProbes = 0;
  /** What was last said of what is limited or metered, and when. */
  #resources: { readonly atMs: number; readonly used: Record<string, string> } | undefined;
  #used: UsedResources | undefined;
  /** By the monotonic clock, and for how many pods. */
  #usedAt: { readonly ms: number; readonly pods: number } | undefined;
  /** By the monotonic clock; when the tenant's version was last written down. */
  #versionAtMs: number | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
    const { namespace, name } = options.state.info;
    this.#ref = { namespace, name };
  }

  /** Whether the last check found everything in order. */
  get isWell(): boolean {
    return this.#isWell;
  }

  /**
   * Said before anything is written for a tenant: from then on the manager waits until it is left. Throws when it is on
   * its way out; where nothing can be said, it is served all the same.
   */
  async markJoining(signal: AbortSignal): Promise<void> {
    const { status, state, latest } = this.#options;
    if (isJoined(latest())) return;
    const stays = await status.markJoining(this.#ref, state.info.uid, signal).catch((error: unknown) => {
      this.#warn(error, signal, 'cannot say that this tenant is being taken up');
      return true;
    });
    if (!stays) throw new Error('it is on its way out');
  }

  /** Until aborted. */
  async watch(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      await clock.sleep(checkEveryMs, signal);
      this.#isWell = await this.check(signal);
    }
  }

  /** Returns whether all is well; what is not is tried again at the next check, and ends nothing. */
  async check(signal: AbortSignal): Promise<boolean> {
    const { isJoined, latest } = this.#options;
    // Of a tenant of an earlier syncer that is known: its pods come first.
    const isLater = this.#hasChecked || latest().status?.usage === undefined;
    this.#hasChecked ||= isJoined();
    const isWell = await this.#try('health check failed', signal, () => this.#look(isLater, signal));
    // Whatever the tenant's API server answers: what runs in the super cluster is charged by this.
    const isSaid =
      !isLater || (await this.#try('cannot say what this tenant uses', signal, () => this.#sayUsage(signal)));
    return isWell && isSaid;
  }

  async #try(otherwise: string, signal: AbortSignal, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      this.#warn(error, signal, otherwise);
      return false;
    }
  }

  async #look(isLater: boolean, signal: AbortSignal): Promise<void> {
    const { state, freeze, holds, custom, latest, isJoined } = this.#options;
    await this.#probe(signal);
    if (!isJoined()) return;
    await this.#say(networkPoliciesCondition(state.info), signal);
    await this.#say(isolationCondition(state.info, this.#podAddresses()), signal);
    custom.reconcile();
    await this.#sayCustomResources(signal);
    await freeze.answer(latest(), signal);
    await freeze.recheck(signal);
    await holds.answer(latest(), signal);
    await holds.recheck(signal);
    if (isLater) await this.#sayVersion(signal);
  }

  async #sayUsage(signal: AbortSignal): Promise<void> {
    const { status, state, isJoined } = this.#options;
    if (!isJoined()) return;
    await this.#measure(signal);
    await status.usage(this.#ref, state.info.uid, this.#usage(), signal);
  }

  #warn(error: unknown, signal: AbortSignal, message: string): void {
    if (signal.aborted) throw error;
    const tenant = `${this.#ref.namespace}/${this.#ref.name}`;
    this.#options.logger.warn({ tenant, err: error }, message);
  }

  async #probe(signal: AbortSignal): Promise<void> {
    const { state, engine, isJoined } = this.#options;
    try {
      // Writes that hang, by a webhook of the tenant's own, say nothing of its API server.
      const limits = { timeoutMs: probeTimeoutMs, maxBytes: longestProbe };
      await state.client.raw('GET', '/readyz', { signal, aside: true, ...limits });
    } catch (error) {
      if (signal.aborted) throw error;
      this.#failedProbes += 1;
      if (this.#failedProbes >= 2) await this.#say(unreachable(error), signal);
      throw error;
    }
    if (this.#failedProbes > 0) engine.retryNow(state.info.uid);
    this.#failedProbes = 0;
    const problem = this.#options.calls.problem();
    // While its lists fail, what an earlier syncer has said is no longer so.
    if (problem !== undefined) await this.#say(callsFail(problem), signal);
    else if (isJoined()) await this.#say(joined, signal);
  }

  /** Not while deletes are stopped: what the operator has not accepted is not the state to remember. */
  async #sayVersion(signal: AbortSignal): Promise<void> {
    const { state, status, clock } = this.#options;
    const nowMs = clock.monotonic();
    if (state.frozen !== undefined) return;
    if (this.#versionAtMs !== undefined && nowMs - this.#versionAtMs < versionEveryMs) return;
    this.#versionAtMs = nowMs;
    const version = state.caches.latestVersion();
    if (version !== undefined) await status.observedVersion(this.#ref, state.info.uid, version, signal);
    await this.#options.freeze
      .recordSuper(signal)
      .catch((error: unknown) =>
        this.#warn(error, signal, 'cannot write down how far the super cluster has come'),
      );
  }

  /** Of a few of its pods in the super cluster. */
  #podAddresses(): string[] {
    const addresses: string[] = [];
    const { superCaches, info } = this.#options.state;
    for (const pod of superCaches.byIndex(resources.pods, byTenantIndex, info.uid)) {
      const { podIPs = [] } = (pod['status'] ?? {}) as { podIPs?: { ip: string }[] };
      const { hostNetwork } = (pod['spec'] ?? {}) as { hostNetwork?: boolean };
      if (hostNetwork !== true) addresses.push(...podIPs.map(({ ip }) => ip));
      if (addresses.length >= maxAddresses) break;
    }
    return addresses;
  }

  async #sayCustomResources(signal: AbortSignal): Promise<void> {
    const { state, custom, latest } = this.#options;
    const wanted = customResourcesCondition(state.info, custom.problems);
    // A VirtualCluster that has never asked for any has no such condition.
    if (wanted.reason === 'NoneWanted' && !findCondition(latest().status?.conditions, wanted.type)) return;
    await this.#say(wanted, signal);
  }

  async #say(condition: SyncerCondition, signal: AbortSignal): Promise<void> {
    const { status, state } = this.#options;
    await status.condition(this.#ref, state.info.uid, condition, signal);
  }

  #usage(): Parameters<StatusWriter['usage']>[2] {
    const count = (resource: Resource): number => this.#options.state.caches.store(resource).size;
    return {
      pods: count(resources.pods),
      services: count(resources.services),
      nodes: count(resources.nodes),
      ...this.#used,
      resources: this.#usedResources(),
    };
  }

  /** What cannot be read now is not known; nothing waits for it. */
  async #measure(signal: AbortSignal): Promise<void> {
    const { used, clock, state } = this.#options;
    const ms = clock.monotonic();
    const pods = state.caches.store(resources.pods).size;
    const pauseMs = this.#usedAt?.pods === pods ? usedEveryMs : usedSoonMs;
    if (used === undefined || (this.#usedAt !== undefined && ms - this.#usedAt.ms < pauseMs)) return;
    this.#usedAt = { ms, pods };
    try {
      this.#used = await used(signal);
    } catch (error) {
      this.#used = undefined;
      this.#warn(error, signal, 'cannot read what its pods use');
    }
  }

  /** They change all the time: read at most once a minute. */
  #usedResources(): Record<string, string> {
    const { engine, state, clock } = this.#options;
    const atMs = clock.monotonic();
    if (this.#resources === undefined || atMs - this.#resources.atMs >= resourcesEveryMs) {
      this.#resources = { atMs, used: engine.usedBy(state.info.uid) };
    }
    return this.#resources.used;
  }
}

const joined = {
  type: 'Synced',
  status: 'True',
  reason: 'Joined',
  message: 'both sides are watched and kept in agreement',
} as const;

function callsFail(problem: string): SyncerCondition {
  const message = `the tenant's API server answers health checks, but these calls fail: ${problem}; look for webhooks and APIServices of the tenant that stand in the way`;
  return notSynced('CallsFail', message);
}

function unreachable(error: unknown): SyncerCondition {
  const why = error instanceof Error ? error.message : String(error);
  return notSynced('Unreachable', `the tenant's API server does not answer: ${why}`);
}
