import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { withTimerSlack } from './timer-slack.ts';

const own = '/proc/self/timerslack_ns';

it.runIf(existsSync(own))(
  'a program that is started so has its timers late, and this one has not',
  async () => {
    const before = readFileSync(own, 'utf8');
    const child = withTimerSlack(20, () => spawn('cat', [own], { stdio: ['ignore', 'pipe', 'ignore'] }));
    expect(readFileSync(own, 'utf8')).toBe(before);
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    expect(Number(said)).toBe(20_000_000);
  },
);

it.runIf(existsSync(own))('also after a start that has failed', () => {
  const before = readFileSync(own, 'utf8');
  const failing = (): never => {
    throw new Error('no such program');
  };
  expect(() => withTimerSlack(20, failing)).toThrow('no such program');
  expect(readFileSync(own, 'utf8')).toBe(before);
});

const unwritable = '/proc/version';

it.runIf(existsSync(unwritable))('and a program starts where it can only be read, or is not known', () => {
  expect(() => writeFileSync(unwritable, '20')).toThrow();
  for (const file of [unwritable, '/proc/none'])
    expect(withTimerSlack(20, () => 'started', file)).toBe('started');
});
