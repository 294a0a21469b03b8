import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findCgroups } from './cgroups.ts';

const limits = { memoryBytes: 64 * 1024 * 1024, cpus: 1.5, share: 1 / 3 };

describe('control groups, in directories that stand for the file systems of the kernel', () => {
  let root: string;
  const write = (path: string, text: string): void => {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const read = (path: string): string => readFileSync(join(root, path), 'utf8');
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'skerry-groups-'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('of version 1 lie below the groups of this process', () => {
    for (const directory of ['memory/outer', 'cpu', 'other'])
      mkdirSync(join(root, directory), { recursive: true });
    write('self', '4:memory:/outer\n3:cpu,cpuacct:/not-mounted-here\n0::/\n');
    const groups = findCgroups({ root, self: join(root, 'self') });
    expect(groups?.version).toBe(1);
    groups?.place('skerry-a-blue-kube-apiserver', 77, limits);
    const [memory, cpu] = ['memory/outer', 'cpu'].map((each) => `${each}/skerry-a-blue-kube-apiserver`);
    expect(read(`${memory}/memory.limit_in_bytes`)).toBe('67108864');
    expect(read(`${cpu}/cpu.cfs_quota_us`)).toBe('150000');
    expect(read(`${cpu}/cpu.cfs_period_us`)).toBe('100000');
    expect(read(`${cpu}/cpu.shares`)).toBe('341');
    expect([read(`${memory}/cgroup.procs`), read(`${cpu}/cgroup.procs`)]).toEqual(['77', '77']);
    expect(groups?.names('skerry-a-')).toEqual(['skerry-a-blue-kube-apiserver']);
    expect(groups?.processes('skerry-a-blue-kube-apiserver')).toEqual([77]);
    groups?.setShare('skerry-a-blue-kube-apiserver', 0.0001);
    expect(read(`${cpu}/cpu.shares`)).toBe('2');
    groups?.place('skerry-a-blue-kube-apiserver', 78, {});
    expect(read(`${memory}/memory.limit_in_bytes`)).toBe('-1');
    expect(read(`${cpu}/cpu.cfs_quota_us`)).toBe('-1');
  });

  it('of version 2 get the controllers that they need', () => {
    write('cgroup.controllers', 'cpuset cpu io memory pids\n');
    write('cgroup.subtree_control', 'pids\n');
    const groups = findCgroups({ root });
    expect(groups?.version).toBe(2);
    expect(read('cgroup.subtree_control')).toBe('+cpu +memory');
    expect(read('skerry/cgroup.subtree_control')).toBe('+cpu +memory');
    groups?.place('skerry-a-blue-kube-apiserver', 77, limits);
    const of = (file: string): string => read(`skerry/skerry-a-blue-kube-apiserver/${file}`);
    expect([of('memory.max'), of('cpu.max'), of('cpu.weight'), of('cgroup.procs')]).toEqual([
      '67108864',
      '150000 100000',
      '33',
      '77',
    ]);
    expect(groups?.names('skerry-')).toEqual(['skerry-a-blue-kube-apiserver']);
    expect(groups?.processes('skerry-a-blue-kube-apiserver')).toEqual([77]);
    groups?.setShare('skerry-a-blue-kube-apiserver', 0.0001);
    expect(of('cpu.weight')).toBe('1');
    expect(groups?.processes('skerry-a-gone')).toEqual([]);
    groups?.setShare('skerry-a-gone', 1);
    expect(groups?.names('skerry-a-gone')).toEqual([]);
    groups?.place('skerry-a-blue-kube-apiserver', 78, {});
    expect([of('memory.max'), of('cpu.max'), of('cpu.weight')]).toEqual(['max', 'max 100000', '100']);
  });

  it.each([
    ['none', {}],
    ['no file system of the controller cpu', { 'memory/tasks': '' }],
    ['no controllers', { 'cgroup.controllers': 'pids\n', 'cgroup.subtree_control': '' }],
  ])('are not there: %s', (_, files) => {
    for (const [path, text] of Object.entries(files)) write(path, text);
    expect(findCgroups({ root })).toBeUndefined();
  });

  it('of version 2 are made in the part of the tree that was given to a user, apart from the processes there', () => {
    const scope = 'user.slice/user-1000.slice/skerry.scope';
    write('cgroup.controllers', 'pids\n');
    write('self', `0::/${scope}\n`);
    write(`${scope}/cgroup.controllers`, 'cpu memory pids\n');
    write(`${scope}/cgroup.subtree_control`, '\n');
    write(`${scope}/cgroup.procs`, '41\n');
    const find = () => findCgroups({ root, self: join(root, 'self') });
    const groups = find();
    expect(groups?.version).toBe(2);
    expect(read(`${scope}/skerry-main/cgroup.procs`)).toBe('41');
    expect(read(`${scope}/cgroup.subtree_control`)).toBe('+cpu +memory');
    groups?.place('skerry-a-blue-kube-apiserver', 77, limits);
    expect(read(`${scope}/skerry/skerry-a-blue-kube-apiserver/memory.max`)).toBe('67108864');

    // As the next process of the program finds itself.
    write('self', `0::/${scope}/skerry-main\n`);
    expect(find()?.names('skerry-a-')).toEqual(['skerry-a-blue-kube-apiserver']);
    write(`${scope}/cgroup.controllers`, 'memory pids\n');
    expect(find()).toBeUndefined();

    const terminal = 'user.slice/user-1000.slice/vte-spawn-1.scope';
    write('self', `0::/${terminal}\n`);
    write(`${terminal}/cgroup.controllers`, 'cpu memory\n');
    write(`${terminal}/cgroup.procs`, '42\n');
    expect(find()).toBeUndefined();
    expect(existsSync(join(root, terminal, 'skerry-main'))).toBe(false);
  });

  it('never leave their place', () => {
    write('cgroup.controllers', 'cpu memory\n');
    write('cgroup.subtree_control', 'cpu memory\n');
    const groups = findCgroups({ root });
    for (const name of ['../x', 'skerry-a/b', 'other', 'skerry-', 'skerry-..'])
      expect(() => groups?.place(name, 1, {})).toThrow('no name');
    const made = ['skerry-a-empty', 'skerry-b-empty', 'other'].map((name) => join(root, 'skerry', name));
    for (const directory of made) mkdirSync(directory);
    expect(groups?.remove('skerry-a-')).toEqual([]);
    expect(made.map((directory) => existsSync(directory))).toEqual([false, true, true]);
  });

  it('that are empty are removed at once if they are its own, else when they have been there for a minute', () => {
    write('cgroup.controllers', 'cpu memory\n');
    write('cgroup.subtree_control', 'cpu memory\n');
    const groups = findCgroups({ root });
    const at = (name: string): string => join(root, 'skerry', name);
    const ago = (name: string, seconds: number): void => {
      const time = Date.now() / 1_000 - seconds;
      utimesSync(at(name), time, time);
    };
    for (const name of ['skerry-a-full', 'skerry-b-full']) {
      groups?.place(name, 77, {});
      ago(name, 61);
    }
    for (const name of ['skerry-a-empty', 'skerry-b-new', 'skerry-b-old', 'skerry-probe-7', 'other'])
      mkdirSync(at(name));
    for (const name of ['skerry-b-old', 'skerry-probe-7', 'other']) ago(name, 61);
    groups?.removeEmpty('skerry-a-');
    const left = ['cgroup.subtree_control', 'other', 'skerry-a-full', 'skerry-b-full', 'skerry-b-new'];
    expect(readdirSync(join(root, 'skerry')).sort()).toEqual(left);
    expect(read('skerry/skerry-a-full/cgroup.procs')).toBe('77');
  });

  it('are made once more when another process removes them before anything is in them', () => {
    write('cgroup.controllers', 'cpu memory\n');
    write('cgroup.subtree_control', 'cpu memory\n');
    const groups = findCgroups({ root });
    let removed = 0;
    const limits = {
      get cpus(): number {
        if (removed++ === 0) groups?.removeEmpty('skerry-a-');
        return 2;
      },
    };
    groups?.place('skerry-a-blue', 77, limits);
    expect(removed).toBe(2);
    expect(read('skerry/skerry-a-blue/cpu.max')).toBe('200000 100000');
    expect(read('skerry/skerry-a-blue/cgroup.procs')).toBe('77');
  });
});

const real = findCgroups();

describe.skipIf(real === undefined)('control groups of this machine (only where they can be made)', () => {
  it('have a process killed that takes more memory than it may, and not its neighbour', async () => {
    const prefix = `skerry-test${process.pid}-`;
    const start = (name: string, bytes: number) => {
      const child = spawn(
        process.execPath,
        [
          '-e',
          `process.stdin.once('data', () => { const b = Buffer.alloc(${bytes}, 1); console.log(b.length); })`,
        ],
        { stdio: ['pipe', 'pipe', 'ignore'] },
      );
      real?.place(`${prefix}${name}`, child.pid ?? 0, { memoryBytes: 192 * 1024 * 1024, cpus: 1 });
      return child;
    };
    const greedy = start('greedy', 512 * 1024 * 1024);
    const modest = start('modest', 16 * 1024 * 1024);
    const ended = once(greedy, 'exit');
    const said = once(modest.stdout, 'data');
    for (const child of [greedy, modest]) child.stdin.write('go\n');
    expect((await ended)[1]).toBe('SIGKILL');
    expect(String((await said)[0]).trim()).toBe(String(16 * 1024 * 1024));
    const gone = once(modest, 'exit');
    modest.kill('SIGKILL');
    await gone;
    await expect.poll(() => real?.remove(prefix)).toEqual([]);
  });
});
