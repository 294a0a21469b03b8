import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Clock } from '../../kube/index.ts';
import type { KubeletTenant } from './find-pod.ts';
import { Refusal } from './refusal.ts';

/** It works this long at a stretch, as a resync does. */
const sliceMs = 5;
/** Requests of one tenant that wait for their turn. */
const maxWaiting = 100;
/** How long a client may take to read the answer: the tenant's next one waits meanwhile. */
const readWithinMs = 30_000;

/**
 * Answers that are made from all of a tenant's pods, or from all on a node. Of one tenant one is made at a time, whichever
 * API it is of, in slices that give way to everything else, and no faster than its client reads it.
 */
export class ListResponses {
  readonly #clock: Clock;
  readonly #queues = new WeakMap<KubeletTenant, PQueue>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Writes the JSON document that `make` returns in pieces, after what the tenant has asked for earlier; resolves when it is
   * sent. Throws Refusal where too many requests wait, and what `make` throws, before the first byte. The signal is aborted
   * when the client is gone or takes too long to read.
   */
  async answer(
    tenant: KubeletTenant,
    response: ServerResponse,
    make: (signal: AbortSignal) => Promise<AsyncIterable<string> | Iterable<string>>,
  ): Promise<void> {
    const queue = this.#queues.get(tenant) ?? new PQueue({ concurrency: 1 });
    this.#queues.set(tenant, queue);
    if (queue.size >= maxWaiting)
      throw new Refusal(
        429,
        `${maxWaiting} requests of this cluster for metrics or for the pods of a node wait already: try again in a moment`,
      );
    const ending = new AbortController();
    const { signal } = ending;
    response.once('close', () => {
      if (!response.writableFinished) ending.abort(new Error('the client is gone'));
    });
    await queue.add(async () => this.#write(response, await make(signal), ending), { signal });
  }

  async *inSlices<T>(all: Iterable<T>, signal: AbortSignal): AsyncGenerator<T, undefined> {
    let sliceStart = this.#clock.monotonic();
    for (const each of all) {
      yield each;
      if (this.#clock.monotonic() - sliceStart < sliceMs) continue;
      await setImmediate(undefined, { signal });
      sliceStart = this.#clock.monotonic();
    }
  }

  /** No more of it is in memory than the client has room for. */
  async #write(
    response: ServerResponse,
    pieces: AsyncIterable<string> | Iterable<string>,
    ending: AbortController,
  ): Promise<void> {
    const { signal } = ending;
    const sent = new AbortController();
    const cutOff = (): void => {
      response.destroy();
      ending.abort(new Error('the client takes too long to read the answer'));
    };
    this.#clock.sleep(readWithinMs, sent.signal).then(cutOff, () => undefined);
    try {
      response.writeHead(200, { 'content-type': 'application/json' });
      for await (const piece of pieces) {
        signal.throwIfAborted();
        if (!response.write(piece)) await once(response, 'drain', { signal });
      }
      response.end();
      await once(response, 'finish', { signal });
    } finally {
      sent.abort();
    }
  }
}

/** A JSON document with a list at its end. */
export interface ListDocument<T> {
  readonly beginning: object;
  /** The field of the list. */
  readonly list: string;
  readonly itemOf: (item: T) => object;
}

/** The document in pieces, one for each item. */
export async function* listChunks<T>(
  { beginning, list, itemOf }: ListDocument<T>,
  items: AsyncIterable<T> | Iterable<T>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(beginning).slice(0, -1)},"${list}":[`;
  let separator = '';
  for await (const item of items) {
    yield separator + JSON.stringify(itemOf(item));
    separator = ',';
  }
  yield ']}';
}
