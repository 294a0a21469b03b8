import type { Logger } from 'pino';
import { activityLeaseName } from '../api/names.ts';
import {
  type Clock,
  isNotFound,
  type KubeClient,
  type KubeObject,
  resources,
  Wakeup,
} from '../kube/index.ts';
import { wakeAnnotations, writeActivityLease } from '../program/activity-lease.ts';
import type { Readiness } from './readiness.ts';
import type { Route, Routes } from './routes.ts';

interface ActivityOptions {
  client: Pick<KubeClient, 'create' | 'patch'>;
  /** Skerry's own. */
  namespace: string;
  routes: Pick<Routes, 'byId'>;
  readiness: Pick<Readiness, 'untilReady'>;
  clock: Clock;
  logger: Pick<Logger, 'warn'>;
}

/** How long a client may be held. Clients give up by themselves, most of them after ten seconds. */
const longestWakeMs = 60_000;
/** A request to wake a tenant that the manager has not followed by then is written again. */
const askAgainMs = 5_000;
/** After an API server was not ready for as long as one that is away is waited for. */
const probeAgainMs = 100;
const lookMs = 10_000;
const longestPauseMs = 5 * 60_000;
/** At the end, to say what was not said yet. */
const lastWordsMs = 2_000;

type StoredLease = KubeObject & { spec?: { renewTime?: string } };

interface Said {
  annotations?: Record<string, string>;
  /** Default: now. */
  usedMs?: number;
  signal?: AbortSignal;
}

/** Clients that wait for one tenant. */
interface Waking {
  waiting: Set<Wakeup>;
  /** One of them asks the API server for all whether it is ready. */
  isProbing: boolean;
  isReady: boolean;
}

/**
 * Tells the manager, in a Lease for each tenant, when it was last used and that one that is asleep is needed. The gateway
 * may write no VirtualCluster.
 */
export class Activity {
  readonly #o: ActivityOptions;
  /** Wall-clock time, by id. */
  readonly #saidMs = new Map<string, number>();
  /** When tenants were last used, by id, where their Lease does not say so yet. Only of tenants that there are. */
  readonly #usedMs = new Map<string, number>();
  readonly #waking = new Map<string, Waking>();
  /** Ids of tenants for which the manager was asked lately. */
  readonly #asked = new Set<string>();

  constructor(options: ActivityOptions) {
    this.#o = options;
  }

