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
    expect(getPriority(pid)).toBe(0);
    lowerPriority(pid, 5);
    expect(getPriority(pid)).toBe(5);
    if (process.platform !== 'linux') return;
    for (const thread of readdirSync(`/proc/${pid}/task`)) expect(getPriority(Number(thread))).toBe(5);
    const autogroup = readFileSync(`/proc/${pid}/autogroup`, 'utf8').trim();
    expect(['', expect.stringMatching(/nice 5$/)]).toContainEqual(autogroup);
  } finally {
    child.kill('SIGKILL');
  }
});

it('a process that has ended is no error', () => {
  expect(() => lowerPriority(2 ** 22, 5)).not.toThrow();
});
