import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import { isPaused, isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { ConnectionError, resources } from '../../kube/index.ts';
import { componentHash } from '../drivers/driver.ts';
import { DriverError } from '../drivers/errors.ts';
import { EtcdError } from '../etcd/errors.ts';
import type { Entry } from '../etcd/keyspace.ts';
import { dieAtEveryWrite } from './testing/every-write.ts';
import { LocatingDriver } from './testing/locating-driver.ts';
import { condition, FakeDriver, fastPace, jobRequests, World } from './testing/world.ts';

const entry = (key: string, value: string): Entry => ({ key, value: Buffer.from(value) });
const whatItHas = [entry('configmaps/shop/settings', 'blue'), entry('pods/shop/web-1', 'x')];
const ownTemplate = 'v1-36-own-etcd';
const settings = { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' };
/** With a gateway, and a datastore that pods reach. */
const reachable = {
  ...settings,
  etcdEndpoint: 'https://192.0.2.9:2379',
  gateway: { domain: 'tenants.example.com', host: '192.0.2.20', port: 443 },
};

describe('a move', () => {
  let world: World;
  let other: FakeDriver;
  beforeEach(async () => {
    world = await World.start();
    other = new FakeDriver();
  });
  afterEach(() => world.end());

  const { annotate, cancel } = jobRequests(() => world);
  const id = (name = 'a'): string => world.get(name)?.status?.id ?? '';
  const run = (more: Parameters<World['run']>[0] = {}) =>
    world.run({ otherDrivers: { compose: other }, ...more });
  const make = async (spec: object = {}): Promise<void> => {
    world.create('a', spec);
    await world.untilReady('a');
    world.datastore.entries.set(id(), whatItHas);
  };
  const endpointOf = (vc: VirtualCluster | undefined): string =>
    `https://127.0.0.1:${vc?.status?.datastorePorts?.[0]}`;
  const keysOfOwn = (endpoint: string): string[] | undefined =>
    world.ownDatastores.entries.get(endpoint)?.map(({ key }) => key);
  const names = (driver = world.driver): string[] =>
    driver.plans.get(id())?.components.map(({ name }) => name) ?? [];
  const untilMoved = (to: object): Promise<VirtualCluster> =>
    world.until(
      'a',
      ({ status }) =>
        status?.phase === 'Ready' &&
        status.move === undefined &&
        status.jobs?.current === undefined &&
        Object.entries(to).every(([field, value]) => status[field as 'driver'] === value),
    );
  const wanted = whatItHas.map(({ key }) => key);
  const stuckWhilePreparing = (): void => {
    world.ownDatastores.onRaise = () => 0;
    const viewTenant = world.datastore.viewTenant.bind(world.datastore);
    world.datastore.viewTenant = async (tenant) => ({ ...(await viewTenant(tenant)), revision: 7 });
  };
  const beginStuckMove = async (spec: object = { template: ownTemplate }): Promise<void> => {
    stuckWhilePreparing();
    world.edit('a', spec);
    await world.until('a', ({ status }) =>
      /counts to the revision/.test(status?.jobs?.current?.message ?? ''),
    );
  };

  it('to an etcd of its own copies what it has while nothing runs that writes, and back again', async () => {
    run();
    await make();
    const { status: before } = await world.untilReady('a');
    const seen: { running: string[]; served: boolean; paused: boolean }[] = [];
    world.ownDatastores.beforeReplace = () => {
      const vc = world.get('a') as VirtualCluster;
      seen.push({ running: names(), served: isServed(vc), paused: isPaused(vc) });
    };
    world.edit('a', { template: ownTemplate });
    const there = await untilMoved({ datastore: 'own' });
    expect(seen).toEqual([{ running: ['etcd'], served: false, paused: true }]);
    expect(keysOfOwn(endpointOf(there))).toEqual(wanted);
    expect(world.datastore.tenants.size).toBe(0);
    expect(names()).toEqual(['etcd', 'kube-apiserver', 'kube-controller-manager']);
    // It runs from the beginning to the end.
    const etcds = world.driver.ensured.flatMap(({ components }) => components.filter(({ data }) => data));
    expect(etcds.length).toBeGreaterThan(2);
    expect(new Set(etcds.map(componentHash)).size).toBe(1);
    // Where people and pods reach it stays.
    for (const field of ['endpoint', 'advertisedPort', 'identities', 'serviceCIDR'] as const)
      expect(there.status?.[field], field).toEqual(before?.[field]);
    expect(isServed(there)).toBe(true);
    expect(there.status?.jobs?.history?.[0]).toMatchObject({
      kind: 'move',
      target: 'process/own',
      result: 'Succeeded',
      message: expect.stringMatching(/^paused for \d+\.\d s$/),
    });
    expect(condition(there, 'Placed')).toMatchObject({ status: 'True', reason: 'Moved' });

    world.datastore.entries.clear();
    world.edit('a', { template: 'v1-36' });
    const back = await untilMoved({ datastore: 'shared' });
    expect(world.datastore.entries.get(id())?.map(({ key }) => key)).toEqual(wanted);
    expect([...world.datastore.tenants]).toEqual([id()]);
    expect(names()).toEqual(['kube-apiserver', 'kube-controller-manager']);
    expect(world.driver.forgotten).toEqual([[id(), 'etcd']]);
    expect(back.status?.datastorePorts).toBeUndefined();
    expect(back.status?.moved).toMatchObject({ to: { datastore: 'shared' } });
  });

  it('has the new datastore count as high as the old one before anything is stopped', async () => {
    run();
    await make();
    const revision = 5_000;
    const viewTenant = world.datastore.viewTenant.bind(world.datastore);
    world.datastore.viewTenant = async (tenant) => ({ ...(await viewTenant(tenant)), revision });
    const raised: { target: number; paused: boolean }[] = [];
    world.ownDatastores.onRaise = (target) => {
      raised.push({ target, paused: isPaused(world.get('a') as VirtualCluster) });
      // The first slice of it ends before that.
      return raised.length === 1 ? 100 : target;
    };
    world.edit('a', { template: ownTemplate });
    await untilMoved({ datastore: 'own' });
    expect(raised).toEqual([
      { target: revision, paused: false },
      { target: revision, paused: false },
      { target: revision, paused: true },
    ]);
  });

  it('that does not get on does not keep a policy that is tightened from being applied', async () => {
    run();
    await make();
    await beginStuckMove();
    world.superCluster.put(resources.virtualClusterPolicies, {
      metadata: { name: 'gold' },
      spec: { namespaces: ['team'], hideNodes: true },
    });
    const { status } = await world.until('a', (vc) => vc.status?.policy?.hideNodes === true);
    expect(status?.move?.stage).toBe('preparing');
  });

  it('ends before anything is stopped when the policy does not allow its template any more', async () => {
    run();
    await make();
    await beginStuckMove();
    world.superCluster.put(resources.virtualClusterPolicies, {
      metadata: { name: 'gold' },
      spec: { namespaces: ['team'], templates: ['v1-36'] },
    });
    const { status } = await untilMoved({ datastore: 'shared' });
    expect(status?.jobs?.history?.[0]).toMatchObject({
      ...{ kind: 'move', result: 'Cancelled' },
      message: expect.stringContaining('gold does not allow the template'),
    });
    expect(names()).not.toContain('etcd');
    await world.untilReason('a', 'Placed', 'TemplateNotAllowed');
  });

  it('has it count on before anything is stopped as long as the old one is still being written to', async () => {
    run();
    await make();
    let revision = 50_000;
    const viewTenant = world.datastore.viewTenant.bind(world.datastore);
    world.datastore.viewTenant = async (tenant) => ({ ...(await viewTenant(tenant)), revision });
    const raised: { target: number; paused: boolean }[] = [];
    world.ownDatastores.onRaise = (target) => {
      raised.push({ target, paused: isPaused(world.get('a') as VirtualCluster) });
      // Fewer each time, as it takes less time each time.
      revision += 10_000 / 4 ** raised.length;
      return target;
    };
    world.edit('a', { template: ownTemplate });
    await untilMoved({ datastore: 'own' });
    expect(raised).toEqual([
      { target: 50_000, paused: false },
      { target: 52_500, paused: false },
      { target: 53_125, paused: true },
    ]);
  });

  it('is given up, and says what to do, when the old one is written to faster than the new one can count', async () => {
    const first = run();
    await make();
    let revision = 50_000;
    const viewTenant = world.datastore.viewTenant.bind(world.datastore);
    world.datastore.viewTenant = async (tenant) => ({ ...(await viewTenant(tenant)), revision });
    world.ownDatastores.onRaise = () => {
      revision += 20_000;
      return revision - 50_000;
    };
    world.edit('a', { template: ownTemplate });
    await world.until('a', ({ status }) => status?.move?.catchUp?.idleRounds === 1);
    await first.stop();
    // The next manager goes on counting the rounds.
    const vc = world.get('a') as VirtualCluster;
    const { move } = vc.status ?? {};
    const status = {
      ...vc.status,
      ...(move && { move: { ...move, catchUp: { behind: 50_000, idleRounds: 7 } } }),
    };
    world.superCluster.put(resources.virtualClusters, { ...vc, status });
    run();
    const back = await world.untilReason('a', 'Placed', 'RolledBack');
    expect(condition(back, 'Placed')?.message).toMatch(
      /written to faster .*: 50000 are left, and in 8 rounds of 15 s it came no nearer.*move it when they do.*jobs retry/,
    );
    expect(back.status).toMatchObject({
      datastore: 'shared',
      moved: { why: expect.stringMatching(/faster/) },
    });
    expect(back.status?.moved?.pausedMs).toBeUndefined();
    expect(back.status?.jobs?.history?.[0]).toMatchObject({ kind: 'move', result: 'Failed' });
    expect(names()).toEqual(['kube-apiserver', 'kube-controller-manager']);
  });

  it.each([
    ['count up while nothing is served', 'to', /60 s were not enough/],
    ['be copied before the old one forgets what was', 'copy', /took longer than the old datastore keeps/],
  ] as const)('goes back when it cannot %s', async (_, what, why) => {
    run();
    await make();
    if (what === 'to') {
      stuckWhilePreparing();
      world.ownDatastores.onRaise = (target) =>
        isPaused(world.get('a') as VirtualCluster) ? target - 1 : target;
    } else
      world.ownDatastores.beforeReplace = () => {
        throw new EtcdError('Compacted', 'The datastore answered "required revision has been compacted".');
      };
    world.edit('a', { template: ownTemplate });
    const vc = await world.untilReason('a', 'Placed', 'RolledBack');
    expect(vc.status?.moved?.why).toMatch(why);
    expect(vc.status).toMatchObject({ datastore: 'shared', phase: 'Ready' });
    expect(isServed(vc)).toBe(true);
    expect(world.datastore.entries.get(id())?.map(({ key }) => key)).toEqual(wanted);
  });

  it('to another driver starts it there with the same address, and leaves nothing at the old one', async () => {
    run();
    await make();
    const { status: before } = await world.untilReady('a');
    const running: string[][] = [];
    other.beforeEnsure = () => void running.push([...world.driver.running]);
    world.edit('a', { driver: 'compose' });
    const { status } = await untilMoved({ driver: 'compose' });
    expect(running[0]).toEqual([]);
    expect(status?.endpoint).toBe(before?.endpoint);
    expect(await other.list()).toEqual([id()]);
    expect(await world.driver.list()).toEqual([]);
    // It is looked after there.
    other.kill(id(), 'kube-apiserver');
    await world.until('a', () => other.running.has(id()));
    world.edit('a', { driver: 'process', template: ownTemplate });
    await untilMoved({ driver: 'process', datastore: 'own' });
    expect(await other.list()).toEqual([]);
    expect(names()).toContain('etcd');
    await world.delete('a');
    await world.untilGone('a');
    expect(await world.driver.list()).toEqual([]);
  });

  it('into the shared datastore is refused beyond the quota before anything is stopped, and goes on when that is raised', async () => {
    run();
    await make({ template: ownTemplate, quota: { 'datastore.keys': '3', 'datastore.bytes': '100' } });
    const { status } = await world.untilReady('a');
    const endpoint = endpointOf(world.get('a'));
    world.datastore.entries.clear();
    world.ownDatastores.entries.set(endpoint, [
      ...whatItHas,
      entry('configmaps/shop/large', 'x'.repeat(100)),
    ]);
    world.driver.beforeEnsure = ({ components }) => {
      if (components.length === 1) throw new Error('nothing may be stopped');
    };
    world.edit('a', { template: 'v1-36' });
    const vc = await world.untilReason('a', 'Placed', 'RolledBack');
    expect(condition(vc, 'Placed')?.message).toMatch(/datastore\.bytes/);
    expect(vc.status).toMatchObject({ datastore: 'own', template: status?.template });
    expect(world.datastore.entries.get(id())).toBeUndefined();

    world.driver.beforeEnsure = () => {};
    world.edit('a', { quota: { 'datastore.keys': '3', 'datastore.bytes': '1Ki' } });
    annotate('a', annotationKeys.retryJob, 'x');
    await untilMoved({ datastore: 'shared' });
    expect(world.datastore.entries.get(id())).toHaveLength(3);
  });

  it('into the shared datastore that outgrows the quota while it is copied leaves nothing there', async () => {
    run();
    await make({ template: ownTemplate, quota: { 'datastore.keys': '3' } });
    const endpoint = endpointOf(world.get('a'));
    world.datastore.entries.clear();
    world.ownDatastores.entries.set(endpoint, whatItHas);
    world.driver.beforeEnsure = ({ components }) => {
      if (components.length > 1) return;
      const late = [1, 2].map((each) => entry(`pods/shop/late-${each}`, 'x'));
      world.ownDatastores.entries.set(endpoint, [...whatItHas, ...late]);
    };
    world.edit('a', { template: 'v1-36' });
    const vc = await world.untilReason('a', 'Placed', 'RolledBack');
    expect(condition(vc, 'Placed')?.message).toMatch(/datastore\.keys/);
    expect(world.datastore.entries.get(id()) ?? []).toEqual([]);
    expect(isServed(await world.untilReady('a'))).toBe(true);
    expect(keysOfOwn(endpoint)).toHaveLength(4);
  });

  it('goes back when the control plane does not start there, and begins again when that is asked for', async () => {
    run();
    await make();
    const fail = (plan: { id: string; components: { name: string; args: string[] }[] }): void => {
      const server = plan.components.find(({ name }) => name === 'kube-apiserver');
      if (server?.args.includes('--etcd-prefix=/registry') === true)
        throw new DriverError('NotReady', `kube-apiserver of ${plan.id} does not become ready`, {
          component: 'kube-apiserver',
        });
    };
    world.driver.beforeEnsure = fail;
    world.edit('a', { template: ownTemplate });
    const { status } = await world.until(
      'a',
      (vc) => vc.status?.moved !== undefined && vc.status.phase === 'Ready' && vc.status.move === undefined,
    );
    expect(status).toMatchObject({
      datastore: 'shared',
      template: 'v1-36',
      moved: { why: 'kube-apiserver of team/a does not become ready' },
    });
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'move', result: 'Failed' });
    expect(names()).toEqual(['kube-apiserver', 'kube-controller-manager']);
    expect(world.datastore.entries.get(id())?.map(({ key }) => key)).toEqual(wanted);
    expect([...world.datastore.tenants]).toEqual([id()]);
    expect(isServed(world.get('a') as VirtualCluster)).toBe(true);
    const vc = await world.untilReason('a', 'Placed', 'RolledBack');
    expect(condition(vc, 'Placed')?.message).toMatch(/went back.*jobs retry/);
    world.driver.beforeEnsure = () => {};
    annotate('a', annotationKeys.retryJob, 'x');
    await untilMoved({ datastore: 'own' });
  });

  it('can be cancelled until the old control plane is stopped', async () => {
    run();
    await make();
    await beginStuckMove();
    cancel('a');
    const { status } = await world.until(
      'a',
      (vc) => vc.status?.moved !== undefined && vc.status.move === undefined,
    );
    expect(status).toMatchObject({ datastore: 'shared', phase: 'Ready' });
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'move', result: 'Cancelled' });
    expect(status?.moved?.pausedMs).toBeUndefined();
    expect(names()).toEqual(['kube-apiserver', 'kube-controller-manager']);
    await world.untilReason('a', 'Placed', 'Cancelled');
    annotate('a', annotationKeys.retryJob, 'again');
    const again = await world.until('a', (vc) => vc.status?.jobs?.retried === 'again');
    expect(condition(again, 'Placed')).toBeUndefined();
  });

  /** Changes the spec, and has its change of version held back. */
  const withHeldVersion = (spec: object) => {
    world.edit('a', { ...spec, version: '1.36.99' });
    const vc = world.get('a') as VirtualCluster;
    const { generation = 0 } = vc.metadata;
    const held = { kind: 'version-change' as const, why: 'It did not start.', generation };
    const status = { ...vc.status, jobs: { ...vc.status?.jobs, held } };
    world.superCluster.put(resources.virtualClusters, { ...vc, status });
    return held;
  };

  it.each(['Ready', 'Asleep'])(
    'to another datastore is refused beside a version that is held back: %s',
    async (phase) => {
      const first = run();
      await make();
      if (phase === 'Asleep') annotate('a', annotationKeys.sleep, 'one');
      await world.until('a', ({ status }) => status?.phase === phase && status.jobs?.current === undefined);
      await first.stop();
      const held = withHeldVersion({ template: ownTemplate });
      run();
      const vc = await world.untilReason('a', 'Placed', 'RolledBack');
      expect(condition(vc, 'Placed')?.message).toContain('It did not start.');
      const { status } = await world.until('a', (each) => each.status?.jobs?.current === undefined);
      expect(status).toMatchObject({ phase, datastore: 'shared', jobs: { held } });
      expect(status?.move).toBeUndefined();
      expect(status?.moved).toBeUndefined();
    },
  );

  it('that is held back leaves a change of version held back that the same spec asks for', async () => {
    const first = run();
    await make();
    await first.stop();
    other.beforeEnsure = ({ id: tenant }) => {
      const component = 'kube-apiserver';
      throw new DriverError('NotReady', `${component} of ${tenant} does not become ready`, { component });
    };
    const held = withHeldVersion({ driver: 'compose' });
    run();
    await world.untilReason('a', 'Placed', 'RolledBack');
    const { status } = await world.untilReason('a', 'VersionCurrent', 'RolledBack');
    expect(status?.jobs).toMatchObject({ held, heldMove: { generation: held.generation } });
  });

  it.each([
    ['to an etcd of its own', { template: ownTemplate }, { template: 'v1-36' }],
    [
      'to another driver too',
      { template: ownTemplate, driver: 'compose' },
      { template: 'v1-36', driver: 'process' },
    ],
  ] as const)(
    '%s ends as cancelled when the spec is set back before anything is stopped',
    async (_, there, back) => {
      run();
      await make();
      await beginStuckMove(there);
      world.edit('a', back);
      const { status } = await world.until(
        'a',
        (vc) => vc.status?.moved !== undefined && vc.status.move === undefined,
      );
      expect(status).toMatchObject({ datastore: 'shared', driver: 'process', phase: 'Ready' });
      expect(status?.jobs).toMatchObject({
        history: [{ kind: 'move', result: 'Cancelled', message: 'The spec asks for it no more.' }, {}],
      });
      expect(status?.jobs?.heldMove).toBeUndefined();
      expect(status?.moved?.pausedMs).toBeUndefined();
      expect(names()).toEqual(['kube-apiserver', 'kube-controller-manager']);
      expect(await other.list()).toEqual([]);
      expect([...world.datastore.tenants]).toEqual([id()]);
      const placed = await world.untilReady('a');
      expect(condition(placed, 'Placed')).toBeUndefined();
      // Asked for again, it begins again.
      world.ownDatastores.onRaise = (target) => target;
      world.edit('a', there);
      await untilMoved({ datastore: 'own' });
    },
  );

  it('goes to another place when the spec asks for that before anything is stopped', async () => {
    run();
    await make();
    await beginStuckMove();
    world.edit('a', { template: 'v1-36', driver: 'compose' });
    const { status } = await untilMoved({ driver: 'compose' });
    expect(status?.datastore).toBe('shared');
    expect(status?.jobs?.history).toMatchObject([
      { kind: 'move', target: 'compose/shared', result: 'Succeeded' },
      { kind: 'move', target: 'process/own', result: 'Cancelled' },
      {},
    ]);
    expect(await world.driver.list()).toEqual([]);
  });

  it('goes on when the spec asks for another version while it is prepared', async () => {
    run();
    await make();
    await beginStuckMove();
    world.ownDatastores.onRaise = (target) => target;
    world.edit('a', { version: '1.36.99' });
    await untilMoved({ datastore: 'own', version: '1.36.99' });
    expect(world.get('a')?.status?.jobs?.history?.map(({ kind, result }) => [kind, result])).toEqual([
      ['version-change', 'Succeeded'],
      ['move', 'Succeeded'],
      ['provision', 'Succeeded'],
    ]);
  });

  it('ends before anything is stopped when the spec asks for a version that is refused', async () => {
    run();
    await make();
    await beginStuckMove();
    world.edit('a', { template: ownTemplate, version: '1.35.1' });
    const { status } = await untilMoved({ datastore: 'shared' });
    expect(status?.jobs?.history?.[0]).toMatchObject({
      ...{ kind: 'move', result: 'Cancelled' },
      message: expect.stringContaining('It stays at 1.36.3'),
    });
  });

  it('begins as soon as the change of version is over that the same spec asks for', async () => {
    run();
    await make();
    world.edit('a', { driver: 'compose', version: '1.36.99' });
    await untilMoved({ driver: 'compose', version: '1.36.99' });
    const kinds = world.get('a')?.status?.jobs?.history?.map(({ kind, result }) => `${kind} ${result}`);
    expect(kinds?.slice(0, 2)).toEqual(['move Succeeded', 'version-change Succeeded']);
  });

  it('cannot be cancelled later', async () => {
    run();
    await make();
    let isAsked = false;
    world.ownDatastores.beforeReplace = (_, signal) => {
      if (isAsked) return;
      isAsked = true;
      // The request interrupts what is being done.
      cancel('a');
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    world.edit('a', { template: ownTemplate });
    const vc = await world.until('a', ({ status }) => status?.jobs?.current?.refusal !== undefined);
    expect(vc.status?.jobs?.current?.refusal).toMatch(/its old control plane is stopped/);
    const { status } = await untilMoved({ datastore: 'own' });
    expect(status?.moved?.why).toBeUndefined();
  });

  it('to a driver that this manager has not is refused, and changes nothing', async () => {
    run();
    await make();
    const before = world.driver.ensured.length;
    world.edit('a', { driver: 'kubernetes' });
    const vc = await world.untilReason('a', 'Placed', 'DriverNotConfigured');
    expect(vc.status).toMatchObject({ driver: 'process', phase: 'Ready' });
    expect(vc.status?.move).toBeUndefined();
    expect(vc.status?.jobs?.current).toBeUndefined();
    expect(world.driver.ensured.slice(before).every(({ components }) => components.length === 2)).toBe(true);
    world.edit('a', { driver: 'process' });
    await world.until('a', (now) => condition(now, 'Placed') === undefined);
  });

  it('to a template that the policy of its namespace does not allow is refused', async () => {
    world.superCluster.put(resources.virtualClusterPolicies, {
      metadata: { name: 'gold' },
      spec: { namespaces: ['team'], templates: ['v1-36'] },
    });
    run();
    await make();
    world.edit('a', { template: ownTemplate });
    const vc = await world.untilReason('a', 'Placed', 'TemplateNotAllowed');
    expect(vc.status).toMatchObject({ datastore: 'shared', phase: 'Ready' });
  });

  it('of an etcd of its own to another driver is refused: that goes by way of the shared one', async () => {
    run();
    await make({ template: ownTemplate });
    world.edit('a', { driver: 'compose' });
    const vc = await world.untilReason('a', 'Placed', 'MoveNotSupported');
    expect(condition(vc, 'Placed')?.message).toMatch(/shared datastore first/);
  });

  it('to an etcd that would lose its data is refused', async () => {
    const located = new LocatingDriver();
    world.run({ driver: located, settings: { ...settings, driver: 'kubernetes' } });
    world.create('a');
    await world.untilReady('a');
    world.edit('a', { template: ownTemplate });
    const vc = await world.until('a', ({ status }) => status?.moved?.why !== undefined);
    expect(vc.status?.moved?.why).toMatch(/--storage-class/);
    expect(vc.status?.datastore).toBe('shared');
  });

  it('of one that is asleep wakes it', async () => {
    run();
    await make();
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    world.edit('a', { template: ownTemplate });
    const vc = await untilMoved({ datastore: 'own' });
    expect(vc.status?.sleep?.since).toBeUndefined();
    expect(vc.status?.sleep?.wokenBy).toBe('Move');
    expect(keysOfOwn(endpointOf(vc))).toEqual(wanted);
  });

  it('of one that is asleep, cancelled, leaves nothing behind', async () => {
    run();
    await make();
    annotate('a', annotationKeys.sleep, 'one');
    await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    await beginStuckMove();
    expect(names()).toEqual(['etcd']);
    expect(world.get('a')?.status?.sleep?.wokenBy).toBeUndefined();
    cancel('a');
    const vc = await world.until(
      'a',
      ({ status }) => status?.moved !== undefined && status.move === undefined,
    );
    expect(vc.status?.datastore).toBe('shared');
    expect(names()).not.toContain('etcd');
  });

  it('of one that is asleep with an etcd of its own starts that alone, to read it', async () => {
    run();
    await make({ template: ownTemplate });
    annotate('a', annotationKeys.sleep, 'one');
    const asleep = await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    world.ownDatastores.entries.set(endpointOf(asleep), whatItHas);
    const started: { names: string[]; paused: boolean }[] = [];
    world.driver.beforeEnsure = ({ components }) => {
      const paused = isPaused(world.get('a') as VirtualCluster);
      started.push({ names: components.map(({ name }) => name), paused });
    };
    world.edit('a', { template: 'v1-36' });
    await untilMoved({ datastore: 'shared' });
    expect(started[0]).toEqual({ names: ['etcd'], paused: false });
    expect(world.datastore.entries.get(id())?.map(({ key }) => key)).toEqual(wanted);
  });

  it('that goes back from another driver stops what tries on there, before the old one is started', async () => {
    run();
    await make();
    other.beforeEnsure = (plan) => {
      other.running.add(plan.id);
      throw new DriverError('NotReady', 'it does not become ready', { component: 'kube-apiserver' });
    };
    const beside: string[][] = [];
    world.driver.beforeEnsure = () => void beside.push([...other.running]);
    world.edit('a', { driver: 'compose' });
    await world.until('a', ({ status }) => status?.moved?.why !== undefined && status.phase === 'Ready');
    expect(beside.length).toBeGreaterThan(0);
    expect(beside.flat()).toEqual([]);
  });

  it('never goes back when an API server runs at the new place, which clients may have written to', async () => {
    const first = run();
    await make();
    const { status } = await world.untilReady('a');
    await first.stop();
    // Its manager was killed before it could write that it serves, and is away for long.
    const place = { datastore: 'shared', template: 'v1-36' } as const;
    const at = new Date(Date.now() - 3_600_000).toISOString();
    const move = {
      ...{ stage: 'starting', startedAt: at, pausedAt: at },
      ...{ from: { driver: 'process', ...place }, to: { driver: 'compose', ...place } },
    } as const;
    world.superCluster.put(resources.virtualClusters, {
      ...(world.get('a') as VirtualCluster),
      spec: { ...world.get('a')?.spec, driver: 'compose' },
      status: { ...status, phase: 'Moving', driver: 'compose', move },
    });
    await world.driver.stop(id());
    const plan = world.driver.plans.get(id());
    if (plan === undefined) throw new Error('no plan');
    await other.ensure(plan, { signal: new AbortController().signal });
    const without = world.run();
    const vc = await world.untilReason('a', 'APIServerReady', 'DriverChanged');
    expect(vc.status).toMatchObject({ driver: 'compose', move: { stage: 'starting' } });
    await without.stop();
    let failures = 0;
    world.datastore.beforeEnsure = () => {
      if (failures++ === 0) throw new ConnectionError('https://127.0.0.1:2379', 'ECONNREFUSED');
    };
    run();
    const moved = await untilMoved({ driver: 'compose' });
    expect(failures).toBeGreaterThan(1);
    expect(moved.status?.moved?.why).toBeUndefined();
  });

  it.each([
    ['preparing', 'own'],
    ['preparing', 'shared'],
    ['copying', 'shared'],
  ] as const)(
    'that is %s for a driver that its next manager has not waits for one that has it (%s)',
    async (stage, datastore) => {
      const first = run();
      await make();
      const { status } = await world.untilReady('a');
      await first.stop();
      const template = datastore === 'own' ? ownTemplate : 'v1-36';
      const at = new Date().toISOString();
      const move = {
        ...{ stage, startedAt: at, ...(stage === 'copying' && { pausedAt: at }) },
        from: { driver: 'process', datastore: 'shared', template: 'v1-36' },
        to: { driver: 'compose', datastore, template },
      } as const;
      world.superCluster.put(resources.virtualClusters, {
        ...(world.get('a') as VirtualCluster),
        spec: { ...world.get('a')?.spec, driver: 'compose', template },
        status: { ...status, ...(stage === 'copying' && { phase: 'Moving' as const }), move },
      });
      const touched: string[] = [];
      world.driver.beforeStop = () => void touched.push('stopped');
      world.driver.beforeEnsure = () => void touched.push('ensured');
      const without = world.run();
      const isToldOf = (vc: VirtualCluster): boolean =>
        ['DatastoreReady', 'APIServerReady'].some((type) => condition(vc, type)?.reason === 'DriverChanged');
      const vc = await world.until(
        'a',
        (each) => isToldOf(each) && each.status?.jobs?.current?.failing === true,
      );
      expect(vc.status).toMatchObject({ driver: 'process', datastore: 'shared', move: { stage } });
      expect(vc.status?.jobs?.current?.message).toMatch(/start it with --other-driver compose/);
      expect(touched).toEqual([]);
      await without.stop();
      run();
      const moved = await untilMoved({ driver: 'compose', datastore });
      expect(moved.status?.moved?.why).toBeUndefined();
    },
  );

  it('that was cancelled does not say why another job was given up, nor why an earlier move ended', async () => {
    const first = run();
    await make();
    const { status, metadata } = await world.untilReady('a');
    await first.stop();
    const place = { datastore: 'shared', template: 'v1-36' } as const;
    const move = {
      ...{ stage: 'returning', startedAt: new Date().toISOString() },
      ...{ from: { driver: 'process', ...place }, to: { driver: 'compose', ...place } },
    } as const;
    const held = {
      kind: 'version-change',
      generation: metadata.generation ?? 1,
      why: 'it is too new',
    } as const;
    const earlier = {
      ...{ kind: 'move', id: 'earlier', result: 'Cancelled', message: 'The spec asks for it no more.' },
      ...{ startedAt: '2020-01-01T00:00:00.000Z', finishedAt: '2020-01-01T00:01:00.000Z', attempts: 1 },
    } as const;
    const jobs = { ...status?.jobs, held, history: [earlier] };
    const vc = world.get('a') as VirtualCluster;
    world.superCluster.put(resources.virtualClusters, { ...vc, status: { ...status, jobs, move } });
    run();
    const back = await untilMoved({ driver: 'process' });
    expect(back.status?.moved?.why).toBe('It was cancelled.');
  });

  it('waits with a deletion for a manager that has both drivers', async () => {
    const first = run();
    await make();
    world.ownDatastores.beforeReplace = () => new Promise(() => {});
    world.edit('a', { template: ownTemplate, driver: 'compose' });
    await world.until('a', isPaused);
    await first.stop();
    expect(await other.list()).toEqual([id()]);
    const without = world.run();
    await world.delete('a');
    await world.untilReason('a', 'Ready', 'DriverChanged');
    await without.stop();
    expect(await other.list()).toEqual([id()]);
    run();
    await world.untilGone('a');
    expect(await other.list()).toEqual([]);
  });

  it('ends with a deletion, which leaves nothing at either place', async () => {
    run();
    await make();
    const gate = Promise.withResolvers<void>();
    world.ownDatastores.beforeReplace = () => gate.promise;
    world.edit('a', { template: ownTemplate, driver: 'compose' });
    await world.until('a', isPaused);
    expect(await other.list()).toEqual([id()]);
    await world.delete('a');
    gate.resolve();
    await world.untilGone('a');
    expect(await world.leftovers()).toEqual({ secrets: [], addresses: [], controlPlanes: [], datastore: [] });
    expect(await other.list()).toEqual([]);
  });

  it('is refused where the policy of its namespace does not allow the driver, for new ones too', async () => {
    world.superCluster.put(resources.virtualClusterPolicies, {
      metadata: { name: 'gold' },
      spec: { namespaces: ['team'], drivers: ['process'] },
    });
    run();
    await make();
    world.edit('a', { driver: 'compose' });
    const vc = await world.untilReason('a', 'Placed', 'DriverNotAllowed');
    expect(condition(vc, 'Placed')?.message).toMatch(/gold does not allow the driver compose/);
    expect(vc.status).toMatchObject({ driver: 'process', phase: 'Ready' });
    world.create('b', { driver: 'compose' });
    await world.untilReason('b', 'APIServerReady', 'DriverNotAllowed');
    expect(await other.list()).toEqual([]);
  });

  it('decides nothing for a new one but what spec.driver says', async () => {
    run();
    world.create('a', { driver: 'compose' });
    const { status } = await world.untilReady('a');
    expect(status?.driver).toBe('compose');
    expect(await other.list()).toEqual([id()]);
    world.create('b', { driver: 'kubernetes' });
    const refused = await world.untilReason('b', 'APIServerReady', 'DriverNotConfigured');
    expect(condition(refused, 'APIServerReady')?.message).toMatch(/--other-driver kubernetes/);
  });
});

