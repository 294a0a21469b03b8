import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { expect } from 'vitest';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import type { JobKind } from '../../api/job-status.ts';
import { annotationKeys } from '../../api/labels.ts';
import { isPaused, type VirtualCluster } from '../../api/virtual-cluster.ts';
import { connectionFromSecret, type KubeObject, resources } from '../../kube/index.ts';
import type { SteadyClient } from '../../scripts/bench/steady-client.ts';
import { defaultVersions } from '../../vc-manager/binaries/index.ts';
import type { RunResult } from './cluster.ts';
import { bulk, configMap, namespace } from './manifests.ts';
import { heldRequestMs, poll } from './poll.ts';
import { isAlive, type ProcessIdentity, suspendComponent } from './processes.ts';
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
  await poll(`${identity} to lead`, async () => (await leader(world)) === identity);
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
  const writer = new SteadyWriter(connectionFromSecret(tenant.kubeconfig));
  const since = performance.now();
  try {
    const [stateDir, id, component] = [world.stateDir, tenant.id, 'kube-apiserver'];
    const earlier = await world.process(component, tenant);
    const client = await whileAsked(tenant.kubeconfig, `from ${from} to ${to}`, async (client) => {
      const holding = suspendComponent({ stateDir, id, component, beside: earlier });
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

/** Kills the manager, and starts another one in its place. */
export type ReplaceManager = () => Promise<unknown>;

/** As soon as a job of this kind is at the step in which components are started. */
function isStarting(kind: JobKind): (vc: VirtualCluster) => boolean {
  return ({ status }) => status?.jobs?.current?.kind === kind && status.jobs.current.step === 'control-plane';
}

/**
 * Does this work, and has the manager killed once meanwhile, if it can be replaced: as soon as the tenant `is` so, which it is
 * not before. The job that was interrupted succeeds in its second attempt.
 */
export async function withManagerKilled<T>(
  world: World,
  name: string,
  { kind, is = isStarting(kind), replace }: Kill,
  work: () => Promise<T>,
): Promise<T> {
  const look = { resource: resources.virtualClusters, namespace: 'default', name };
  // Waited for before it is asked for, so that it cannot be over by then.
  const reached = (): Promise<true> =>
    world.superCluster.until<true, VirtualCluster>(
      { ...look, what: `the moment to kill the manager in a ${kind}` },
      ([vc]) => (vc !== undefined && is(vc)) || undefined,
    );
  const killed = replace && reached().then(() => replace());
  const [done] = await Promise.all([work(), killed]);
  const { status } = await world.superCluster.until<VirtualCluster, VirtualCluster>(
    { ...look, what: 'its job to end' },
    ([vc]) => vc !== undefined && vc.status?.jobs?.current === undefined && vc,
  );
  expect(status?.jobs?.history?.[0]).toMatchObject({
    ...{ kind, result: 'Succeeded' },
    ...(replace && { attempts: 2 }),
  });
  return done;
}

interface Kill {
  kind: JobKind;
  is?: (vc: VirtualCluster) => boolean;
  replace: ReplaceManager | undefined;
}

/** Creates a tenant by the pool, and has the manager killed, if it can be replaced, as soon as a control plane is chosen. */
export async function createFromPool(
  world: World,
  name: string,
  options: readonly string[],
  replace: ReplaceManager | undefined,
): Promise<Tenant> {
  const chosen = (): Promise<true> =>
    world.superCluster.until<true, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: 'default', name, what: 'it to have an id' },
      ([vc]) => vc?.metadata.annotations?.[annotationKeys.id] !== undefined || undefined,
    );
  const killed = replace && chosen().then(() => replace());
  const [tenant] = await Promise.all([world.createTenant(name, ...options), killed]);
  return tenant;
}

async function succeed(world: World, ...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await world.cli(args);
  expect(exitCode, stderr).toBe(0);
  return stdout.trim();
}

/**
 * Has a tenant of another build upgraded to the default one while clients ask and write, with the manager killed, if it can be
 * replaced.
 */
export async function upgradeUnderLoad(
  world: World,
  tenant: Tenant,
  replace: ReplaceManager | undefined,
): Promise<void> {
  const { name } = tenant;
  const to = defaultVersions.kubernetes;
  const writer = new SteadyWriter(connectionFromSecret(tenant.kubeconfig));
  try {
    const client = await whileAsked(tenant.kubeconfig, `${name} to ${to}`, async (client) => {
      const upgrade = (): Promise<string> => succeed(world, 'upgrade', name, '--wait');
      const kind = 'version-change';
      expect(await withManagerKilled(world, name, { kind, replace }, upgrade)).toBe(`${name} runs ${to}`);
      await client.served(20);
    });
    expectAllServed(client, 1);
    const written = await writer.stop();
    console.log(`${name} to ${to}: ${JSON.stringify(written)}`);
    expectAllWritten(written, 1);
  } finally {
    await writer.close();
  }
  expect(await serverVersion(tenant)).toBe(`v${to}`);
}

export async function serverVersion({ client }: Tenant): Promise<string> {
  return ((await client.raw('GET', '/version')) as { gitVersion: string }).gitVersion;
}

/** Makes a template of the default version whose API server does not start. */
export async function makeBrokenTemplate(world: World, name: string): Promise<void> {
  const [major, minor] = defaultVersions.kubernetes.split('.');
  const { spec } = await world.superCluster.client.get<ControlPlaneTemplate>(
    resources.controlPlaneTemplates,
    { name: `v${major}-${minor}` },
  );
  const components = spec.components.map((each) =>
    each.name === 'kube-apiserver' ? { ...each, args: { ...each.args, 'no-such-flag': 'x' } } : each,
  );
  await world.superCluster.apply({
    ...{ apiVersion: 'skerry.dev/v1alpha1', kind: 'ControlPlaneTemplate' },
    ...{ metadata: { name }, spec: { ...spec, components } },
  });
}

/**
 * Asks for the default version with a template of which no API server starts: the tenant goes back by itself, and no request
 * fails. Then asks for what it has.
 */
export async function upgradeAndRollBack(world: World, tenant: Tenant): Promise<void> {
  const { ref, name, virtualCluster } = tenant;
  const version = virtualCluster.status?.version;
  const template = `${name}-broken`;
  const ask = (spec: object): Promise<unknown> =>
    world.superCluster.client.patch(resources.virtualClusters, ref, { spec }, { type: 'merge' });
  await makeBrokenTemplate(world, template);
  const since = performance.now();
  const client = await whileAsked(tenant.kubeconfig, `${name} there and back`, async () => {
    await ask({ version: defaultVersions.kubernetes, template });
    const { status } = await world.superCluster.until<VirtualCluster, VirtualCluster>(
      { resource: resources.virtualClusters, ...ref, what: 'the way back' },
      ([vc]) => vc?.status?.phase === 'Ready' && vc.status.jobs?.held?.why !== undefined && vc,
    );
    expect(status?.version).toBe(version);
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'version-change', result: 'Failed' });
  });
  console.log(`${name}: back after ${((performance.now() - since) / 1000).toFixed(1)} s`);
  expectAllServed(client);
  expect(await serverVersion(tenant)).toBe(`v${version}`);
  await ask({ version, template: null });
  await world.superCluster.client.delete(resources.controlPlaneTemplates, { name: template });
}

