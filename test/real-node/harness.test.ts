import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, describe, expect, it } from 'vitest';
import { poll } from '../harness/poll.ts';
import { identify, isAlive, kill, processesOf } from '../harness/processes.ts';
import type { ClusterInfo } from './cluster/cluster-info.ts';
import { stopCluster } from './cluster/start-cluster.ts';
import { listClaims } from './machine/machine.ts';

const main = join(import.meta.dirname, 'main.ts');
const upTimeoutMs = 240_000;
const downTimeoutMs = 120_000;

/** Clusters of its own, of one node: what is done to them here, the other suites could not bear. */
describe('the harness', () => {
  const place = mkdtempSync(join(tmpdir(), 'skerry-harness-'));
  afterAll(() => {
    for (const path of [place, `${place}.log`]) rmSync(path, { recursive: true, force: true });
  });

  /** All that a cluster has on this machine, by what shows it. */
  const leftOf = ({ directory, nodes }: ClusterInfo, bridge: string): string[] => {
    const cgroups = readdirSync('/sys/fs/cgroup', { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => `/sys/fs/cgroup/${name}/${bridge.replace('skerry', 'skerry-')}`)
      .filter((path) => existsSync(path));
    return [
      ...[...processesOf(directory).values()],
      ...nodes.filter(({ pid }) => identify(pid) !== undefined).map(({ name }) => `${name} runs`),
      ...Object.keys(networkInterfaces()).filter((name) => name === bridge || name.startsWith(`${bridge}-`)),
      ...readFileSync('/proc/self/mounts', 'utf8')
        .split('\n')
        .filter((line) => line.includes(directory)),
      ...cgroups,
      ...(existsSync(directory) ? [directory] : []),
    ];
  };

  const start = async (name: string): Promise<{ info: ClusterInfo; bridge: string; owner: number }> => {
    const directory = join(place, name);
    // In a process of its own, which can be killed.
    const child = spawn(process.execPath, [main, 'hold', '--state-dir', directory], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    for await (const line of createInterface({ input: child.stdout })) if (line === 'up') break;
    const info = JSON.parse(readFileSync(join(directory, 'cluster.json'), 'utf8')) as ClusterInfo;
    const claim = (await listClaims()).find((each) => each.directory === directory);
    return { info, bridge: `skerry${claim?.number}`, owner: child.pid ?? 0 };
  };

  const killPid = async (pid: number): Promise<void> => {
    const found = identify(pid);
    if (found === undefined) throw new Error(`process ${pid} does not run`);
    await kill(found);
  };

  it(
    'leaves nothing of a cluster whose owner is killed',
    async () => {
      const { info, bridge, owner } = await start('owned');
      expect(leftOf(info, bridge)).not.toEqual([]);
      await killPid(owner);
      const isClaimed = async (): Promise<boolean> =>
        (await listClaims()).some(({ directory }) => directory === info.directory);
      // The claim goes last: by it the next run finds what a killed one left.
      await poll('its claim to go', async () => !(await isClaimed()), { timeoutMs: downTimeoutMs });
      await poll('everything to be gone', () => leftOf(info, bridge).length === 0, {
        timeoutMs: downTimeoutMs,
      });
    },
    upTimeoutMs + downTimeoutMs,
  );

  it(
    'ends its nodes with the process that keeps them, and sweeps the rest when it is called again',
    async () => {
      const { info, bridge, owner } = await start('kept');
      const keeper = identify(info.keeper);
      const nodes = info.nodes.map(({ pid }) => identify(pid));
      await killPid(info.keeper);
      await killPid(owner);
      await poll('the nodes to end', () => nodes.every((node) => node === undefined || !isAlive(node)), {
        timeoutMs: downTimeoutMs,
      });
      expect(keeper !== undefined && isAlive(keeper)).toBe(false);
      expect(await stopCluster(info.directory)).toBe(true);
      expect(leftOf(info, bridge)).toEqual([]);
      expect(await stopCluster(info.directory)).toBe(false);
    },
    upTimeoutMs + downTimeoutMs,
  );

  it(
    'takes everything down and fails when a daemon of a node has ended by itself',
    async () => {
      const { info, bridge, owner } = await start('weak');
      const [kubelet] = [...processesOf(info.directory)].filter(([, command]) =>
        command.includes('/kubelet '),
      );
      await killPid(kubelet?.[0] ?? 0);
      const ended = join(info.directory, 'nodes', 'node-1', 'logs', 'ended.log');
      await poll('its end to be recorded', () => existsSync(ended), { timeoutMs: downTimeoutMs });
      await expect(stopCluster(info.directory)).rejects.toThrow(/kubelet of node-1 ended/);
      await killPid(owner);
      expect(leftOf(info, bridge)).toEqual([]);
    },
    upTimeoutMs + downTimeoutMs,
  );

  it('refuses a directory that holds something else', async () => {
    const directory = mkdtempSync(join(place, 'other-'));
    const child = spawn(process.execPath, [main, 'up', '--state-dir', place], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect(code).not.toBe(0);
    expect(said).toContain('is not empty and holds no cluster of this harness');
    expect(existsSync(directory)).toBe(true);
  });
});
