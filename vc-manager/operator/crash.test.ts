import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { resources } from '../../kube/index.ts';
import { DyingConnection } from './testing/dying-connection.ts';
import { World } from './testing/world.ts';

/** More than a control plane's making or removal takes: then the last rounds show that nothing dies any more. */
const mostWrites = 40;

describe('a manager that dies', () => {
  it('at any write while it makes a control plane is succeeded by one that finishes the same control plane', async () => {
    let deaths = 0;
    for (let writes = 1; writes <= mostWrites; writes++) {
      const world = await World.start();
      const connection = new DyingConnection(world.superCluster.connectionOptions, writes);
      const first = world.run({ connection });
      world.create('a');
      const outcome = await Promise.race([
        connection.died.then(() => 'died' as const),
        world.untilReady('a').then(() => 'ready' as const),
      ]);
      await first.stop();
      world.run();
      const { status } = await world.untilReady('a');
      expect([...world.datastore.seen], `after ${writes} writes`).toEqual([status?.id]);
      expect(new Set(world.driver.ensured.map(({ id }) => id)), `after ${writes} writes`).toEqual(
        new Set([status?.id]),
      );
      expect(world.superCluster.list(resources.ipAddresses).map(({ metadata }) => metadata.name)).toEqual([
        '10.112.0.1',
        '10.112.0.10',
      ]);
      expect(status?.serviceCIDR).toBe('10.112.0.0/22');
      await world.end();
      if (outcome === 'ready') break;
      deaths += 1;
    }
    expect(deaths).toBeGreaterThan(10);
    expect(deaths).toBeLessThan(mostWrites);
  }, 120_000);

  it('at any write while it removes a control plane is succeeded by one that leaves nothing', async () => {
    let deaths = 0;
    for (let writes = 1; writes <= mostWrites; writes++) {
      const world = await World.start();
      const maker = world.run();
      const { metadata } = world.create('a');
      await world.untilReady('a');
      await maker.stop();
      const labels = { [labelKeys.tenant]: metadata.uid ?? '' };
      world.superCluster.put(resources.namespaces, { metadata: { name: 'team-a-web-x', labels } });
      await world.delete('a');
      const connection = new DyingConnection(world.superCluster.connectionOptions, writes);
      const first = world.run({ connection });
      const outcome = await Promise.race([
        connection.died.then(() => 'died' as const),
        world.untilGone('a').then(() => 'gone' as const),
      ]);
      await first.stop();
      world.run();
      await world.untilGone('a');
      expect(world.superCluster.get(resources.namespaces, { name: 'team-a-web-x' })).toBeUndefined();
      expect(await world.leftovers(), `after ${writes} writes`).toEqual({
        secrets: [],
        addresses: [],
        controlPlanes: [],
        datastore: [],
      });
      await world.end();
      if (outcome === 'gone') break;
      deaths += 1;
    }
    expect(deaths).toBeGreaterThan(5);
    expect(deaths).toBeLessThan(mostWrites);
  }, 120_000);
});
