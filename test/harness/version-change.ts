import { expect } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import type { RunResult } from './cluster.ts';
import { namespace } from './manifests.ts';
import type { ProcessIdentity } from './processes.ts';
import { whileAsked } from './steady-client.ts';
import { SteadyWriter } from './steady-writer.ts';
import type { Tenant, World } from './world.ts';

const components = ['kube-apiserver', 'kube-controller-manager'];

/** Asks for another version of a tenant, as a user would. */
export function setVersion(world: World, name: string, version: string): Promise<RunResult> {
  const patch = JSON.stringify({ spec: { version } });
  return world.superCluster.tryKubectl(['patch', 'virtualcluster', name, '--type=merge', '-p', patch]);
}

/**
 * Makes a tenant of one version and takes it to another one while a client writes: every program is another process
 * then, and credentials, address and objects are what they were.
 */
export async function changeVersion(
  world: World,
  name: string,
  { from, to, whileEarlier }: { from: string; to: string; whileEarlier?: (tenant: Tenant) => Promise<void> },
): Promise<Tenant> {
  const tenant = await world.createTenant(name, '--version', from);
  await tenant.apply(namespace('before'));
  await whileEarlier?.(tenant);
  const before = await processesOf(world, tenant);
  const writer = new SteadyWriter(tenant);
  const since = performance.now();
  try {
    await whileAsked(tenant.kubeconfig, `from ${from} to ${to}`, async () => {
      expect((await setVersion(world, name, to)).exitCode).toBe(0);
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
  } catch (error) {
    await writer.close();
    throw error;
  }
  const tookMs = Math.round(performance.now() - since);
  const figures = await writer.stop();
  console.log(`from ${from} to ${to} in ${tookMs} ms: ${JSON.stringify(figures)}`);
  expect(figures.lost).toEqual([]);
  const after = await processesOf(world, tenant);
  for (const [place, process] of after.entries()) expect(process.pid).not.toBe(before[place]?.pid);
  expect(await tenant.kubectl('get', 'namespace', 'before')).toContain('Active');
  const { stdout } = await world.cli(['jobs', name, '-o', 'json']);
  expect(JSON.parse(stdout)[0]).toMatchObject({ kind: 'version-change', target: to, state: 'Succeeded' });
  return tenant;
}

/** Of a tenant's control plane, always in the same order. */
export function processesOf(world: World, tenant: Tenant): Promise<ProcessIdentity[]> {
  return Promise.all(components.map((name) => world.process(name, tenant)));
}