/** Has a snapshot taken and put back in place, though the manager is killed in each; pods run on. */
export async function snapshotWithManagerKilled(
  world: World,
  tenant: Tenant,
  replace: ReplaceManager,
): Promise<void> {
  const { name, client } = tenant;
  const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
  const pods = async (): Promise<unknown[]> =>
    (await world.superCluster.client.list(resources.pods, { labelSelector })).items
      .map(({ metadata }) => metadata.uid)
      .sort();
  const before = await pods();
  const much = bulk('default');
  await tenant.apply(configMap('default', 'settings', { colour: 'blue' }));
  await Promise.all(much.map((each) => client.create(resources.configMaps, each)));
  const isBegun = ({ status }: VirtualCluster): boolean => status?.snapshots?.begun !== undefined;
  const taken = await withManagerKilled(world, name, { kind: 'snapshot', is: isBegun, replace }, () =>
    succeed(world, 'snapshot', name, '--wait'),
  );
  await tenant.kubectl('delete', 'configmap', 'settings', ...much.map(({ metadata }) => metadata.name ?? ''));
  const isReplaced = ({ status }: VirtualCluster): boolean => status?.restore !== undefined;
  await withManagerKilled(world, name, { kind: 'restore', is: isReplaced, replace }, () =>
    succeed(world, 'restore', name, '--from', taken, '--wait', '--yes'),
  );
  expect(await tenant.kubectl('get', 'configmap', 'settings', '-o', 'jsonpath={.data.colour}')).toBe('blue');
  expect(await pods()).toEqual(before);
}

/**
 * Has a tenant moved by `vc-manager move --wait` while clients ask and write, with the manager killed while nothing serves, if
 * it can be replaced: a request may wait, and none may fail but one write that is under way when the API server ends. What a
 * write was acknowledged for is there. `prefix`: of what is written, other than that of an earlier move.
 */
export async function moveUnderLoad(
  world: World,
  tenant: Tenant,
  prefix: string,
  replace: ReplaceManager | undefined,
  move: () => Promise<{ stdout: string }>,
): Promise<void> {
  const patience = { patienceMs: heldRequestMs };
  const writer = new SteadyWriter(connectionFromSecret(tenant.kubeconfig), { prefix, ...patience });
  let said = '';
  const work = async (client: SteadyClient): Promise<void> => {
    const kill = { kind: 'move' as const, is: isPaused, replace };
    ({ stdout: said } = await withManagerKilled(world, tenant.name, kill, move));
    await client.served(20);
  };
  try {
    const client = await whileAsked(tenant.kubeconfig, `moved ${prefix}`, work, patience);
    expectAllServed(client, 1);
    const written = await writer.stop();
    console.log(`${said}; ${JSON.stringify(written)}`);
    expect(Number(/paused for (\S+) s$/.exec(said)?.[1])).toBeGreaterThan(0);
    expect(written.lost).toEqual([]);
    expect(written.failures.length, written.failures.join('; ')).toBeLessThanOrEqual(1);
  } finally {
    await writer.close();
  }
}

/** Of a tenant's control plane, always in the same order. */
export function processesOf(world: World, tenant: Tenant): Promise<ProcessIdentity[]> {
  return Promise.all(components.map((name) => world.process(name, tenant)));
}
