import {
  type CallRecord,
  type Clock,
  Connection,
  KubeClient,
  Reflector,
  type Resource,
  resources,
} from '../../kube/index.ts';
import { Caches, type IdentityGuard, type SyncEngine, TenantState } from '../engine/index.ts';
import type { SyncedKind } from '../kinds/index.ts';
import type { Credentials } from './credentials.ts';
import { Freeze } from './freeze.ts';
import { Holds } from './holds.ts';
import type { StatusWriter } from './status-writer.ts';
import { type SyncerSettings, tenantInfo } from './tenant-info.ts';
import type { VirtualCluster } from './virtual-cluster.ts';

export interface SessionLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface SessionOptions {
  vc: VirtualCluster;
  credentials: Credentials;
  settings: SyncerSettings;
  kinds: readonly SyncedKind[];
  engine: SyncEngine;
  superCaches: Caches;
  superIdentity: IdentityGuard;
  status: StatusWriter;
  clock: Clock;
  logger: SessionLogger;
  onCall?: (call: CallRecord) => void;
  onReflectorProblem?: (kind: string, phase: string) => void;
  /** Findings of one comparison of both sides, by kind. */
  onPatrol?: (findings: ReadonlyMap<string, number>) => void;
}

const checkEveryMs = 10_000;
const patrolEveryMs = 60_000;
const probeTimeoutMs = 5_000;

