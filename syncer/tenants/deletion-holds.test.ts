import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { SuperClusterVersionRecord } from './deletion-holds.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

const kubeSystem = { name: 'kube-system' };

function settings(cluster: FakeCluster, name: string): KubeObject {
  return cluster.server.put(resources.configMaps, {
    metadata: { name, namespace: 'shop', labels: { 'skerry.dev/sync': 'true' } },
  });
}

/** A tenant `blue` whose ConfigMaps with these names have gone down. */
async function blueWith(world: DirectoryWorld, names: readonly string[]): Promise<FakeCluster> {
  const blue = await world.make('blue');
  blue.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  for (const name of names) settings(blue, name);
  await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === names.length);
  await world.says('blue', 'Synced', 'True', 'Joined');
  return blue;
}

const lease = { namespace: 'kube-system', name: 'skerry-super-cluster' };

/** How far the super cluster had come, as a syncer has written it down in the tenant. */
function told(cluster: FakeCluster): string | undefined {
  return cluster.server.get(resources.leases, lease)?.metadata.annotations?.['skerry.dev/super-cluster'];
}

function replaceIdentity(cluster: FakeCluster, uid: string): void {
  cluster.server.remove(resources.namespaces, kubeSystem);
  cluster.server.put(resources.namespaces, { metadata: { ...kubeSystem, uid } });
}

describe('a tenant that is another server (sync rule `side-identity`)', () => {
  it('loses nothing, says what to do, and goes on when the operator accepts what it is now', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await blueWith(world, ['x']);
    replaceIdentity(blue, 'someone-else');
    blue.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
    const { message } = await world.says('blue', 'IdentityMismatch', 'True', 'TenantIdentity');
    expect(message).toContain('skerry.dev/accept-identity=someone-else');
    expect(world.objectsOf('blue', resources.configMaps)).toHaveLength(1);

    world.annotate('blue', { 'skerry.dev/accept-identity': 'someone-else' });
    await world.says('blue', 'IdentityMismatch', 'False', 'Verified');
    expect(world.vc('blue').status?.identities).toEqual({ tenant: 'someone-else', superCluster: 'super' });
    await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === 0);
  });

  it('is not accepted as anybody but who the operator was shown', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await blueWith(world, ['x']);
    replaceIdentity(blue, 'someone-else');
    blue.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
    await world.says('blue', 'IdentityMismatch', 'True', 'TenantIdentity');
    replaceIdentity(blue, 'a-third');
    world.annotate('blue', { 'skerry.dev/accept-identity': 'someone-else' });
    await world.super.server.until(
      () => world.condition('blue', 'IdentityMismatch')?.message?.includes('=a-third') === true,
    );
    expect(world.vc('blue').status?.identities?.tenant).toBe('tenant-blue');
    expect(world.objectsOf('blue', resources.configMaps)).toHaveLength(1);
  });

  it('has nothing but a UID put into the command that the operator is shown', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await blueWith(world, ['x']);
    for (const uid of ['x; touch /tmp/was-here', '$(reboot)', `y\n${'z'.repeat(120)}`]) {
      replaceIdentity(blue, 'someone-else');
      await world.super.server.until(
        () => world.condition('blue', 'IdentityMismatch')?.message?.includes('=someone-else') === true,
      );
      replaceIdentity(blue, uid);
      await world.super.server.until(
        () => world.condition('blue', 'IdentityMismatch')?.message?.includes('accept-identity') === false,
      );
      expect(world.condition('blue', 'IdentityMismatch')?.message).not.toContain(uid.slice(0, 3));
    }
    expect(world.objectsOf('blue', resources.configMaps)).toHaveLength(1);
  });

  it('goes on by itself when it is the right one again, and what was seen in between proves nothing', async () => {
    await using world = await DirectoryWorld.start();
    const names = Array.from({ length: 25 }, (_, index) => `x-${index}`);
    const blue = await blueWith(world, names);
    replaceIdentity(blue, 'someone-else');
    for (const name of names) blue.server.remove(resources.configMaps, { namespace: 'shop', name });
    await world.says('blue', 'IdentityMismatch', 'True', 'TenantIdentity');
    replaceIdentity(blue, 'tenant-blue');
    await world.says('blue', 'IdentityMismatch', 'False', 'Verified');
    await world.says('blue', 'DeletionHeld', 'True', 'TooManyAtOnce');
    expect(world.objectsOf('blue', resources.configMaps)).toHaveLength(25);
  });
});

