import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  type Clock,
  connectionFromSecret,
  type KubeObject,
  resources,
  systemClock,
} from '../../kube/index.ts';
import { DriverError } from '../drivers/errors.ts';
import { condition, World } from './testing/world.ts';

const nothing = { secrets: [], addresses: [], controlPlanes: [], datastore: [] };

describe('Operator', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  const secret = (name: string): Record<string, string> =>
    decoded(world.superCluster.get(resources.secrets, { namespace: 'team', name }));
  const internal = (name: string, which: 'pki' | 'syncer'): Record<string, string> =>
    decoded(world.secretOf(name, which));
  const decoded = (found: KubeObject | undefined): Record<string, string> => {
    const data = (found?.['data'] ?? {}) as Record<string, string>;
    return Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
    );
  };

  it('makes a VirtualCluster ready and says where it is', async () => {
    const operator = world.run();
    world.create('a');
    const { status, metadata } = await world.untilReady('a');
    expect(status).toMatchObject({
      id: expect.stringMatching(/^[a-z2-7]{10}$/),
      version: '1.36.3',
      serviceCIDR: '10.112.0.0/22',
      serviceIPMode: 'slice',
      endpoint: 'https://127.0.0.1:21000',
      advertisedAddress: '192.0.2.1',
      advertisedPort: 21000,
      observedGeneration: 1,
      confinement: ['egress'],
      kubeconfigSecret: { name: 'a-kubeconfig', key: 'kubeconfig' },
      syncerSecret: {
        namespace: 'skerry-system',
        name: `tenant-${status?.id}-syncer`,
        key: 'kubeconfig',
        version: expect.stringMatching(/^[0-9a-f]{16}$/),
      },
      identities: {
        tenant: world.tenant.get(resources.namespaces, { name: 'kube-system' })?.metadata.uid,
        superCluster: world.superCluster.get(resources.namespaces, { name: 'kube-system' })?.metadata.uid,
      },
    });
    expect(status?.conditions?.map(({ type, status }) => `${type}=${status}`).sort()).toEqual([
      'APIServerReady=True',
      'CertificatesReady=True',
      'ControllerManagerReady=True',
      'DatastoreReady=True',
      'Ready=True',
      'ServiceSliceReady=True',
    ]);
    // People know it by its name.
    expect(JSON.stringify(status?.conditions)).not.toContain(status?.id);
    expect(metadata.finalizers).toEqual(['skerry.dev/control-plane']);
    expect(metadata.annotations?.[annotationKeys.id]).toBe(status?.id);
    expect(connectionFromSecret(secret('a-kubeconfig')['kubeconfig'] ?? '').server).toBe(
      'https://127.0.0.1:21000',
    );
    expect(connectionFromSecret(internal('a', 'syncer')['kubeconfig'] ?? '').server).toBe(
      'https://127.0.0.1:21000',
    );
    await operator.stop();
  });

  it('plans a control plane with the weight that was granted', async () => {
    world.run();
    world.create('a');
    const id = (await world.untilReady('a')).status?.id ?? '';
    const weight = (): number | undefined => world.driver.plans.get(id)?.weight;
    expect(weight()).toBe(1);
    world.edit('a', { weight: 5 });
    await expect.poll(weight).toBe(5);
  });

  it('furnishes the tenant with administrators and the way to its API server', async () => {
    world.run();
    world.create('a');
    await world.untilReady('a');
    expect(world.tenant.get(resources.clusterRoleBindings, { name: 'skerry:cluster-admins' })).toMatchObject({
      roleRef: { name: 'cluster-admin' },
      subjects: [{ kind: 'Group', name: 'skerry:cluster-admins' }],
    });
    const ref = { namespace: 'default', name: 'kubernetes' };
    expect(world.tenant.get(resources.endpointSlices, ref)).toMatchObject({
      endpoints: [{ addresses: ['192.0.2.1'] }],
      ports: [{ name: 'https', port: 21000 }],
    });
    expect(world.tenant.get(resources.endpoints, ref)).toMatchObject({
      metadata: { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } },
      subsets: [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 21000 }] }],
    });
  });

  it("tells the syncer by what it knows the tenant's API server, and keeps the keys of that", async () => {
    world.run();
    world.create('a');
    await world.untilReady('a');
    const told = internal('a', 'syncer');
    expect(Object.keys(told).sort()).toEqual(['front-proxy-ca.crt', 'kubeconfig', 'kubelet-client-ca.crt']);
    for (const name of ['front-proxy-ca.crt', 'kubelet-client-ca.crt'])
      expect(told[name]).toBe(internal('a', 'pki')[name]);
  });

  it('prepares the super cluster: templates, pool, certificate of the kubelet proxy', async () => {
    world.run();
    world.create('a');
    await world.untilReady('a');
    expect(
      world.superCluster.list(resources.controlPlaneTemplates).map(({ metadata }) => metadata.name),
    ).toContain('v1-36');
    expect(world.superCluster.get(resources.serviceCidrs, { name: 'skerry-tenants' })).toMatchObject({
      spec: { cidrs: ['10.112.0.0/12'] },
    });
    const proxy = world.superCluster.get(resources.secrets, {
      namespace: 'skerry-system',
      name: 'skerry-kubelet-proxy',
    });
    expect(Object.keys((proxy?.['data'] ?? {}) as object).sort()).toEqual(['ca.crt', 'tls.crt', 'tls.key']);
  });

  it('works on several at once, but on no more than it may', async () => {
    const gate = Promise.withResolvers<void>();
    world.driver.beforeEnsure = () => gate.promise;
    world.run({
      settings: { parallel: 3, advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' },
    });
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const name of names) world.create(name);
    await world.superCluster.until(() => world.driver.active === 3);
    await world.superCluster.until(() => names.every((name) => world.get(name)?.status?.phase !== undefined));
    expect(names.map((name) => world.get(name)?.status?.phase).sort()).toEqual([
      ...Array<string>(3).fill('Pending'),
      ...Array<string>(3).fill('Provisioning'),
    ]);
    gate.resolve();
    const all = await Promise.all(names.map((name) => world.untilReady(name)));
    expect(world.driver.maxActive).toBe(3);
    for (const field of ['id', 'serviceCIDR', 'advertisedPort'] as const) {
      expect(new Set(all.map(({ status }) => status?.[field])).size).toBe(names.length);
    }
  });

  it('takes another port when the chosen one is in use, as long as nobody knows it', async () => {
    const taken = new DriverError('PortInUse', 'port 21000 is in use', {
      id: 'x',
      component: 'kube-apiserver',
      port: 21000,
    });
    world.driver.beforeEnsure = ({ components }) => {
      if (components.some(({ ports }) => ports.some(({ port }) => port === 21000))) throw taken;
    };
    world.run();
    world.create('a');
    expect((await world.untilReady('a')).status?.advertisedPort).toBe(21001);
  });

  it('looks for a port from any place of its range on, and over its end', async () => {
    const settings = {
      portRange: { first: 21_000, last: 21_009 },
      advertiseAddress: '192.0.2.1',
      etcdEndpoint: 'https://127.0.0.1:2379',
    };
    world.run({ settings, random: () => 0.85 });
    const ports: (number | undefined)[] = [];
    for (const name of ['a', 'b', 'c']) {
      world.create(name);
      ports.push((await world.untilReady(name)).status?.advertisedPort);
    }
    expect(ports).toEqual([21_008, 21_009, 21_000]);
  });

  it('keeps a port that was handed out, and says what to do when it is in use', async () => {
    const operator = world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    await operator.stop();
    world.driver.beforeEnsure = () => {
      throw new DriverError('PortInUse', 'port 21000 is in use by process 7.', {
        id: 'x',
        component: 'kube-apiserver',
        port: 21000,
      });
    };
    world.run();
    const after = await world.untilReason('a', 'APIServerReady', 'PortTaken');
    expect(after.status?.advertisedPort).toBe(status?.advertisedPort);
    expect(condition(after, 'APIServerReady')?.message).toContain('by process 7');
  });

  it('tells of a component that died and starts it again', async () => {
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const gate = Promise.withResolvers<void>();
    world.driver.beforeEnsure = () => gate.promise;
    world.driver.kill(status?.id ?? '', 'kube-apiserver');
    const down = await world.untilReason('a', 'Ready', 'Restarting');
    expect(condition(down, 'APIServerReady')?.status).toBe('False');
    expect(down.status?.phase).toBe('Ready');
    gate.resolve();
    await world.untilReady('a');
  });

  it('says that programs are being built, and how far it is', async () => {
    const gate = Promise.withResolvers<void>();
    world.driver.beforeEnsure = (_plan, { onFetch }) => {
      onFetch?.('3 %, about 5 min left: building kube-apiserver 1.35.4, compiling');
      return gate.promise;
    };
    world.run();
    world.create('a');
    const building = await world.untilReason('a', 'Ready', 'FetchingPrograms');
    expect(condition(building, 'Ready')?.message).toContain('about 5 min left');
    gate.resolve();
    await world.untilReady('a');
  });

  it('hands credentials out as soon as the API server is there, and is ready when the controllers are', async () => {
    const gate = Promise.withResolvers<void>();
    world.driver.beforeRest = () => gate.promise;
    world.run();
    world.create('a');
    const usable = await world.until('a', ({ status }) => status?.syncerSecret !== undefined);
    expect(secret('a-kubeconfig')['kubeconfig']).toContain('https://127.0.0.1:21000');
    expect(usable.status?.phase).toBe('Provisioning');
    expect(condition(usable, 'APIServerReady')?.status).toBe('True');
    expect(condition(usable, 'ControllerManagerReady')).toBeUndefined();
    expect(
      world.tenant.get(resources.serviceAccounts, { namespace: 'default', name: 'default' }),
    ).toBeDefined();
    gate.resolve();
    expect(condition(await world.untilReady('a'), 'ControllerManagerReady')?.status).toBe('True');
  });

  it('is not ready as long as the controllers do nothing, and says so', async () => {
    const account = { namespace: 'kube-system', name: 'default' };
    world.tenant.remove(resources.serviceAccounts, account);
    const settings = {
      bootstrapTimeoutMs: 1,
      advertiseAddress: '192.0.2.1',
      etcdEndpoint: 'https://127.0.0.1:2379',
    };
    world.run({ settings });
    world.create('a');
    await world.untilReason('a', 'ControllerManagerReady', 'TenantNotBootstrapped');
    world.tenant.put(resources.serviceAccounts, { metadata: account });
    await world.untilReady('a');
  });

  it('goes on at once when what it has given up waiting for comes up after all', async () => {
    // So long a pause that only the event ends it in time.
    let failures = 0;
    world.driver.beforeEnsure = ({ id }) => {
      failures += 1;
      if (failures <= 7)
        throw new DriverError('NotReady', 'not ready yet', { id, component: 'kube-apiserver' });
    };
    world.run({ random: () => 0.999 });
    world.create('a');
    for (let seen = 1; seen <= 7; seen++) {
      await world.superCluster.until(() => failures === seen);
      await world.untilReason('a', 'APIServerReady', 'NotReady');
      const { status } = await world.until('a', ({ status }) => status?.id !== undefined);
      await world.superCluster.until(() => {
        world.driver.becomeReady(status?.id ?? '', 'kube-apiserver');
        return failures > seen;
      });
    }
    await world.untilReady('a');
  });

  it.each([
    [0, 50_000],
    [0.5, 45_000],
  ])(
    'looks at all again up to a fifth sooner than set, as the dice fall: at %d after %d ms',
    async (dice, ms) => {
      const waits = Promise.withResolvers<number>();
      const clock: Clock = {
        ...systemClock,
        // No time passes between what is decided and what is waited for.
        monotonic: () => 0,
        sleep: (each, signal) => {
          if (each >= 40_000 && each <= 50_000) waits.resolve(each);
          return systemClock.sleep(each, signal);
        },
      };
      const settings = {
        recheckMs: 50_000,
        advertiseAddress: '192.0.2.1',
        etcdEndpoint: 'https://127.0.0.1:2379',
      };
      world.run({ clock, random: () => dice, settings });
      world.create('a');
      expect(await waits.promise).toBe(ms);
      expect(world.get('a')?.status?.phase).toBe('Ready');
    },
  );

  it('issues a new serving certificate for extra names, and carries it into the plan', async () => {
    world.run();
    world.create('a');
    await world.untilReady('a');
    const before = internal('a', 'pki');
    world.edit('a', { extraNames: ['api.example.org'] });
    await world.until('a', ({ status }) => status?.observedGeneration === 2);
    const after = internal('a', 'pki');
    expect(after['apiserver.crt']).not.toBe(before['apiserver.crt']);
    expect(after['serving-ca.crt']).toBe(before['serving-ca.crt']);
    const files = world.driver.ensured.at(-1)?.components[0]?.files;
    expect(files?.find(({ path }) => path === 'apiserver.crt')?.content).toBe(after['apiserver.crt']);
  });

  it('does not touch what an administrator did to the binding later', async () => {
    const operator = world.run();
    world.create('a');
    await world.untilReady('a');
    world.tenant.remove(resources.clusterRoleBindings, { name: 'skerry:cluster-admins' });
    world.edit('a', { extraNames: ['api.example.org'] });
    await world.until('a', ({ status }) => status?.observedGeneration === 2);
    await operator.stop();
    expect(
      world.tenant.get(resources.clusterRoleBindings, { name: 'skerry:cluster-admins' }),
    ).toBeUndefined();
  });

  it('writes nothing when nothing has changed', async () => {
    const first = world.run();
    world.create('a');
    await world.untilReady('a');
    // Its second pass measures what the first has made.
    world.edit('a', { weight: 2 });
    await world.until('a', (vc) => vc.status?.observedGeneration === 2);
    await first.stop();
    const syncers = world.get('a')?.status?.syncerSecret?.name;
    const { length } = world.superCluster.requests;
    const second = world.run();
    // The last thing that a pass looks at.
    const since = () => world.superCluster.requests.slice(length);
    await world.superCluster.until(() =>
      since().some(({ verb, name }) => verb === 'get' && name === syncers),
    );
    await second.stop();
    const writes = since().filter(({ method, plural }) => method !== 'GET' && plural !== 'leases');
    expect(writes).toEqual([]);
  });

  it('leaves nothing behind, in the super cluster either', async () => {
    world.run();
    const { metadata } = world.create('a');
    world.create('b');
    await world.untilReady('a');
    await world.untilReady('b');
    const labels = { [labelKeys.tenant]: metadata.uid ?? '' };
    world.superCluster.put(resources.namespaces, { metadata: { name: 'team-a-web-x', labels } });
    world.superCluster.put(resources.namespaces, { metadata: { name: 'team-a-web-y' } });
    world.superCluster.put(resources.persistentVolumes, { metadata: { name: 'pv-x', labels } });
    await world.delete('a');
    await world.untilGone('a');
    expect(names(world.superCluster.list(resources.namespaces))).not.toContain('team-a-web-x');
    expect(names(world.superCluster.list(resources.namespaces))).toContain('team-a-web-y');
    expect(world.superCluster.list(resources.persistentVolumes)).toEqual([]);
    expect(await world.leftovers()).toEqual({
      secrets: ['pki', 'syncer']
        .map((which) => `tenant-${world.get('b')?.status?.id}-${which}`)
        .concat('b-kubeconfig'),
      addresses: ['10.112.4.1', '10.112.4.10'],
      controlPlanes: [world.get('b')?.status?.id],
      datastore: [world.get('b')?.status?.id],
    });
    await world.delete('b');
    await world.untilGone('b');
    expect(await world.leftovers()).toEqual(nothing);
  });

  it('waits for namespaces to be gone before it removes the data', async () => {
    world.run();
    const running: boolean[] = [];
    world.datastore.beforeRemove = (id) => void running.push(world.driver.running.has(id));
    const { metadata } = world.create('a');
    await world.untilReady('a');
    const labels = { [labelKeys.tenant]: metadata.uid ?? '' };
    const finalizers = ['kubernetes'];
    world.superCluster.put(resources.namespaces, { metadata: { name: 'stuck', labels, finalizers } });
    await world.delete('a');
    const waiting = await world.until(
      'a',
      (vc) => condition(vc, 'Ready')?.message?.includes('stuck') === true,
    );
    expect(waiting.status?.phase).toBe('Deleting');
    expect(world.datastore.tenants.size).toBe(1);
    world.superCluster.remove(resources.namespaces, { name: 'stuck' });
    await world.untilGone('a');
    // Nothing of it may be there then that could write more.
    expect(running).toContain(false);
    expect(running).not.toContain(true);
    expect(await world.leftovers()).toEqual(nothing);
  });

  it.each([
    ['True', 'Joined'],
    ['False', 'Joining'],
    ['False', 'Unreachable'],
  ])('lets a syncer that says Synced=%s/%s leave before it takes anything away', async (...says) => {
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const synced = (value: string, reason: string): void => {
      const vc = world.get('a');
      const others = vc?.status?.conditions?.filter(({ type }) => type !== 'Synced') ?? [];
      const conditions = [...others, { type: 'Synced', status: value, reason, message: '' }];
      world.superCluster.put(resources.virtualClusters, {
        ...(vc as KubeObject),
        status: { ...vc?.status, conditions },
      });
    };
    synced(...(says as [string, string]));
    await world.delete('a');
    await world.until('a', (vc) => condition(vc, 'Ready')?.message === 'Waiting for the syncer to leave');
    expect(world.get('a')?.status?.phase).toBe('Deleting');
    expect((await world.driver.observe(status?.id ?? '')).components[0]?.state).toBe('running');
    synced('False', 'Left');
    await world.untilGone('a');
  });

  it('does not wait for a syncer that never leaves', async () => {
    const settings = {
      leaveTimeoutMs: 1,
      advertiseAddress: '192.0.2.1',
      etcdEndpoint: 'https://127.0.0.1:2379',
    };
    world.run({ settings });
    world.create('a');
    const vc = await world.untilReady('a');
    const conditions = [...(vc.status?.conditions ?? []), { type: 'Synced', status: 'True' }];
    world.superCluster.put(resources.virtualClusters, { ...vc, status: { ...vc.status, conditions } });
    await world.delete('a');
    await world.untilGone('a');
  });

  it('gives a slice and a port back for the next one', async () => {
    world.run();
    world.create('a');
    const first = await world.untilReady('a');
    await world.delete('a');
    await world.untilGone('a');
    world.create('a');
    const second = await world.untilReady('a');
    expect(second.status?.serviceCIDR).toBe(first.status?.serviceCIDR);
    expect(second.status?.advertisedPort).toBe(first.status?.advertisedPort);
    expect(second.status?.id).not.toBe(first.status?.id);
  });

  it('gives up what it is doing for one that is deleted meanwhile', async () => {
    const started = Promise.withResolvers<void>();
    world.driver.beforeEnsure = (_plan, { signal }) =>
      new Promise((_resolve, reject) => {
        started.resolve();
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    world.run();
    world.create('a');
    await started.promise;
    await world.delete('a');
    // The fake does not count the generation up for a deletion; the time of deletion alone has to do.
    await world.untilGone('a');
    expect(await world.leftovers()).toEqual(nothing);
  });

  it('two managers do not work at the same time, and the second takes over', async () => {
    const first = world.run();
    world.create('a');
    await world.untilReady('a');
    const calls = world.driver.ensured.length;
    world.run();
    await world.superCluster.until(() => leaseReads(world) > 5);
    expect(world.driver.ensured.length).toBe(calls);
    await first.stop();
    await world.superCluster.until(() => world.driver.ensured.length > calls);
    world.create('b');
    await world.untilReady('b');
    expect(world.get('b')?.status?.serviceCIDR).toBe('10.112.4.0/22');
  });
});

function names(objects: KubeObject[]): (string | undefined)[] {
  return objects.map(({ metadata }) => metadata.name);
}

function leaseReads(world: World): number {
  return world.superCluster.requests.filter(({ verb, plural }) => verb === 'get' && plural === 'leases')
    .length;
}
