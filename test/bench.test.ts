import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { World } from './harness/world.ts';

const bench = join(import.meta.dirname, '..', 'scripts', 'bench.ts');

interface Report {
  scenarios: Record<string, { rounds: unknown[]; figures: { name: string; values: number[] }[] }>;
}

interface PodsRound {
  side?: string;
  result?: { pods: { readyMs?: number }[] };
}

/** Its figures prove nothing here; only that it works on a stack of its own, as a user starts it. */
describe('the benchmark', () => {
  let world: World;

  beforeAll(() => {
    world = new World(inject('stack'));
  });

  afterAll(() => world?.close());

  const run = async (name: string, ...args: string[]) => {
    const place = world.file(name);
    mkdirSync(place);
    const { exitCode, stdout, stderr } = await execa(
      process.execPath,
      [bench, ...args, '--json', world.file(`${name}.json`)],
      {
        reject: false,
        timeout: 300_000,
        // It takes away all that it has started.
        forceKillAfterDelay: 120_000,
        env: { NODE_OPTIONS: '', TMPDIR: place },
      },
    );
    expect(exitCode, stderr).toBe(0);
    expect(readdirSync(place)).toEqual([]);
    const { scenarios } = JSON.parse(readFileSync(world.file(`${name}.json`), 'utf8')) as Report;
    const [{ rounds, figures } = { rounds: [], figures: [] }] = Object.values(scenarios);
    return { stdout, rounds, figures: new Map(figures.map((each) => [each.name, each.values])) };
  };

  it('measures both sides, writes figures, tables and a plot, and leaves nothing', async () => {
    const { stdout, rounds } = await run(
      'bench',
      ...['burst', '--tenants', '1', '--pods', '3', '--repeats', '1'],
    );
    for (const measured of ['direct', 'tenants']) {
      const pods = (rounds as PodsRound[]).find(({ side }) => side === measured)?.result?.pods;
      expect(
        pods?.map(({ readyMs }) => typeof readyMs),
        measured,
      ).toEqual(['number', 'number', 'number']);
    }
    expect(stdout).toMatch(/^\| tenants \|/m);
    expect(readFileSync(world.file('bench.md'), 'utf8')).toContain('### burst: 1 × 3 pods');
    expect(existsSync(world.file('bench-burst.svg'))).toBe(true);
  }, 450_000);

  it('has tenants sleep beside each other, of which nobody wakes one', async () => {
    const { stdout, figures } = await run(
      'sleepers',
      ...['sleepers', '--tenants', '1', '--sleepers', '3', '--idle', '15'],
    );
    expect(figures.get('woken')).toEqual([0]);
    expect(figures.get('vc-gateway, private per sleeper')).toEqual([expect.any(Number)]);
    expect(stdout).toMatch(/^\| all three +\|/m);
  }, 450_000);

  it('keeps a tenant in a file and puts it back to that, as many objects as it has', async () => {
    const { rounds } = await run(
      'snapshot',
      ...['snapshot', '--tenants', '1', '--objects', '20,40', '--repeats', '1'],
    );
    const round = (objects: number) => ({
      objects,
      snapshotSeconds: expect.any(Number),
      restoreSeconds: expect.any(Number),
      entries: expect.toSatisfy((entries: number) => entries > objects),
      fileBytes: expect.toSatisfy((bytes: number) => bytes > objects * 768),
      manager: {
        before: expect.any(Number),
        snapshot: expect.any(Number),
        restore: expect.any(Number),
      },
    });
    expect(rounds).toEqual([round(20), round(40)]);
  }, 450_000);
});
