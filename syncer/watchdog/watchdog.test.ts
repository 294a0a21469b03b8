import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { renderKubeconfig, resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';

import {
  CurrentTenant,
  crashesUntilJoinsLast,
  HeapMonitor,
  HeartbeatMonitor,
  markSuspect,
  type Suspect,
  tickMs,
  Watchdog,
} from './watchdog.ts';

describe('a process that is stuck in work for a tenant', () => {
  let superCluster: FakeCluster;
  let directory: string;
  let child: ChildProcess | undefined;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'skerry-watchdog-'));
    superCluster = await startFakeCluster();
    const { server, ca = '', cert = '', key = '' } = superCluster.server.connectionOptions;
    const user = 'vc-syncer';
    await writeFile(file(), renderKubeconfig({ clusterName: 'super', server, ca, user, cert, key }));
    for (const name of ['quiet', 'blue'])
      superCluster.server.put(resources.virtualClusters, {
        metadata: { namespace: 'acme', name, uid: name },
        status: { id: name },
      });
  });

  afterEach(async () => {
    child?.kill('SIGKILL');
    await superCluster[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  const file = (): string => join(directory, 'kubeconfig');
  /** The work for `blue` ends when this is there. */
  const over = (): string => join(directory, 'over');
  const attempts = (name: string): number | undefined =>
    (superCluster.server.get(resources.virtualClusters, { namespace: 'acme', name }) as VirtualCluster).status
      ?.joinAttempts;

  function start(how: string, ...flags: string[]): { said: () => string; ended: Promise<unknown> } {
    const program = join(import.meta.dirname, 'testing', 'stuck-main.ts');
    const stdio = ['ignore', 'pipe', 'ignore', 'ipc'] as const;
    const started = spawn(process.execPath, [...flags, program, file(), how, over()], { stdio: [...stdio] });
    child = started;
    let said = '';
    started.stdout?.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
    return { said: () => said, ended: once(started, 'exit') };
  }

  it('has that noted on the tenant while it is stuck, and on no other, hears of it when it goes on, and ends without it', async () => {
    const { said, ended } = start('until the file is there');
    await superCluster.server.until(() => attempts('blue') === crashesUntilJoinsLast);
    expect(attempts('quiet')).toBeUndefined();
    // It does not run yet, so it has heard of nothing.
    expect(said()).toBe('begins\n');
    await writeFile(over(), '');
    await expect.poll(said, { timeout: 30_000 }).toContain('noted blue');
    child?.send('end');
    child?.disconnect();
    expect(await ended).toEqual([0, null]);
  }, 180_000);

  it('has it noted before it dies for want of memory', async () => {
    const { ended } = start('until memory is full', '--max-old-space-size=512');
    await ended;
    expect(attempts('blue')).toBe(crashesUntilJoinsLast);
    expect(attempts('quiet')).toBeUndefined();
  }, 180_000);

  it('is told whom to name: who has most where memory was full before, else whom it works for, if that is no small part then', () => {
    const suspect = (uid: string): Suspect => ({ namespace: 'acme', name: uid, uid });
    const atWork = new CurrentTenant();
    let asked = 0;
    const dog = (large: string | undefined, ownBytes = 0): Watchdog =>
      new Watchdog({
        atWork,
        suspect,
        largest: (atLeastBytes) => {
          asked = atLeastBytes;
          return large === undefined ? undefined : suspect(large);
        },
        fills: (_uid, atLeastBytes) => ownBytes >= atLeastBytes,
        onNoted: () => undefined,
        onProblem: () => undefined,
      });
    atWork.run('innocent', () => {
      expect(dog('large').suspect(true)?.name).toBe('large');
      expect(dog('large').suspect(false)?.name).toBe('innocent');
      expect(dog(undefined).suspect(true)).toBeUndefined();
      expect(dog(undefined, Number.POSITIVE_INFINITY).suspect(true)?.name).toBe('innocent');
    });
    expect(dog('large').suspect(false)).toBeUndefined();
    // What is a small part of the heap is not why that is full.
    expect(asked).toBeGreaterThan(16 * 1024 * 1024);
  });

  it('does not lower what replicas that have died have left', async () => {
    superCluster.server.put(resources.virtualClusters, {
      metadata: { namespace: 'acme', name: 'blue', uid: 'blue' },
      status: { id: 'blue', joinAttempts: 7 },
    });
    await markSuspect(
      { namespace: 'acme', name: 'blue', uid: 'blue' },
      { kubeconfig: file(), context: undefined },
    );
    expect(attempts('blue')).toBe(7);
  });
});

function looks(heartbeats: HeartbeatMonitor, beats: readonly number[], isFull = false): string[] {
  return beats.map((beat) => heartbeats.look(beat, isFull));
}

const second = 1_000 / tickMs;

it('a thread that beats is not stuck, however full memory is', () => {
  const beats = Array.from({ length: 10 * second }, (_, n) => n);
  expect(new Set(looks(new HeartbeatMonitor(), beats, true))).toEqual(new Set(['none']));
});

it('one that has not for three seconds is, until it beats again', () => {
  const heartbeats = new HeartbeatMonitor();
  expect(new Set(looks(heartbeats, new Array<number>(3 * second).fill(5)))).toEqual(new Set(['none']));
  expect(looks(heartbeats, [5, 5, 6, 6])).toEqual(['long', 'long', 'none', 'none']);
});

it('one that has not for half a second is, when memory is full', () => {
  expect(looks(new HeartbeatMonitor(), [5, 5, 5], true)).toEqual(['none', 'none', 'short']);
});

it('judges by the heap and not by resident memory', () => {
  expect(new HeapMonitor(1000).look(1, 100, 5000)).toEqual({ isFull: false, wasFull: false });
  expect(new HeapMonitor(1000).look(1, 700, 900)).toEqual({ isFull: true, wasFull: true });
});

it('counts what the process has grown by since the last beat to the work that is under way', () => {
  const watch = new HeapMonitor(1000);
  watch.look(1, 100, 5000);
  expect(watch.look(1, 100, 5400)).toEqual({ isFull: false, wasFull: false });
  expect(watch.look(1, 100, 5600)).toEqual({ isFull: true, wasFull: false });
  // It goes on, and has freed nothing.
  expect(watch.look(2, 650, 5600)).toEqual({ isFull: true, wasFull: true });
});
