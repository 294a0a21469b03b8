import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../kube/index.ts';
import { fastClock } from '../../../kube/testing/fast-clock.ts';
import { freePort } from '../../../kube/testing/free-port.ts';
import type { Binaries, BinaryName } from '../../binaries/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../../control-plane/plan.ts';
import type { Cgroups } from '../../os/cgroups.ts';
import { EgressFilter, egressFilterProblem, groupOf } from '../../os/egress-filter.ts';
import { identify } from '../../os/process-identity.ts';
import { placeOnMachine } from '../egress-confinement.ts';
import type { DriverError } from '../errors.ts';
import { ProcessDriver } from './process-driver.ts';
import { fakeComponent } from './testing/fake-component.ts';

const { signal } = new AbortController();
const binaries = { ensure: () => Promise.reject(new Error('no binary is needed here')) };
let root: string;
const drivers: ProcessDriver[] = [];

function driver(clock: Clock = systemClock): ProcessDriver {
  const created = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, clock });
  drivers.push(created);
  return created;
}

/** Its pauses are a fifth as long, and its deadlines. */
const hurriedDriver = (): ProcessDriver => driver(fastClock(5));

function plan(...components: ComponentPlan[]): ControlPlanePlan {
  return { id: 'blue', labels: {}, components };
}

async function pidOf(of: ProcessDriver, name: string): Promise<number> {
  const { components } = await of.observe('blue');
  const pid = components.find((component) => component.name === name)?.pid;
  if (pid === undefined) throw new Error(`${name} does not run`);
  return pid;
}

/** Its process number, as it answers itself. */
async function answerOf(port: number): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } });
  return answer.text();
}

function exitOf(of: ProcessDriver, what: 'exited' | 'started'): Promise<string> {
  return new Promise((resolve) => {
    const stop = of.watch((_id, component, event) => {
      if (event !== what) return;
      stop();
      resolve(component);
    });
  });
}

async function failure(promise: Promise<unknown>): Promise<DriverError> {
  return promise.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: DriverError) => error,
  );
}

async function lines(iterable: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of iterable) all.push(line);
  return all;
}

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'skerry-driver-'));
});

afterEach(async () => {
  // Those of the test first: they would start again what the last one removes.
  await Promise.all(drivers.splice(0).map((each) => each.close()));
  const last = driver();
  for (const id of await last.list()) await last.remove(id, { signal });
  await Promise.all(drivers.splice(0).map((each) => each.close()));
  await rm(root, { recursive: true, force: true });
});

