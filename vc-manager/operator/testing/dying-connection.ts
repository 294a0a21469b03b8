import { Connection } from '../../../kube/index.ts';

type Call = Parameters<Connection['request']>[0];
type Answer = Awaited<ReturnType<Connection['request']>>;

/**
 * The connection of a manager that dies right after a write: the server has done it, nobody hears of it,
 * and nothing follows.
 */
export class DyingConnection extends Connection {
  /** Resolves at the death, or never. */
  readonly died: Promise<void>;
  readonly #die: () => void;
  #writesLeft: number;
  #dead = false;

  constructor(options: ConstructorParameters<typeof Connection>[0], writes: number) {
    super(options);
    this.#writesLeft = writes;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.died = promise;
    this.#die = resolve;
  }

  override async request(call: Call): Promise<Answer> {
    // What is not about VirtualClusters and theirs is not part of the count: its order is left to chance.
    const counts =
      call.verb !== 'get' && call.verb !== 'list' && call.resource !== 'leases' && call.verb !== 'other';
    if (this.#dead && call.resource !== 'leases') return silence(call);
    if (!counts) return super.request(call);
    this.#writesLeft -= 1;
    if (this.#writesLeft > 0) return super.request(call);
    this.#dead = true;
    await super.request({ ...call, signal: undefined });
    this.#die();
    return silence(call);
  }
}

/** As from a host that is gone. */
function silence({ signal }: Call): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal === undefined) reject(new Error('a call without a signal would hang for ever'));
    else if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
