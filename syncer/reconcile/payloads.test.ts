import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, type Resource, resources } from '../../kube/index.ts';
import { TwoSides } from './testing/two-sides.ts';

const synced = { [labelKeys.sync]: 'true' };
const shop = (name: string) => ({ namespace: 'shop', name });

function configMap(name: string, data: Record<string, string>, parts: object = {}): KubeObject {
  return { metadata: { name, labels: synced }, data, ...parts };
}

/** How often this was asked of the tenant's server, or of the super cluster's. */
function asked(
  sides: TwoSides,
  side: 'tenant' | 'super',
  verb: string,
  plural: string,
  name?: string,
): number {
  const { requests } = sides[side].server;
  return requests.filter(
    (request) =>
      request.verb === verb && request.plural === plural && (name ?? request.name) === request.name,
  ).length;
}

async function arrived(
  sides: TwoSides,
  resource: Resource,
  name: string,
  data: unknown,
): Promise<KubeObject> {
  const holds = (): boolean =>
    JSON.stringify(sides.inSuper(resource, name)?.['data']) === JSON.stringify(data);
  await sides.until(holds);
  return sides.inSuper(resource, name) as KubeObject;
}

/** What the cache of the super cluster shows, once it does. */
async function shown(sides: TwoSides, name: string): Promise<KubeObject> {
  const store = sides.superCaches.store(resources.configMaps);
  const ref = { namespace: sides.shop, name };
  const { promise, resolve } = Promise.withResolvers<void>();
  const unsubscribe = store.subscribe(() => store.get(ref) && resolve());
  if (store.get(ref) === undefined) await promise;
  unsubscribe();
  return store.get(ref) as KubeObject;
}

/** Everything that the engine has to do for the objects of before is done when a later one has gone down. */
async function settled(sides: TwoSides, name: string): Promise<void> {
  sides.inShop(resources.configMaps, configMap(name, { a: '1' }));
  await arrived(sides, resources.configMaps, name, { a: '1' });
}

