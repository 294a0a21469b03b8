import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { FakeCluster } from '../../kube/testing/index.ts';
import { testTenant } from '../kinds/testing.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

/**
 * The API server of a tenant whose admin has put another in its place: `blue` answers whatever the attack needs, `green`
 * beside it is honest and is served by the same syncer.
 */
describe('an API server that lies', () => {
  let world: DirectoryWorld;
  let blue: FakeCluster;
  let green: FakeCluster;
  let count = 0;

  beforeAll(async () => {
    world = await DirectoryWorld.start();
    blue = await world.make('blue');
    green = await world.make('green');
    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.says('green', 'Synced', 'True', 'Joined');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const uidOf = (name: string): string => world.vc(name).metadata.uid ?? '';
  const superName = (name: string, namespace: string): string =>
    superNamespaceName(
      testTenant({ id: world.vc(name).status?.id ?? '', namespace: 'acme', name }),
      namespace,
    );

  async function expectNamespace(name: string, tenant: FakeCluster): Promise<KubeObject> {
    count += 1;
    const namespace = `served-${count}`;
    tenant.server.put(resources.namespaces, { metadata: { name: namespace } });
    const ref = { name: superName(name, namespace) };
    await world.super.server.until(() => world.super.server.get(resources.namespaces, ref) !== undefined);
    return world.super.server.get(resources.namespaces, ref) as KubeObject;
  }

  /** The neighbour goes on being served, and so is the liar when it stops lying. */
  async function expectServed(): Promise<void> {
    expect((await expectNamespace('green', green)).metadata.labels?.[labelKeys.tenant]).toBe(uidOf('green'));
    blue.server.clearFaults();
    await expectNamespace('blue', blue);
  }

  /** Everything in the super cluster stands where its marks say. */
  function expectInPlace(): void {
    for (const name of ['blue', 'green']) {
      const place = new RegExp(`^acme-${name}-`);
      for (const { metadata } of world.objectsOf(name, resources.namespaces))
        expect(metadata.name).toMatch(place);
      for (const resource of [
        resources.configMaps,
        resources.serviceAccounts,
        resources.services,
        resources.pods,
      ])
        for (const { metadata } of world.objectsOf(name, resource)) expect(metadata.namespace).toMatch(place);
    }
  }

  it.each([
    ['null', 'null'],
    ['a text', '"all is well"'],
    ['no list', '{"kind":"ConfigMapList","items":5}'],
    ['a list of nothing', '{"metadata":{"resourceVersion":"1"},"items":[null,1,"x",[],{}]}'],
    ['metadata of a wrong kind', '{"metadata":[],"items":[{"metadata":"x"}]}'],
    ['objects without names', '{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{}}]}'],
    [
      'names that are no text',
      '{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":{"a":1}}}]}',
    ],
    [
      'labels that are no texts',
      '{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"x","labels":{"a":{}}}}]}',
    ],
    [
      'prototypes',
      '{"__proto__":{"items":[]},"metadata":{"__proto__":{"resourceVersion":"1"}},"items":[{"metadata":{"__proto__":{"name":"x"}}}]}',
    ],
    [
      'names and UIDs of megabytes',
      JSON.stringify({
        metadata: { resourceVersion: '1' },
        items: [
          { metadata: { name: 'x'.repeat(1_000_000), namespace: 'default', uid: 'u'.repeat(5_000_000) } },
        ],
      }),
    ],
    ['nesting without end', '['.repeat(100_000)],
    ['no JSON', '<html>'],
    ['nothing', ''],
  ])('whose lists are %s', async (_what, text) => {
    const requests = blue.server.requests.length;
    for (const plural of ['configmaps', 'services', 'pods']) {
      blue.server.inject({ verb: 'list', plural, times: 2, fault: { kind: 'status', code: 200, text } });
      blue.server.inject({
        verb: 'watch',
        plural,
        times: 1,
        fault: { kind: 'error-event', code: 410, reason: 'Expired' },
      });
      for (const watch of blue.server.watches(plural)) watch.error(410, 'Expired');
    }
    await blue.server.until(() => blue.server.requests.slice(requests).some(({ verb }) => verb === 'list'));
    await expectServed();
    expectInPlace();
  });

  it.each([
    ['no JSON', 'ADDED\n'],
    ['null', 'null\n'],
    ['of an unknown type', '{"type":"EXPLODED","object":{"metadata":{"name":"x"}}}\n'],
    ['about nothing', '{"type":"ADDED","object":null}\n'],
    ['about what has no metadata', '{"type":"MODIFIED","object":{"metadata":null}}\n'],
    [
      'with a prototype',
      '{"type":"ADDED","object":{"metadata":{"name":"p","namespace":"default","uid":"p","resourceVersion":"9","__proto__":{"labels":{}}},"__proto__":{"spec":{}}}}\n',
    ],
    [
      'with a UID of megabytes',
      `{"type":"ADDED","object":{"metadata":{"name":"u","namespace":"default","uid":"${'u'.repeat(5_000_000)}"}}}\n`,
    ],
    ['an ERROR without a Status', '{"type":"ERROR","object":7}\n'],
    ['no UTF-8', Buffer.from([0xff, 0xfe, 0x0a])],
  ])('whose watches send events %s', async (_what, line) => {
    for (const watch of blue.server.watches()) watch.raw(Buffer.from(line));
    await expectServed();
    expectInPlace();
  });

  it.each([
    ['../../kube-system'],
    ['default/../kube-system'],
    ['kube-system%2f..'],
    ['__proto__'],
    ['a\nb'],
    ['x'.repeat(253)],
    ['KUBE'],
  ])('whose namespaces have names such as %j', async (name) => {
    blue.server.put(resources.namespaces, { metadata: { name } });
    blue.server.put(resources.configMaps, {
      metadata: { name: 'a', namespace: name, labels: { [labelKeys.sync]: 'true' } },
    });
    await expectServed();
    expectInPlace();
    blue.server.remove(resources.namespaces, { name });
  });

  it('that gives its namespaces the marks and UIDs of another tenant gets its own', async () => {
    const theirs = await expectNamespace('green', green);
    const original = green.server.list(resources.namespaces).at(-1) as KubeObject;
    blue.server.put(resources.namespaces, {
      metadata: {
        name: 'stolen',
        uid: original.metadata.uid ?? '',
        labels: { ...theirs.metadata.labels },
        annotations: { ...theirs.metadata.annotations },
        finalizers: ['kubernetes', 'evil.example/stay'],
        ownerReferences: [
          {
            apiVersion: 'v1',
            kind: 'Namespace',
            name: theirs.metadata.name ?? '',
            uid: theirs.metadata.uid ?? '',
          },
        ],
      },
    });
    const ref = { name: superName('blue', 'stolen') };
    await world.super.server.until(() => world.super.server.get(resources.namespaces, ref) !== undefined);
    const made = world.super.server.get(resources.namespaces, ref) as KubeObject;
    expect(made.metadata.labels?.[labelKeys.tenant]).toBe(uidOf('blue'));
    expect([made.metadata.ownerReferences ?? [], made.metadata.finalizers ?? []]).toEqual([[], []]);
    expect(world.super.server.get(resources.namespaces, { name: theirs.metadata.name ?? '' })).toEqual(
      theirs,
    );
    await expectServed();
  });

  it('that answers a read with another object than was asked for has none of it go down', async () => {
    const secret = { name: 'asked', uid: 'asked', labels: { [labelKeys.sync]: 'true' } };
    const { metadata: home } = await expectNamespace('blue', blue);
    const namespace = `served-${count}`;
    blue.server.inject({
      verb: 'get',
      plural: 'secrets',
      name: 'asked',
      times: 1,
      fault: {
        kind: 'status',
        code: 200,
        text: JSON.stringify({ metadata: { ...secret, name: 'other', namespace }, data: { a: 'eA==' } }),
      },
    });
    blue.server.put(resources.secrets, { metadata: { ...secret, namespace }, data: { right: 'eA==' } });
    const there = { namespace: home.name ?? '', name: 'asked' };
    await world.super.server.until(() => world.super.server.get(resources.secrets, there) !== undefined);
    expect(world.super.server.get(resources.secrets, there)).toMatchObject({ data: { right: 'eA==' } });
    const reads = blue.server.requests.filter(({ verb, name }) => verb === 'get' && name === 'asked');
    expect(reads.length).toBeGreaterThan(1);
    const written = world.super.server.requests.filter(
      ({ verb, plural }) => plural === 'secrets' && (verb === 'create' || verb === 'delete'),
    );
    expect(written.map(({ verb }) => verb)).toEqual(['create']);
  });

  // Last: what comes after it in its own history is lost to the liar itself until it is listed again.
  it('that says it is far ahead of itself blinds nobody else', async () => {
    const line =
      '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"99999999999999999999999999999999"}}}\n';
    for (const watch of blue.server.watches()) watch.raw(Buffer.from(line));
    blue.server.resetConnections();
    await expectNamespace('green', green);
    expectInPlace();
  });
});
