import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster, VirtualClusterSpec } from '../../api/virtual-cluster.ts';
import { isUnclaimed, warmClaim } from '../../api/warm-pool.ts';
import { Connection, ConnectionError, resources } from '../../kube/index.ts';
import type { OperatorSettingsInput } from './settings.ts';
import { dieAtEveryWrite } from './testing/every-write.ts';
import { fastPace, World } from './testing/world.ts';
import { isAvailable } from './warm-members.ts';

const namespace = 'skerry-system';
const GiB = 1024 ** 3;
const settings: OperatorSettingsInput = {
  advertiseAddress: '192.0.2.1',
  etcdEndpoint: 'https://127.0.0.1:2379',
  warm: 1,
};

function members(world: World): VirtualCluster[] {
  const all = world.superCluster.list(resources.virtualClusters) as VirtualCluster[];
  return all.filter(({ metadata }) => metadata.namespace === namespace);
}

async function untilMember(world: World, otherThan?: string): Promise<VirtualCluster> {
  let found: VirtualCluster | undefined;
  await world.superCluster.until(() => {
    found = members(world).find(
      ({ metadata, status }) =>
        metadata.uid !== otherThan && status?.phase === 'Ready' && status.jobs?.current === undefined,
    );
    return found !== undefined;
  });
  return found as VirtualCluster;
}

const untilGone = (world: World, name: string | undefined): Promise<void> =>
  world.superCluster.until(() => members(world).every(({ metadata }) => metadata.name !== name));

type Call = Parameters<Connection['request']>[0];
type Answer = Awaited<ReturnType<Connection['request']>>;

/** The first call that gives a member away times out: it was carried out, or is just before the next one like it. */
class SlowConnection extends Connection {
  timedOut = 0;
  #isLate: boolean;

  constructor(options: ConstructorParameters<typeof Connection>[0], isLate: boolean) {
    super(options);
    this.#isLate = isLate;
  }