  /**
   * Until aborted; then says, for a short time, what was not said yet. `takeUsed`: ids of the tenants that were in use since
   * it was called last.
   */
  async run(takeUsed: () => string[], signal: AbortSignal): Promise<void> {
    const { clock, routes, logger } = this.#o;
    while (!signal.aborted) {
      await clock.sleep(lookMs, signal).catch(() => undefined);
      if (signal.aborted) break;
      const nowMs = clock.now();
      for (const id of takeUsed()) this.#usedMs.set(id, nowMs);
      for (const [id, usedMs] of this.#usedMs) {
        const idleMs = routes.byId(id)?.idleMs;
        const pauseMs = Math.min((idleMs ?? 0) / 5, longestPauseMs);
        if (idleMs === undefined) this.#usedMs.delete(id);
        if (idleMs === undefined || nowMs - (this.#saidMs.get(id) ?? 0) < pauseMs) continue;
        this.#saidMs.set(id, nowMs);
        try {
          await this.#sayUsed(id, usedMs, usedMs < nowMs, signal);
          this.#usedMs.delete(id);
        } catch (error) {
          this.#saidMs.delete(id);
          if (!signal.aborted) logger.warn({ err: error, id }, 'cannot say that a tenant is in use');
        }
      }
      for (const id of this.#saidMs.keys()) if (routes.byId(id) === undefined) this.#saidMs.delete(id);
    }
    for (const id of takeUsed()) this.#usedMs.set(id, clock.now());
    await this.#sayRest();
  }

  /** Call it when a route may have changed. */
  routesChanged(): void {
    for (const { waiting } of this.#waking.values()) for (const each of waiting) each.signal();
  }

  /**
   * Resolves when the API server of the tenant is ready; false when that takes too long, or when aborted. For a background
   * client the manager is not asked to wake it: false when it does not come back by itself.
   */
  async wake(
    { id, isBackground = false }: Pick<Route, 'id' | 'isBackground'>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { clock, routes, logger } = this.#o;
    const waking = this.#waking.get(id) ?? { waiting: new Set(), isProbing: false, isReady: false };
    this.#waking.set(id, waking);
    const wakeup = new Wakeup();
    waking.waiting.add(wakeup);
    const untilMs = clock.monotonic() + longestWakeMs;
    try {
      for (let route = routes.byId(id); route?.isAsleep === true; route = routes.byId(id)) {
        const leftMs = untilMs - clock.monotonic();
        if (leftMs <= 0 || (isBackground && route.isPaused !== true)) return false;
        if (waking.isReady && route.isStopped === true) return true;
        if (!isBackground && !this.#asked.has(id)) void this.#ask(id);
        if (route.isStopped === true && !waking.isProbing)
          this.#probe(id, waking).catch((error: unknown) => {
            logger.warn({ err: error, id }, 'cannot ask whether a tenant is ready');
          });
        await wakeup.waitFor(Math.min(leftMs, askAgainMs), clock, signal);
      }
      return routes.byId(id) !== undefined;
    } catch {
      return false;
    } finally {
      waking.waiting.delete(wakeup);
      if (waking.waiting.size === 0 && this.#waking.get(id) === waking) this.#waking.delete(id);
    }
  }

  /**
   * One that was stopped is ready as soon as it says so. The manager hears of it later: a kubelet asks once a second, and the
   * status has to be written.
   */
  async #probe(id: string, waking: Waking): Promise<void> {
    const { readiness, routes, clock } = this.#o;
    const next = (): Route | undefined => {
      const route = waking.waiting.size === 0 ? undefined : routes.byId(id);
      return route?.isStopped === true ? route : undefined;
    };
    waking.isProbing = true;
    try {
      for (let route = next(); route !== undefined && !waking.isReady; route = next()) {
        const { host, port } = route;
        waking.isReady = await readiness.untilReady(route, () => {
          const now = next();
          return now?.host === host && now.port === port;
        });
        if (!waking.isReady) await clock.sleep(probeAgainMs);
      }
    } finally {
      waking.isProbing = false;
    }
    for (const each of waking.waiting) each.signal();
  }

  async #ask(id: string): Promise<void> {
    const { clock, logger } = this.#o;
    this.#asked.add(id);
    try {
      await this.#write(id, { annotations: wakeAnnotations({ nowMs: clock.now(), reason: 'Connection' }) });
      // Over when those that wait look again.
      await clock.sleep(askAgainMs / 2);
    } catch (error) {
      logger.warn({ err: error, id }, 'cannot ask for a tenant to be woken');
      await clock.sleep(1_000);
    } finally {
      this.#asked.delete(id);
    }
  }

  /** A gateway that ends would take along what it has not said, and a tenant would fall asleep too soon. */
  async #sayRest(): Promise<void> {
    const { clock, routes, logger } = this.#o;
    const rest = [...this.#usedMs].filter(([id]) => routes.byId(id)?.idleMs !== undefined);
    if (rest.length === 0) return;
    const [end, said] = [new AbortController(), new AbortController()];
    clock.sleep(lastWordsMs, said.signal).then(
      () => end.abort(new Error(`not said within ${lastWordsMs} ms`)),
      () => undefined,
    );
    const results = await Promise.allSettled(
      rest.map(([id, usedMs]) => this.#sayUsed(id, usedMs, true, end.signal)),
    );
    said.abort();
    const failed = results.filter((result) => result.status === 'rejected');
    const [first] = failed;
    if (first !== undefined)
      logger.warn({ err: first.reason, tenants: failed.length }, 'cannot say that tenants were in use');
  }

  /** `isLate`: another gateway may have said a later time meanwhile, which stays. */
  async #sayUsed(id: string, usedMs: number, isLate: boolean, signal: AbortSignal): Promise<void> {
    const stored = isLate ? await this.#stored(id, signal) : undefined;
    if (Date.parse(stored?.spec?.renewTime ?? '') >= usedMs) return;
    await this.#write(id, { usedMs, signal });
  }

  async #stored(id: string, signal: AbortSignal): Promise<StoredLease | undefined> {
    const { client, namespace } = this.#o;
    const ref = { namespace, name: activityLeaseName(id) };
    try {
      // Changes nothing, and needs no right to read.
      return await client.patch<StoredLease>(resources.leases, ref, {}, { type: 'merge', signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async #write(id: string, { annotations = {}, usedMs = this.#o.clock.now(), signal }: Said): Promise<void> {
    const { client, namespace } = this.#o;
    // A MicroTime.
    const renewTime = new Date(usedMs).toISOString().replace('Z', '000Z');
    const spec = { holderIdentity: 'vc-gateway', renewTime };
    await writeActivityLease({ client, namespace, id, annotations, spec, signal });
  }
}
