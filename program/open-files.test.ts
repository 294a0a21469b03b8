import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { openFileLimits } from './open-files.ts';

it.skipIf(process.platform !== 'linux')(
  'knows the limits of open files that the shell knows (only on Linux)',
  async () => {
    const limits = await openFileLimits();
    const shell = (option: string): number =>
      Number(
        execFileSync('sh', ['-c', `ulimit ${option}`], { encoding: 'utf8' }).replace('unlimited', 'Infinity'),
      );
    // Node.js has raised its own.
    expect(limits).toEqual({ soft: shell('-Sn'), hard: shell('-Hn') });
    expect(limits?.soft).toBe(limits?.hard);
  },
);
