import { describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import type { FakeCluster } from '../../kube/testing/index.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

const names = Array.from({ length: 30 }, (_, index) => `x-${index}`);

function fill(cluster: FakeCluster): void {
  cluster.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  for (const name of names) {
    const metadata = { name, namespace: 'shop', labels: { 'skerry.dev/sync': 'true' } };
    cluster.server.put(resources.configMaps, { metadata });
  }
}

/** A tenant whose objects have gone without anybody seeing it: while its connection was broken and its history forgotten. */
async function lost(world: DirectoryWorld): Promise<FakeCluster> {
  const blue = await world.make('blue');
  fill(blue);
  await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === names.length);
  await world.says('blue', 'Synced', 'True', 'Joined');
  await blue.server.stop();
  for (const name of names) blue.server.remove(resources.configMaps, { namespace: 'shop', name });
  blue.server.compact();
  await blue.server.listen();
  return blue;
}

describe('too many deletions at once (sync rule 0 C)', () => {
  it('wait for the operator, and are carried out when he agrees', async () => {
    await using world = await DirectoryWorld.start();
    await lost(world);
    const { message = '' } = await world.says('blue', 'DeletionHeld', 'True', 'TooManyAtOnce');
    expect(message).toMatch(/^30 of \d+ objects of this tenant are missing in its API server/);
    expect(world.objectsOf('blue', resources.configMaps)).toHaveLength(30);
    const [, id = ''] = /confirm-deletions=(\S+)/.exec(message) ?? [];
    world.annotate('blue', { 'skerry.dev/confirm-deletions': id });
    await world.says('blue', 'DeletionHeld', 'False', 'Released');
    await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === 0);
  });

  it('are given up when the objects are back', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await lost(world);
    await world.says('blue', 'DeletionHeld', 'True', 'TooManyAtOnce');
    fill(blue);
    await world.says('blue', 'DeletionHeld', 'False', 'Released');
    await world.super.server.until(() =>
      blue.server
        .list(resources.configMaps)
        .every(({ metadata }) =>
          world
            .objectsOf('blue', resources.configMaps)
            .some((s) => s.metadata.annotations?.['skerry.dev/uid'] === metadata.uid),
        ),
    );
    expect(world.directory.session(world.vc('blue').metadata.uid ?? '')?.state.held.size).toBe(0);
  });

  it('that are still waiting when the guard opens by itself are not forgotten', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await lost(world);
    await world.says('blue', 'DeletionHeld', 'True', 'TooManyAtOnce');
    // So many others are there by now that thirty are less than a fifth.
    for (let index = 0; index < 150; index++) {
      const metadata = { name: `y-${index}`, namespace: 'shop', labels: { 'skerry.dev/sync': 'true' } };
      blue.server.put(resources.configMaps, { metadata });
    }
    await world.says('blue', 'DeletionHeld', 'False', 'Released');
    await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === 150);
  });
});
