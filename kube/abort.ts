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

/**
 * Runs parts that each work until their signal aborts. The first that fails ends the others; rejects with its error when all
 * have ended. Resolves when `signal` has ended them.
 */
export async function runTogether(
  signal: AbortSignal,
  start: (signal: AbortSignal) => readonly Promise<unknown>[],
): Promise<void> {
  const { controller, release } = linkedController(signal);
  let failed: { readonly error: unknown } | undefined;
  const parts = start(controller.signal).map((part) =>
    part.catch((error: unknown) => {
      if (controller.signal.aborted) return;
      failed = { error };
      controller.abort(error);
    }),
  );
  await Promise.all(parts);
  release();
  if (failed !== undefined) throw failed.error;
}

function nothing(): void {}
