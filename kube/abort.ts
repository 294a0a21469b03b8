import { setMaxListeners } from 'node:events';

/**
 * Calls back when the signal aborts, at once if it has; returns how to stop listening. One signal
 * may end thousands of calls, which Node.js would report as a leak.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return nothing;
  if (signal.aborted) {
    listener();
    return nothing;
  }
  setMaxListeners(0, signal);
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => onAbort(signal, resolve));
}

/** A controller that aborts with the signal, until released. */
export function linkedController(signal: AbortSignal | undefined): {
  controller: AbortController;
  release: () => void;
} {
  const controller = new AbortController();
  return { controller, release: onAbort(signal, () => controller.abort(signal?.reason)) };
}

/** A signal that aborts with the other, but in a later turn of the event loop; until released. */
export function deferredSignal(signal: AbortSignal): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController();
  const release = onAbort(signal, () => setImmediate(() => controller.abort(signal.reason)));
  return { signal: controller.signal, release };
}

function nothing(): void {}
