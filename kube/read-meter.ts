/**
 * Counts the time that what one server sends takes on this thread, and says when more of it may be read. Who reads asks for
 * its turn before each piece.
 */
export interface ReadMeter {
  worked(ms: number): void;
  /** Undefined: at once. Rejects with the signal's reason. */
  turn(signal: AbortSignal | undefined): Promise<void> | undefined;
}

/** Does work at once and counts it, also when it throws. */
export function metered<T>(meter: ReadMeter | undefined, work: () => T): T {
  if (meter === undefined) return work();
  const startedMs = performance.now();
  try {
    return work();
  } finally {
    meter.worked(performance.now() - startedMs);
  }
}
