import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** What was sent has not been read for too long. */
export class UnreadStream extends Error {
  override readonly name = 'UnreadStream';
}

/**
 * Server-sent events to one page. What is sent next waits until the page has read what was sent before, so that a page
 * that reads slowly is told the latest state less often, and holds no more memory than one event.
 */
export class EventStream {
  readonly #response: Writable;
  readonly #signal: AbortSignal;
  readonly #unreadMs: number;

  /** `unreadMs`: who reads nothing for so long is not there any more. */
  constructor(response: Writable, signal: AbortSignal, unreadMs: number) {
    this.#response = response;
    this.#signal = signal;
    this.#unreadMs = unreadMs;
  }

  async event(name: string, data: object, id?: number): Promise<void> {
    const head = id === undefined ? '' : `id: ${id}\n`;
    await this.#send(`${head}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** For proxies and browsers; pages do not see it. */
  async comment(text: string): Promise<void> {
    await this.#send(`: ${text}\n\n`);
  }

  /** Resolves when the page has room for more. Throws UnreadStream, or the reason of the signal. */
  async #send(text: string): Promise<void> {
    if (this.#response.write(text)) return;
    const late = AbortSignal.timeout(this.#unreadMs);
    try {
      await once(this.#response, 'drain', { signal: AbortSignal.any([this.#signal, late]) });
    } catch (error) {
      this.#signal.throwIfAborted();
      if (late.aborted) throw new UnreadStream('the page does not read what it is sent');
      throw error;
    }
  }
}
