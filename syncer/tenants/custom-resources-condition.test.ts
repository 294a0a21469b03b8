import { expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { definitionOf, widgets } from '../controllers/testing/custom-world.ts';
import { customResourcesCondition } from './custom-resources-condition.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

it('a condition names every custom resource that is asked for and not synced, with the reason', () => {
  const customResources = ['widgets.example.com', 'zones.example.com'];
  expect(customResourcesCondition({ customResources }, [])).toMatchObject({
    status: 'True',
    reason: 'Synced',
  });
  const problems = [
    { name: 'widgets.example.com', reason: 'is not published' },
    { name: 'zones.example.com', reason: 'is not namespaced' },
  ];
  expect(customResourcesCondition({ customResources }, problems)).toEqual({
    type: 'CustomResourcesSynced',
    status: 'False',
    reason: 'NotSynced',
    message: 'widgets.example.com is not published; zones.example.com is not namespaced',
  });
});

it('a VirtualCluster that asks for custom resources at run time gets them, and the condition follows', async () => {
  await using world = await DirectoryWorld.start();
  const cluster = await world.make('blue');
  await world.says('blue', 'Synced', 'True', 'Joined');
  expect(world.condition('blue', 'CustomResourcesSynced')).toBeUndefined();
  world.change('blue', (vc) => ({ ...vc, spec: { sync: { customResources: ['widgets.example.com'] } } }));
  const said = await world.says('blue', 'CustomResourcesSynced', 'False', 'NotSynced');
  expect(said.message).toBe('widgets.example.com is not published');

  world.super.server.put(resources.customResourceDefinitions, definitionOf(widgets));
  const copy = () => cluster.server.get(resources.customResourceDefinitions, { name: 'widgets.example.com' });
  await cluster.server.until(() => copy() !== undefined);
  cluster.server.put(resources.customResourceDefinitions, {
    ...(copy() ?? { metadata: {} }),
    status: { conditions: [{ type: 'Established', status: 'True' }] },
  });
  await world.says('blue', 'CustomResourcesSynced', 'True', 'Synced');
  cluster.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  cluster.server.put(widgets, { metadata: { name: 'one', namespace: 'shop' }, spec: { size: 1 } });
  await world.super.server.until(() => world.objectsOf('blue', widgets).length === 1);
});