describe('a tenant that shows its own past', () => {
  it('loses nothing, not even after its session has begun anew, until the operator accepts it', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await blueWith(world, ['old']);
    // The one write of the syncer that would let the restored server catch up with what it has shown.
    await blue.server.until(() => told(blue) !== undefined);
    const backup = blue.server.snapshot();
    settings(blue, 'new');
    await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === 2);
    blue.server.restore(backup);
    const { message = '' } = await world.says(
      'blue',
      'IdentityMismatch',
      'True',
      'ResourceVersionRanBackwards',
    );
    const [, answer = ''] = /accept-identity=(\S+)/.exec(message) ?? [];

    const { uid = '' } = world.vc('blue').metadata;
    const first = world.directory.session(uid);
    world.issue('blue', blue, 'renewed');
    await world.super.server.until(() => ![undefined, first].includes(world.directory.session(uid)));
    await world.super.server.until(() => world.directory.session(uid)?.state.held.size === 1);
    expect(world.objectsOf('blue', resources.configMaps)).toHaveLength(2);

    world.annotate('blue', { 'skerry.dev/accept-identity': answer });
    await world.says('blue', 'IdentityMismatch', 'False', 'Verified');
    await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === 1);
  });
});

describe('a tenant whose datastore was restored while no syncer was there', () => {
  it('loses nothing: how far it had come is written down', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await blueWith(world, ['x']);
    const { resourceVersion = '' } =
      blue.server.get(resources.configMaps, { namespace: 'shop', name: 'x' })?.metadata ?? {};
    await world.super.server.until(
      () => Number(world.vc('blue').status?.observedResourceVersion) >= Number(resourceVersion),
    );

    await world.make('green', { status: { observedResourceVersion: '1000000' } });
    const { message } = await world.says('green', 'IdentityMismatch', 'True', 'ResourceVersionRanBackwards');
    expect(message).toContain('1000000');
    const [, answer = ''] = /accept-identity=(\S+)/.exec(message ?? '') ?? [];
    world.annotate('green', { 'skerry.dev/accept-identity': answer });
    await world.says('green', 'IdentityMismatch', 'False', 'Verified');
    // From now on this is what counts.
    await world.super.server.until(() => world.vc('green').status?.observedResourceVersion !== '1000000');
  });
});

describe('a super cluster that is another one', () => {
  it('than the tenant was made on stops its deletes, until the operator says that it belongs here', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue', {
      status: { identities: { tenant: 'tenant-blue', superCluster: 'the-old-one' } },
    });
    const { message } = await world.says('blue', 'IdentityMismatch', 'True', 'SuperClusterIdentity');
    expect(message).toContain('the-old-one');
    world.annotate('blue', { 'skerry.dev/accept-identity': 'super' });
    await world.says('blue', 'IdentityMismatch', 'False', 'Verified');
    expect(world.vc('blue').status?.identities).toEqual({ tenant: 'tenant-blue', superCluster: 'super' });
  });

  it('than a moment ago stops the deletes of all', async () => {
    await using world = await DirectoryWorld.start();
    await world.make('blue');
    await world.make('green');
    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.says('green', 'Synced', 'True', 'Joined');
    world.superSide.identity.distrust('the super cluster shows its past');
    await world.says('blue', 'IdentityMismatch', 'True', 'SuperClusterIdentity');
    const { message } = await world.says('green', 'IdentityMismatch', 'True', 'SuperClusterIdentity');
    expect(message).toMatch(/^the super cluster shows its past; all deletes are stopped/);
  });
});

it('what an earlier syncer has stopped is looked at again, and withdrawn when all is well', async () => {
  await using world = await DirectoryWorld.start();
  const conditions = [
    {
      type: 'IdentityMismatch',
      status: 'True',
      reason: 'TenantIdentity',
      message: 'm',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    },
    {
      type: 'DeletionHeld',
      status: 'True',
      reason: 'TooManyAtOnce',
      message: 'm',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    },
  ];
  await world.make('blue', { status: { conditions } });
  await world.says('blue', 'IdentityMismatch', 'False', 'Verified');
  await world.says('blue', 'DeletionHeld', 'False', 'Released');
});

const names = Array.from({ length: 30 }, (_, index) => `x-${index}`);

function fill(cluster: FakeCluster): void {
  cluster.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  for (const name of names) {
    const metadata = { name, namespace: 'shop', labels: { 'skerry.dev/sync': 'true' } };
    cluster.server.put(resources.configMaps, { metadata });
  }
}

