import type { Socket } from 'node:net';
import { type Clock, onAbort } from '../../kube/index.ts';

interface BandwidthOptions {
  clock: Pick<Clock, 'monotonic' | 'sleep'>;
  /** What the streams of one tenant carry together. */
  tenantBytesPerSecond: number;
  /** What those of all tenants do. */
  totalBytesPerSecond: number;
}

/** A piece costs as much as one of this size, however small it is: reading and writing it takes some 30 µs. */
const fewestBytes = 4 * 1024;
/** A stream that waits looks again so often: what others have used meanwhile changes whose turn it is. */
const longestSleepMs = 20;

/** A token bucket of one second's worth. More than it holds may be taken: what is owed is waited for. */
class Bucket {
  readonly #bytesPerMs: number;
  readonly #most: number;
  #level: number;
  #atMs: number;

  constructor(bytesPerSecond: number, nowMs: number) {
    this.#bytesPerMs = bytesPerSecond / 1_000;
    this.#most = bytesPerSecond;
    this.#level = bytesPerSecond;
    this.#atMs = nowMs;
  }

  take(bytes: number): void {
    this.#level -= bytes;
  }

  isFull(nowMs: number): boolean {
    return this.#at(nowMs) >= this.#most;
  }

  /** Until something may be taken. */
  waitMs(nowMs: number): number {
    const level = this.#at(nowMs);
    return level > 0 ? 0 : Math.max(1, -level / this.#bytesPerMs);
  }

  #at(nowMs: number): number {
    this.#level = Math.min(this.#most, this.#level + (nowMs - this.#atMs) * this.#bytesPerMs);
    this.#atMs = nowMs;
    return this.#level;
  }
}

interface Waiting {
  readonly bytes: number;
  readonly pass: () => void;
}

/** Of one tenant. */
interface Share {
  readonly bucket: Bucket;
  /** In the order in which they came. */
  readonly waiting: Set<Waiting>;
  /** Bytes that have passed, as if it had always used as much as others: of those that wait, the least goes first. */
  virtualBytes: number;
}

/**
 * Limits the bytes that logs and streams into containers carry, as each MiB takes this thread some 3 ms: for each tenant,
 * whose streams take turns, and for all together, where tenants take turns.
 */
export class StreamBandwidth {
  readonly #options: BandwidthOptions;
  readonly #total: Bucket;
  /** By UID. A tenant that has used nothing for a while needs none. */
  readonly #shares = new Map<string, Share>();
  /** Of the share that has used most of those of which something has passed: it never goes back. */
  #virtualBytes = 0;
  #isDividing = false;

  constructor(options: BandwidthOptions) {
    this.#options = options;
    this.#total = new Bucket(options.totalBytesPerSecond, options.clock.monotonic());
  }

  /** Of so many pieces together. Undefined: they may pass at once. Rejects with the signal's reason. */
  take(tenant: string, size: number, signal: AbortSignal, pieces = 1): Promise<void> | undefined {
    const bytes = Math.max(size, pieces * fewestBytes);
    const nowMs = this.#options.clock.monotonic();
    const share = this.#share(tenant, nowMs);
    if (share.waiting.size === 0 && share.bucket.waitMs(nowMs) === 0 && this.#total.waitMs(nowMs) === 0) {
      this.#pass(share, bytes);
      return undefined;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = { bytes, pass: resolve };
    share.waiting.add(waiting);
    const release = onAbort(signal, () => {
      share.waiting.delete(waiting);
      reject(signal.reason);
    });
    if (!this.#isDividing) void this.#divide();
    return promise.finally(release);
  }

  /** They have passed already: the next ones wait for them. */
  charge(tenant: string, bytes: number): void {
    this.#pass(this.#share(tenant, this.#options.clock.monotonic()), Math.max(bytes, fewestBytes));
  }

  #share(tenant: string, nowMs: number): Share {
    const present = this.#shares.get(tenant);
    if (present !== undefined) {
      if (present.waiting.size === 0)
        present.virtualBytes = Math.max(present.virtualBytes, this.#virtualBytes);
      return present;
    }
    for (const [each, { bucket, waiting }] of this.#shares)
      if (waiting.size === 0 && bucket.isFull(nowMs)) this.#shares.delete(each);
    const bucket = new Bucket(this.#options.tenantBytesPerSecond, nowMs);
    const share: Share = { bucket, waiting: new Set(), virtualBytes: this.#virtualBytes };
    this.#shares.set(tenant, share);
    return share;
  }

  #pass(share: Share, bytes: number): void {
    share.bucket.take(bytes);
    this.#total.take(bytes);
    this.#virtualBytes = Math.max(this.#virtualBytes, share.virtualBytes);
    share.virtualBytes += bytes;
  }

  /** As long as anything waits. */
  async #divide(): Promise<void> {
    const { clock } = this.#options;
    this.#isDividing = true;
    for (let waitMs = this.#passNext(); waitMs !== undefined; waitMs = this.#passNext())
      if (waitMs > 0) await clock.sleep(Math.min(waitMs, longestSleepMs));
    this.#isDividing = false;
  }

  /** Returns after how long there may be another one; undefined: nothing waits. */
  #passNext(): number | undefined {
    const nowMs = this.#options.clock.monotonic();
    let next: Share | undefined;
    let shortestMs: number | undefined;
    for (const share of this.#shares.values()) {
      if (share.waiting.size === 0) continue;
      const waitMs = Math.max(share.bucket.waitMs(nowMs), this.#total.waitMs(nowMs));
      shortestMs = Math.min(shortestMs ?? waitMs, waitMs);
      if (waitMs === 0 && (next === undefined || share.virtualBytes < next.virtualBytes)) next = share;
    }
    const [first] = next?.waiting ?? [];
    if (next === undefined || first === undefined) return shortestMs;
    next.waiting.delete(first);
    this.#pass(next, first.bytes);
    first.pass();
    return 0;
  }
}

type Done = (error?: Error | null) => void;

/** Has all that is written to the socket from now on wait for its turn: its writer waits as for a slow reader. */
export function throttle(socket: Socket, bandwidth: StreamBandwidth, tenant: string): void {
  const { _write: write, _writev: writev } = socket;
  const ending = new AbortController();
  socket.once('close', () => ending.abort(new Error('the connection is closed')));
  const inTurn = (bytes: number, pieces: number, go: () => void, done: Done): void => {
    const turn = bandwidth.take(tenant, bytes, ending.signal, pieces);
    if (turn === undefined) go();
    else turn.then(go, done);
  };
  socket._write = (chunk: Buffer, encoding, done) =>
    inTurn(chunk.length, 1, () => write.call(socket, chunk, encoding, done), done);
  if (writev)
    socket._writev = (chunks, done) => {
      const bytes = chunks.reduce((sum, { chunk }) => sum + (chunk as Buffer).length, 0);
      inTurn(bytes, chunks.length, () => writev.call(socket, chunks, done), done);
    };
}
