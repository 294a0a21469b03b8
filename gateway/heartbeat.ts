import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import {
  gatewayAnnotation,
  gatewayKey,
  gatewaysLeaseName,
  runningGateways,
} from '../api/program-versions.ts';
import {
  type Clock,
  ignoreNotFound,
  type KubeClient,
  type KubeObject,
  repeatUntilAborted,
  resources,
} from '../kube/index.ts';

interface GatewayHeartbeatOptions {
  client: Pick<KubeClient, 'create' | 'patch'>;
  /** Skerry's own. */
  namespace: string;
  /** Of this process alone, as a name of an annotation. */
  identity: string;
  version: string;
  clock: Clock;
  logger: Pick<Logger, 'debug'>;
}

/** `HOST-RANDOM`, as a name of an annotation; of this process alone. */
export function heartbeatIdentity(host: string): string {
  const name = host.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, 50);
  return `${name.replace(/^[-.]+/, '') || 'gateway'}-${randomBytes(4).toString('hex')}`;
}

const intervalMs = 60_000;
/** A gateway whose record is older has died without removing it. */
const forgetMs = 10 * 60_000;
const callTimeoutMs = 5_000;

/**
 * Records that this gateway runs, and in which version, in a Lease that all gateways share. They may not read Leases: the
 * response to a patch shows the records of the others, and each gateway removes those of dead ones.
 */
export class GatewayHeartbeat {
  readonly #o: GatewayHeartbeatOptions;

  constructor(options: GatewayHeartbeatOptions) {
    this.#o = options;
  }

  /** Until aborted, when it removes the record. Nothing else depends on it: failed writes are tried again. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, identity, logger } = this.#o;
    const onError = (error: unknown): void =>
      logger.debug({ err: error }, 'cannot say that this gateway runs');
    await repeatUntilAborted({ everyMs: intervalMs, clock, onError }, signal, () => this.#record(signal));
    await this.#annotate({ [gatewayKey(identity)]: null }).catch(onError);
  }

  async #record(signal: AbortSignal): Promise<void> {
    const { identity, version, clock, client, namespace } = this.#o;
    const now = clock.now();
    const mine = gatewayAnnotation({ identity, version, seen: new Date(now).toISOString() });
    const lease = await ignoreNotFound(this.#annotate(mine, signal));
    if (lease === undefined) {
      const made = { metadata: { name: gatewaysLeaseName, namespace, annotations: mine }, spec: {} };
      await client.create(resources.leases, made, { signal, timeoutMs: callTimeoutMs });
      return;
    }
    const dead = runningGateways(lease.metadata.annotations).filter(
      ({ seen }) => now - Date.parse(seen) > forgetMs,
    );
    if (dead.length === 0) return;
    await this.#annotate(Object.fromEntries(dead.map((each) => [gatewayKey(each.identity), null])), signal);
  }

  #annotate(annotations: Readonly<Record<string, string | null>>, signal?: AbortSignal): Promise<KubeObject> {
    const { client, namespace } = this.#o;
    const options = { type: 'merge', timeoutMs: callTimeoutMs, signal } as const;
    const ref = { namespace, name: gatewaysLeaseName };
    return client.patch(resources.leases, ref, { metadata: { annotations } }, options);
  }
}
