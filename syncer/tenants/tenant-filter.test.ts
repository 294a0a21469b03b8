import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import type { TenantFilter } from './directory.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

/** Lets through whom a test names. */
class NamedGate implements TenantFilter {
  readonly seesAll = true;
  readonly names: Set<string>;
  /** How many VirtualClusters there were at each look. */
  readonly seen: number[] = [];
  #listener: () => Promise<void> = () => Promise.resolve();

  constructor(...names: string[]) {
    this.names = new Set(names);
  }

  serves(vc: VirtualCluster): boolean {
    return this.names.has(vc.metadata.name ?? '');
  }

  see(virtualClusters: Iterable<VirtualCluster>): void {
    this.seen.push([...virtualClusters].length);
  }

  subscribe(listener: () => Promise<void>): () => void {
    this.#listener = listener;
    return () => undefined;
  }

  open(name: string): Promise<void> {
    this.names.add(name);
    return this.#listener();
  }

  close(name: string): Promise<void> {
    this.names.delete(name);
    return this.#listener();
  }
}

const deleting = (vc: VirtualCluster): VirtualCluster => ({
  ...vc,
  status: { ...vc.status, phase: 'Deleting' },
});

describe('a tenant of another replica', () => {
  it('is not served here, until it is this one’s', async () => {
    const gate = new NamedGate('green');
    await using world = await DirectoryWorld.start(undefined, { gate });
    await world.make('blue');
    await world.make('green');
    await world.says('green', 'Synced', 'True', 'Joined');
    expect(world.told).toEqual(['joined acme/green']);
    expect(gate.seen.at(-1)).toBe(2);
    await gate.open('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    expect(world.directory.size).toBe(2);
  });

  it('is let go of entirely before that is said to be done, and is not said to be left', async () => {
    const gate = new NamedGate('blue');
    await using world = await DirectoryWorld.start(undefined, { gate });
    const blue = await world.make('blue');
    const joined = await world.says('blue', 'Synced', 'True', 'Joined');
    await gate.close('blue');
    expect(world.told).toEqual(['joined acme/blue', 'left acme/blue']);
    expect(world.directory.size).toBe(0);
    await blue.server.until(() => blue.server.openConnections <= 1);
    blue.server.put(resources.namespaces, { metadata: { name: 'shop' } });
    await gate.open('blue');
    await world.super.server.until(() => world.objectsOf('blue', resources.namespaces).length === 2);
    expect(world.condition('blue', 'Synced')).toEqual(joined);
  });

  it('that goes before its replica has come to serve it is said to be left by the next one', async () => {
    const gate = new NamedGate();
    await using world = await DirectoryWorld.start(undefined, { gate });
    const joining = { type: 'Synced', status: 'False', reason: 'Joining' } as const;
    await world.make('blue', { status: { phase: 'Deleting', conditions: [joining] } });
    await world.make('green');
    await gate.open('green');
    await world.says('green', 'Synced', 'True', 'Joined');
    expect(world.condition('blue', 'Synced')?.reason).toBe('Joining');
    await gate.open('blue');
    await world.says('blue', 'Synced', 'False', 'Left');
    expect(world.told).toEqual(['joined acme/green']);
  });

  it('that is on its way out while nobody serves it is said to be left by the replica whose it is', async () => {
    const gate = new NamedGate('blue');
    await using world = await DirectoryWorld.start(undefined, { gate });
    await world.make('blue');
    await world.says('blue', 'Synced', 'True', 'Joined');
    await gate.close('blue');
    world.change('blue', deleting);
    await world.make('green');
    await gate.open('green');
    await world.says('green', 'Synced', 'True', 'Joined');
    expect(world.condition('blue', 'Synced')?.status).toBe('True');
    await gate.open('blue');
    await world.says('blue', 'Synced', 'False', 'Left');
    expect(world.told.filter((told) => told.endsWith('blue'))).toEqual([
      'joined acme/blue',
      'left acme/blue',
    ]);
  });
});
