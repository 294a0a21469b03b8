import type { ServerResponse } from 'node:http';
import type { KubeObject } from '../types.ts';
import type { Change } from './fake-storage.ts';
import { Refusal } from './refusal.ts';
import type { RequestInfo } from './request-path.ts';
import { type Selector, selector } from './selectors.ts';

/** The HTTP/2 compatibility API answers to the same calls. */
export type Response = ServerResponse;

/** One open watch, to be disturbed by tests. */
export class FakeWatch {
  readonly info: RequestInfo;
  readonly #response: Response;
  readonly #matches: Selector;
  readonly #cut: () => void;
  readonly #after: number;
  #silent = false;
  /** Bytes per write; 0: whole lines. */
  splitBytes = 0;

  constructor(info: RequestInfo, response: Response, after: number, cut: () => void) {
    this.info = info;
    this.#response = response;
    this.#after = after;
    this.#cut = cut;
    this.#matches = selector(info.query.get('labelSelector'), info.query.get('fieldSelector'));
  }

  /** What this watch shows of a change: an object that enters or leaves its selector is added or deleted. */
  change(change: Change): void {
    const { type, object, previous } = change;
    if (change.collection !== this.info.collection || change.version <= this.#after) return;
    if (this.info.namespace !== undefined && object.metadata.namespace !== this.info.namespace) return;
    const before = type !== 'ADDED' && previous !== undefined && this.#matches(previous);
    const after = type !== 'DELETED' && this.#matches(object);
    if (before && after) this.#event('MODIFIED', object);
    else if (after) this.#event('ADDED', object);
    else if (before) {
      // As servers do: the last state that matched, with the version of the change.
      const { resourceVersion } = object.metadata;
      this.#event('DELETED', {
        ...previous,
        metadata: { ...previous.metadata, resourceVersion },
      } as KubeObject);
    }
  }

  initial(objects: readonly KubeObject[]): void {
    for (const object of objects) if (this.#matches(object)) this.#event('ADDED', object);
  }

  bookmark(version: number): void {
    if (!this.info.query.has('allowWatchBookmarks') || version <= this.#after) return;
    const metadata = { resourceVersion: String(version), creationTimestamp: null };
    this.#event('BOOKMARK', { apiVersion: this.info.apiVersion, kind: 'Bookmark', metadata });
  }

  /** An ERROR event and the end of the stream. */
  error(code: number, reason: string, details: ConstructorParameters<typeof Refusal>[3] = {}): void {
    this.#event('ERROR', new Refusal(code, reason, `${reason} in the stream`, details).status);
    this.end();
  }

  /** Ends the stream as a server does whose time is up. */
  end(): void {
    this.#response.end();
  }

  /** Cuts the connection under the stream, other streams on it included. */
  reset(): void {
    this.#cut();
  }

  /** From now on nothing is sent, and the connection stays open. */
  silence(): void {
    this.#silent = true;
  }

  /** Sends the first half of an event and stops there. */
  halfLine(then: 'end' | 'reset'): void {
    this.#response.write('{"type":"ADDED","object":{"metadata":{"name":"cut off","na', () => {
      if (then === 'end') this.end();
      else this.reset();
    });
  }

  /** Sends bytes as they are. */
  raw(bytes: Buffer): void {
    this.#write(bytes);
  }

  #event(type: string, object: unknown): void {
    if (!this.#silent) this.#write(Buffer.from(`${JSON.stringify({ type, object })}\n`));
  }

  #write(bytes: Buffer): void {
    const step = this.splitBytes || bytes.length;
    for (let at = 0; at < bytes.length; at += step) this.#response.write(bytes.subarray(at, at + step));
  }
}
