import { describe, expect, it, vi } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { testTenant } from '../kinds/testing.ts';
import { type CustomResourceInformers, TenantCustomResources } from './custom-resources.ts';
import { CustomWorld, definitionOf, gadgets, widgets } from './testing/custom-world.ts';

const definitions = resources.customResourceDefinitions;
const ref = { name: 'widgets.example.com' };
const names = Array.from({ length: 30 }, (_, index) => `w-${index}`);

const unpublished = (definition: KubeObject): KubeObject => ({
  ...definition,
  metadata: { ...definition.metadata, labels: {} },
});

/** A world in which these widgets have come down. */
async function synced(...present: string[]): Promise<CustomWorld> {
  const world = await CustomWorld.start();
  await world.establish();
  world.optIn(['widgets.example.com']);
  for (const name of present) world.widget(name);
  await world.sides.until(() => world.superWidgets().length === present.length);
  return world;
}

describe('objects of a published definition (sync rule `custom-resources`)', () => {
  it('go down, and their status comes up, for tenants that have opted in and no others', async () => {
    await using world = await CustomWorld.start();
    await world.establish();
    world.widget('one');
    const other = await world.sides.add({
      ...testTenant({ uid: 'other', id: 'other00000', name: 'green' }),
      customResources: ['widgets.example.com'],
    });
    world.serve(other);
    await world.establish(widgets, other.cluster);
    other.inShop(widgets, { metadata: { name: 'two' }, spec: { size: 2 } });
    await world.sides.until(() => world.superWidgets().length > 0);
    const [s] = world.superWidgets();
    expect(s).toMatchObject({
      metadata: { name: 'two', namespace: other.superNamespace('shop') },
      spec: { size: 2 },
    });
    world.super.server.put(widgets, { ...(s as KubeObject), status: { phase: 'Ready' } });
    const own = () => other.cluster.server.get(widgets, { namespace: 'shop', name: 'two' });
    await world.sides.until(() => (own()?.['status'] as { phase?: string })?.phase === 'Ready');
    expect(world.superWidgets()).toHaveLength(1);
    expect(world.tenant.server.requests.filter(({ plural }) => plural === 'widgets')).toEqual([]);
  });

  it('begin to go down when a tenant opts in at run time, with what it has by then, and drift is repaired', async () => {
    await using world = await CustomWorld.start();
    await world.establish();
    world.widget('one');
    world.optIn(['widgets.example.com']);
    await world.sides.until(() => world.superWidget('one') !== undefined);
    world.widget('one', { spec: { size: 5 } });
    const size = () => (world.superWidget('one')?.['spec'] as { size?: number })?.size;
    await world.sides.until(() => size() === 5);
    world.super.server.put(widgets, { ...(world.superWidget('one') as KubeObject), spec: { size: 9 } });
    await world.sides.until(() => size() === 5);
    world.tenant.server.remove(widgets, { namespace: 'shop', name: 'one' });
    await world.sides.until(() => world.superWidget('one') === undefined);
    expect(world.custom.problems).toEqual([]);
  });

  it('are counted and resynced like those of any other kind', async () => {
    await using world = await synced('one', 'two');
    const counts = () =>
      [...world.sides.engine.objectCounts()].filter(({ kind }) => kind === 'widgets.example.com');
    await world.look(() => counts().every(({ count }) => count === 2));
    expect(counts().map(({ side }) => side)).toEqual(['tenant', 'super']);
    expect(await world.sides.engine.resync(world.sides.state)).toEqual([]);
  });

  it('whose API does not answer yet hold nothing up, and come down when it does', async () => {
    await using world = await CustomWorld.start([widgets, gadgets]);
    const notFound = { kind: 'status', code: 404, reason: 'NotFound' } as const;
    world.tenant.server.inject({ verb: 'list', plural: 'widgets', fault: notFound, times: 1_000 });
    await world.establish(widgets);
    await world.establish(gadgets);
    world.optIn(['widgets.example.com', 'gadgets.example.com']);
    world.widget('one');
    world.widget('one', {}, gadgets);
    await world.sides.until(() => world.superWidget('one', gadgets) !== undefined);
    expect(world.superWidget('one')).toBeUndefined();
    expect(world.custom.problems).toEqual([
      { name: 'widgets.example.com', reason: 'cannot be read in the tenant (version v1), or not yet' },
    ]);
    world.tenant.server.clearFaults();
    await world.sides.until(() => world.superWidget('one') !== undefined);
  });

  it('whose API the super cluster does not serve yet hold nothing up, nor a tenant that joins', async () => {
    await using world = await CustomWorld.start([widgets, gadgets]);
    const notFound = { kind: 'status', code: 404, reason: 'NotFound' } as const;
    world.super.server.inject({ verb: 'list', plural: 'widgets', fault: notFound, times: 1_000 });
    const both = ['widgets.example.com', 'gadgets.example.com'];
    const later = await world.sides.add(
      testTenant({ uid: 'later', id: 'later00000', name: 'later', customResources: both }),
    );
    const custom = world.serve(later);
    await world.establish(widgets, later.cluster);
    await world.establish(gadgets, later.cluster);
    later.inShop(widgets, { metadata: { name: 'one' } });
    later.inShop(gadgets, { metadata: { name: 'one' } });
    await world.sides.until(() => world.superWidgets(gadgets).length === 1);
    expect(world.superWidgets()).toEqual([]);
    expect(custom.problems).toEqual([
      { name: 'widgets.example.com', reason: 'cannot be read in the super cluster (version v1), or not yet' },
    ]);
    world.super.server.clearFaults();
    await world.sides.until(() => world.superWidgets().length === 1);
  });

  it('are not synced where the definition is not published, not namespaced or the tenant’s own, and it says why', async () => {
    await using world = await CustomWorld.start([]);
    const { server } = world.super;
    server.put(definitions, unpublished(definitionOf(widgets)));
    server.put(definitions, definitionOf(gadgets, { scope: 'Cluster' }));
    world.tenant.server.put(definitions, unpublished(definitionOf({ ...widgets, plural: 'mine' })));
    server.put(definitions, definitionOf({ ...widgets, plural: 'mine' }));
    const all = ['widgets.example.com', 'gadgets.example.com', 'mine.example.com', 'absent.example.com'];
    await world.establish(gadgets);
    await world.sides.until(() => {
      world.optIn(all);
      return world.custom.problems.some(({ reason }) => reason === "is the tenant's own");
    });
    expect(world.custom.problems).toEqual([
      { name: 'widgets.example.com', reason: 'is not published' },
      { name: 'gadgets.example.com', reason: 'is not namespaced' },
      { name: 'mine.example.com', reason: "is the tenant's own" },
      { name: 'absent.example.com', reason: 'is not published' },
    ]);
  });
});

