import { linkedController, onAbort } from './abort.ts';
import { Backoff } from './backoff.ts';
import type { KubeClient, ListOptions } from './client.ts';
import { type Clock, systemClock } from './clock.ts';
import { ApiError, ConnectionError, isGone, isResourceVersionTooLarge } from './errors.ts';
import { metered } from './read-limits.ts';
import type { Store } from './store.ts';
import type { KubeObject, Resource } from './types.ts';
import {
  endsInitialEvents,
  isUnreadable,
  silentWatch,
  verifyResourceVersion,
  type WatchEvent,
  watch,
} from './watch.ts';

export interface ReflectorProblem {
  /** `refused`: `beforeReplace` turned the list down. `internal`: a defect on this side. */
  phase: 'list' | 'watch' | 'refused' | 'internal';
  error: unknown;
  /** Failures since the server last answered. */
  failures: number;
  retryInMs: number;
}

export interface ReflectorOptions<T extends KubeObject> {
  client: KubeClient;
  resource: Resource;
  store: Store<T>;
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  pageSize?: number | undefined;
  /**
   * The first list asks for what the server has in memory, which is cheap for it, may be slightly old,
   * and comes in one piece whatever the page size. True: the most recent state, in pages.
   */
  consistentStart?: boolean;
  /**
   * The first list comes as the beginning of the watch, in its most recent state: one request in place of two. Where a
   * server cannot do that, or fails with it, it is asked for a list. Takes the place of `consistentStart`.
   */
  streamedStart?: boolean;
  /** See WatchOptions. */
  bodyTimeoutMs?: number;
  /** See WatchOptions. */
  cutManagedFields?: boolean;
  /** See ListOptions. */
  metadataOnly?: boolean;
  /** Lists are whole; watches show metadata alone (`isPartial`). Not with `streamedStart`. */
  watchesMetadataOnly?: boolean;
  /** Called for each list: sees its pages as they come (see ListOptions), and when it is in the store or was given up. */
  meterList?: () => ListMeter;
  clock?: Clock;
  random?: () => number;
  /** Errors after which it tries again. Report them: otherwise a missing right looks like a cluster without objects. */
  onProblem: (problem: ReflectorProblem) => void;
  /** Called with every resourceVersion received, so that a caller may notice one that runs backwards. */
  onResourceVersion?: (resourceVersion: string, source: 'list' | 'watch') => void;
  /**
   * Sees every list before the store does. Throwing refuses it: the store stays as it is, and after
   * a back-off the server is asked again.
   */
  beforeReplace?: (objects: readonly T[], resourceVersion: string, signal: AbortSignal) => Promise<void>;
}

/** What is in memory of a list is counted by `page`, and no more after `end`. */
export interface ListMeter {
  page: (objects: readonly KubeObject[]) => void;
  end: () => void;
}

/** What the next iteration of the loop does. */
type Next =
  | { do: 'list'; resourceVersion: string; exact?: boolean; versionsMayRepeat: boolean }
  | { do: 'watch'; resourceVersion: string; verify: boolean; initialEvents?: boolean };

const shortWatchMs = 1_000;
/** A watch that lasted this long was in order: what ends it is a new problem, not more of the last one. */
const healthyWatchMs = 10_000;
/** A list is put into the store for so long at a stretch. */
const replaceSliceMs = 5;
/** Steps between two looks at the clock. */
const stepsPerLook = 32;
/** Expired versions within this interval are answered with a back-off. */
const expiryIntervalMs = 30_000;

/** The state that a watch begins with. Servers may send changes of it before they say that it is complete. */
class StreamedList<T extends KubeObject> {
  readonly #objects = new Map<string, T>();
  readonly #meter: ListMeter | undefined;

  constructor(meter: ListMeter | undefined) {
    this.#meter = meter;
  }

  /** Throws what the meter says: each object may be as large as a page. */
  take({ type, object }: WatchEvent<T>): void {
    const { namespace = '', name } = object.metadata;
    const key = `${namespace}/${name}`;
    if (type === 'DELETED') this.#objects.delete(key);
    if (type !== 'ADDED' && type !== 'MODIFIED') return;
    this.#meter?.page([object]);
    this.#objects.set(key, object);
  }

