import { request } from 'node:https';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../kube/index.ts';

interface Backend {
  readonly host: string;
  readonly port: number;
  /** Of the tenant. */
  readonly id?: string;
  /** Nothing of it has run there: what answers may be something else that has taken the port. */
  readonly isStopped?: boolean;
}

interface ReadinessOptions {
  clock: Clock;
  /** How long clients may wait for an API server that is being started. */
  patienceMs: number;
}

const pauseMs = 100;
const probeTimeoutMs = 2_000;

/**
 * Both look once a second, the first time after a second, whether there is what each API server creates for itself. Of one
 * that has served before it is there, and `informer-sync`, which is not left out, says that the roles are known.
 */
const createsFirstObjects = ['rbac/bootstrap-roles', 'scheduling/bootstrap-system-priority-classes'];
const readyPath = '/readyz';
const readyAgainPath = `${readyPath}?${createsFirstObjects.map((hook) => `exclude=poststarthook/${hook}`).join('&')}`;

/**
 * Whether API servers that have just closed or refused a connection take requests again. One that is started anew accepts
 * connections before it knows its roles, and would answer 403: who comes meanwhile is held until `/readyz` is 200.
 */
export class Readiness {
  readonly #o: ReadinessOptions;
  readonly #suspects = new Set<string>();
  readonly #probing = new Map<string, Promise<boolean>>();

  constructor(options: ReadinessOptions) {
    this.#o = options;
  }

  /** Call it when the API server has ended or refused a connection. */
  suspect(backend: Backend): void {
    this.#suspects.add(keyOf(backend));
  }

  isSuspect(backend: Backend): boolean {
    return this.#suspects.has(keyOf(backend));
  }

  /**
   * False when it is not ready within the patience, or is not where clients go any more. All that wait for one API server
   * share its probes.
   */
  untilReady(backend: Backend, isCurrent: () => boolean): Promise<boolean> {
    const suspect = keyOf(backend);
    const key = `${suspect} ${backend.isStopped === true ? backend.id : ''}`;
    let probing = this.#probing.get(key);
    if (probing === undefined) {
      probing = this.#probe(backend, isCurrent).finally(() => {
        this.#probing.delete(key);
        this.#suspects.delete(suspect);
      });
      this.#probing.set(key, probing);
    }
    return probing;
  }

  async #probe(backend: Backend, isCurrent: () => boolean): Promise<boolean> {
    const { clock, patienceMs } = this.#o;
    const untilMs = clock.monotonic() + patienceMs;
    for (;;) {
      if (!isCurrent()) return false;
      if (await isReady(backend)) return true;
      if (clock.monotonic() + pauseMs > untilMs) return false;
      await clock.sleep(pauseMs);
    }
  }
}

/** 401: the template allows no anonymous requests, and the API server is up. */
function isReady({ host, port, id, isStopped = false }: Backend): Promise<boolean> {
  return new Promise((resolve) => {
    // Only one that was ready falls asleep.
    const path = isStopped ? readyAgainPath : readyPath;
    const asked = request(
      // No word of the answer is believed but this one, and nothing is sent: it need not prove who it is. The client asks for that.
      { host, port, path, agent: false, rejectUnauthorized: false, timeout: probeTimeoutMs },
      ({ statusCode, socket }) => {
        const isNamed =
          !isStopped || namesOf(socket as TLSSocket).some((name) => name.startsWith(`DNS:${id}.`));
        resolve((statusCode === 200 || statusCode === 401) && isNamed);
        socket.destroy();
      },
    );
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => resolve(false));
    asked.end();
  });
}

/** As in its certificate. */
function namesOf(socket: TLSSocket): string[] {
  return socket.getPeerCertificate().subjectaltname?.split(', ') ?? [];
}

function keyOf({ host, port }: Backend): string {
  return `${host} ${port}`;
}
