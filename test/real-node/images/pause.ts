import { join } from 'node:path';
import type { Cache } from '../build/cache.ts';
import { run } from '../machine/run.ts';

const source = join(import.meta.dirname, 'pause.c');

/** The program that does nothing: in the pause image, and as the first process of a node. */
export function providePause(cache: Cache): Promise<string> {
  return cache.ensure(cache.path('programs', 'pause', '1', 'pause'), async (directory) => {
    const program = join(directory, 'pause');
    await run('gcc', ['-static', '-Os', '-s', '-Wall', '-Werror', '-o', program, source], {
      signal: cache.signal,
    });
    return program;
  });
}
