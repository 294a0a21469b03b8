import { appendFile, chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ComponentPlan, ControlPlanePlan } from '../../control-plane/plan.ts';
import { componentHash } from '../driver.ts';
import { ComposeDriver } from './compose-driver.ts';
import { labels } from './compose-file.ts';

/**
 * A command line that knows the containers of a file, keeps what is asked for that changes something, and answers
 * nothing while there is a file `away`. Containers come out of it as they were: the driver has no need to look again.
 */
const standIn = `#!/bin/sh
cd "$(dirname "$0")"
if [ -e away ]; then echo 'Cannot connect to the Docker daemon. Is the docker daemon running?' >&2; exit 1; fi
case "$1 $2" in
  "version "*) echo 28.2.2 ;;
  "compose version") echo 2.40.3 ;;
  "ps "*) cat ids ;;
  "inspect "*) cat containers ;;
  "image "*) echo sha256:1 ;;
  "events "*) exec sleep 600 ;;
  "volume ls") ;;
  "compose "*) echo up >> calls ;;
  "update "*) echo "$1 $2 $3 $4" >> calls; if [ -e rigid ]; then echo 'not supported' >&2; exit 1; fi ;;
  *) echo "$1 $2" >> calls ;;
esac
`;

type Status = 'running' | 'exited' | 'created' | 'restarting' | 'dead' | 'paused';

