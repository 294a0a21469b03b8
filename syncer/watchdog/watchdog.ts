import { extname, join } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { tickMs } from './silence.ts';
import type { TenantAtWork } from './tenant-at-work.ts';

/** A VirtualCluster. */
export interface Suspect {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** What the other thread is started with. */
export interface WatchdogData {
  /** Written by this thread while it runs: a count, and its heap in MiB. */
  readonly beats: Int32Array<SharedArrayBuffer>;
  /** What that may take at most, in bytes. */
  readonly heapLimit: number;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

/** From the other thread: a note was written, or why it was not. */
export type WatchdogMessage = { suspect: Suspect; error?: string };

interface WatchdogOptions {
  atWork: TenantAtWork;
  /** The VirtualCluster with this UID, if it is served. */
  suspect: (uid: string) => Suspect | undefined;
  /** The one whose objects take most of the memory that all of them take, and at least so much; undefined: no one's do. */
  largest: (atLeastBytes: number) => Suspect | undefined;
  /** How the super cluster is reached; the same as this thread reaches it. */
  kubeconfig?: string | undefined;
  context?: string | undefined;
  /** This thread runs again after it was stuck, and a note about this tenant was written. */
  onNoted: (suspect: Suspect) => void;
  onProblem: (error: unknown) => void;
}

/** Under this name on the global object the other thread finds what it asks this one in the midst of its work. */
export const questionName = 'skerry.watchdog.suspect';

/** Part of the heap below which what a tenant has says nothing about why it is full. */
const noticeableShare = 0.1;
const mebibyte = 1024 * 1024;

/**
 * Has another thread watch this one. When this one is stuck in work for a tenant, the other writes that down on the
 * VirtualCluster at once: should the process die of it, its successor takes that tenant up last and alone.
 */
export class Watchdog {
  readonly #options: WatchdogOptions;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /**
   * Whose fault it is that this thread is stuck. `wasFull`: memory was before the work that is under way, whose pauses may
   * be no more than those of the garbage collector.
   */
  whom(wasFull: boolean): Suspect | undefined {
    const { atWork, suspect, largest } = this.#options;
    const atLeastBytes = noticeableShare * getHeapStatistics().heap_size_limit;
    const byMemory = wasFull ? largest(atLeastBytes) : undefined;
    return byMemory ?? (atWork.uid === undefined ? undefined : suspect(atWork.uid));
  }

  /** Until aborted. Never rejects: without the other thread all goes on, unwatched. */
  async run(signal: AbortSignal): Promise<void> {
    const { kubeconfig, context, onNoted, onProblem } = this.#options;
    const beats = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
    const beating = setInterval(() => {
      Atomics.store(beats, 1, Math.round(getHeapStatistics().total_heap_size / mebibyte));
      Atomics.add(beats, 0, 1);
    }, tickMs / 2);
    const key = Symbol.for(questionName);
    const answer = (wasFull: boolean): string => {
      const found = this.whom(wasFull);
      return found === undefined ? '' : JSON.stringify(found);
    };
    Object.defineProperty(globalThis, key, { value: answer, configurable: true });
    const { heap_size_limit: heapLimit } = getHeapStatistics();
    const workerData: WatchdogData = { beats, heapLimit, kubeconfig, context };
    // As this file is: TypeScript here, JavaScript where the package was built.
    const program = join(import.meta.dirname, `watchdog-main${extname(import.meta.filename)}`);
    const worker = new Worker(program, { workerData, resourceLimits: { maxOldGenerationSizeMb: 64 } });
    worker.unref();
    const over = Promise.withResolvers<void>();
    const stop = (): void => over.resolve();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    worker.on('message', ({ suspect: noted, error }: WatchdogMessage) => {
      if (error === undefined) onNoted(noted);
      else onProblem(new Error(error));
    });
    worker.on('error', onProblem);
    await over.promise;
    clearInterval(beating);
    Reflect.deleteProperty(globalThis, key);
    await worker.terminate();
  }
}
