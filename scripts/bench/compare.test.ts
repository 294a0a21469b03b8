import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ComparedRun, compareRuns, runCompare, verdict } from './compare.ts';
import type { Figure } from './scenario.ts';

function figure(values: number[], better: Figure['better'] = 'less'): Figure {
  return { name: 'until Ready', unit: 'ms', better, values };
}

function run(values: number[], settings: Record<string, unknown> = { pods: 50 }): ComparedRun {
  return {
    machine: { at: '2030-01-01', cpu: 'fast', cores: 2 },
    scenarios: { burst: { settings, figures: [figure(values)] } },
  };
}

describe('the verdict on two figures', () => {
  it('marks a change beyond the noise of the repeats, in its direction', () => {
    expect(verdict(figure([100, 102, 98]), figure([120, 121, 119]))).toBe('worse');
    expect(verdict(figure([100, 102, 98]), figure([80, 81, 79]))).toBe('better');
    expect(verdict(figure([100, 102, 98], 'more'), figure([80, 81, 79], 'more'))).toBe('worse');
  });

  it('marks nothing when repeats stray as far, or overlap', () => {
    expect(verdict(figure([70, 100, 130]), figure([120, 125, 131]))).toBe('');
    expect(verdict(figure([100, 100, 119]), figure([118, 118, 118]))).toBe('');
  });

  it('marks nothing small, however steady', () => {
    expect(verdict(figure([100, 100, 100]), figure([104, 104, 104]))).toBe('');
  });

  it('asks for more of what was measured only once', () => {
    expect(verdict(figure([100]), figure([120]))).toBe('');
    expect(verdict(figure([100]), figure([130]))).toBe('worse');
  });

  it('has none on what is no number', () => {
    expect(verdict(figure([]), figure([1]))).toBe('');
  });
});

describe('two runs', () => {
  it('become a table with their ratio', () => {
    const [table] = compareRuns(run([100, 100, 100]), run([150, 150, 150]));
    expect(table?.rows).toEqual([['until Ready, ms', 100, 150, 1.5, 5, '**worse**']]);
    expect(table?.notes).toEqual([]);
  });

  it('tell when they did not do the same work', () => {
    const [table] = compareRuns(run([1], { pods: 50 }), run([1], { pods: 200 }));
    expect(table?.notes?.[0]).toContain('pods 50 and 200');
  });
});

describe('the command', () => {
  it('reads two files, and says what is wrong with others', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'compare-'));
    try {
      const [a, b, other] = ['a.json', 'b.json', 'other.json'].map((name) => join(directory, name)) as [
        string,
        string,
        string,
      ];
      await writeFile(a, JSON.stringify(run([100, Number.NaN])));
      await writeFile(b, JSON.stringify(run([200])));
      await writeFile(other, JSON.stringify({ machine: {}, scenarios: { burst: { summary: {} } } }));
      let shown = '';
      const output = { write: (text: string) => (shown += text) };
      await runCompare([a, b], output);
      expect(shown).toContain('**worse**');
      await expect(runCompare([a], output)).rejects.toThrow('two files');
      await expect(runCompare([a, join(directory, 'none')], output)).rejects.toThrow('cannot read');
      await expect(runCompare([a, other], output)).rejects.toThrow('run them again');
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
