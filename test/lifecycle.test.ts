import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse, stringify } from 'yaml';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { resources } from '../kube/index.ts';
import { allocateSlice } from '../vc-manager/os/network.ts';
import { isBroad } from './harness/broad.ts';
import { type Footprint, footprint, noFootprint, type Traces, tracesOf } from './harness/footprint.ts';
import { claim, deployment, namespace, service } from './harness/manifests.ts';
import { poll } from './harness/poll.ts';
import { componentProcess, isAlive, kill } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

/** Nine begin at once, of which the manager makes four at a time. */
const lifeMs = 400_000;
/** Until one of them gets its turn, is made, and has gone again. */
const timeoutMs = 180_000;
const components = ['kube-apiserver', 'kube-controller-manager'];

describe('the life of a tenant', () => {
  let world: World;

  beforeAll(() => {
    world = new World(inject('stack'));
  });

  afterAll(() => world?.close());

  const work = async (tenant: Tenant): Promise<void> => {
    await tenant.apply(
      namespace('shop'),
      deployment('shop', 'web', 2),
      service('shop', 'web'),
      claim('shop', 'data'),
    );
    await tenant.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', '--timeout=110s');
    await tenant.untilBound('shop', 'data');
    // Beside all the others that begin.
    await world.expectAgreement([tenant], 120_000);
  };

  const volumesOf = async ({ uid }: Traces): Promise<string[]> => {
    const { client } = world.superCluster;
    const { items: namespaces } = await client.list(resources.namespaces, {
      labelSelector: `skerry.dev/tenant=${uid}`,
    });
    const names = new Set(namespaces.map(({ metadata }) => metadata.name));
    const { items } = await client.list(resources.persistentVolumes);
    return items
      .filter((volume) =>
        names.has((volume['spec'] as { claimRef?: { namespace: string } }).claimRef?.namespace),
      )
      .map(({ metadata }) => metadata.name ?? '');
  };

  it.concurrent('ends without a trace, and one of the same name begins anew', {
    timeout: lifeMs,
  }, async () => {
    const first = await world.createTenant('phoenix');
    await work(first);
    const formerKubeconfig = await readFile(first.kubeconfigFile, 'utf8');
    const traces = tracesOf(first);
    const volumes = await volumesOf(traces);
    const before = await footprint(world, traces);
    for (const [what, count] of Object.entries(before)) {
      if (process.platform !== 'linux' && what === 'processes') continue;
      expect(count, what).toBeGreaterThan(0);
    }
    expect(volumes).toHaveLength(1);
    await world.deleteTenant('phoenix');
    expect(await footprint(world, traces)).toEqual(noFootprint);
    for (const name of volumes) await world.superCluster.untilGone(resources.persistentVolumes, { name });

    const second = await world.createTenant('phoenix');
    expect(second.id).not.toBe(first.id);
    expect(second.uid).not.toBe(first.uid);
    expect(await second.find(resources.namespaces, { name: 'shop' })).toBeUndefined();
    // The server of the one there is now, and the credentials of the one that is gone.
    const former = parse(await readFile(second.kubeconfigFile, 'utf8')) as { users: unknown };
    former.users = (parse(formerKubeconfig) as { users: unknown }).users;
    const formerFile = `${second.kubeconfigFile}.former`;
    await writeFile(formerFile, stringify(former), { mode: 0o600 });
    const refused = await second.tryKubectl(['--kubeconfig', formerFile, 'get', 'namespaces']);
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr).toMatch(/Unauthorized|must be logged in/);
    expect((await second.tryKubectl(['get', 'namespaces'])).exitCode).toBe(0);
    await work(second);
    await world.deleteTenant('phoenix');
    expect(await footprint(world, tracesOf(second))).toEqual(noFootprint);
  });

  const moments: readonly [string, string, (vc: VirtualCluster) => boolean][] = [
    ['while its API server starts', 'unborn-c', ({ status }) => status?.version !== undefined],
    ['before anybody has looked at it', 'unborn-a', () => true],
    ['when it has its addresses', 'unborn-b', ({ status }) => status?.serviceCIDR !== undefined],
    ['when its API server is ready', 'unborn-d', ({ status }) => status?.identities?.tenant !== undefined],
  ];

  it.concurrent.each(isBroad ? moments : moments.slice(0, 1))(
    'may end %s, and nothing is left',
    { timeout: lifeMs },
    async (_, name, moment) => {
      const created = await world.cli(['create', name, '-o', 'json']);
      expect(created.exitCode, created.stderr).toBe(0);
      const vc = await world.superCluster.until<VirtualCluster, VirtualCluster>(
        {
          resource: resources.virtualClusters,
          namespace: 'default',
          name,
          what: 'the moment to delete it',
          timeoutMs,
        },
        ([found]) => (found !== undefined && moment(found) ? found : undefined),
      );
      // The last of what was written before the finalizer let it go.
      let last = vc;
      const gone = world.superCluster.until<boolean, VirtualCluster>(
        { resource: resources.virtualClusters, namespace: 'default', name, what: 'it to go', timeoutMs },
        ([found]) => {
          if (found !== undefined) last = found;
          return found === undefined;
        },
      );
      const [deleted] = await Promise.all([world.cli(['delete', name, '--wait'], { timeoutMs }), gone]);
      expect(deleted.exitCode, deleted.stderr).toBe(0);
      const id = last.status?.id ?? '';
      const traces = { id, uid: vc.metadata.uid ?? '', name };
      if (id === '')
        expect(
          (await world.superCluster.client.list(resources.secrets)).items.filter(({ metadata }) =>
            metadata.name?.startsWith(`${name}-`),
          ),
        ).toEqual([]);
      else expect(await footprint(world, traces)).toEqual(noFootprint);
    },
  );

  it.concurrent('begins beside three others, with addresses and ports of its own', {
    timeout: lifeMs,
  }, async () => {
    const tenants = await world.createTenants('brood-a', 'brood-b', 'brood-c', 'brood-d');
    const ports = tenants.map(({ virtualCluster }) => virtualCluster.status?.advertisedPort);
    expect(new Set(ports).size).toBe(4);
    const slices = tenants.map(({ virtualCluster }) => virtualCluster.status?.serviceCIDR ?? '');
    for (const slice of slices) {
      const others = slices.filter((each) => each !== slice);
      expect(others).toHaveLength(3);
      // A slice that met another could not be handed out beside it.
      expect(allocateSlice(slice, Number(slice.split('/')[1]), others)).toBe(slice);
    }
    await Promise.all(tenants.map((tenant) => tenant.apply(namespace('shop'), deployment('shop', 'web', 1))));
    await world.expectAgreement(tenants, 120_000);
    const traces = tenants.map(tracesOf);
    await Promise.all(tenants.map(({ name }) => world.deleteTenant(name)));
    const left: Footprint[] = await Promise.all(traces.map((each) => footprint(world, each)));
    expect(left).toEqual(traces.map(() => noFootprint));
  });

  it('goes on without the manager, and the next manager takes it over', async () => {
    const tenant = await world.createTenant('orphan');
    const before = await Promise.all(components.map((component) => world.process(component, tenant)));
    const manager = await world.process('vc-manager');
    await kill(manager);
    await tenant.apply(namespace('alone'), deployment('alone', 'web', 1));
    await tenant.kubectl('-n', 'alone', 'rollout', 'status', 'deployment/web', '--timeout=110s');
    const next = await poll(
      'another manager',
      async () => {
        const found = await componentProcess(world.stateDir, 'stack', 'vc-manager');
        return found !== undefined && found.pid !== manager.pid ? found : undefined;
      },
      { timeoutMs: 60_000 },
    );
    // It works again when it can make another one, and then it has looked at the first one too.
    await world.createTenant('orphan-next');
    expect(isAlive(next)).toBe(true);
    expect(await Promise.all(components.map((component) => world.process(component, tenant)))).toEqual(
      before,
    );

    // Adopted: what dies now is started again.
    await kill(before[0] as (typeof before)[number]);
    await poll(
      'the API server to be started again',
      () => componentProcess(world.stateDir, tenant, 'kube-apiserver'),
      {
        timeoutMs: 60_000,
      },
    );
    await tenant.until(
      { resource: resources.namespaces, what: 'the API server to answer' },
      (all) => all.length > 0,
    );
    await world.expectAgreement([tenant]);
  });
});
