import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { expect, it } from 'vitest';
import { lowerPriority, withTimerSlack } from './process-scheduling.ts';

it('all threads of a process, and its session where that is scheduled as a group, give way to others', async () => {
  const child = spawn(process.execPath, ['-e', 'process.stdout.write("up"); setInterval(() => {}, 1000)'], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const pid = child.pid ?? 0;
  try {
    await once(child.stdout, 'data');
    // Higher than what the test itself was started with.
    const niceness = Math.min(19, getPriority(pid) + 5);
    lowerPriority(pid, niceness);
    if (process.platform !== 'linux') {
      expect(getPriority(pid)).toBe(niceness);
      return;
    }
    for (const thread of readdirSync(`/proc/${pid}/task`)) expect(getPriority(Number(thread))).toBe(niceness);
    const autogroup = readFileSync(`/proc/${pid}/autogroup`, 'utf8').trim();
    expect(['', expect.stringMatching(new RegExp(`nice ${niceness}$`))]).toContainEqual(autogroup);
  } finally {
    child.kill('SIGKILL');
  }
});

it('a process that has ended is no error', () => {
  expect(() => lowerPriority(2 ** 22, 5)).not.toThrow();
});

const own = '/proc/self/timerslack_ns';

it.runIf(existsSync(own))(
  'a program that is started so has its timers late, and this one has not (only on Linux)',
  async () => {
    const before = readFileSync(own, 'utf8');
    const child = withTimerSlack(20, () => spawn('cat', [own], { stdio: ['ignore', 'pipe', 'ignore'] }));
    expect(readFileSync(own, 'utf8')).toBe(before);
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    expect(Number(said)).toBe(20_000_000);
  },
);

it.runIf(existsSync(own))('also after a start that has failed (only on Linux)', () => {
  const before = readFileSync(own, 'utf8');
  const failing = (): never => {
    throw new Error('no such program');
  };
  expect(() => withTimerSlack(20, failing)).toThrow('no such program');
  expect(readFileSync(own, 'utf8')).toBe(before);
});

const unwritable = '/proc/version';

it.runIf(existsSync(unwritable))(
  'and a program starts where it can only be read, or is not known (only on Linux)',
  () => {
    expect(() => writeFileSync(unwritable, '20')).toThrow();
    for (const file of [unwritable, '/proc/none'])
      expect(withTimerSlack(20, () => 'started', file)).toBe('started');
  },
);
