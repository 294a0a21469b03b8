import { join } from 'node:path';
import type { Cache } from '../build/cache.ts';
import { run } from '../machine/run.ts';

/** A static program from the C file of that name beside this one. `edition` is to be raised when the file changes. */
export function compile(cache: Cache, name: string, edition: string): Promise<string> {
  const source = join(import.meta.dirname, `${name}.c`);
  return cache.ensure(cache.path('programs', name, edition, name), async (directory) => {
    const program = join(directory, name);
    await run('gcc', ['-static', '-Os', '-s', '-Wall', '-Werror', '-o', program, source], {
      signal: cache.signal,
    });
    return program;
  });
}

/** The program that does nothing: in the pause image, and as the first process of a node. */
export function providePause(cache: Cache): Promise<string> {
  return compile(cache, 'pause', '1');
}