  get objects(): T[] {
    return [...this.#objects.values()];
  }

  end(): void {
    this.#meter?.end();
  }
}

/**
 * Keeps a store equal to what an API server has, by list and watch. Survives whatever servers and
 * networks do; only its signal ends it.
 */
export class Reflector<T extends KubeObject = KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #backoff: Backoff;
  #running = false;
  #hasSynced = false;
  #waiters: (() => void)[] = [];
  #lastActivityMs: number;
  #failures = 0;
  /** Ends the current watch; set only while there is one. */
  #interrupt: (() => void) | undefined;
  #relistWanted = false;
  /** A short watch was resumed at once, and none has been healthy since. */
  #hasResumedAtOnce = false;
  #expiredAt = Number.NEGATIVE_INFINITY;
  #labelSelector: string | undefined;
  /** Counts changes of the label selector. */
  #selectorChanges = 0;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#labelSelector = options.labelSelector;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    this.#backoff = new Backoff({ clock: this.#clock, random: this.#random });
    this.#lastActivityMs = this.#clock.monotonic();
  }

  /** True from the first list that reached the store, since `setLabelSelector` if that was called. */
  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** When the server last answered or sent an event, on the monotonic clock. */
  get lastActivityMs(): number {
    return this.#lastActivityMs;
  }

  /** Resolves when the first list is in the store; rejects with the signal's reason. */
  synced(signal?: AbortSignal): Promise<void> {
    if (this.#hasSynced) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const waiter = (): void => {
        release();
        resolve();
      };
      this.#waiters.push(waiter);
      const release = onAbort(signal, () => {
        this.#waiters = this.#waiters.filter((each) => each !== waiter);
        reject(signal?.reason);
      });
    });
  }

  /**
   * Asks for a fresh list soon: the watch is ended, and what it has missed shows as unwatched events. What it
   * would have shown next does not: the list is of the version that the watch has come to, and it goes on there.
   */
  relist(): void {
    this.#relistWanted = true;
    this.#interrupt?.();
  }

  /**
   * Follows what this label selector selects from now on: the watch is ended, and the next list replaces what the
   * store holds, without a gap. `synced` waits for it.
   */
  setLabelSelector(labelSelector: string): void {
    if (labelSelector === this.#labelSelector) return;
    this.#labelSelector = labelSelector;
    this.#selectorChanges += 1;
    this.#hasSynced = false;
    this.relist();
  }

  /** Works until aborted, then resolves. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#running) throw new Error('this reflector is running already');
    this.#running = true;
    const { streamedStart = false, consistentStart = false } = this.#options;
    let next: Next = consistentStart ? freshList() : { ...freshList(), resourceVersion: '0' };
    if (streamedStart) next = { do: 'watch', resourceVersion: '', verify: false, initialEvents: true };
    try {
      while (!signal.aborted) {
        try {
          next = next.do === 'list' ? await this.#list(next, signal) : await this.#watch(next, signal);
        } catch (error) {
          if (signal.aborted) return;
          await this.#pause('internal', error, signal);
          next = freshList();
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#running = false;
    }
  }

  async #list(wanted: Next & { do: 'list' }, signal: AbortSignal): Promise<Next> {
    const meter = this.#options.meterList?.();
    try {
      return await this.#takeList(wanted, meter?.page, signal);
    } finally {
      meter?.end();
    }
  }

  async #takeList(
    wanted: Next & { do: 'list' },
    onPage: ListOptions['onPage'],
    signal: AbortSignal,
  ): Promise<Next> {
    const { client, resource } = this.#options;
    this.#relistWanted = false;
    const changesBefore = this.#selectorChanges;
    const { resourceVersion: version, exact = false } = wanted;
    const options = {
      ...this.#scope(),
      resourceVersion: version,
      exact,
      signal,
      onPage,
    };
    let resourceVersion: string;
    let objects: T[];
    try {
      const list = await client.list<T>(resource, options);
      objects = list.items;
      resourceVersion = list.metadata.resourceVersion ?? '';
    } catch (error) {
      if (exact && isGone(error)) return freshList();
      await this.#pause('list', error, signal);
      if (exact) return freshList();
      return isGone(error) || isResourceVersionTooLarge(error) ? { ...wanted, resourceVersion: '' } : wanted;
    }
    const { versionsMayRepeat } = wanted;
    const refused = await this.#replace(
      objects,
      resourceVersion,
      { changesBefore, versionsMayRepeat },
      signal,
    );
    return refused ?? { do: 'watch', resourceVersion, verify: false };
  }

  /** Puts the whole state into the store. What it returns is to be done instead of watching from there. */
  async #replace(
    objects: T[],
    resourceVersion: string,
    { changesBefore, versionsMayRepeat }: { changesBefore: number; versionsMayRepeat: boolean },
    signal: AbortSignal,
  ): Promise<Next | undefined> {
    const { store, beforeReplace, onResourceVersion } = this.#options;
    this.#heard();
    onResourceVersion?.(resourceVersion, 'list');
    try {
      await beforeReplace?.(objects, resourceVersion, signal);
    } catch (error) {
      await this.#pause('refused', error, signal);
      return { ...freshList(), versionsMayRepeat };
    }
    if (changesBefore !== this.#selectorChanges) return freshList();
    await this.#put(store.replacing(objects, { versionsMayRepeat }), signal);
    this.#failures = 0;
    this.#markSynced();
    return undefined;
  }

  /** Does all steps; where the server's share of the thread is counted, in slices of time. */
  async #put(steps: Iterator<void>, signal: AbortSignal): Promise<void> {
    const { meter } = this.#options.client.connection;
    const sliceMs = meter === undefined ? Number.POSITIVE_INFINITY : replaceSliceMs;
    while (!metered(meter, () => endsWithin(steps, sliceMs))) {
      await nextTurn();
      await meter?.turn(signal);
      signal.throwIfAborted();
    }
  }

  async #watch(from: Next & { do: 'watch' }, signal: AbortSignal): Promise<Next> {
    if (this.#relistWanted) return listOf(from.resourceVersion);
    const { client, resource, namespace, store, onResourceVersion, meterList } = this.#options;
    const { meter } = client.connection;
    const startedAt = this.#clock.monotonic();
    const timeoutSeconds = 300 + Math.floor(this.#random() * 300);
    const { controller: interrupt, release } = linkedController(signal);
    this.#interrupt = () => interrupt.abort();
    let { resourceVersion } = from;
    let changed = false;
    let initial = from.initialEvents === true ? new StreamedList<T>(meterList?.()) : undefined;
    const changesBefore = this.#selectorChanges;
    try {
      if (from.verify) {
        await verifyResourceVersion(
          client.connection,
          resource,
          namespace,
          resourceVersion,
          interrupt.signal,
        );
        this.#heard();
      }
      const events = watch<T>(client.connection, resource, {
        ...this.#scope(),
        ...(this.#options.watchesMetadataOnly === true ? { metadataOnly: true } : {}),
        resourceVersion,
        timeoutSeconds,
        signal: interrupt.signal,
        initialEvents: initial !== undefined,
        bodyTimeoutMs: this.#options.bodyTimeoutMs,
      });
      for await (const event of events) {
        const { type, object } = event;
        if (initial !== undefined) {
          this.#heard();
          if (!endsInitialEvents(event)) {
            metered(meter, () => initial?.take(event));
            continue;
          }
          resourceVersion = object.metadata.resourceVersion ?? '';
          const how = { changesBefore, versionsMayRepeat: false };
          const refused = await this.#replace(initial.objects, resourceVersion, how, signal);
          if (refused !== undefined) return refused;
          initial.end();
          initial = undefined;
          continue;
        }
        if (type !== 'BOOKMARK') {
          metered(meter, () => store.apply(type, object));
          changed = true;
        }
        resourceVersion = object.metadata.resourceVersion ?? resourceVersion;
        this.#heard();
        this.#failures = 0;
        onResourceVersion?.(resourceVersion, 'watch');
      }
    } catch (error) {
      signal.throwIfAborted();
      if (this.#relistWanted) return listOf(resourceVersion);
      if (initial !== undefined) return await this.#afterStreamedStart(error, signal);
      return await this.#afterFailure(error, resourceVersion, startedAt, signal);
    } finally {
      release();
      this.#interrupt = undefined;
      initial?.end();
    }
    if (initial !== undefined)
      return await this.#afterStreamedStart(
        new Error('the server ended the watch before the state was complete'),
        signal,
      );
    const livedMs = this.#clock.monotonic() - startedAt;
    this.#lived(livedMs);
    // A server that ends watches at once would otherwise be asked in a tight loop. One that has sent events
    // before may have closed on a reader that it found too slow: resume without delay, but not again and again.
    if (livedMs < shortWatchMs) {
      if (!changed || this.#hasResumedAtOnce)
        await this.#pause('watch', new Error('the server ended the watch at once'), signal);
      this.#hasResumedAtOnce = true;
    }
    return { do: 'watch', resourceVersion, verify: livedMs < timeoutSeconds * 900 };
  }

  /** A list tells what is wrong, or does without what this server lacks. */
  async #afterStreamedStart(error: unknown, signal: AbortSignal): Promise<Next> {
    const isRefusal =
      error instanceof ApiError && error.code >= 400 && error.code < 500 && error.code !== 429;
    if (!isRefusal) await this.#pause('list', error, signal);
    return freshList();
  }

  async #afterFailure(
    error: unknown,
    resourceVersion: string,
    startedAt: number,
    signal: AbortSignal,
  ): Promise<Next> {
    const now = this.#clock.monotonic();
    this.#lived(now - startedAt);
    if (isGone(error) || isResourceVersionTooLarge(error)) {
      // The server is well and has said what to do; only one that says so all the time must be spared.
      if (now - this.#expiredAt < expiryIntervalMs) await this.#pause('watch', error, signal);
      else this.#report('watch', error, 0);
      this.#expiredAt = now;
      return { ...freshList(), versionsMayRepeat: !isGone(error) };
    }
    const resume: Next = { do: 'watch', resourceVersion, verify: true };
    if (isUnreadable(error)) {
      // Resumed, it would show the same event again, for as long as the server keeps its history.
      await this.#pause('watch', error, signal);
      return freshList();
    }
    if (error instanceof ConnectionError) {
      const lived = now - startedAt >= shortWatchMs;
      if (!(error.code === silentWatch && lived)) await this.#pause('watch', error, signal);
      return resume;
    }
    await this.#pause('watch', error, signal);
    // Busy and failing servers may recover with our version still good; one that keeps refusing it will not.
    const passing = error instanceof ApiError && (error.code === 429 || error.code >= 500);
    return passing && this.#failures < 3 ? resume : freshList();
  }

  /** After a watch that was in order, what comes next is the first problem. */
  #lived(livedMs: number): void {
    if (livedMs < healthyWatchMs) return;
    this.#backoff.reset();
    this.#hasResumedAtOnce = false;
  }

  /** Reports a failure and waits as long as the server asks, or the back-off. Throws when aborted. */
  async #pause(phase: ReflectorProblem['phase'], error: unknown, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    let retryInMs = this.#backoff.next();
    if (error instanceof ApiError && error.retryAfterMs !== undefined) {
      retryInMs = Math.max(retryInMs, error.retryAfterMs * (1 + this.#random() * 0.1));
    }
    this.#report(phase, error, retryInMs);
    await this.#clock.sleep(retryInMs, signal);
  }

  #report(phase: ReflectorProblem['phase'], error: unknown, retryInMs: number): void {
    this.#failures += 1;
    try {
      this.#options.onProblem({ phase, error, failures: this.#failures, retryInMs });
    } catch {
      // A listener that throws must not stop the reflector.
    }
  }

  #scope(): Pick<
    ReflectorOptions<T>,
    'namespace' | 'labelSelector' | 'fieldSelector' | 'pageSize' | 'cutManagedFields' | 'metadataOnly'
  > {
    const { namespace, fieldSelector, pageSize, cutManagedFields, metadataOnly } = this.#options;
    return {
      namespace,
      labelSelector: this.#labelSelector,
      fieldSelector,
      pageSize,
      cutManagedFields: cutManagedFields ?? false,
      metadataOnly: metadataOnly ?? false,
    };
  }

  #heard(): void {
    this.#lastActivityMs = this.#clock.monotonic();
  }

  #markSynced(): void {
    if (this.#hasSynced) return;
    this.#hasSynced = true;
    for (const waiter of this.#waiters) waiter();
    this.#waiters = [];
  }
}

/** Goes on with the steps for so long; returns whether they have ended. */
function endsWithin(steps: Iterator<void>, ms: number): boolean {
  const endMs = performance.now() + ms;
  for (let step = 1; steps.next().done !== true; step++)
    if (step % stepsPerLook === 0 && performance.now() >= endMs) return false;
  return true;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The state at a version that the server has shown a moment ago. */
function listOf(resourceVersion: string): Next & { do: 'list' } {
  return { do: 'list', resourceVersion, exact: resourceVersion !== '', versionsMayRepeat: false };
}

function freshList(): Next & { do: 'list' } {
  return { do: 'list', resourceVersion: '', versionsMayRepeat: false };
}
