import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../../../../kube/testing/free-port.ts';
import { identify } from '../../../os/process-identity.ts';
import type { ComponentObservation } from '../../driver.ts';
import type { DriverError } from '../../errors.ts';
import { ProcessDriver } from '../process-driver.ts';
import { fakeComponent } from '../testing/fake-component.ts';
import { spawnByKeeper } from './process-keeper.ts';

const { signal } = new AbortController();
const binaries = { ensure: () => Promise.reject(new Error('no binary is needed here')) };
const id = 'blue';

describe('a keeper of processes', () => {
  let root: string;
  let socket: string;
  let keeper: ChildProcess;
  const drivers: ProcessDriver[] = [];

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'skerry-keeper-'));
    socket = join(root, 'keeper.sock');
    keeper = spawn(process.execPath, [join(import.meta.dirname, 'main.ts'), socket], { stdio: 'inherit' });
    await expect.poll(() => access(socket).then(() => true)).toBe(true);
  });

  afterEach(async () => {
    try {
      // Those of the test first: they would start again what the last one removes.
      await Promise.all(drivers.splice(0).map((each) => each.close()));
      await driver().remove(id, { signal });
    } finally {
      await Promise.all(drivers.splice(0).map((each) => each.close()));
      await end('SIGKILL');
      await rm(root, { recursive: true });
    }
  });

  function driver(): ProcessDriver {
    const made = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, keeper: socket });
    drivers.push(made);
    return made;
  }

  async function end(how: NodeJS.Signals): Promise<number | null> {
    if (keeper.exitCode !== null || keeper.signalCode !== null) return keeper.exitCode;
    const ended = once(keeper, 'exit');
    keeper.kill(how);
    await ended;
    return keeper.exitCode;
  }

  async function started(of: ProcessDriver): Promise<number> {
    await of.ensure({ id, labels: {}, components: [fakeComponent('server', await freePort())] }, { signal });
    return (await seen(of)).pid ?? 0;
  }

  async function seen(of: ProcessDriver): Promise<ComponentObservation> {
    const [component] = (await of.observe(id)).components;
    if (component === undefined) throw new Error('there is no component');
    return component;
  }

  function exited(of: ProcessDriver): Promise<void> {
    return new Promise((resolve) => {
      of.watch((_id, _component, event) => event === 'exited' && resolve());
    });
  }

  it('starts what a driver asks for as a child of its own, and tells how that ended', async () => {
    const d = driver();
    const pid = await started(d);
    if (process.platform === 'linux')
      expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(new RegExp(`^PPid:\t${keeper.pid}$`, 'm'));
    const over = exited(d);
    process.kill(pid, 'SIGUSR2');
    await over;
    expect((await seen(d)).lastExit).toMatchObject({ code: 3 });
  });

  it('has it run on without a driver, for the next one to take over', async () => {
    const wanted = {
      id,
      labels: {},
      components: [fakeComponent('server', await freePort())],
    };
    const first = driver();
    await first.ensure(wanted, { signal });
    const { pid } = await seen(first);
    await first.close();
    const next = driver();
    await next.ensure(wanted, { signal });
    expect((await seen(next)).pid).toBe(pid);
  });

  it('ends all of it when it is told to end', async () => {
    const pid = await started(driver());
    expect(await end('SIGTERM')).toBe(0);
    expect(await identify(pid)).toBeUndefined();
  });

  it('is killed alone: the driver sees later ends itself, and says why it can start nothing', async () => {
    const d = driver();
    const pid = await started(d);
    await end('SIGKILL');
    expect(await identify(pid)).toBeDefined();
    const over = exited(d);
    process.kill(pid, 'SIGUSR2');
    await over;
    const why = await started(d).catch((error: DriverError) => error);
    expect(why).toMatchObject({ code: 'KeeperUnavailable', retryable: true, fields: { path: socket } });
  });

  it('is halted: whoever asks it for a start does not wait for ever', async () => {
    keeper.kill('SIGSTOP');
    const request = { command: 'true', args: [], env: {}, cwd: root, logFile: join(root, 'log') };
    const why = spawnByKeeper(socket, 100)(request).catch((error: unknown) => error);
    expect(await why).toMatchObject({
      code: 'KeeperUnavailable',
      message: expect.stringContaining('has not answered') as string,
    });
    keeper.kill('SIGCONT');
  });

  it('says when a program cannot be executed', async () => {
    const binary = { command: join(root, 'nothing-here') };
    const components = [fakeComponent('server', await freePort(), [], { binary })];
    const why = driver().ensure({ id, labels: {}, components }, { signal });
    await expect(why).rejects.toMatchObject({
      code: 'CannotStart',
      message: expect.stringContaining('nothing-here') as string,
    });
  });
});