  override async request(call: Call): Promise<Answer> {
    if (!(call.verb === 'patch' && call.body?.includes(`"${annotationKeys.warmFor}":"`)))
      return super.request(call);
    if (this.timedOut === 0) {
      this.timedOut = 1;
      if (!this.#isLate) await super.request(call);
      throw new ConnectionError('the super cluster', 'UND_ERR_HEADERS_TIMEOUT');
    }
    // As if nothing had changed since: both ask for the same.
    if (this.#isLate) await super.request(call);
    this.#isLate = false;
    return super.request(call);
  }
}

describe('a control plane of the warm pool', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  it('waits without an owner: no kubeconfig is written, and no syncer serves it', async () => {
    world.run({ settings });
    const member = await untilMember(world);
    expect(member.metadata.labels?.[labelKeys.warm]).toBeDefined();
    expect(isServed(member)).toBe(false);
    expect(isUnclaimed(member)).toBe(true);
    const secrets = world.superCluster.list(resources.secrets).map(({ metadata }) => metadata.name);
    expect(secrets.sort()).toEqual(['skerry-kubelet-proxy', `tenant-${member.status?.id}-pki`]);
  });

  it('becomes that of a new VirtualCluster, with its id, addresses and keys, and another one is made', async () => {
    world.run({ settings });
    const member = await untilMember(world);
    const { id, endpoint, serviceCIDR, identities, version } = member.status ?? {};
    const pki = world.superCluster.get(resources.secrets, { namespace, name: `tenant-${id}-pki` });
    world.create('a', { weight: 3, sync: { secrets: 'all' } });
    const vc = await world.untilReady('a');
    expect(vc.status).toMatchObject({ id, endpoint, serviceCIDR, identities, version });
    expect(vc.status?.fromPool).toEqual({
      member: member.metadata.name,
      uid: member.metadata.uid,
      moved: true,
    });
    expect(isServed(vc)).toBe(true);
    await untilGone(world, member.metadata.name);
    // What it has bears its name now, and the keys are the same.
    const taken = world.secretOf('a', 'pki');
    expect(taken?.['data']).toEqual(pki?.['data']);
    expect(taken?.metadata.annotations?.[annotationKeys.tenantName]).toBe('team/a');
    expect(taken?.metadata.labels?.[labelKeys.virtualCluster]).toBe('a');
    const own = world.superCluster
      .list(resources.ipAddresses)
      .filter(({ metadata }) => metadata.labels?.[labelKeys.tenant] === vc.metadata.uid);
    expect(own).toHaveLength(2);
    // Nothing was started for it, and what the drivers are told differs in no argument.
    const plans = world.driver.ensured.filter((plan) => plan.id === id);
    expect(new Set(plans.map(({ components }) => JSON.stringify(components))).size).toBe(1);
    expect(plans.at(-1)?.network?.tenantUid).toBe(vc.metadata.uid);

    const next = await untilMember(world, member.metadata.uid);
    expect(next.status?.id).not.toBe(id);
    await world.delete('a');
    await world.untilGone('a');
    expect(await world.driver.list()).toEqual([next.status?.id]);
    expect([...world.datastore.tenants]).toEqual([next.status?.id]);
    expect(world.superCluster.list(resources.ipAddresses)).toHaveLength(2);
  });

  const others: [string, VirtualClusterSpec][] = [
    ['names for its certificate', { extraNames: ['api.example.org'] }],
    ['a domain of its own', { clusterDomain: 'blue.test' }],
    ['another version', { version: '1.36.1' }],
    ['another template', { template: 'v1-35' }],
    ['a stricter Pod Security level', { policy: { podSecurity: 'restricted' } }],
    ['another DNS server', { dns: 'coredns' }],
    ['a snapshot to begin with', { restoreFrom: 'team/b/x' }],
  ];
  it.each(others)('is left alone by one that asks for %s', async (_what, spec) => {
    world.run({ settings });
    const member = await untilMember(world);
    world.create('a', spec);
    const vc = await world.until('a', ({ status }) => status?.id !== undefined);
    expect(vc.status?.id).not.toBe(member.status?.id);
    expect(vc.status?.fromPool).toBeUndefined();
    expect(members(world).map(({ metadata }) => metadata.annotations?.[annotationKeys.warmFor])).toEqual([
      undefined,
    ]);
  });

  it('is not to be had by its id, nor by whoever calls its own a member', async () => {
    world.run({ settings });
    const member = await untilMember(world);
    const id = member.status?.id ?? '';
    world.create('thief', {}, { annotations: { [annotationKeys.id]: id } });
    await world.untilReason('thief', 'Ready', 'IdInUse');
    const { metadata } = world.create('decoy', {}, { labels: { [labelKeys.warm]: 'true' } });
    await world.untilReady('decoy');
    expect(metadata.annotations?.[annotationKeys.warmFor]).toBeUndefined();
    world.create('a');
    const vc = await world.untilReady('a');
    expect(vc.status?.id).not.toBe(world.get('decoy')?.status?.id);
  });

  it('goes to one of two that come at once, and each has its own', async () => {
    world.run({ settings: { ...settings, warm: 2 } });
    await world.superCluster.until(
      () => members(world).filter(({ status }) => status?.phase === 'Ready').length === 2,
    );
    const ids = members(world).map(({ status }) => status?.id);
    for (const name of ['a', 'b']) world.create(name);
    const both = await Promise.all(['a', 'b'].map((name) => world.untilReady(name)));
    expect(both.map(({ status }) => status?.id).sort()).toEqual(ids.sort());
  });

  it.each(['carried out', 'carried out late'])(
    'is not wasted when it is given away by a call that times out and is %s',
    async (how) => {
      const first = world.run({ settings: { ...settings, warm: 2 } });
      await world.superCluster.until(
        () => members(world).filter((vc) => isAvailable(vc) && vc.status?.phase === 'Ready').length === 2,
      );
      await first.stop();
      const before = members(world);
      const connection = new SlowConnection(world.superCluster.connectionOptions, how === 'carried out late');
      world.create('a');
      // No room for a third one, and the second is still wanted.
      const machineMemory = () => ({ totalBytes: 10 * GiB, availableBytes: GiB + 1 });
      world.run({ connection, settings: { ...settings, warm: 2 }, machineMemory });
      const vc = await world.untilReady('a');
      expect(connection.timedOut).toBe(1);
      await untilGone(world, vc.status?.fromPool?.member);
      const left = members(world);
      expect(left.map(({ metadata }) => metadata.annotations?.[annotationKeys.warmFor])).toEqual([undefined]);
      expect([vc.status?.id, ...left.map(({ status }) => status?.id)].sort()).toEqual(
        before.map(({ status }) => status?.id).sort(),
      );
    },
  );

  it('is removed with all that it has when the one that it was for is gone before it has taken it over', async () => {
    const first = world.run({ settings });
    const member = await untilMember(world);
    await first.stop();
    const annotations = { [annotationKeys.warmFor]: 'gone/team/a' };
    world.superCluster.put(resources.virtualClusters, {
      ...member,
      metadata: { ...member.metadata, annotations: { ...member.metadata.annotations, ...annotations } },
    });
    world.create('a');
    world.run({ settings: { ...settings, warm: 0 } });
    const vc = await world.untilReady('a');
    await untilGone(world, member.metadata.name);
    expect(vc.status?.id).not.toBe(member.status?.id);
    expect(await world.driver.list()).toEqual([vc.status?.id]);
    expect([...world.datastore.tenants]).toEqual([vc.status?.id]);
  });

  it('is removed when it waits for nobody any more', async () => {
    const first = world.run({ settings });
    await untilMember(world);
    await first.stop();
    world.run({ settings: { ...settings, warm: 0 } });
    await world.superCluster.until(() => members(world).length === 0);
    expect(await world.leftovers()).toEqual({ secrets: [], addresses: [], controlPlanes: [], datastore: [] });
  });
});

describe('a manager that dies', () => {
  it('at any write while it fills the pool leaves one member, and nothing of another', async () => {
    const writes = await dieAtEveryWrite({
      options: () => ({ settings }),
      begin: () => World.start(fastPace(5)),
      untilDone: untilMember,
      check: async (world, when) => {
        const [{ status, metadata } = {} as VirtualCluster, ...others] = members(world);
        expect(others, when).toEqual([]);
        const { addresses, ...left } = await world.leftovers();
        expect(left, when).toEqual({
          secrets: [`tenant-${status?.id}-pki`],
          controlPlanes: [status?.id],
          datastore: [status?.id],
        });
        expect(addresses, when).toHaveLength(2);
        const owners = world.superCluster
          .list(resources.ipAddresses)
          .map((each) => each.metadata.labels?.[labelKeys.tenant]);
        expect(new Set(owners), when).toEqual(new Set([metadata.uid]));
        expect([...world.datastore.seen], when).toEqual([status?.id]);
      },
      end: (world) => world.end(),
    });
    expect(writes).toBeGreaterThan(6);
  }, 120_000);

  it.each(['stays', 'is deleted'])(
    'at any write while it gives one away leaves one owner, or none, of one that %s',
    async (fate) => {
      let member: VirtualCluster;
      // Only what giving one away takes is counted: there is no room for another one.
      const machineMemory = () => ({ totalBytes: 10 * GiB, availableBytes: GiB + 1 });
      const rounds = {
        options: () => ({ settings, machineMemory }),
        begin: async () => {
          const world = await World.start(fastPace(5));
          const maker = world.run({ settings });
          member = await untilMember(world);
          await maker.stop();
          world.create('a');
          return world;
        },
        untilDone: (world: World) => untilReleased(world, member),
        end: (world: World) => world.end(),
      };
      const writes = await dieAtEveryWrite(
        fate === 'stays'
          ? {
              ...rounds,
              check: async (world, when) => {
                const vc = await world.untilReady('a');
                const id = member.status?.id;
                expect(members(world), when).toEqual([]);
                expect(vc.status?.id, when).toBe(id);
                expect(await world.driver.list(), when).toEqual([id]);
                expect([...world.datastore.tenants], when).toEqual([id]);
                const addresses = world.superCluster.list(resources.ipAddresses);
                expect(
                  addresses.map(({ metadata }) => metadata.labels?.[labelKeys.tenant]),
                  when,
                ).toEqual([vc.metadata.uid, vc.metadata.uid]);
                expect(world.secretOf('a', 'pki'), when).toBeDefined();
              },
            }
          : {
              ...rounds,
              between: (world) => world.delete('a'),
              untilEnded: async (world) => {
                await world.untilGone('a');
                await world.superCluster.until(() =>
                  members(world).every((vc) => warmClaim(vc) === undefined),
                );
              },
              check: async (world, when) => {
                // The one that was never given away goes on waiting.
                const ids = members(world).map(({ status }) => status?.id);
                const { addresses = [], ...left } = await world.leftovers();
                expect(left, when).toEqual({
                  secrets: ids.map((id) => `tenant-${id}-pki`),
                  controlPlanes: ids,
                  datastore: ids,
                });
                expect(addresses, when).toHaveLength(2 * ids.length);
              },
            },
      );
      expect(writes).toBeGreaterThan(6);
    },
    120_000,
  );
});

async function untilReleased(world: World, member: VirtualCluster): Promise<void> {
  await world.untilReady('a');
  await untilGone(world, member.metadata.name);
}