describe('ProcessDriver', () => {
  it('starts components in the order of their dependencies and returns when all are ready', async () => {
    const d = driver();
    const started: string[] = [];
    d.watch((_id, component, what) => started.push(`${component} ${what}`));
    const [a, b] = [await freePort(), await freePort()];
    await d.ensure(
      plan(fakeComponent('second', b, [], { dependsOn: ['first'] }), fakeComponent('first', a)),
      { signal },
    );
    expect(started).toEqual(['first started', 'first ready', 'second started', 'second ready']);
    const { components } = await d.observe('blue');
    expect(components.map(({ name, state, restarts }) => ({ name, state, restarts }))).toEqual([
      { name: 'first', state: 'running', restarts: 0 },
      { name: 'second', state: 'running', restarts: 0 },
    ]);
  });

  it('keeps the log of a component small that never ends to write', async () => {
    const clock = fastClock(50);
    const d = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, clock });
    drivers.push(d);
    await d.ensure(plan(fakeComponent('first', await freePort(), ['loud'])), { signal });
    const log = join(root, 'blue', 'logs', 'first.log');
    await expect.poll(() => existsSync(`${log}.1`)).toBe(true);
    await expect.poll(async () => (await stat(log)).size).toBeLessThan(10 * 1024 * 1024);
    // And what came while that was put aside, up to as much again.
    const aside = (await stat(`${log}.1`)).size;
    expect(aside).toBeGreaterThanOrEqual(10 * 1024 * 1024);
    expect(aside).toBeLessThan(21 * 1024 * 1024);
  });

  it('says how long programs take that are built first, of all of them together', async () => {
    const told: string[] = [];
    const building: Pick<Binaries, 'ensure'> = {
      ensure: async ({ name, version }, { onProgress }) => {
        const news = { name, version, elapsedMs: 0 };
        onProgress?.({ ...news, stage: 'building', message: 'compiling', percent: 0 });
        await Promise.resolve();
        throw new Error('that is enough');
      },
    };
    const d = new ProcessDriver({ root, binaries: building, livenessIntervalMs: 50 });
    drivers.push(d);
    const built = (name: 'kube-apiserver' | 'kube-controller-manager', port: number): ComponentPlan => ({
      ...fakeComponent(name, port),
      binary: { name, version: '1.35.4' },
    });
    const wanted = plan(built('kube-apiserver', 1), built('kube-controller-manager', 2));
    await expect(d.ensure(wanted, { signal, onFetch: (message) => told.push(message) })).rejects.toThrow(
      'enough',
    );
    expect(told).toEqual([
      '0 %, about 4 min in all: building kube-apiserver 1.35.4, compiling',
      '0 %, about 5 min in all: building kube-controller-manager 1.35.4, compiling',
    ]);
  });

  describe('while a program is being built', () => {
    const of = (name: BinaryName, port: number, dependsOn: string[] = []): ComponentPlan => ({
      ...fakeComponent(name, port, [], { dependsOn }),
      binary: { name, version: '1.0.0' },
    });
    const withPrograms = (path: (name: BinaryName) => string | Promise<string>) => {
      const building: Pick<Binaries, 'ensure'> = {
        ensure: async ({ name, version }) => ({ name, version, path: await path(name), source: 'build' }),
      };
      const made = new ProcessDriver({ root, binaries: building, livenessIntervalMs: 50 });
      drivers.push(made);
      return made;
    };
    const runningIn = async (d: ProcessDriver): Promise<string[]> =>
      (await d.observe('blue')).components.flatMap(({ name, state }) => (state === 'running' ? [name] : []));

    it('starts what is there already where it may', async () => {
      const built = Promise.withResolvers<string>();
      const d = withPrograms((name) => (name === 'kwok' ? built.promise : process.execPath));
      const wanted = plan(of('etcd', await freePort()), of('kwok', await freePort(), ['etcd']));
      const etcdIsReady = Promise.withResolvers<string>();
      const ensuring = d.ensure(wanted, { signal, startAsFetched: true, onReady: etcdIsReady.resolve });
      expect(await etcdIsReady.promise).toBe('etcd');
      expect(await runningIn(d)).toEqual(['etcd']);
      built.resolve(process.execPath);
      await ensuring;
      expect(await runningIn(d)).toEqual(['etcd', 'kwok']);
    });

    it('otherwise starts nothing: it may turn out that a program cannot be had', async () => {
      const d = withPrograms((name) =>
        name === 'kwok' ? Promise.reject(new Error('no kwok')) : process.execPath,
      );
      const wanted = plan(of('etcd', await freePort()), of('kwok', await freePort(), ['etcd']));
      await expect(d.ensure(wanted, { signal })).rejects.toThrow('no kwok');
      expect(await runningIn(d)).toEqual([]);
    });

    it('ends at once when another component fails', async () => {
      const d = withPrograms((name) =>
        name === 'kwok' ? new Promise<never>(() => undefined) : Promise.reject(new Error('no etcd')),
      );
      const wanted = plan(of('etcd', 1), of('kwok', 2));
      await expect(d.ensure(wanted, { signal, startAsFetched: true })).rejects.toThrow('no etcd');
    });
  });

  it('has processes give way to others where it is told to', async () => {
    const niceness = Math.min(19, getPriority() + 3);
    const polite = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, niceness });
    drivers.push(polite);
    await polite.ensure(plan(fakeComponent('server', await freePort())), { signal });
    expect(getPriority(await pidOf(polite, 'server'))).toBe(niceness);
  });

  it('looks at what control groups use once it has started something, and gives them their full share back', async () => {
    const shares: string[] = [];
    const withGroups = (name: string) => {
      const looked = Promise.withResolvers<void>();
      const groups: Cgroups = {
        version: 2,
        place: () => undefined,
        names: () => {
          looked.resolve();
          return ['skerry-a'];
        },
        processes: () => [],
        setShare: (_, share) => void shares.push(`${name} ${share}`),
        remove: () => [],
        removeEmpty: () => undefined,
      };
      const made = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, groups });
      drivers.push(made);
      return { made, looked: looked.promise };
    };
    const reads = withGroups('reads');
    await reads.made.observe('blue');
    const starts = withGroups('starts');
    await starts.made.ensure(plan(fakeComponent('server', await freePort())), { signal });
    await starts.looked;
    expect(shares).toEqual(['starts 1']);
    await starts.made.close();
    expect(shares).toEqual(['starts 1', 'starts 1']);
  });

  it('shares processors out by the weights of control planes, and restarts nothing when one changes', async () => {
    const shares = new Map<string, number>();
    const placed = new Set<string>();
    const groups: Cgroups = {
      version: 2,
      place: (name) => void placed.add(name),
      names: () => [...placed],
      processes: () => [],
      setShare: (name, share) => void shares.set(name.replace(/^.*-(?=\w+-server$)/, ''), share),
      remove: () => [],
      removeEmpty: () => undefined,
    };
    const made = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, groups, niceness: 10 });
    drivers.push(made);
    const server = fakeComponent('server', await freePort());
    const other = fakeComponent('server', await freePort());
    await made.ensure({ ...plan(server), weight: 3 }, { signal });
    await made.ensure({ ...plan(other), id: 'green' }, { signal });
    const parts = (): number => (shares.get('blue-server') ?? 0) / (shares.get('green-server') ?? 0);
    await expect.poll(parts).toBeCloseTo(3);
    const pid = await pidOf(made, 'server');
    await made.ensure({ ...plan(server), weight: 2 }, { signal });
    await expect.poll(parts).toBeCloseTo(2);
    expect(await pidOf(made, 'server')).toBe(pid);
    await made.remove('green', { signal });
  });

  it.skipIf(egressFilterProblem() !== undefined)(
    'confines connections by a group of its own, also of what has run without one, and forgets it at the end (only where root has nftables)',
    async () => {
      const confined = () => {
        const made = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, egress: [] });
        drivers.push(made);
        return made;
      };
      const open = driver();
      const wanted = plan(fakeComponent('server', await freePort()));
      await open.ensure(wanted, { signal });
      const before = await pidOf(open, 'server');
      await open.close();

      const first = confined();
      await first.ensure(wanted, { signal });
      const pid = await pidOf(first, 'server');
      expect(pid).not.toBe(before);
      const groupId = /^Gid:\t(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
      const rules = () => execFileSync('nft', ['list', 'ruleset'], { encoding: 'utf8' });
      expect(rules()).toContain(`goto g${groupId}`);
      await first.close();

      // Neither another manager nor one that may not confine starts it anew.
      for (const next of [confined(), driver()]) {
        await next.ensure(wanted, { signal });
        expect(await pidOf(next, 'server')).toBe(pid);
        await next.close();
      }
      expect(rules()).toContain(`goto g${groupId}`);
      await confined().stop('blue', { signal });
      expect(rules()).not.toContain(groupId);
    },
  );

  it.skipIf(egressFilterProblem() !== undefined)(
    'takes away the rules of a manager that died before it started anything with them, and no others (only where root has nftables)',
    async () => {
      const { name, space } = placeOnMachine(root);
      const filter = new EgressFilter(name);
      const dead = groupOf(space, 1);
      const confined = () => {
        const made = new ProcessDriver({ root, binaries, livenessIntervalMs: 50, egress: [] });
        drivers.push(made);
        return made;
      };
      const first = confined();
      await first.ensure(plan(fakeComponent('server', await freePort())), { signal });
      await first.close();
      const used = await filter.groups();
      await filter.allow(dead, []);
      const next = confined();
      const green = { ...plan(fakeComponent('server', await freePort())), id: 'green' };
      await next.ensure(green, { signal });
      const groups = await filter.groups();
      expect(groups).not.toContain(dead);
      expect(groups).toEqual(expect.arrayContaining(used));
      expect(groups).toHaveLength(2);
      await next.remove('green', { signal });
      await next.remove('blue', { signal });
      expect(await filter.groups()).toEqual([]);
    },
  );

  it('leaves what runs as planned alone', async () => {
    const d = driver();
    const wanted = plan(fakeComponent('server', await freePort()));
    await d.ensure(wanted, { signal });
    const before = await pidOf(d, 'server');
    await d.ensure(wanted, { signal });
    expect(await pidOf(d, 'server')).toBe(before);
  });

  it('writes files with their modes, fills placeholders in, and restarts only what changed', async () => {
    const d = driver();
    const [a, b] = [await freePort(), await freePort()];
    const with_ = (content: string) =>
      plan(
        fakeComponent('server', a, [], {
          files: [{ path: 'deep/settings', content, mode: 0o640 }],
          env: { SHOW: '${files}/deep/settings' },
        }),
        fakeComponent('other', b),
      );
    await d.ensure(with_('one'), { signal });
    const path = join(root, 'blue/files/server/deep/settings');
    expect(((await stat(path)).mode & 0o777).toString(8)).toBe('640');
    const [server, other] = [await pidOf(d, 'server'), await pidOf(d, 'other')];
    await d.ensure(with_('two'), { signal });
    expect(await readFile(path, 'utf8')).toBe('two');
    expect(await pidOf(d, 'server')).not.toBe(server);
    expect(await pidOf(d, 'other')).toBe(other);
    expect(await lines(d.logs('blue', 'server', { tailLines: 1, signal }))).toEqual(['two']);
  });

  it('stops what the plan no longer names', async () => {
    const d = driver();
    const [a, b] = [await freePort(), await freePort()];
    await d.ensure(plan(fakeComponent('kept', a), fakeComponent('gone', b)), { signal });
    const gone = await pidOf(d, 'gone');
    await d.ensure(plan(fakeComponent('kept', a)), { signal });
    expect(await identify(gone)).toBeUndefined();
    expect((await d.observe('blue')).components.map((component) => component.name)).toEqual(['kept']);
  });

  it('starts a component that dies again and tells watchers', async () => {
    const d = driver();
    await d.ensure(plan(fakeComponent('server', await freePort())), { signal });
    const before = await pidOf(d, 'server');
    const [exited, started] = [exitOf(d, 'exited'), exitOf(d, 'started')];
    process.kill(before, 'SIGUSR2');
    expect(await exited).toBe('server');
    expect(await started).toBe('server');
    const { components } = await d.observe('blue');
    expect(components[0]).toMatchObject({ restarts: 1, lastExit: { code: 3 } });
    expect(components[0]?.pid).not.toBe(before);
  });

  it('gives up on a component that exits at once again and again, with the end of its log', async () => {
    const d = hurriedDriver();
    const error = await failure(
      d.ensure(plan(fakeComponent('server', await freePort(), ['exit'])), { signal }),
    );
    expect(error.code).toBe('KeepsExiting');
    expect(error.message).toContain('exit code 7');
    expect(error.message).toContain('cannot go on');
    expect((await d.observe('blue')).components[0]?.state).toBe('failed');
  });

  it('names the port that is taken and who holds it', async () => {
    const d = driver();
    const port = await freePort();
    const holder = createServer().listen(port, '127.0.0.1');
    try {
      const error = await failure(d.ensure(plan(fakeComponent('server', port)), { signal }));
      expect(error).toMatchObject({
        code: 'PortInUse',
        retryable: true,
        fields: { port, component: 'server' },
      });
      if (process.platform === 'linux') expect(error.fields.pid).toBe(process.pid);
    } finally {
      await new Promise((resolve) => holder.close(resolve));
    }
  });

  it('says why a component did not become ready in time, and lets it run', async () => {
    const port = await freePort();
    const probe = { scheme: 'http', host: '127.0.0.1', port, path: '/readyz', timeoutMs: 60_000 } as const;
    const late = Promise.withResolvers<void>();
    /** Of the probe: what it asked before each has been answered. */
    let pauses = 0;
    const clock: Clock = {
      ...systemClock,
      sleep: (ms, stop) => {
        if (ms === probe.timeoutMs) return late.promise;
        if (ms <= 1_000) pauses += 1;
        return systemClock.sleep(ms, stop);
      },
    };
    const d = driver(clock);
    const failed = failure(d.ensure(plan(fakeComponent('server', port, ['unready'], { probe })), { signal }));
    const status = (): Promise<number | undefined> =>
      fetch(`http://127.0.0.1:${port}/`).then(
        (response) => response.status,
        () => undefined,
      );
    await expect.poll(status).toBe(500);
    const before = pauses;
    // The first of them may end what was asked before it listened.
    await expect.poll(() => pauses).toBeGreaterThan(before + 1);
    late.resolve();
    const error = await failed;
    expect(error.code).toBe('NotReady');
    expect(error.message).toContain('/readyz answered 500');
    expect(await identify(await pidOf(d, 'server'))).toBeDefined();
  });

  it('reports a program that cannot be executed', async () => {
    const d = driver();
    const binary = { command: join(root, 'nothing-here') };
    const error = await failure(
      d.ensure(plan(fakeComponent('server', await freePort(), [], { binary })), { signal }),
    );
    expect(error.code).toBe('CannotStart');
    expect(error.message).toContain('nothing-here');
  });

  it('adopts with a new driver what an earlier one started, and sees it die', async () => {
    const wanted = plan(fakeComponent('server', await freePort()));
    const earlier = driver();
    await earlier.ensure(wanted, { signal });
    const pid = await pidOf(earlier, 'server');
    await earlier.close();

    const later = driver();
    expect((await later.observe('blue')).components[0]).toMatchObject({ state: 'running', pid });
    await later.ensure(wanted, { signal });
    expect(await pidOf(later, 'server')).toBe(pid);
    const started = exitOf(later, 'started');
    process.kill(pid, 'SIGKILL');
    expect(await started).toBe('server');
    expect(await pidOf(later, 'server')).not.toBe(pid);
  });

  it('does not bring back what another driver stops', async () => {
    const wanted = plan(fakeComponent('server', await freePort()));
    const one = driver();
    await one.ensure(wanted, { signal });
    const exited = exitOf(one, 'exited');
    await driver().stop('blue', { signal });
    await exited;
    await expect.poll(async () => (await one.observe('blue')).components[0]?.state).toBe('stopped');
    expect(await lines(one.logs('blue', 'server', { signal }))).toEqual(['starting']);
  });

  it('leaves it to another driver that has started it anew', async () => {
    const port = await freePort();
    const one = driver();
    await one.ensure(plan(fakeComponent('server', port)), { signal });
    const other = driver();
    await other.ensure(plan(fakeComponent('server', port, ['changed'])), { signal });
    const pid = await pidOf(other, 'server');
    await expect.poll(async () => (await one.observe('blue')).components[0]?.state).toBe('stopped');
    expect(await identify(pid)).toBeDefined();
    expect(await lines(other.logs('blue', 'server', { signal }))).toEqual(['starting', 'starting changed']);
  });

  it('leaves components running when the manager is killed', async () => {
    const port = await freePort();
    const manager = spawn(
      process.execPath,
      [join(import.meta.dirname, 'testing/manager.ts'), root, String(port)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    await new Promise((resolve) => manager.stdout.once('data', resolve));
    const exited = new Promise((resolve) => manager.once('exit', resolve));
    manager.kill('SIGKILL');
    await exited;
    const d = driver();
    const pid = await pidOf(d, 'server');
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe(String(pid));
  });

  it('never touches a process that only has the number of an earlier one', async () => {
    const d = driver();
    const wanted = plan(fakeComponent('server', await freePort()));
    await d.ensure(wanted, { signal });
    await d.stop('blue', { signal });
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    const record = {
      pid: stranger.pid,
      startTime: 'another',
      argsHash: '',
      startedAt: new Date().toISOString(),
    };
    await writeFile(
      join(root, 'blue/run/server.json'),
      JSON.stringify({ ...record, ports: [], dependsOn: [], stopTimeoutMs: 100 }),
    );
    await d.ensure(wanted, { signal });
    await d.remove('blue', { signal });
    expect(await identify(stranger.pid ?? 0)).toBeDefined();
    const exited = new Promise((resolve) => stranger.once('exit', resolve));
    stranger.kill();
    await exited;
  });

  it.runIf(process.platform === 'linux')(
    'finds by their mark processes whose record is lost (only on Linux)',
    async () => {
      const wanted = plan(fakeComponent('server', await freePort()));
      const earlier = driver();
      await earlier.ensure(wanted, { signal });
      const lost = await pidOf(earlier, 'server');
      await earlier.close();
      await rm(join(root, 'blue/run'), { recursive: true });

      const later = driver();
      await later.ensure(wanted, { signal });
      expect(await identify(lost)).toBeUndefined();
      const pid = await pidOf(later, 'server');
      await later.close();
      await rm(join(root, 'blue/run'), { recursive: true });
      await driver().remove('blue', { signal });
      expect(await identify(pid)).toBeUndefined();
    },
  );

  it('stops dependants first, kills what does not listen, and keeps files and data', async () => {
    const stopTimeoutMs = 600_000;
    let [isDeaf, aheadMs] = [false, 0];
    const clock: Clock = {
      ...systemClock,
      monotonic: () => systemClock.monotonic() + aheadMs,
      sleep: (ms, stop) => {
        if (isDeaf && ms < 1_000) aheadMs = stopTimeoutMs;
        return systemClock.sleep(ms, stop);
      },
    };
    const d = driver(clock);
    const [a, b] = [await freePort(), await freePort()];
    const deaf = fakeComponent('second', b, ['deaf'], { dependsOn: ['first'], stopTimeoutMs });
    await d.ensure(plan(fakeComponent('first', a), deaf), { signal });
    const pids = [await pidOf(d, 'first'), await pidOf(d, 'second')];
    const exits: string[] = [];
    d.watch((_id, component, what) => exits.push(`${component} ${what}`));
    const stopping = d.stop('blue', { signal });
    for await (const line of d.logs('blue', 'second', { follow: true, signal })) if (line === 'deaf') break;
    expect(await identify(pids[0] ?? 0)).toBeDefined();
    isDeaf = true;
    await stopping;
    for (const pid of pids) expect(await identify(pid)).toBeUndefined();
    expect(exits).toEqual([]);
    expect(existsSync(join(root, 'blue/data/first'))).toBe(true);
    expect(await lines(d.logs('blue', 'second', { tailLines: 1, signal }))).toEqual(['deaf']);
  });

  it('stops only the named components, with the patience that it is told', async () => {
    const d = driver();
    const [a, b] = [await freePort(), await freePort()];
    const deaf = fakeComponent('deaf', b, ['deaf'], { stopTimeoutMs: 600_000 });
    await d.ensure(plan(fakeComponent('kept', a), deaf), { signal });
    const pid = await pidOf(d, 'deaf');
    await d.stop('blue', { signal, components: ['deaf'], timeoutMs: 100 });
    expect(await identify(pid)).toBeUndefined();
    expect((await d.observe('blue')).components).toMatchObject([{ name: 'kept', state: 'running' }]);
  });

  it('removes every trace, and removing what is not there is no error', async () => {
    const d = driver();
    await d.ensure(plan(fakeComponent('server', await freePort())), { signal });
    expect(await d.list()).toEqual(['blue']);
    const pid = await pidOf(d, 'server');
    await d.remove('blue', { signal });
    expect(await identify(pid)).toBeUndefined();
    expect(await d.list()).toEqual([]);
    expect(existsSync(join(root, 'blue'))).toBe(false);
    await d.remove('blue', { signal });
  });

  it('carries out one ensure per control plane at a time', async () => {
    const d = driver();
    const port = await freePort();
    const wanted = plan(fakeComponent('server', port));
    await Promise.all([
      d.ensure(wanted, { signal }),
      d.ensure(wanted, { signal }),
      d.ensure(wanted, { signal }),
    ]);
    expect(await lines(d.logs('blue', 'server', { signal }))).toEqual(['starting']);
  });

  describe('with a component beside the one that runs', () => {
    /** As on `port` and, when asked for, as on another one; says what happened in which order. */
    async function replacement(words: readonly string[] = [], changes: Partial<ComponentPlan> = {}) {
      const [port, other] = [await freePort(), await freePort()];
      const done: string[] = [];
      const at = (where: number) => plan(fakeComponent('server', where, words, changes), client);
      const client = fakeComponent('client', await freePort(), [], { dependsOn: ['server'] });
      const pids = async () => Promise.all([port, other].map((each) => answerOf(each).catch(() => 'nobody')));
      const surge = {
        component: 'server',
        plan: async () => {
          done.push('asked');
          return at(other);
        },
        handOver: async () => {
          done.push((await pids()).includes('nobody') ? 'handed over with a gap' : 'handed over');
        },
      };
      const before = plan(fakeComponent('server', port), client);
      return { done, pids, surge, before, wanted: at(port), switched: at(other) };
    }

    it('has both serve until clients are handed over, then stops the earlier one and goes on', async () => {
      const d = driver();
      const { before, wanted, switched, surge, done, pids } = await replacement(['new']);
      await d.ensure(before, { signal, surge });
      const first = await pidOf(d, 'server');
      const events: string[] = [];
      d.watch((_id, component, what) => events.push(`${component} ${what}`));
      await d.ensure(wanted, { signal, surge });
      expect(done).toEqual(['asked', 'handed over']);
      expect(events.filter((each) => each.startsWith('server'))).toEqual(['server started', 'server ready']);
      expect(await pids()).toEqual(['nobody', String(await pidOf(d, 'server'))]);
      expect(await pidOf(d, 'server')).not.toBe(first);
      expect((await d.observe('blue')).components.map(({ name }) => name)).toEqual(['client', 'server']);
      expect(await readdir(join(root, 'blue/run'))).toHaveLength(2);
      expect(await lines(d.logs('blue', 'server', { signal }))).toEqual(['starting', 'starting new']);
      const second = await pidOf(d, 'server');
      await d.ensure(switched, { signal, surge });
      expect(await pidOf(d, 'server')).toBe(second);
      expect(done).toHaveLength(2);
      // The next one takes the slot that the first one had.
      await d.ensure(before, { signal, surge: { ...surge, plan: async () => before } });
      expect((await pids())[1]).toBe('nobody');
      expect(await readdir(join(root, 'blue/files'))).toHaveLength(2);
      await d.stop('blue', { signal, components: ['server'] });
      expect(await pids()).toEqual(['nobody', 'nobody']);
    });

    it('leaves the earlier one alone when the new one does not become ready', async () => {
      const d = hurriedDriver();
      const { before, wanted, surge, done, pids } = await replacement(['exit']);
      await d.ensure(before, { signal });
      const first = String(await pidOf(d, 'server'));
      expect(await failure(d.ensure(wanted, { signal, surge }))).toMatchObject({
        code: 'KeepsExiting',
        fields: { component: 'server' },
      });
      expect(done).toEqual(['asked']);
      expect(await pids()).toEqual([first, 'nobody']);
      expect(await readdir(join(root, 'blue/run'))).toEqual(['client.json', 'server.json']);
      await d.ensure(before, { signal, surge });
      expect(String(await pidOf(d, 'server'))).toBe(first);
      expect(done).toEqual(['asked']);
    });

    it.each(['before', 'after'])(
      'is finished by the next driver when killed %s clients go over',
      async (when) => {
        const d = driver();
        const { before, wanted, switched, surge, pids } = await replacement(['new']);
        await d.ensure(before, { signal });
        const killed = new AbortController();
        const dies = async () => {
          killed.abort(new Error('killed'));
          throw new Error('killed');
        };
        await failure(d.ensure(wanted, { signal: killed.signal, surge: { ...surge, handOver: dies } }));
        const both = await pids();
        expect(both).not.toContain('nobody');
        await d.close();
        const next = driver();
        await next.ensure(when === 'before' ? wanted : switched, { signal, surge });
        expect(await pids()).toEqual(['nobody', both[1]]);
        expect(await readdir(join(root, 'blue/run'))).toHaveLength(2);
      },
    );

    it('takes it back when the change is taken back in the middle', async () => {
      const d = driver();
      const { before, wanted, surge, pids } = await replacement(['new']);
      await d.ensure(before, { signal });
      const killed = new AbortController();
      const dies = async () => {
        killed.abort(new Error('killed'));
        throw new Error('killed');
      };
      await failure(d.ensure(wanted, { signal: killed.signal, surge: { ...surge, handOver: dies } }));
      const [first] = await pids();
      await d.ensure(before, { signal, surge });
      expect(await pids()).toEqual([first, 'nobody']);
    });

    it('never has two that keep data beside each other', async () => {
      const d = driver();
      const { before, wanted, surge, done } = await replacement(['new'], { data: true });
      await d.ensure(before, { signal });
      await d.ensure(wanted, { signal, surge });
      expect(done).toEqual([]);
      expect(await lines(d.logs('blue', 'server', { tailLines: 1, signal }))).toEqual(['starting new']);
    });

    it('refuses a component that is called as its second place', async () => {
      const wrong = plan(fakeComponent('server-beside', await freePort()));
      expect(await failure(driver().ensure(wrong, { signal }))).toMatchObject({ code: 'InvalidName' });
    });
  });

  it('follows a log until told not to', async () => {
    const d = driver();
    await d.ensure(plan(fakeComponent('server', await freePort(), ['deaf'], { stopTimeoutMs: 100 })), {
      signal,
    });
    const abort = new AbortController();
    const seen: string[] = [];
    for await (const line of d.logs('blue', 'server', { follow: true, signal: abort.signal })) {
      seen.push(line);
      if (line === 'starting deaf') process.kill(await pidOf(d, 'server'), 'SIGTERM');
      if (line === 'deaf') abort.abort();
    }
    expect(seen).toEqual(['starting deaf', 'deaf']);
  });

  it('names the components it knows when asked for a log of another', async () => {
    const d = driver();
    await d.ensure(plan(fakeComponent('server', await freePort())), { signal });
    const error = await failure(lines(d.logs('blue', 'sever', { signal })));
    expect(error).toMatchObject({ code: 'UnknownComponent', retryable: false });
    expect(error.message).toContain('It has server.');
  });

  it.each(['../blue', 'Blue', '', 'a/b'])('refuses %j as a name', async (id) => {
    const d = driver();
    expect(await failure(d.remove(id, { signal }))).toMatchObject({ code: 'InvalidName' });
  });
});
