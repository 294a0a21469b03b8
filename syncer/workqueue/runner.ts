import { setImmediate } from 'node:timers/promises';
import { Wakeup } from '../../kube/index.ts';
import type { FairQueue } from './fair-queue.ts';
import { type Outcome, QueueError, type WaitingClock } from './options.ts';

/** After this long without a pause, I/O gets its turn: items that need no call would otherwise run in one block. */
const sliceMs = 10;

/** Timers do not take more than 24 days; waking up once an hour costs nothing. */
const longestSleepMs = 3_600_000;

interface QueueRunnerOptions<Item> {
  queue: FairQueue<Item>;
  /** The same time as the queue's. */
  clock: WaitingClock;
  /** One run of one item. It should end soon after the signal is aborted. A rejection counts as `backoff`. */
  process(item: Item, signal: AbortSignal): Promise<Outcome>;
  /** Called with every rejection of `process`; the item is tried again. Must not throw. */
  onError(error: unknown, item: Item): void;
}

/** Runs a queue's items, as many at once as the queue allows. A queue has one runner at a time. */
export class QueueRunner<Item> {
  readonly #options: QueueRunnerOptions<Item>;
  readonly #wakeup = new Wakeup();
  readonly #work = new Set<Promise<void>>();
  #running = false;
  #alarm: { dueAt: number; cancel: AbortController } | undefined;

  constructor(options: QueueRunnerOptions<Item>) {
    this.#options = options;
  }

  /** Works until aborted; then takes nothing more, and returns when all runs in process have ended. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#running) throw new QueueError('AlreadyRunning', 'the queue is being run; abort that run first');
    this.#running = true;
    const { queue, clock } = this.#options;
    const wake = () => this.#wakeup.signal();
    queue.onChange(wake);
    signal.addEventListener('abort', wake);
    this.#wakeup.signal();
    try {
      let sliceStart = clock.monotonic();
      for (;;) {
        await this.#wakeup.wait();
        for (;;) {
          if (signal.aborted) return;
          const item = queue.take();
          if (item === undefined) break;
          this.#start(item, signal);
          if (clock.monotonic() - sliceStart >= sliceMs) {
            await setImmediate();
            sliceStart = clock.monotonic();
          }
        }
        this.#setAlarm();
      }
    } finally {
      this.#alarm?.cancel.abort();
      this.#alarm = undefined;
      signal.removeEventListener('abort', wake);
      await Promise.all(this.#work);
      queue.onChange(undefined);
      this.#running = false;
    }
  }

  #start(item: Item, signal: AbortSignal): void {
    const work = this.#process(item, signal).finally(() => this.#work.delete(work));
    this.#work.add(work);
  }

  async #process(item: Item, signal: AbortSignal): Promise<void> {
    const { queue, process, onError } = this.#options;
    let outcome: Outcome = { action: 'backoff' };
    try {
      outcome = await process(item, signal);
    } catch (error) {
      onError(error, item);
    }
    queue.done(item, outcome);
  }

  #setAlarm(): void {
    const { queue, clock } = this.#options;
    const dueAt = queue.nextDueAt();
    // One that rings early finds nothing and is set again, which costs less than to move it with each change.
    if (dueAt === undefined || (this.#alarm !== undefined && this.#alarm.dueAt <= dueAt)) return;
    this.#alarm?.cancel.abort();
    const alarm = { dueAt, cancel: new AbortController() };
    this.#alarm = alarm;
    const waitMs = Math.min(longestSleepMs, Math.max(0, dueAt - clock.monotonic()));
    clock.sleep(waitMs, alarm.cancel.signal).then(
      () => {
        if (this.#alarm === alarm) this.#alarm = undefined;
        this.#wakeup.signal();
      },
      () => undefined,
    );
  }
}
