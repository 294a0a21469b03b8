import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { type Fault, type FaultKind, schedule } from './faults.ts';

const main = fileURLToPath(new URL('main.ts', import.meta.url));
/** Long runs are for people: see CONTRIBUTING.md. */
const seconds = 60;

describe('a row of faults', () => {
  const kinds: readonly FaultKind[] = ['kill', 'pause', 'cut'];
  const parts = ['a', 'b', 'c', 'd', 'e'];
  const faults = (seed: number, steps: number): Fault[] => {
    const row = schedule(seed, parts, kinds);
    return Array.from({ length: steps }, () => row.next().value).flatMap((step) => step.faults);
  };

  it('is the same for the same seed and another one for another', () => {
    expect(faults(7, 50)).toEqual(faults(7, 50));
    expect(faults(7, 50)).not.toEqual(faults(8, 50));
  });

  it('leaves no part alone for longer than two rounds', () => {
    const row = faults(3, 60).map(({ part }) => part);
    for (let start = 0; start + 2 * parts.length <= row.length; start++)
      expect(new Set(row.slice(start, start + 2 * parts.length)).size).toBe(parts.length);
  });
});

describe('chaos', () => {
  it('leaves both sides equal, nothing lost or doubled, nothing of a deleted tenant', async ({ task }) => {
    const { exitCode, stdout, stderr } = await execa(
      process.execPath,
      [main, '--seed', '1', '--seconds', String(seconds)],
      { reject: false, timeout: 900_000, env: { NODE_OPTIONS: '' } },
    );
    expect(exitCode, `${stdout}\n${stderr}`).toBe(0);
    const [line, again, anew] =
      /(\d+) of their steps tried again\), controllers started anew (\d+) times/.exec(stdout) ?? [];
    expect(line).toBeDefined();
    if (Number(again) + Number(anew) > 0) task.meta.secondTries = [line ?? ''];
  }, 900_000);
});
