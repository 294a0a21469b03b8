import { setTimeout as delay } from 'node:timers/promises';

const everyMs = 50;

/**
 * For what nobody tells of by an event: processes that are not our children, sockets, files of another
 * process. Everything in an API server is awaited with `until`. Resolves to the first answer that is
 * neither undefined nor false.
 */
export async function poll<T>(
  what: string,
  look: () => T | Promise<T>,
  { timeoutMs }: { timeoutMs: number },
): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await look();
    if (answer !== undefined && answer !== false) return answer as Exclude<T, undefined | false>;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs / 1000} s in vain for ${what}`);
    await delay(everyMs);
  }
}
