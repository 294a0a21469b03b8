import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { Connection, KubeClient, resources } from '../../kube/index.ts';
import { findOrphans } from './orphans.ts';
import { World } from './testing/world.ts';

describe('findOrphans', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  it('finds what belongs to no VirtualCluster, and removes nothing (sync rule `orphans`)', async () => {
    const operator = world.run();
    world.create('a');
    const lost = world.create('lost');
    await world.untilReady('a');
    const { status } = await world.untilReady('lost');
    await operator.stop();
    const labels = { [labelKeys.tenant]: lost.metadata.uid ?? '' };
    world.superCluster.put(resources.namespaces, { metadata: { name: 'team-lost-web', labels } });
    world.superCluster.remove(resources.virtualClusters, { namespace: 'team', name: 'lost' });

    const client = new KubeClient(new Connection(world.superCluster.connectionOptions));
    const { signal } = new AbortController();
    const orphans = await findOrphans({ client, driver: world.driver, datastore: world.datastore, signal });
    await client.connection.close();
    expect(orphans).toMatchObject({ controlPlanes: [status?.id], datastores: [status?.id] });
    expect(orphans.superObjects.map(({ resource, name }) => `${resource.kind} ${name}`)).toEqual([
      'Namespace team-lost-web',
      'IPAddress 10.112.4.1',
      'IPAddress 10.112.4.10',
    ]);
    expect(orphans.secrets.map(({ namespace, name }) => `${namespace}/${name}`)).toEqual(
      ['pki', 'syncer'].map((which) => `skerry-system/tenant-${status?.id}-${which}`),
    );
    expect((await world.driver.list()).length).toBe(2);
  });

  it('takes nothing of a tenant that goes meanwhile for an orphan', async () => {
    const operator = world.run();
    world.create('a');
    await world.untilReady('a');
    await operator.stop();
    const driver = {
      list: async () => {
        world.superCluster.remove(resources.virtualClusters, { namespace: 'team', name: 'a' });
        return world.driver.list();
      },
    };
    const client = new KubeClient(new Connection(world.superCluster.connectionOptions));
    const { signal } = new AbortController();
    const orphans = await findOrphans({ client, driver, datastore: world.datastore, signal });
    await client.connection.close();
    expect(orphans).toEqual({ controlPlanes: [], datastores: [], superObjects: [], secrets: [] });
  });
});
