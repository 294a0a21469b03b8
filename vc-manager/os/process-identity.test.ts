import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { afterEach, describe, expect, it } from 'vitest';
import {
  cpuSeconds,
  hasEnded,
  identify,
  isAlive,
  processesWithVariable,
  sendSignal,
  sessionOf,
} from './process-identity.ts';

const onLinux = process.platform === 'linux';
const forEver =
  'process.title = process.argv[1]; setInterval(() => undefined, 60_000); process.send("ready")';
const started: ChildProcess[] = [];

async function child(title = 'child', env: NodeJS.ProcessEnv = {}): Promise<number> {
  const spawned = spawn(process.execPath, ['-e', forEver, title], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: { ...process.env, ...env },
  });
  started.push(spawned);
  await once(spawned, 'message');
  return spawned.pid ?? 0;
}

async function end(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  process.kill('SIGKILL');
  await once(process, 'exit');
}

afterEach(async () => {
  for (const process of started.splice(0)) await end(process);
});

describe('the identity of a process', () => {
  it('stays the same while it lives, and is nobody afterwards', async () => {
    const pid = await child();
    const identity = await identify(pid);
    expect(identity).toMatchObject({ pid });
    expect(await identify(pid)).toEqual(identity);
    if (identity === undefined) return;
    expect(await isAlive(identity)).toBe(true);
    for (const process of started) await end(process);
    expect(await identify(pid)).toBeUndefined();
    expect(await isAlive(identity)).toBe(false);
  });

  it.runIf(onLinux)('is read past a program name with spaces and parentheses (only on Linux)', async () => {
    const pid = await child('a) b (c');
    expect(await readFile(`/proc/${pid}/comm`, 'utf8')).toBe('a) b (c\n');
    const before = Number((await identify(process.pid))?.startTime.split(':').at(-1));
    const ticks = Number((await identify(pid))?.startTime.split(':').at(-1));
    expect(ticks).toBeGreaterThanOrEqual(before);
    expect(sessionOf(pid)).toBe(sessionOf(process.pid));
  });
});

describe('hasEnded', () => {
  const stat = (state: string, threads: number) =>
    `${state} 1 2 2 0 -1 0 0 0 0 0 0 0 0 0 20 0 ${threads} 0 4711`.split(' ');

  it('waits for the last thread, which may hold a port after the first has gone', () => {
    expect(hasEnded(stat('Z', 2))).toBe(false);
    expect(hasEnded(stat('Z', 1))).toBe(true);
    expect(hasEnded(stat('S', 1))).toBe(false);
  });
});

describe('sendSignal', () => {
  it('reaches the process it was meant for', async () => {
    const identity = await identify(await child());
    const ended = once(started[0] as ChildProcess, 'exit');
    expect(await sendSignal(identity ?? { pid: 0, startTime: '' }, 'SIGKILL')).toBe(true);
    expect(await ended).toEqual([null, 'SIGKILL']);
  });

  it('spares a later process with the same number', async () => {
    const pid = await child();
    expect(await sendSignal({ pid, startTime: 'earlier' }, 'SIGKILL')).toBe(false);
    expect(await identify(pid)).toBeDefined();
  });
});

describe.runIf(onLinux)('processesWithVariable (only on Linux)', () => {
  it('finds those that carry it, with its value', async () => {
    const marked = await child('marked', { SKERRY_TEST_MARK: 'a=b' });
    const other = await child('other', { SKERRY_TEST_MARKED: 'c' });
    const gone = 2 ** 22 + 1;
    expect(processesWithVariable('SKERRY_TEST_MARK', [marked, other, gone])).toEqual(
      new Map([[marked, 'a=b']]),
    );
  });
});

describe.runIf(onLinux)('cpuSeconds (only on Linux)', () => {
  it('is the time in user mode and in the kernel; undefined for no process', () => {
    const { user, system } = process.cpuUsage();
    expect(Math.abs((cpuSeconds(process.pid) ?? 0) - (user + system) / 1e6)).toBeLessThan(0.5);
    expect(cpuSeconds(2 ** 22 + 1)).toBeUndefined();
  });
});
