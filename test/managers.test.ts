import type { ChildProcess } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { anotherManager, endManager, leader, untilLeads } from './harness/managers.ts';
import { patiently, poll } from './harness/poll.ts';
import { isAlive, send } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

describe('two managers', () => {
  let world: World;
  let standby: ChildProcess;
  let begun: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    standby = await anotherManager(world, 'second');
  });

  afterAll(async () => {
    await endManager(standby, 'SIGTERM');
    // It has given its Lease back: nobody has to wait until that expires.
    expect(await leader(world)).not.toBe('second');
    await world?.close();
  });

  it('one of them works, and the other finishes what it has begun when it falls silent', async () => {
    const first = await leader(world);
    expect(first).not.toBe('second');
    const manager = await world.process('vc-manager');
    const log = () => readFile(join(world.stateDir, 'stack', 'logs', 'vc-manager.log'), 'utf8');
    let loggedBefore = 0;
    const create = ['create', 'begun', '--wait', patiently];
    const created = world.cli(create);
    try {
      await poll('the first to begin', async () => {
        const vc = await world.virtualCluster('begun').catch(() => undefined);
        return vc?.status?.id;
      });
      loggedBefore = (await log()).length;
      // Not killed: it would be started again, with the same name, and lead on.
      send(manager, 'SIGSTOP');
      await untilLeads(world, 'second');
      expect((await created).exitCode).toBe(0);
      begun = await world.openTenant('begun');
      expect(await begun.kubectl('get', 'namespaces')).toContain('kube-system');
    } finally {
      send(manager, 'SIGCONT');
    }
    const apiServer = await world.process('kube-apiserver', begun);
    // It finds that it leads no more, and competes again.
    await poll('the first to notice', async () =>
      (await log()).slice(loggedBefore).includes('not leading any more'),
    );
    expect(await leader(world)).toBe('second');
    expect(isAlive(manager)).toBe(true);
    expect(isAlive(apiServer)).toBe(true);
    expect((await world.virtualCluster('begun')).status?.phase).toBe('Ready');
  });

  it('the first one goes on when the second one ends, and control planes do not notice', async () => {
    const apiServer = await world.process('kube-apiserver', begun);
    await endManager(standby, 'SIGTERM');
    await poll('the first to lead again', async () => !['', 'second'].includes(await leader(world)));
    expect(isAlive(apiServer)).toBe(true);
    expect(await begun.kubectl('get', 'namespaces')).toContain('kube-system');
    // It works, too.
    await world.deleteTenant('begun');
    expect(isAlive(apiServer)).toBe(false);
  });
});
