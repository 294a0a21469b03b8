import { AsyncLocalStorage } from 'node:async_hooks';
import { extname, join } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import { Worker } from 'node:worker_threads';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';

/** For which tenant this process works at a moment: known in all that a piece of work begins, awaited or not. */
export class CurrentTenant {
  readonly #uid = new AsyncLocalStorage<string>();

  /** UID of a VirtualCluster; undefined where work is for no tenant or for all. */
  get uid(): string | undefined {
    return this.#uid.getStore();
  }

  run<T>(uid: string, act: () => T): T {
    return this.#uid.run(uid, act);
  }

  /** The rest of what is under way is for this tenant. */
  enter(uid: string): void {
    this.#uid.enterWith(uid);
  }
}

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
  atWork: CurrentTenant;
  /** The VirtualCluster with this UID, if it is served. */
  suspect: (uid: string) => Suspect | undefined;
  /** The one whose objects take most of the memory that all of them take, and at least so much; undefined: none's do. */
  largest: (atLeastBytes: number) => Suspect | undefined;
  /** Whether the objects of the VirtualCluster with this UID take at least so much. */
  fills: (uid: string, atLeastBytes: number) => boolean;
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
   * The tenant that is suspected of this thread being stuck. `wasFull`: memory was before the work that is under way, whose pauses may
   * be no more than those of the garbage collector.
   */
  suspect(wasFull: boolean): Suspect | undefined {
    const { atWork, suspect, largest, fills } = this.#options;
    const { uid } = atWork;
    const atLeastBytes = noticeableShare * getHeapStatistics().heap_size_limit;
    const byMemory = wasFull ? largest(atLeastBytes) : undefined;
    if (byMemory !== undefined || uid === undefined) return byMemory;
    // Where several fill it, the collector runs in the work for anybody.
    return wasFull && !fills(uid, atLeastBytes) ? undefined : suspect(uid);
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
      const found = this.suspect(wasFull);
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

export const tickMs = 250;

/** As long as this without a beat, a thread is stuck: a third of the time after which its replica counts as dead. */
const stuckTicks = 3_000 / tickMs;
/** Where memory runs out too, there is no time to wait. */
const stuckTicksWhenFull = 500 / tickMs;

/**
 * Notices that another thread no longer sends heartbeats. Counts checks and not time: a machine that stood still has not
 * checked either.
 */
export class HeartbeatMonitor {
  #beat: number | undefined;
  #ticks = 0;

  /** To be called every `tickMs` with the beats so far and whether memory is nearly full: only then is a short one told. */
  look(beat: number, isFull: boolean): 'none' | 'short' | 'long' {
    this.#ticks = beat === this.#beat ? this.#ticks + 1 : 0;
    this.#beat = beat;
    if (this.#ticks >= stuckTicks) return 'long';
    return isFull && this.#ticks >= stuckTicksWhenFull ? 'short' : 'none';
  }
}

/** Part of the heap's limit beyond which a thread that is stuck may die within seconds. */
const fullShare = 0.6;

/**
 * Whether the heap of another thread is nearly full, by what that thread reports with each heartbeat: resident memory
 * alone also counts what a process has freed and not returned, and what is not heap.
 */
export class HeapMonitor {
  readonly #limitBytes: number;
  #beat: number | undefined;
  #heapBytes = 0;
  #residentBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /**
   * To be called with the beats so far, the heap as it was said to be at the last one, and resident memory now. `isFull`:
   * with what the process has grown by since that beat. `wasFull`: it was so at that beat, before the work that is under way.
   */
  look(beat: number, heapBytes: number, residentBytes: number): { isFull: boolean; wasFull: boolean } {
    if (beat !== this.#beat)
      [this.#beat, this.#heapBytes, this.#residentBytes] = [beat, heapBytes, residentBytes];
    const grownBytes = Math.max(0, residentBytes - this.#residentBytes);
    const full = fullShare * this.#limitBytes;
    return { isFull: this.#heapBytes + grownBytes > full, wasFull: this.#heapBytes > full };
  }
}

const noteTimeoutMs = 5_000;
/** A tenant of which this many replicas have died joins last and alone. */
export const crashesUntilJoinsLast = 3;

/** Has whichever replica takes this tenant up next do so last and alone. */
export async function markSuspect(
  { namespace, name, uid }: Suspect,
  where: { kubeconfig: string | undefined; context: string | undefined },
): Promise<void> {
  // The thread that watches does without until now.
  const { Connection, KubeClient, loadKubeconfig, modifyStatus, resources } = await import(
    '../../kube/index.ts'
  );
  const options = await loadKubeconfig(where.kubeconfig, where.context);
  const connection = new Connection({ ...options, userAgent: 'vc-syncer-watchdog' });
  try {
    await modifyStatus<VirtualCluster>(
      new KubeClient(connection),
      resources.virtualClusters,
      { namespace, name },
      (vc) => {
        const joinAttempts = Math.max(crashesUntilJoinsLast, vc.status?.joinAttempts ?? 0);
        if (vc.metadata.uid !== uid || vc.status?.joinAttempts === joinAttempts) return undefined;
        return { ...vc, status: { ...vc.status, joinAttempts } };
      },
      { timeoutMs: noteTimeoutMs },
    );
  } finally {
    await connection.close();
  }
}