describe('a tenant that opts out', () => {
  it('keeps its objects, and loses those in the super cluster; opting in again brings them back', async () => {
    await using world = await synced('one', 'two');
    world.optIn([]);
    await world.sides.until(() => world.superWidgets().length === 0);
    expect(world.tenant.server.list(widgets)).toHaveLength(2);
    world.optIn(['widgets.example.com']);
    await world.sides.until(() => world.superWidgets().length === 2);
  });

  it('is asked first when it is many at once (sync rule `mass-deletion-hold`), and nothing goes until then', async () => {
    await using world = await synced(...names);
    world.optIn([]);
    await world.sides.reported('held');
    expect(world.superWidgets()).toHaveLength(30);
    const { superDeletions: deletions } = world.sides.state;
    expect(deletions.hold?.missing).toBe(30);
    deletions.confirm(deletions.hold?.id ?? '');
    world.sides.engine.requeue(world.sides.state);
    await world.sides.until(() => world.superWidgets().length === 0);
    expect(world.tenant.server.list(widgets)).toHaveLength(30);
  });

  it('is watched no more when nothing is left, and takes nothing with it when it comes back', async () => {
    await using world = await synced('one');
    world.optIn([]);
    await world.sides.until(() => world.superWidgets().length === 0);
    await world.look(
      () =>
        world.super.server.watches('widgets').length === 0 &&
        world.tenant.server.watches('widgets').length === 0,
    );
    expect(world.sides.state.customKinds.size).toBe(0);
    world.optIn(['widgets.example.com']);
    await world.sides.until(() => world.superWidget('one') !== undefined);
  });

  it('while no syncer ran is found out when one starts', async () => {
    await using world = await synced('one');
    await world.restart([]);
    await world.sides.until(() => world.superWidgets().length === 0);
    expect(world.tenant.server.list(widgets)).toHaveLength(1);
  });
});

