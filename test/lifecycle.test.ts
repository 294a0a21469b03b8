import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse, stringify } from 'yaml';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { resources } from '../kube/index.ts';
import { isBroad } from '../kube/testing/broad.ts';
import { allocateSlice } from '../vc-manager/os/network.ts';
import { footprint, noFootprint, type Traces, tracesOf } from './harness/footprint.ts';
import { claim, deployment, namespace, service } from './harness/manifests.ts';
import { patienceMs, patiently, poll } from './harness/poll.ts';
import { componentProcess, kill, send, suspendComponent } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

const components = ['kube-apiserver', 'kube-controller-manager'];

describe('the life of a tenant', () => {
  let world: World;
  let phoenix: Tenant;
  let orphan: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [phoenix, orphan] = (await world.createTenants('phoenix', 'orphan')) as [Tenant, Tenant];
  });

  afterAll(() => world?.close());

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

  it('begins beside another one, with addresses and ports of its own', async () => {
    const [one, other] = [phoenix, orphan].map(({ virtualCluster }) => virtualCluster.status);
    expect(one?.advertisedPort).not.toBe(other?.advertisedPort);
    // A slice that met the other one could not be handed out beside it.
    const [slice = '', taken = ''] = [one?.serviceCIDR, other?.serviceCIDR];
    expect(allocateSlice(slice, Number(slice.split('/')[1]), [taken])).toBe(slice);
  });

  it('ends without a trace, though the manager is killed while it removes it', async () => {
    await phoenix.apply(
      namespace('shop'),
      deployment('shop', 'web', 2),
      service('shop', 'web'),
      claim('shop', 'data'),
    );
    await phoenix.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    await phoenix.untilBound('shop', 'data');
    await world.expectAgreement([phoenix]);
    const traces = tracesOf(phoenix);
    const volumes = await volumesOf(traces);
    const before = await footprint(world, traces);
    for (const [what, count] of Object.entries(before)) {
      if (process.platform !== 'linux' && what === 'processes') continue;
      expect(count, what).toBeGreaterThan(0);
    }
    expect(volumes).toHaveLength(1);
    const server = await world.process('kube-apiserver', phoenix);
    const deleting = world.superCluster.until<true, VirtualCluster>(
      { resource: resources.virtualClusters, ...phoenix.ref, what: 'its job' },
      ([vc]) => vc?.status?.jobs?.current?.kind === 'delete' || undefined,
    );
    // It must not have ended before the manager is killed.
    send(server, 'SIGSTOP');
    const deleted = world.deleteTenant('phoenix');
    try {
      await Promise.race([deleting, deleted]);
      await kill(await world.process('vc-manager'));
      expect((await world.virtualCluster('phoenix')).metadata.deletionTimestamp).toBeDefined();
    } finally {
      send(server, 'SIGCONT');
    }
    await deleted;
    expect(await footprint(world, traces)).toEqual(noFootprint);
    for (const name of volumes) await world.superCluster.untilGone(resources.persistentVolumes, { name });
  });

  it('goes on without the manager; the next one takes it over, and finishes what the first has begun', async () => {
    const before = await Promise.all(components.map((component) => world.process(component, orphan)));
    const manager = await world.process('vc-manager');
    const again = (what: string, is: (vc: VirtualCluster) => boolean): Promise<VirtualCluster> =>
      world.superCluster.until<VirtualCluster, VirtualCluster>(
        { resource: resources.virtualClusters, namespace: 'default', name: 'phoenix', what },
        ([vc]) => vc !== undefined && is(vc) && vc,
      );
    const isBegun = ({ status }: VirtualCluster) => status?.jobs?.current?.step === 'control-plane';
    const begun = again('its control plane to be begun', isBegun);
    // It must not be there before the manager is killed.
    const holding = begun.then(({ status }) =>
      suspendComponent({ stateDir: world.stateDir, id: status?.id ?? '', component: 'kube-apiserver' }),
    );
    const created = world.cli(['create', 'phoenix']).then(({ exitCode, stderr }) => {
      expect(exitCode, stderr).toBe(0);
    });
    const [goOn] = await Promise.all([holding, created]);
    await kill(manager).finally(goOn);
    await orphan.apply(namespace('alone'), deployment('alone', 'web', 1));
    await orphan.kubectl('-n', 'alone', 'rollout', 'status', 'deployment/web', patiently);
    // It has looked at the first one, too, when the other one is there.
    const { status } = await again('it to be Ready', (vc) => vc.status?.phase === 'Ready');
    expect(status?.jobs?.history).toMatchObject([{ kind: 'provision', result: 'Succeeded', attempts: 2 }]);
    expect((await world.process('vc-manager')).pid).not.toBe(manager.pid);
    expect(await Promise.all(components.map((component) => world.process(component, orphan)))).toEqual(
      before,
    );

    // Adopted: what dies now is started again.
    await kill(before[0] as (typeof before)[number]);
    await poll('the API server to be started again', () =>
      componentProcess(world.stateDir, orphan, 'kube-apiserver'),
    );
    await orphan.until(
      { resource: resources.namespaces, what: 'the API server to answer' },
      (all) => all.length > 0,
    );
    // Whoever lost its server asks for it ever more rarely.
    await world.expectAgreement([orphan], patienceMs);
  });

  it('begins anew under a name that another one had', async () => {
    const first = phoenix;
    const second = await world.openTenant('phoenix');
    expect(second.id).not.toBe(first.id);
    expect(second.uid).not.toBe(first.uid);
    expect(await second.find(resources.namespaces, { name: 'shop' })).toBeUndefined();
    // The server of the one there is now, and the credentials of the one that is gone.
    const former = parse(second.kubeconfig) as { users: unknown };
    former.users = (parse(first.kubeconfig) as { users: unknown }).users;
    const formerFile = `${second.kubeconfigFile}.former`;
    await writeFile(formerFile, stringify(former), { mode: 0o600 });
    const refused = await second.tryKubectl(['--kubeconfig', formerFile, 'get', 'namespaces']);
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr).toMatch(/Unauthorized|must be logged in/);
    expect((await second.tryKubectl(['get', 'namespaces'])).exitCode).toBe(0);
    // Objects of the same names as the first one had.
    await second.apply(namespace('shop'), deployment('shop', 'web', 2), service('shop', 'web'));
    await second.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    await world.expectAgreement([second]);
  });

  const moments: readonly [string, string, (vc: VirtualCluster) => boolean][] = [
    ['while its API server starts', 'unborn-c', ({ status }) => status?.version !== undefined],
    ['before anybody has looked at it', 'unborn-a', () => true],
    ['when it has its addresses', 'unborn-b', ({ status }) => status?.serviceCIDR !== undefined],
    ['when its API server is ready', 'unborn-d', ({ status }) => status?.identities?.tenant !== undefined],
  ];

  it.each(isBroad ? moments : moments.slice(0, 1))(
    'may end %s, and nothing is left',
    async (_, name, moment) => {
      const created = await world.cli(['create', name, '-o', 'json']);
      expect(created.exitCode, created.stderr).toBe(0);
      const vc = await world.superCluster.until<VirtualCluster, VirtualCluster>(
        {
          resource: resources.virtualClusters,
          namespace: 'default',
          name,
          what: 'the moment to delete it',
        },
        ([found]) => (found !== undefined && moment(found) ? found : undefined),
      );
      // The last of what was written before the finalizer let it go.
      let last = vc;
      const gone = world.superCluster.until<boolean, VirtualCluster>(
        { resource: resources.virtualClusters, namespace: 'default', name, what: 'it to go' },
        ([found]) => {
          if (found !== undefined) last = found;
          return found === undefined;
        },
      );
      const [deleted] = await Promise.all([world.cli(['delete', name, '--wait', '--yes']), gone]);
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
});