/**
 * A tenant whose objects have gone without anybody seeing it: while its connection was broken and its history
 * forgotten.
 */
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

describe('too many deletions at once (sync rule `mass-deletion-hold`)', () => {
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

describe('a super cluster whose datastore was restored while no syncer was there', () => {
  const says = (cluster: FakeCluster, value: string): void => {
    const annotations = { 'skerry.dev/super-cluster': value };
    cluster.server.put(resources.leases, { metadata: { ...lease, annotations }, spec: {} });
  };

  it('stops deletions, by what is written down in the tenant, until the operator accepts it', async () => {
    let blue: FakeCluster | undefined;
    const whenJoined: (string | undefined)[] = [];
    await using world = await DirectoryWorld.start(async (before) => {
      blue = await before.make('blue');
      blue.server.put(resources.namespaces, { metadata: { name: 'shop' } });
      settings(blue, 'x');
      says(blue, 'super@1000000');
      const { engine } = before;
      const join = engine.join.bind(engine);
      engine.join = (state, ...rest) => {
        whenJoined.push(state.frozen);
        return join(state, ...rest);
      };
    });
    const { message = '' } = await world.says('blue', 'IdentityMismatch', 'True', 'SuperClusterRanBackwards');
    await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === 1);
    // Before the first object was looked at.
    expect(whenJoined).toEqual(['SuperClusterRanBackwards']);
    blue?.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
    const { uid = '' } = world.vc('blue').metadata;
    await world.super.server.until(() => world.directory.session(uid)?.state.held.size === 1);
    expect(world.objectsOf('blue', resources.configMaps)).toHaveLength(1);
    expect(told(blue as FakeCluster)).toBe('super@1000000');

    const [, answer = ''] = /accept-identity=(\S+)/.exec(message) ?? [];
    world.annotate('blue', { 'skerry.dev/accept-identity': answer });
    await world.says('blue', 'IdentityMismatch', 'False', 'Verified');
    await world.super.server.until(() => world.objectsOf('blue', resources.configMaps).length === 0);
    expect(told(blue as FakeCluster)).toMatch(/^super@[0-9]{1,6}$/);
  });

  it('is noticed by what a syncer writes down while it runs', async () => {
    await using world = await DirectoryWorld.start();
    const blue = await blueWith(world, ['x']);
    await blue.server.until(() => /^super@[0-9]+$/.test(told(blue) ?? ''));
    const [, version] = told(blue)?.split('@') ?? [];
    expect(Number(version)).toBeGreaterThan(0);
    // It is never written down as less: that stops deletions, too.
    says(blue, 'super@1000000');
    await world.says('blue', 'IdentityMismatch', 'True', 'SuperClusterRanBackwards');
    expect(told(blue)).toBe('super@1000000');
  });

  it.each(['', 'super', 'other@1000000', 'super@-1', 'super@1e9', `super@${'9'.repeat(21)}`, 'super@1@2'])(
    'is not believed to be behind %j, which no syncer has written',
    async (value) => {
      await using world = await DirectoryWorld.start(async (before) =>
        says(await before.make('blue'), value),
      );
      await world.says('blue', 'Synced', 'True', 'Joined');
      expect(world.condition('blue', 'IdentityMismatch')).toBeUndefined();
    },
  );
});

describe('how far the super cluster had come, written down in the tenant (sync rule `side-identity`)', () => {
  it('asks the super cluster once for both: whether it is behind, and what to write down', async () => {
    const { signal } = new AbortController();
    await using tenant = await startFakeCluster();
    await using superCluster = await startFakeCluster();
    superCluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
    const identity = { expectedUid: 'super', distrusted: undefined };
    const past = new SuperClusterVersionRecord(tenant.client, superCluster.client, identity);
    const first = await past.look(signal);
    await past.record(first.now, signal);
    superCluster.server.put(resources.namespaces, { metadata: { name: 'shop' } });
    const second = await past.look(signal);
    await past.record(second.now, signal);
    expect(superCluster.server.requests.map(({ verb, plural }) => `${verb} ${plural}`)).toEqual([
      'list namespaces',
      'list namespaces',
    ]);
    expect(Number(second.now)).toBeGreaterThan(Number(first.now));
    // What is written down tells the restored server from the one that it was.
    await using restored = await startFakeCluster();
    restored.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
    const behind = await new SuperClusterVersionRecord(tenant.client, restored.client, identity).look(signal);
    expect(behind.shown).toBe(second.now);
  });
});
