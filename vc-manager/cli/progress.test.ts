import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { PlainProgress, TerminalProgress, withStep } from './progress.ts';
import { Captured } from './testing/captured.ts';

const screenOf = (): Captured => new Captured({ isTTY: true, columns: 60 });

describe('PlainProgress', () => {
  it('writes each change of a step once, with the time since it began', async () => {
    const screen = screenOf();
    const clock = new FakeClock();
    const step = new PlainProgress(screen, clock).step('etcd 3.7.3');
    step.update('downloading, 1 of 25 MB');
    await clock.advance(3_000);
    step.update('downloading, 9 of 25 MB');
    step.update('verifying');
    step.update('downloading, 9 of 25 MB');
    step.done('downloaded');
    expect(screen.text.split('\n')).toEqual([
      'etcd 3.7.3 ...',
      'etcd 3.7.3: downloading, 1 of 25 MB (0.0 s)',
      'etcd 3.7.3: verifying (3.0 s)',
      'etcd 3.7.3: downloaded (3.0 s)',
      '',
    ]);
  });

  it('repeats from time to time what goes on for long', async () => {
    const screen = screenOf();
    const clock = new FakeClock();
    const step = new PlainProgress(screen, clock).step('building');
    for (let minute = 0; minute < 3; minute++) {
      step.update('compiling');
      await clock.advance(60_000);
    }
    expect(screen.text.match(/compiling/g)).toHaveLength(3);
  });
});

describe('TerminalProgress', () => {
  it('leaves a line for each step that has ended, with its time, and shows the cursor again', async () => {
    const screen = screenOf();
    const clock = new FakeClock();
    const progress = new TerminalProgress(screen, clock);
    const first = progress.step('one');
    const second = progress.step('two');
    await clock.advance(2_500);
    first.done();
    second.fail('lost');
    progress.close();
    const shown = stripVTControlCharacters(screen.text);
    expect(shown).toContain('✔ one 2.5 s\n');
    expect(shown).toContain('✖ two lost, 2.5 s\n');
    expect(screen.text.lastIndexOf('\u001b[?25h')).toBeGreaterThan(screen.text.lastIndexOf('\u001b[?25l'));
  });

  it('never draws a line that is too long for the terminal, or has line ends in it', () => {
    const screen = screenOf();
    const progress = new TerminalProgress(screen, new FakeClock());
    const step = progress.step('a step');
    step.update(`much\nto ${'say '.repeat(50)}`);
    progress.note('a note makes it draw');
    progress.close();
    const lines = stripVTControlCharacters(screen.text).replaceAll('\r', '').split('\n');
    expect(lines.some((line) => line.includes('much to say'))).toBe(true);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(screen.columns);
  });

  it('does not tell the end of a step twice', () => {
    const screen = screenOf();
    const step = new TerminalProgress(screen, new FakeClock()).step('one');
    step.done();
    step.fail();
    expect(stripVTControlCharacters(screen.text)).not.toContain('✖');
  });
});

describe('inStep', () => {
  it('ends the step well or badly, as the work does', async () => {
    const screen = screenOf();
    const progress = new PlainProgress(screen, new FakeClock());
    await withStep(
      progress,
      'good',
      async () => 3,
      (result) => `${result} done`,
    );
    const work = withStep(progress, 'bad', () => Promise.reject(new Error('broken')));
    await expect(work).rejects.toThrow('broken');
    expect(screen.text).toContain('good: 3 done');
    expect(screen.text).toContain('bad: failed');
  });
});
