import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { World } from './harness/world.ts';

const bench = join(import.meta.dirname, '..', 'scripts', 'bench.ts');

interface Report {
  scenarios: { burst: { rounds: { side?: string; result?: { pods: { readyMs?: number }[] } }[] } };
}

/** Its figures prove nothing here; only that it works on a stack of its own, as a user starts it. */
describe('the benchmark', () => {
  let world: World;

  beforeAll(() => {
    world = new World(inject('stack'));
  });

  afterAll(() => world?.close());

  it('measures both sides, writes figures, tables and a plot, and leaves nothing', async () => {
    const place = world.file('bench');
    mkdirSync(place);
    const size = ['--tenants', '1', '--pods', '3', '--repeats', '1'];
    const { exitCode, stdout, stderr } = await execa(
      process.execPath,
      [bench, 'burst', ...size, '--json', world.file('bench.json')],
      {
        reject: false,
        timeout: 300_000,
        // It takes away all that it has started.
        forceKillAfterDelay: 120_000,
        env: { NODE_OPTIONS: '', TMPDIR: place },
      },
    );
    expect(exitCode, stderr).toBe(0);
    const { scenarios } = JSON.parse(readFileSync(world.file('bench.json'), 'utf8')) as Report;
    const { rounds } = scenarios.burst;
    for (const measured of ['direct', 'tenants']) {
      const pods = rounds.find(({ side }) => side === measured)?.result?.pods;
      expect(
        pods?.map(({ readyMs }) => typeof readyMs),
        measured,
      ).toEqual(['number', 'number', 'number']);
    }
    expect(stdout).toMatch(/^\| tenants \|/m);
    expect(readFileSync(world.file('bench.md'), 'utf8')).toContain('### burst: 1 × 3 pods');
    expect(existsSync(world.file('bench-burst.svg'))).toBe(true);
    expect(readdirSync(place)).toEqual([]);
  }, 450_000);
});