describe('a tenant that deletes the copy of a definition', () => {
  it('loses what it had of it, gets the copy back, and 30 super objects wait for the operator', async () => {
    await using world = await synced(...names);
    world.deleteDefinition();
    await world.establish();
    await world.sides.reported('held');
    expect(world.superWidgets()).toHaveLength(30);
    expect(world.sides.state.superDeletions.hold).toMatchObject({ missing: 30 });
    // It goes on: what is new comes down.
    world.widget('new');
    await world.sides.until(() => world.superWidget('new') !== undefined);
  });

  it('loses none of them by what is heard before the end of the definition itself', async () => {
    await using world = await synced(...names);
    const { server } = world.tenant;
    for (const watch of server.watches('customresourcedefinitions')) watch.silence();
    world.deleteDefinition();
    const asked = () =>
      server.requests.filter(({ verb, plural }) => verb === 'get' && plural === definitions.plural);
    await world.sides.until(() => asked().length > 0 && world.sides.state.tombstones.tenant.size === 30);
    expect(world.superWidgets()).toHaveLength(30);
    server.resetConnections();
    await world.establish();
    await world.sides.reported('held');
    expect(world.superWidgets()).toHaveLength(30);
  });

  it('loses a few of them without being asked, but not before the copy is back', async () => {
    await using world = await synced('one', 'two');
    world.deleteDefinition();
    await world.sides.until(() => world.tenant.server.get(definitions, ref) !== undefined);
    expect(world.superWidgets()).toHaveLength(2);
    await world.establish();
    await world.sides.until(() => world.superWidgets().length === 0);
  });
});

describe('a definition that is published no more', () => {
  it('leaves the tenant what it made of it: its copy stays until the last object is gone', async () => {
    await using world = await synced('one');
    world.redefine(unpublished);
    await world.sides.until(() => world.superWidgets().length === 0);
    const told = () =>
      world.tenant.server.list(resources.events).filter((event) => event['reason'] === 'StillUsed');
    await world.sides.until(() => told().length > 0);
    expect(world.tenant.server.list(widgets)).toHaveLength(1);
    world.tenant.server.remove(widgets, { namespace: 'shop', name: 'one' });
    await world.sides.until(() => world.tenant.server.get(definitions, ref) === undefined);
  });

  it('and published again takes up where it was', async () => {
    await using world = await synced('one');
    world.redefine(unpublished);
    await world.sides.until(() => world.superWidgets().length === 0);
    world.redefine((definition) => ({
      ...definition,
      metadata: { ...definition.metadata, labels: { [labelKeys.public]: 'true' } },
    }));
    await world.sides.until(() => world.superWidget('one') !== undefined);
  });

  it('because it was deleted in the super cluster, and made anew there, costs the tenant nothing', async () => {
    await using world = await synced('one', 'two');
    world.deleteDefinition(world.super);
    const told = () =>
      world.tenant.server.list(resources.events).some((event) => event['reason'] === 'StillUsed');
    await world.sides.until(told);
    expect(world.tenant.server.list(widgets)).toHaveLength(2);
    const copyUid = world.tenant.server.get(definitions, ref)?.metadata.uid;
    world.super.server.put(definitions, definitionOf(widgets));
    await world.sides.until(() => world.superWidgets().length === 2);
    expect(world.tenant.server.get(definitions, ref)?.metadata.uid).toBe(copyUid);
  });
});