/** Serves one tenant: its caches, its place in the engine, its health. Ends with its signal. */
export class TenantSession {
  readonly state: TenantState;
  readonly #options: SessionOptions;
  readonly #connection: Connection;
  readonly #freeze: Freeze;
  readonly #holds: Holds;
  readonly #ref: { namespace: string; name: string };
  #vc: VirtualCluster;
  #joined = false;
  #failedProbes = 0;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#vc = options.vc;
    const info = tenantInfo(options.vc, options.settings);
    this.#ref = { namespace: info.namespace, name: info.name };
    this.#connection = new Connection({
      ...options.credentials.connection,
      userAgent: 'vc-syncer',
      ...(options.onCall === undefined ? {} : { onCall: options.onCall }),
    });
    this.state = new TenantState({
      info,
      client: new KubeClient(this.#connection),
      caches: new Caches(options.kinds, 'tenant'),
      superCaches: options.superCaches,
      identity: options.vc.status?.identities?.tenant,
      superIdentity: options.vc.status?.identities?.superCluster,
      nowMs: () => options.clock.now(),
    });
    const watched = {
      state: this.state,
      status: options.status,
      vc: options.vc,
      requeue: () => this.#joined && options.engine.requeue(this.state),
    };
    this.#freeze = new Freeze({ ...watched, superIdentity: options.superIdentity });
    this.#holds = new Holds(watched);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { engine, logger } = this.#options;
    const ending = new AbortController();
    const stop = (): void => ending.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const reflectors = this.#reflectors();
    const running = reflectors.map((reflector) => reflector.run(ending.signal));
    try {
      const watching = this.#watchHealth(ending.signal);
      const syncing = Promise.all(reflectors.map((reflector) => reflector.synced(ending.signal))).then(() => {
        ending.signal.throwIfAborted();
        engine.join(this.state, this.#vc.spec?.weight ?? 1);
        this.#joined = true;
        logger.info({ tenant: this.#name }, 'tenant joined');
        return this.#check(ending.signal);
      });
      await Promise.all([syncing, watching]);
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      ending.abort(new Error('session ended'));
      engine.leave(this.state.info.uid);
      signal.removeEventListener('abort', stop);
      await Promise.all(running);
      await this.#connection.close();
      logger.info({ tenant: this.#name }, 'tenant left');
    }
  }

  /** Takes over changed settings and reads the operator's answers. */
  async update(vc: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { engine, settings } = this.#options;
    this.#vc = vc;
    const before = JSON.stringify(this.state.info);
    this.state.updateInfo(tenantInfo(vc, settings));
    if (this.#joined) {
      engine.setWeight(this.state.info.uid, vc.spec?.weight ?? 1);
      if (JSON.stringify(this.state.info) !== before) engine.requeue(this.state);
    }
    await this.#freeze.answer(vc, signal);
    await this.#holds.answer(vc, signal);
  }

  mismatch(side: 'tenant' | 'super'): Promise<void> {
    return this.#freeze.mismatch(side);
  }

  held(): Promise<void> {
    return this.#holds.say();
  }

  get #name(): string {
    return `${this.#ref.namespace}/${this.#ref.name}`;
  }

  #reflectors(): Reflector[] {
    const { kinds, logger, clock } = this.#options;
    return kinds
      .filter((kind) => kind.direction === 'down' || kind.watchTenant)
      .map(
        (kind) =>
          new Reflector({
            client: this.state.client,
            resource: kind.resource,
            store: this.state.caches.store(kind.resource),
            clock,
            consistentStart: true,
            ...(kind.selector?.tenant === undefined ? {} : { labelSelector: kind.selector.tenant }),
            beforeReplace: (_objects, version, signal) =>
              this.#freeze.checkList(kind.resource, version, signal),
            onResourceVersion: (version) => this.#freeze.observeVersion(kind.resource, version),
            onProblem: (problem) => {
              this.#options.onReflectorProblem?.(kind.name, problem.phase);
              logger.warn(
                {
                  tenant: this.#name,
                  kind: kind.name,
                  phase: problem.phase,
                  err: problem.error,
                  failures: problem.failures,
                },
                'cannot follow the tenant',
              );
            },
          }),
      );
  }

  /** Until aborted: is the API server there, is it the right one, how much does it hold, does it agree. */
  async #watchHealth(signal: AbortSignal): Promise<void> {
    const { clock, engine, logger } = this.#options;
    let patrolledAtMs = clock.monotonic();
    for (;;) {
      await clock.sleep(checkEveryMs, signal);
      if (!(await this.#check(signal)) || !this.#joined) continue;
      if (clock.monotonic() - patrolledAtMs < patrolEveryMs) continue;
      patrolledAtMs = clock.monotonic();
      try {
        this.#options.onPatrol?.(await engine.patrol(this.state));
      } catch (error) {
        logger.warn({ tenant: this.#name, err: error }, 'patrol failed');
      }
    }
  }

  /** Returns whether all is well; what is not is tried again at the next check, and ends nothing. */
  async #check(signal: AbortSignal): Promise<boolean> {
    const { logger, status } = this.#options;
    try {
      await this.#probe(signal);
      if (!this.#joined) return true;
      await this.#freeze.answer(this.#vc, signal);
      await this.#freeze.recheck(signal);
      await this.#holds.answer(this.#vc, signal);
      await this.#holds.recheck(signal);
      await status.usage(this.#ref, this.state.info.uid, this.#usage(), signal);
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      logger.warn({ tenant: this.#name, err: error }, 'health check failed');
      return false;
    }
  }

  async #probe(signal: AbortSignal): Promise<void> {
    try {
      await this.state.client.raw('GET', '/readyz', { signal, timeoutMs: probeTimeoutMs });
    } catch (error) {
      if (signal.aborted) throw error;
      this.#failedProbes += 1;
      if (this.#failedProbes >= 2) {
        await this.#say(
          'False',
          'Unreachable',
          `the tenant's API server does not answer: ${text(error)}`,
          signal,
        );
      }
      throw error;
    }
    if (this.#failedProbes > 0) this.#options.engine.retryNow(this.state.info.uid);
    this.#failedProbes = 0;
    if (!this.#joined) return;
    await this.#say('True', 'Joined', 'both sides are watched and kept in agreement', signal);
  }

  async #say(status: 'True' | 'False', reason: string, message: string, signal: AbortSignal): Promise<void> {
    const condition = { type: 'Synced', status, reason, message } as const;
    await this.#options.status.condition(this.#ref, this.state.info.uid, condition, signal);
  }

  #usage(): { pods: number; services: number; nodes: number } {
    const count = (resource: Resource): number => this.state.caches.store(resource).size;
    return {
      pods: count(resources.pods),
      services: count(resources.services),
      nodes: count(resources.nodes),
    };
  }
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
