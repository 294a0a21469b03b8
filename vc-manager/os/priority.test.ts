import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { expect, it } from 'vitest';
import { lowerPriority } from './priority.ts';

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
