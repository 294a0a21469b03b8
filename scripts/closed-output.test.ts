import { join } from 'node:path';
import { execa } from 'execa';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');

it.each(['scripts/bench.ts', 'bin/vc-manager.js', 'bin/vc-syncer.js', 'bin/vc-gateway.js'])(
  '%s ends without a complaint when nobody reads what it prints',
  async (program) => {
    // `true` is gone long before a program prints its first line.
    const script = 'set -o pipefail; "$@" --help | true';
    const args = ['-c', script, 'bash', process.execPath, join(root, program)];
    const { exitCode, stderr } = await execa('bash', args, { reject: false });
    expect([exitCode, stderr]).toEqual([0, '']);
  },
);
