/** Time that never runs backwards, in milliseconds from an arbitrary start. */
export interface MonotonicClock {
  monotonic(): number;
}

/** What the runner needs to wait for delayed items. */
export interface WaitingClock extends MonotonicClock {
  /** Rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