describe('a definition that changes', () => {
  it('is followed in the version that both sides serve, preferably the one that is stored', async () => {
    await using world = await synced('one');
    const v2 = { ...widgets, version: 'v2' };
    const versions = (...served: string[]) =>
      served.map((name) => ({
        name,
        served: true,
        storage: name === 'v2',
        schema: {},
        subresources: { status: {} },
      }));
    world.redefine((definition) => ({
      ...definition,
      spec: { ...(definition['spec'] as object), versions: versions('v1', 'v2') },
    }));
    // What real servers convert, these have to be given.
    world.widget('one', { spec: { size: 2 } }, v2);
    await world.sides.until(() => world.superWidget('one', v2) !== undefined);
    const watched = () => world.super.server.watches('widgets').map(({ info }) => info.apiVersion);
    await world.sides.until(() => watched().join() === 'example.com/v2');
    world.widget('late');
    world.widget('late', {}, v2);
    await world.sides.until(() => world.superWidget('late', v2) !== undefined);
    expect(world.superWidget('late')).toBeUndefined();
  });
});

const name = 'widgets.example.com';

/** Another replica has made this for a tenant that it serves. */
function leave(world: CustomWorld, tenant: string): void {
  world.super.server.put(widgets, {
    metadata: {
      name: `of-${tenant}`,
      namespace: world.sides.shop,
      labels: { [labelKeys.tenant]: tenant },
      annotations: { [annotationKeys.uid]: `uid-of-${tenant}` },
    },
  });
}

/** Asks again whenever there may be another answer. */
async function found(informers: CustomResourceInformers, tenant: string): Promise<void> {
  while (!informers.hasLeftovers(name, tenant)) {
    await new Promise<void>((resolve) => {
      const unsubscribe = informers.subscribe(() => {
        unsubscribe();
        resolve();
      });
    });
  }
}

describe('what tenants have left in the super cluster', () => {
  it('is looked for again for a tenant that another replica has served meanwhile', async () => {
    await using world = await CustomWorld.start();
    const { customResources: informers } = world.sides;
    leave(world, 'first');
    await found(informers, 'first');
    expect(informers.hasLeftovers(name, 'second')).toBe(false);

    leave(world, 'second');
    informers.request('second', []);
    await found(informers, 'second');
  });
});

describe('events of definitions', () => {
  /** Requests once per look, and looks again for nothing but definitions: no informer completes meanwhile. */
  const observed = ({ sides: { engine, superCaches, state } }: CustomWorld) => {
    const request = vi.fn();
    const release = vi.fn();
    const custom = new TenantCustomResources({
      state,
      engine,
      informers: {
        subscribe: () => () => undefined,
        request,
        release,
        kind: () => undefined,
        hasLeftovers: () => false,
      } as unknown as CustomResourceInformers,
      superCaches,
      reflector: () => expect.unreachable(),
      nowMs: () => 0,
    });
    return { request, release, custom };
  };

  it('have what follows looked at once for all of a turn, and not at all where nobody has published it', async () => {
    await using world = await synced();
    // The last change of a definition has been heard of.
    await world.look(() => world.custom.problems.length === 0);
    const { request, custom } = observed(world);
    const stop = new AbortController();
    const running = custom.run(stop.signal);
    request.mockClear();
    const store = world.sides.state.caches.store(definitions);
    const change = (name: string, version: number): void =>
      store.apply('MODIFIED', {
        metadata: { name, uid: name, resourceVersion: `x${version}` },
      });
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    for (let version = 0; version < 1_000; version += 1) change(`own-${version}.example.com`, version);
    await turn();
    expect(request).not.toHaveBeenCalled();
    for (let version = 0; version < 1_000; version += 1) change(ref.name, version);
    await turn();
    expect(request).toHaveBeenCalledTimes(1);
    stop.abort();
    await running;
  });

  it('that cannot be read end the work for their tenant, which then requests no kind any more', async () => {
    await using world = await synced();
    const { request, release, custom } = observed(world);
    const running = custom.run(new AbortController().signal);
    expect(request).toHaveBeenCalledTimes(1);
    request.mockImplementation(() => {
      throw new TypeError('it is no definition');
    });
    world.sides.state.caches.store(definitions).apply('MODIFIED', {
      metadata: { ...ref, uid: 'x', resourceVersion: 'x1' },
    });
    await expect(running).rejects.toThrow('it is no definition');
    expect(release).toHaveBeenCalledExactlyOnceWith(world.sides.state.info.uid);
  });
});