describe('a new manager after a reboot of the machine', () => {
  const { signal } = new AbortController();
  let directory: string;
  let server: Server;
  let driver: ComposeDriver;
  let problems: string[];

  beforeEach(async () => {
    problems = [];
    directory = await mkdtemp(join(tmpdir(), 'skerry-engine-'));
    await writeFile(join(directory, 'docker'), standIn);
    await chmod(join(directory, 'docker'), 0o755);
    await writeFile(join(directory, 'calls'), '');
    server = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    driver = new ComposeDriver({
      root: join(directory, 'root'),
      environment: { PATH: [directory, process.env['PATH']].join(delimiter) },
      onProblem: (_, what) => problems.push(what),
    });
  });

  afterEach(async () => {
    await driver.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(directory, { recursive: true });
  });

  function plan(change: Partial<ComponentPlan> = {}): ControlPlanePlan {
    const { port } = server.address() as AddressInfo;
    const component: ComponentPlan = {
      name: 'etcd',
      binary: { name: 'etcd', version: '3.7.3' },
      args: [],
      env: {},
      files: [],
      ports: [],
      probe: { scheme: 'http', host: '127.0.0.1', port, path: '/health', timeoutMs: 30_000 },
      dependsOn: [],
      stopTimeoutMs: 1_000,
      ...change,
    };
    return { id: 'blue', labels: {}, components: [component] };
  }

  /** As an engine shows a container that it was killed with, and has found again. */
  async function found(
    status: Status,
    change: { hash?: string; restarts?: number; cpuShares?: number } = {},
  ): Promise<void> {
    const [component] = plan().components;
    const hash = change.hash ?? componentHash(component as ComponentPlan);
    const isUp = status === 'running' || status === 'paused';
    const container = {
      Id: 'c1',
      RestartCount: change.restarts ?? 0,
      State: {
        Status: status,
        Pid: isUp ? 4_242 : 0,
        ExitCode: isUp ? 0 : 255,
        StartedAt: '2026-03-01T12:00:00.5Z',
        FinishedAt: status === 'created' ? '0001-01-01T00:00:00Z' : '2026-03-01T11:59:59.5Z',
      },
      Config: { Labels: { [labels.id]: 'blue', [labels.component]: 'etcd', [labels.hash]: hash }, User: '' },
      HostConfig: { CpuShares: change.cpuShares ?? 0 },
    };
    await writeFile(join(directory, 'ids'), 'c1\n');
    await writeFile(join(directory, 'containers'), JSON.stringify([container]));
  }

  const calls = async (): Promise<string[]> =>
    (await readFile(join(directory, 'calls'), 'utf8')).split('\n').filter((line) => line !== '');

  it.each<[string, Status, string[]]>([
    ['leaves alone what the engine has started', 'running', []],
    ['starts what had been stopped before, which the engine leaves so', 'exited', ['start c1']],
    ['starts what the engine had made and not started yet', 'created', ['start c1']],
    [
      'does not wait for what the engine lets wait, as its datastore was away',
      'restarting',
      ['stop -t', 'start c1'],
    ],
    ['lets go on what was paused', 'paused', ['unpause c1']],
    ['makes anew what the engine could not remove', 'dead', ['stop -t', 'rm --force', 'up']],
  ])('%s', async (_, status, expected) => {
    await found(status);
    await driver.ensure(plan(), { signal });
    expect(await calls()).toEqual(expected);
  });

  it('replaces what runs and is of another plan, as of a change that was cut off', async () => {
    await found('running', { hash: 'of-another-plan' });
    await driver.ensure(plan(), { signal });
    expect(await calls()).toEqual(['stop -t', 'rm --force', 'up']);
  });

  it.each<[string, Status, number, string[]]>([
    ['changes the share of processors of what runs by weight, and restarts nothing', 'running', 51, []],
    ['has what it starts have the share of its weight', 'exited', 51, ['start c1']],
    ['stops what the engine lets wait before it changes that', 'restarting', 51, ['start c1']],
  ])('%s', async (_, status, cpuShares, started) => {
    const resources = { requests: { cpu: '50m' } };
    await found(status, { cpuShares });
    await driver.ensure({ ...plan({ resources }), weight: 3 }, { signal });
    const stopped = status === 'restarting' ? ['stop -t'] : [];
    expect(await calls()).toEqual([...stopped, 'update --cpu-shares 154 c1', ...started]);
    expect(problems).toEqual([]);
  });

  it('leaves the share of processors alone where it is as it should be', async () => {
    await found('running', { cpuShares: 154 });
    await driver.ensure({ ...plan({ resources: { requests: { cpu: '50m' } } }), weight: 3 }, { signal });
    expect(await calls()).toEqual([]);
  });

  it('goes on where the engine cannot change a share, and says so once for each share', async () => {
    await writeFile(join(directory, 'rigid'), '');
    await found('exited', { cpuShares: 51 });
    await driver.ensure({ ...plan({ resources: { requests: { cpu: '50m' } } }), weight: 3 }, { signal });
    expect(await calls()).toEqual(['update --cpu-shares 154 c1', 'start c1']);
    const problem = 'cannot set the share of processors of etcd of blue';
    expect(problems).toEqual([problem]);
    await driver.ensure({ ...plan({ resources: { requests: { cpu: '50m' } } }), weight: 3 }, { signal });
    expect(problems).toEqual([problem]);
    await driver.ensure({ ...plan({ resources: { requests: { cpu: '50m' } } }), weight: 4 }, { signal });
    expect(problems).toEqual([problem, problem]);
  });

  it('does not take the starts of before for restarts', async () => {
    await found('running', { restarts: 3 });
    await driver.ensure(plan(), { signal });
    expect((await driver.observe('blue')).components).toMatchObject([
      { name: 'etcd', state: 'running', restarts: 0, pid: 4_242 },
    ]);
  });

  it('says who has its port, where something came first that listens there', async () => {
    await found('exited');
    const { port } = server.address() as AddressInfo;
    const ports = [{ name: 'client', port, host: '127.0.0.1' }];
    await expect(driver.ensure(plan({ ports }), { signal })).rejects.toMatchObject({ code: 'PortInUse' });
    expect(await calls()).toEqual([]);
  });

  it('goes on once the engine answers, where it comes up before that', async () => {
    await found('exited');
    await appendFile(join(directory, 'away'), '');
    await expect(driver.ensure(plan(), { signal })).rejects.toMatchObject({
      code: 'EngineUnavailable',
      retryable: true,
    });
    await rm(join(directory, 'away'));
    await driver.ensure(plan(), { signal });
    expect(await calls()).toEqual(['start c1']);
  });
});