describe('a manager that dies while it moves a control plane', () => {
  const own = (vc?: VirtualCluster): string => `https://127.0.0.1:${vc?.status?.datastorePorts?.[0]}`;
  const others = new WeakMap<World, { compose: FakeDriver; kubernetes: LocatingDriver }>();
  const othersOf = (world: World): { compose: FakeDriver; kubernetes: LocatingDriver } => {
    const there = others.get(world) ?? { compose: new FakeDriver(), kubernetes: new LocatingDriver() };
    others.set(world, there);
    return there;
  };
  const options = (world: World) => ({ otherDrivers: othersOf(world), settings: reachable });
  const made = async (spec: object): Promise<World> => {
    const world = await World.start(fastPace(5));
    const maker = world.run(options(world));
    world.create('a', spec);
    const { status } = await world.untilReady('a');
    await maker.stop();
    if (status?.datastore === 'own') world.ownDatastores.entries.set(own(world.get('a')), whatItHas);
    else world.datastore.entries.set(status?.id ?? '', whatItHas);
    return world;
  };
  const untilEnded = (world: World): Promise<VirtualCluster> =>
    world.until(
      'a',
      ({ status }) =>
        status?.phase === 'Ready' &&
        status.moved !== undefined &&
        status.move === undefined &&
        status.jobs?.current === undefined,
    );
  const checkPlace = async (world: World, when: string): Promise<void> => {
    const vc = world.get('a');
    const id = vc?.status?.id ?? '';
    const isOwn = vc?.status?.datastore === 'own';
    const has = isOwn ? world.ownDatastores.entries.get(own(vc)) : world.datastore.entries.get(id);
    expect(
      has?.map(({ key }) => key),
      when,
    ).toEqual(whatItHas.map(({ key }) => key));
    expect([...world.datastore.tenants], when).toEqual(isOwn ? [] : [id]);
    for (const [name, driver] of Object.entries({ process: world.driver, ...othersOf(world) }))
      expect(await driver.list(), `${name} ${when}`).toEqual(vc?.status?.driver === name ? [id] : []);
  };

  it.each([
    ['to an etcd of its own', {}, { template: ownTemplate }],
    ['to the shared datastore', { template: ownTemplate }, { template: 'v1-36' }],
    ['to another driver', {}, { driver: 'compose' as const }],
    ['to pods', {}, { driver: 'kubernetes' as const }],
    ['from pods', { driver: 'kubernetes' as const }, { driver: 'process' as const }],
  ])(
    '%s, at any write, is succeeded by one that ends the move',
    async (_, from, to) => {
      const writes = await dieAtEveryWrite({
        options,
        begin: async () => {
          const world = await made(from);
          world.edit('a', to);
          return world;
        },
        untilDone: untilEnded,
        check: async (world, when) => {
          const { moved, jobs } = world.get('a')?.status ?? {};
          expect(moved?.why, when).toBeUndefined();
          expect(
            jobs?.history?.map(({ kind, result }) => [kind, result]),
            when,
          ).toEqual([
            ['move', 'Succeeded'],
            ['provision', 'Succeeded'],
          ]);
          await checkPlace(world, when);
        },
        end: (world) => world.end(),
      });
      expect(writes).toBeGreaterThan(8);
    },
    240_000,
  );

  it('and gives it up, as the spec was set back, at any write, is succeeded by one that does', async () => {
    const writes = await dieAtEveryWrite({
      options,
      begin: async () => {
        const world = await made({});
        const viewTenant = world.datastore.viewTenant.bind(world.datastore);
        world.datastore.viewTenant = async (tenant) => ({ ...(await viewTenant(tenant)), revision: 7 });
        world.ownDatastores.onRaise = () => 0;
        const manager = world.run(options(world));
        world.edit('a', { template: ownTemplate, driver: 'compose' });
        await world.until('a', ({ status }) => status?.move?.catchUp !== undefined);
        await manager.stop();
        world.edit('a', { template: 'v1-36', driver: 'process' });
        return world;
      },
      untilDone: untilEnded,
      check: async (world, when) => {
        expect(world.get('a')?.status, when).toMatchObject({
          ...{ driver: 'process', datastore: 'shared', template: 'v1-36' },
          jobs: { history: [{ kind: 'move', result: 'Cancelled' }, {}] },
        });
        await checkPlace(world, when);
      },
      end: (world) => world.end(),
    });
    expect(writes).toBeGreaterThan(3);
  }, 240_000);
});
