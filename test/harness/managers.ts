import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { expect } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { SteadyClient } from '../../scripts/bench/steady-client.ts';
import type { RunResult } from './cluster.ts';
import { namespace } from './manifests.ts';
import { poll } from './poll.ts';
import { holdUp, isAlive, type ProcessIdentity } from './processes.ts';
import { expectAllServed, expectAllWritten, SteadyWriter, whileAsked } from './steady-load.ts';
import type { Tenant, World } from './world.ts';

interface Lease extends KubeObject {
  spec?: { holderIdentity?: string };
}

/** One more manager, with the state directory and options of the one that the stack has. To be ended. */
export async function anotherManager(
  world: World,
  identity: string,
  { options = [], env = {} }: { options?: readonly string[]; env?: Record<string, string> } = {},
): Promise<ChildProcess> {
  const { pid } = await world.process('vc-manager');
  const [node = '', ...args] = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1);
  const log = openSync(world.file(`${identity}.log`), 'a');
  const others = args.filter((argument) => !argument.startsWith('--identity='));
  const child = spawn(node, [...others, `--identity=${identity}`, ...options], {
    stdio: ['ignore', log, log],
    env: { ...process.env, ...env },
  });
  closeSync(log);
  return child;
}

/** The manager that leads; empty: none. */
export async function leader(world: World): Promise<string> {
  const ref = { namespace: 'skerry-system', name: 'skerry-vc-manager' };
  return (await world.superCluster.client.get<Lease>(resources.leases, ref)).spec?.holderIdentity ?? '';
}

export async function untilLeads(world: World, identity: string): Promise<void> {
  await poll(`${identity} to lead`, async () => (await leader(world)) === identity, { timeoutMs: 60_000 });
}

export async function endManager(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await ended;
}

const components = ['kube-apiserver', 'kube-controller-manager'];

/** Asks for another version of a tenant, as a user would. */
export function setVersion(world: World, name: string, version: string): Promise<RunResult> {
  const patch = JSON.stringify({ spec: { version } });
  return world.superCluster.tryKubectl(['patch', 'virtualcluster', name, '--type=merge', '-p', patch]);
}

interface VersionChange {
  from: string;
  to: string;
  /** Before anything is asked for. */
  whileEarlier?: (tenant: Tenant) => Promise<void>;
  /** While the new API server stands still beside the earlier one, which serves. */
  whileHeld?: () => Promise<void>;
  /** Asks for the new version, and does not wait for it; by kubectl if absent. */
  ask?: () => void;
}

/**
 * Makes a tenant of one version and takes it to another one while a client writes: every program is another process
 * then, and credentials, address and objects are what they were.
 */
export async function changeVersion(
  world: World,
  name: string,
  { from, to, whileEarlier, whileHeld, ask }: VersionChange,
): Promise<Tenant> {
  const tenant = await world.createTenant(name, '--version', from);
  await tenant.apply(namespace('before'));
  await whileEarlier?.(tenant);
  const before = await processesOf(world, tenant);
  const writer = new SteadyWriter(tenant);
  const since = performance.now();
  try {
    const [stateDir, id, component] = [world.stateDir, tenant.id, 'kube-apiserver'];
    const earlier = await world.process(component, tenant);
    const client = await whileAsked(tenant.kubeconfig, `from ${from} to ${to}`, async (client) => {
      const holding = holdUp({ stateDir, id, component, beside: earlier });
      if (ask === undefined) expect((await setVersion(world, name, to)).exitCode).toBe(0);
      else ask();
      const goOn = await holding;
      // As long as the new one is not ready, the earlier one serves.
      await client
        .served(5)
        .then(() => whileHeld?.())
        .finally(goOn);
      expect(isAlive(earlier)).toBe(true);
      await world.superCluster.until<true, VirtualCluster>(
        {
          resource: resources.virtualClusters,
          namespace: 'default',
          name,
          what: 'the new version',
          timeoutMs: 150_000,
        },
        ([vc]) => (vc?.status?.phase === 'Ready' && vc.status.version === to) || undefined,
      );
    });
    expect(isAlive(earlier)).toBe(false);
    expectAllServed(client, 1);
  } catch (error) {
    await writer.close();
    throw error;
  }
  const tookMs = Math.round(performance.now() - since);
  const figures = await writer.stop();
  console.log(`from ${from} to ${to} in ${tookMs} ms: ${JSON.stringify(figures)}`);
  expectAllWritten(figures, 1);
  const after = await processesOf(world, tenant);
  for (const [place, process] of after.entries()) expect(process.pid).not.toBe(before[place]?.pid);
  expect(await tenant.kubectl('get', 'namespace', 'before')).toContain('Active');
  const { stdout } = await world.cli(['jobs', name, '-o', 'json']);
  expect(JSON.parse(stdout)[0]).toMatchObject({ kind: 'version-change', target: to, state: 'Succeeded' });
  return tenant;
}

/**
 * Has a tenant moved by `vc-manager move --wait` while clients ask and write: a request may wait, and none may fail; what a
 * write was acknowledged for is there. `prefix`: of what is written, other than that of an earlier move.
 */
export async function moveWhileAsked(
  tenant: Tenant,
  prefix: string,
  move: () => Promise<{ stdout: string }>,
): Promise<void> {
  const writer = new SteadyWriter(tenant, prefix);
  let said = '';
  const work = async (client: SteadyClient): Promise<void> => {
    ({ stdout: said } = await move());
    await client.served(20);
  };
  try {
    // As long as the gateway holds requests, however slow the machine is.
    const client = await whileAsked(tenant.kubeconfig, `moved ${prefix}`, work, { patienceMs: 300_000 });
    expectAllServed(client, 1);
    const written = await writer.stop();
    console.log(`${said}; ${JSON.stringify(written)}`);
    expect(Number(/paused for (\S+) s$/.exec(said)?.[1])).toBeGreaterThan(0);
    expect(written.lost).toEqual([]);
  } finally {
    await writer.close();
  }
}

/** Of a tenant's control plane, always in the same order. */
export function processesOf(world: World, tenant: Tenant): Promise<ProcessIdentity[]> {
  return Promise.all(components.map((name) => world.process(name, tenant)));
}
