import type { Logger } from 'pino';
import { Backoff, type Clock } from '../../kube/index.ts';
import { explain } from './explain.ts';

/** Tries until it succeeds; undefined when aborted before. */
export async function untilDone<T>(
  { clock, random, logger }: { clock: Clock; random: () => number; logger: Logger },
  { signal, problem }: { signal: AbortSignal; problem: string },
  work: () => Promise<T>,
): Promise<T | undefined> {
  const backoff = new Backoff({ clock, random });
  while (!signal.aborted) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted) break;
      logger.warn({ err: error }, `${problem}: ${explain(error).message}`);
      await clock.sleep(backoff.next(), signal).catch(() => {});
    }
  }
  return undefined;
}
