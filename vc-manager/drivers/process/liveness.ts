import { isAlive, type ProcessIdentity } from '../../os/process-identity.ts';

/**
 * Notices the end of processes that are not our children, for which no event exists: looks at all of
 * them about once a second, on one timer that runs only while there is something to look at and does
 * not keep the program alive.
 */
export class LivenessPoll {
  readonly #intervalMs: number;
  readonly #watched = new Map<ProcessIdentity, () => void>();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(intervalMs = 1000) {
    this.#intervalMs = intervalMs;
  }

  /** Calls `gone` once, when the process has ended. Returns how to stop looking. */
  add(identity: ProcessIdentity, gone: () => void): () => void {
    this.#watched.set(identity, gone);
    this.#timer ??= setInterval(() => void this.#look(), this.#intervalMs).unref();
    return () => this.#forget(identity);
  }

  close(): void {
    this.#watched.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      for (const [identity, gone] of [...this.#watched]) {
        if (await isAlive(identity)) continue;
        if (!this.#watched.has(identity)) continue;
        this.#forget(identity);
        gone();
      }
    } finally {
      this.#looking = false;
    }
  }

  #forget(identity: ProcessIdentity): void {
    this.#watched.delete(identity);
    if (this.#watched.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
