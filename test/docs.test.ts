import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { codeBlocks } from '../scripts/docs-commands.ts';
import { World } from './harness/world.ts';

const root = join(import.meta.dirname, '..');

/** Blocks of the documentation that follow `<!-- run -->`, one after the other, as a reader would paste them. */
describe('the documentation', () => {
  const stack = inject('stack');
  let world: World;
  let programs: string;

  beforeAll(async () => {
    world = new World(stack);
    programs = world.file('bin');
    await mkdir(programs);
    const program = async (name: string, command: string): Promise<void> => {
      const file = join(programs, name);
      await writeFile(file, `#!/bin/sh\n${command}\n`);
      await chmod(file, 0o755);
    };
    const manager = `exec '${process.execPath}' '${join(root, 'bin', 'vc-manager.js')}'`;
    await program('vc-manager', `${manager} "$@"`);
    await program('npx', `shift; ${manager} "$@"`);
    await program('kubectl', `exec '${stack.kubectl}' "$@"`);
  });

  afterAll(() => world?.close());

  it.concurrent.each(['docs/quickstart.md', 'docs/tenants.md'])('%s says what works', async (page) => {
    const blocks = codeBlocks(await readFile(join(root, page), 'utf8')).filter(({ isRun }) => isRun);
    expect(blocks.length).toBeGreaterThan(1);
    for (const { text, line } of blocks) {
      const { exitCode, all } = await execa('bash', ['-euc', text], {
        cwd: world.file('.'),
        env: {
          PATH: [programs, process.env['PATH']].join(delimiter),
          HOME: world.file('.'),
          SKERRY_STATE: world.stateDir,
        },
        extendEnv: false,
        all: true,
        reject: false,
      });
      expect(exitCode, `${page}:${line}\n${all}`).toBe(0);
    }
  });
});
