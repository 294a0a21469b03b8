import { setTimeout as delay } from 'node:timers/promises';

/**
 * How long a test waits for what has to come. This ends a hang before the test's own time is over (`vitest.config.ts`), to
 * say what was waited for; it says nothing of how long that should take. What a resync would mend after a minute has a
 * shorter limit (`checker/checker.ts`).
 */
export const patienceMs = 180_000;
/** The same for kubectl. */
export const patiently = `--timeout=${patienceMs / 1000}s`;
/** For clients of tests. Half of it, so that a wait asks once more when an answer is lost. */
export const patientRequests = {
  requestTimeoutMs: patienceMs / 2,
  connectTimeoutMs: patienceMs / 2,
} as const;

/** For requests that the gateway holds while nothing serves: as long as it does, however slow the machine is. */
export const heldRequestMs = 300_000;

const everyMs = 50;

/**
 * For what nobody tells of by an event: processes that are not our children, sockets, files of another
 * process. Everything in an API server is awaited with `until`. Resolves to the first answer that is
 * neither undefined nor false.
 */
export async function poll<T>(
  what: string,
  look: () => T | Promise<T>,
  { timeoutMs = patienceMs }: { timeoutMs?: number } = {},
): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await look();
    if (answer !== undefined && answer !== false) return answer as Exclude<T, undefined | false>;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs / 1000} s in vain for ${what}`);
    await delay(everyMs);
  }
}
