import { EtcdGateway, type GatewayOptions } from './gateway.ts';
import {
  countKeys,
  type Entry,
  type EtcdCaller,
  type KeyspaceView,
  raiseRevision,
  replaceKeys,
  viewKeys,
} from './keyspace.ts';

export interface OwnEtcdOptions extends GatewayOptions {
  /** Of the tenant's keys, as its API servers have it: `/registry`. */
  readonly prefix: string;
}

interface Call {
  readonly signal?: AbortSignal;
}

/** Outside of what API servers read. */
const replaceGuard = '/skerry/replacing';
const raiseKey = '/skerry/revision';

/**
 * The keys of a tenant in an etcd of its own, which knows no users: a client with a certificate of its authority may do
 * everything. Throws EtcdError, or the signal's reason.
 */
export class OwnEtcd {
  readonly #gateway: EtcdGateway;
  readonly #caller: EtcdCaller;
  readonly #prefix: string;

  constructor({ prefix, ...options }: OwnEtcdOptions) {
    const gateway = new EtcdGateway(options);
    this.#gateway = gateway;
    this.#caller = { call: (path, body, signal) => gateway.post(path, body, { signal }) };
    this.#prefix = prefix.endsWith('/') ? prefix : `${prefix}/`;
  }

  async count({ signal }: Call = {}): Promise<number> {
    return countKeys(this.#caller, this.#prefix, signal);
  }

  /** All keys, at one revision. */
  async view({ signal }: Call = {}): Promise<KeyspaceView> {
    return viewKeys(this.#caller, this.#prefix, signal);
  }

  /** See `EtcdAdmin.replaceTenant`. */
  async replace(
    entries: AsyncIterable<Entry>,
    {
      attempt,
      keepOthers = false,
      ...call
    }: Call & { attempt: string; keepOthers?: boolean; onProgress?: (written: number) => void },
  ): Promise<number> {
    const target = { prefix: this.#prefix, guard: replaceGuard, attempt, keepOthers };
    return replaceKeys(this.#caller, target, entries, call);
  }

  /** See `raiseRevision`. */
  async raise(
    target: number,
    { isEnough, signal }: Call & { isEnough?: () => boolean } = {},
  ): Promise<number> {
    return raiseRevision(this.#caller, { key: raiseKey, target, isEnough }, signal);
  }

  /** Ends its connections; calls that are under way fail. */
  async close(): Promise<void> {
    await this.#gateway.close();
  }
}
