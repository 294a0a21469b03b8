import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../kube/index.ts';
import { poll } from './harness/poll.ts';
import { isAlive, send } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

interface Lease extends KubeObject {
  spec?: { holderIdentity?: string };
}

describe('two managers', () => {
  let world: World;
  let standby: ChildProcess;
  let before: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    before = await world.createTenant('long-there');
    standby = await secondManager(world);
  });

  afterAll(async () => {
    if (standby !== undefined && standby.exitCode === null) {
      const ended = new Promise((resolve) => standby.once('exit', resolve));
      standby.kill('SIGTERM');
      await ended;
    }
    await world?.close();
  });

  const leader = async (): Promise<string> => {
    const ref = { namespace: 'skerry-system', name: 'skerry-vc-manager' };
    return (await world.superCluster.client.get<Lease>(resources.leases, ref)).spec?.holderIdentity ?? '';
  };

  it('one of them works, and the other finishes what it has begun when it falls silent', async () => {
    const first = await leader();
    expect(first).not.toBe('second');
    const manager = await world.process('vc-manager');
    const apiServer = await world.process('kube-apiserver', before);
    const create = ['create', 'begun', '--wait', '--timeout', '2m'];
    const created = world.cli(create);
    try {
      await poll(
        'the first to begin',
        async () => {
          const vc = await world.virtualCluster('begun').catch(() => undefined);
          return vc?.status?.id;
        },
        { timeoutMs: 60_000 },
      );
      // Not killed: it would be started again, with the same name, and lead on.
      send(manager, 'SIGSTOP');
      await poll('the second to lead', async () => (await leader()) === 'second', { timeoutMs: 60_000 });
      expect((await created).exitCode).toBe(0);
      expect(await (await world.openTenant('begun')).kubectl('get', 'namespaces')).toContain('kube-system');
    } finally {
      send(manager, 'SIGCONT');
    }
    // It finds that it leads no more, and competes again.
    await poll(
      'the first to notice',
      async () =>
        (await readFile(join(world.stateDir, 'stack', 'logs', 'vc-manager.log'), 'utf8')).includes(
          'not leading any more',
        ),
      { timeoutMs: 60_000 },
    );
    expect(await leader()).toBe('second');
    expect(isAlive(manager)).toBe(true);
    expect(isAlive(apiServer)).toBe(true);
    expect((await world.virtualCluster('begun')).status?.phase).toBe('Ready');
  });

  it('the first one goes on within seconds when the second one ends, and control planes do not notice', async () => {
    const apiServer = await world.process('kube-apiserver', before);
    const ended = new Promise((resolve) => standby.once('exit', resolve));
    standby.kill('SIGTERM');
    await ended;
    await poll('the first to lead again', async () => !['', 'second'].includes(await leader()), {
      timeoutMs: 15_000,
    });
    await world.createTenant('after');
    expect(isAlive(apiServer)).toBe(true);
  });
});

/** With the same state directory and options as the one that the stack has. */
async function secondManager(world: World): Promise<ChildProcess> {
  const { pid } = await world.process('vc-manager');
  const [node = '', ...args] = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1);
  const log = openSync(world.file('second-manager.log'), 'a');
  const others = args.filter((argument) => !argument.startsWith('--identity='));
  const child = spawn(node, [...others, '--identity=second'], { stdio: ['ignore', log, log] });
  closeSync(log);
  return child;
}