describe('ConfigMaps and Secrets (sync rule `configmaps-and-secrets`)', () => {
  it('of a tenant are cached without what they hold, from a list as from a watch', async () => {
    const big = 'x'.repeat(100_000);
    await using sides = await TwoSides.start((before) => {
      before.inShop(resources.configMaps, { metadata: { name: 'listed' }, data: { big } });
      before.inShop(resources.secrets, { metadata: { name: 'listed' }, type: 'Opaque', data: { big } });
    });
    sides.inShop(resources.configMaps, { metadata: { name: 'watched' }, data: { big } });
    await settled(sides, 'last');
    const { caches } = sides.state;
    for (const store of [caches.store(resources.configMaps), caches.store(resources.secrets)]) {
      expect(store.size).toBeGreaterThan(0);
      for (const object of store.list()) expect(JSON.stringify(object)).not.toContain('xxx');
    }
    expect(caches.get(resources.configMaps, shop('watched'))).toMatchObject({
      apiVersion: 'v1',
      kind: 'ConfigMap',
    });
    // Nor did the server send it.
    const lists = sides.tenant.server.requests.filter(
      ({ verb, plural }) => ['list', 'watch'].includes(verb) && ['configmaps', 'secrets'].includes(plural),
    );
    expect(lists.length).toBeGreaterThanOrEqual(4);
    expect(lists.every(({ metadataOnly }) => metadataOnly)).toBe(true);
    // Those that nobody refers to are not read.
    expect(asked(sides, 'tenant', 'get', 'configmaps', 'watched')).toBe(0);
    expect(asked(sides, 'tenant', 'get', 'secrets')).toBe(0);
  });

  it('are cached without it even when a server sends it unasked', async () => {
    await using sides = await TwoSides.start();
    const object = {
      metadata: { ...shop('sent'), uid: 'u', resourceVersion: '1' },
      data: { a: 'x' },
      type: 'Opaque',
    };
    for (const resource of [resources.configMaps, resources.secrets]) {
      sides.state.caches.store(resource).apply('ADDED', structuredClone(object));
      expect(sides.state.caches.get(resource, shop('sent'))).toEqual({ metadata: object.metadata });
    }
  });

  it('of the super cluster are cached without it too, and listed with it only', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.configMaps, configMap('x', { a: 'payload' }));
    expect(JSON.stringify(await shown(sides, 'x'))).not.toContain('payload');
    for (const plural of ['configmaps', 'secrets']) {
      const how = (verb: string): unknown[] =>
        sides.super.server.requests
          .filter((request) => request.verb === verb && request.plural === plural)
          // Tokens of pods have a controller of their own.
          .filter(({ query }) => query.get('labelSelector')?.includes(`!${labelKeys.late}`))
          .map(({ metadataOnly }) => metadataOnly);
      expect(how('watch')).toContain(true);
      expect(how('watch')).not.toContain(false);
      expect(how('list')).toContain(false);
      expect(how('list')).not.toContain(true);
    }
  });

  it('go down whole, and so does every change', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(
      resources.secrets,
      configMap('s', { a: 'MQ==' }, { type: 'example.com/x', immutable: true }),
    );
    const made = await arrived(sides, resources.secrets, 's', { a: 'MQ==' });
    expect(made).toMatchObject({ type: 'example.com/x', immutable: true });

    sides.inShop(resources.configMaps, configMap('x', { a: '1', b: '1' }, { binaryData: { c: 'AA==' } }));
    expect(await arrived(sides, resources.configMaps, 'x', { a: '1', b: '1' })).toMatchObject({
      binaryData: { c: 'AA==' },
    });
    sides.inShop(resources.configMaps, configMap('x', { a: '2' }));
    const changed = await arrived(sides, resources.configMaps, 'x', { a: '2' });
    expect(changed['binaryData']).toBeUndefined();
    expect(changed.metadata.uid).toBe(sides.inSuper(resources.configMaps, 'x')?.metadata.uid);
    sides.inShop(resources.configMaps, { metadata: { name: 'x', labels: synced } });
    expect((await arrived(sides, resources.configMaps, 'x', undefined)).metadata.uid).toBe(
      changed.metadata.uid,
    );

    const secret = (data: object): KubeObject => configMap('t', { ...data }, { type: 'example.com/x' });
    sides.inShop(resources.secrets, secret({ a: 'MQ==', b: 'MQ==' }));
    await arrived(sides, resources.secrets, 't', { a: 'MQ==', b: 'MQ==' });
    sides.inShop(resources.secrets, secret({ b: 'Mg==' }));
    // An API server refuses one of another type.
    expect(await arrived(sides, resources.secrets, 't', { b: 'Mg==' })).toMatchObject({
      type: 'example.com/x',
    });
  });

  it('are written without a look at the copy that we made ourselves, also when others change its labels', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.configMaps, configMap('x', { a: '1' }));
    await arrived(sides, resources.configMaps, 'x', { a: '1' });
    await settled(sides, 'first');
    const labels = { ...synced, 'helm.sh/chart': 'yes' };
    sides.inShop(resources.configMaps, { metadata: { name: 'x', labels }, data: { a: '1' } });
    await sides.until(
      () => sides.inSuper(resources.configMaps, 'x')?.metadata.labels?.['helm.sh/chart'] === 'yes',
    );
    await settled(sides, 'second');
    for (const a of ['2', '3']) {
      sides.inShop(resources.configMaps, { metadata: { name: 'x', labels }, data: { a } });
      await arrived(sides, resources.configMaps, 'x', { a });
      await settled(sides, `after-${a}`);
    }
    expect(asked(sides, 'super', 'get', 'configmaps', 'x')).toBe(0);
    expect(asked(sides, 'super', 'patch', 'configmaps', 'x')).toBe(1);
    expect(asked(sides, 'super', 'update', 'configmaps', 'x')).toBe(2);
    expect(await sides.engine.resync(sides.state)).toEqual([]);
  });

  it('are read once in the super cluster when the answer to a write was lost, and not written again', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.configMaps, configMap('x', { a: '1' }));
    await arrived(sides, resources.configMaps, 'x', { a: '1' });
    await settled(sides, 'first');
    sides.super.server.inject({ verb: 'update', fault: { kind: 'reset-in-body' } });
    sides.inShop(resources.configMaps, configMap('x', { a: '2' }));
    await arrived(sides, resources.configMaps, 'x', { a: '2' });
    await sides.until(() => asked(sides, 'super', 'get', 'configmaps', 'x') === 1);
    await settled(sides, 'second');
    expect(await sides.engine.resync(sides.state)).toEqual([]);
    expect(asked(sides, 'super', 'get', 'configmaps', 'x')).toBe(1);
    expect(asked(sides, 'super', 'update', 'configmaps', 'x')).toBe(1);
  });

  it('are read once for each version, and not again for pods, echoes or resyncs', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
    sides.inShop(resources.configMaps, configMap('x', { a: '1' }));
    await arrived(sides, resources.configMaps, 'x', { a: '1' });
    await settled(sides, 'first');
    const reads = asked(sides, 'tenant', 'get', 'configmaps', 'x');
    expect(reads).toBe(1);
    for (const name of ['p1', 'p2', 'p3']) {
      const containers = [{ name: 'main', image: 'x', envFrom: [{ configMapRef: { name: 'x' } }] }];
      sides.inShop(resources.pods, { metadata: { name }, spec: { containers } });
      await sides.until(() => sides.inSuper(resources.pods, name) !== undefined);
    }
    expect(await sides.engine.resync(sides.state)).toEqual([]);
    await settled(sides, 'second');
    expect(asked(sides, 'tenant', 'get', 'configmaps', 'x')).toBe(1);
    expect(asked(sides, 'super', 'get', 'configmaps', 'x')).toBe(0);
    expect(asked(sides, 'super', 'patch', 'configmaps', 'x')).toBe(0);

    sides.inShop(resources.configMaps, configMap('x', { a: '2' }));
    await arrived(sides, resources.configMaps, 'x', { a: '2' });
    await settled(sides, 'third');
    expect(asked(sides, 'tenant', 'get', 'configmaps', 'x')).toBe(2);
    // As a whole: a patch of a megabyte takes an API server three times as long.
    expect(asked(sides, 'super', 'update', 'configmaps', 'x')).toBe(1);
    expect(asked(sides, 'super', 'patch', 'configmaps', 'x')).toBe(0);
  });

  it('are brought back to what the tenant has when the super cluster changes them', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.configMaps, configMap('x', { a: '1' }));
    const made = await arrived(sides, resources.configMaps, 'x', { a: '1' });
    sides.super.server.put(resources.configMaps, { ...made, data: { a: '1', planted: 'x' } });
    await arrived(sides, resources.configMaps, 'x', { a: '1' });
    // The one that has been changed is read in the super cluster, to patch no more than differs.
    expect(asked(sides, 'super', 'get', 'configmaps', 'x')).toBeGreaterThanOrEqual(1);
  });

  it('are compared once after a restart, and left alone when they are equal', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.configMaps, configMap('same', { a: '1' }));
    sides.inShop(resources.configMaps, configMap('drift', { a: '1' }));
    await arrived(sides, resources.configMaps, 'same', { a: '1' });
    const drift = await arrived(sides, resources.configMaps, 'drift', { a: '1' });
    const same = sides.inSuper(resources.configMaps, 'same');
    sides.super.server.requests.length = 0;
    sides.tenant.server.requests.length = 0;
    sides.super.server.put(resources.configMaps, { ...drift, data: { a: 'drift' } });
    await sides.restart();
    await arrived(sides, resources.configMaps, 'drift', { a: '1' });
    await settled(sides, 'last');
    expect(asked(sides, 'tenant', 'get', 'configmaps', 'same')).toBe(1);
    expect(sides.inSuper(resources.configMaps, 'same')).toEqual(same);
  });

  it('that are immutable and another one in the super cluster are made anew', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.configMaps, configMap('x', { a: '1' }));
    const made = await arrived(sides, resources.configMaps, 'x', { a: '1' });
    sides.super.server.put(resources.configMaps, { ...made, data: { a: 'frozen' }, immutable: true });
    await arrived(sides, resources.configMaps, 'x', { a: '1' });
    expect(sides.inSuper(resources.configMaps, 'x')?.metadata.uid).not.toBe(made.metadata.uid);
  });

  it('that we have frozen ourselves are made anew when the tenant has others of before, as after a restore', async () => {
    await using sides = await TwoSides.start();
    sides.inShop(resources.configMaps, configMap('x', { a: '2' }, { immutable: true }));
    const made = await arrived(sides, resources.configMaps, 'x', { a: '2' });
    await settled(sides, 'first');
    // As an API server does with one that is immutable.
    sides.super.server.inject({
      verb: 'update',
      plural: 'configmaps',
      times: Number.POSITIVE_INFINITY,
      fault: { kind: 'status', code: 422, reason: 'Invalid' },
    });
    sides.inShop(resources.configMaps, configMap('x', { a: '1' }));
    const anew = await arrived(sides, resources.configMaps, 'x', { a: '1' });
    expect(anew.metadata.uid).not.toBe(made.metadata.uid);
    expect(anew['immutable']).toBeUndefined();
    expect(asked(sides, 'super', 'update', 'configmaps', 'x')).toBe(1);
  });

  it('name the variables that a pod takes from them, also right after a start', async () => {
    await using sides = await TwoSides.start();
    const ref = shop('x');
    sides.inShop(resources.configMaps, configMap('x', { POSTGRES_PORT: '1', other: '2' }));
    sides.inShop(resources.configMaps, { metadata: { name: 'alone' }, data: { a: '1' } });
    await settled(sides, 'last');
    const names = (): readonly string[] => sides.state.context().dataKeysOf(resources.configMaps, ref);
    expect(names()).toEqual(['POSTGRES_PORT', 'other']);
    expect(sides.state.context().dataKeysOf(resources.configMaps, shop('alone'))).toEqual([]);
    const own = sides.state.caches.get(resources.configMaps, ref) as KubeObject;
    await shown(sides, 'x');
    sides.state.payloads.delete(own);
    expect(names()).toEqual(['POSTGRES_PORT', 'other']);
  });
});
