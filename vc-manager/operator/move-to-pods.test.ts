import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  Connection,
  ConnectionError,
  type ConnectionOptions,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  resources,
  systemClock,
} from '../../kube/index.ts';
import { DriverError } from '../drivers/errors.ts';
import type { Entry } from '../etcd/keyspace.ts';
import { LocatingDriver } from './testing/locating-driver.ts';
import { condition, fastPace, World } from './testing/world.ts';

const gateway = { domain: 'tenants.example.com', host: '192.0.2.20', port: 443 };
const settings = { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://192.0.2.9:2379', gateway };
const ofMachine = /^https:\/\/127\.0\.0\.1:21\d{3}$/;
const ofService = 'https://10.96.0.7:443';

describe('a move between this machine and the pods of a cluster', () => {
  let world: World;
  let pods: LocatingDriver;
  beforeEach(async () => {
    world = await World.start();
    pods = new LocatingDriver();
  });
  afterEach(() => world.end());

  const run = (more: object = {}) =>
    world.run({ otherDrivers: { kubernetes: pods }, settings: { ...settings, ...more } });
  const make = async (spec: object = {}): Promise<VirtualCluster> => {
    world.create('a', spec);
    return world.untilReady('a');
  };
  const id = (): string => world.get('a')?.status?.id ?? '';
  const untilMoved = (driver: string): Promise<VirtualCluster> =>
    world.until(
      'a',
      ({ status }) =>
        status?.phase === 'Ready' &&
        status.driver === driver &&
        status.move === undefined &&
        status.jobs?.current === undefined,
    );
  const decoded = (secret: KubeObject | undefined, entry: string): string =>
    Buffer.from((secret?.['data'] as Record<string, string> | undefined)?.[entry] ?? '', 'base64').toString();
  const kubeconfigOfPeople = (): string =>
    decoded(
      world.superCluster.get(resources.secrets, { namespace: 'team', name: 'a-kubeconfig' }),
      'kubeconfig',
    );
  const serverOfSyncer = (): string =>
    connectionFromSecret(decoded(world.secretOf('a', 'syncer'), 'kubeconfig')).server;
  const namesInCertificate = (): string =>
    new X509Certificate(decoded(world.secretOf('a', 'pki'), 'apiserver.crt')).subjectAltName ?? '';
  /** Where the tenant's own Service "kubernetes" leads. */
  const endpointInTenant = (): unknown => {
    const slice = world.tenant.get(resources.endpointSlices, { namespace: 'default', name: 'kubernetes' });
    const { endpoints, ports } = slice as {
      endpoints?: { addresses: string[] }[];
      ports?: { port: number }[];
    };
    return [endpoints?.[0]?.addresses[0], ports?.[0]?.port];
  };
  const firstAddress = (): string => (world.get('a')?.status?.serviceCIDR ?? '').replace(/0\/.*$/, '1');
  const reserved = (): unknown =>
    world.superCluster.get(resources.ipAddresses, { name: firstAddress() })?.metadata.labels?.[
      labelKeys.reserved
    ];

  it('switches to the address of a Service and back, which gateway, syncer and pods follow', async () => {
    run();
    const { status: before } = await make();
    expect(before?.endpoint).toMatch(ofMachine);
    const kubeconfig = kubeconfigOfPeople();
    const served: boolean[] = [];
    pods.beforeEnsure = () => void served.push(isServed(world.get('a') as VirtualCluster));
    world.edit('a', { driver: 'kubernetes' });
    const { status } = await untilMoved('kubernetes');
    expect(served[0]).toBe(false);
    expect(status).toMatchObject({
      endpoint: ofService,
      advertisedAddress: '10.96.0.7',
      advertisedPort: 443,
      moved: { to: { driver: 'kubernetes', datastore: 'shared' } },
    });
    expect(status?.confinement).toEqual(['egress']);
    for (const field of ['id', 'identities', 'serviceCIDR', 'gateway'] as const)
      expect(status?.[field], field).toEqual(before?.[field]);
    expect(kubeconfigOfPeople()).toBe(kubeconfig);
    expect(serverOfSyncer()).toBe(ofService);
    expect(namesInCertificate()).toContain('IP Address:10.96.0.7');
    expect(endpointInTenant()).toEqual(['10.96.0.7', 443]);
    const [server] = pods.plans.get(id())?.components ?? [];
    expect(server?.args).toEqual(
      expect.arrayContaining(['--secure-port=6443', '--etcd-servers=https://192.0.2.9:2379']),
    );
    expect(await world.driver.list()).toEqual([]);
    expect(pods.led).toEqual(new Map([[id(), firstAddress()]]));

    world.edit('a', { driver: 'process' });
    const { status: back } = await untilMoved('process');
    expect(back?.endpoint).toMatch(ofMachine);
    expect(back?.advertisedAddress).toBe('192.0.2.1');
    expect(kubeconfigOfPeople()).toBe(kubeconfig);
    expect(serverOfSyncer()).toBe(back?.endpoint);
    expect(namesInCertificate()).not.toContain('10.96.0.7');
    expect(endpointInTenant()).toEqual(['192.0.2.1', back?.advertisedPort]);
    expect(await pods.list()).toEqual([]);
    expect(pods.led).toEqual(new Map());
    expect(reserved()).toBe('kubernetes');
  });

  it('puts its Service in the place of that by which the syncer has led pods, and takes it away before it goes', async () => {
    run();
    const { metadata } = await make();
    const service = {
      metadata: {
        ...{ namespace: 'a-default', name: 'kubernetes' },
        labels: { [labelKeys.tenant]: metadata.uid ?? '' },
      },
    };
    const ofAllocator = (namespace: string): KubeObject => ({
      metadata: { name: firstAddress() },
      spec: { parentRef: { resource: 'services', namespace, name: 'kubernetes' } },
    });
    world.superCluster.put(resources.services, service);
    world.superCluster.put(resources.ipAddresses, ofAllocator('a-default'));
    const ofSyncer = { namespace: 'a-default', name: 'kubernetes' };
    const isThere = (): boolean => world.superCluster.get(resources.services, ofSyncer) !== undefined;
    pods.isFree = () => !isThere();
    world.edit('a', { driver: 'kubernetes' });
    await untilMoved('kubernetes');
    expect(isThere()).toBe(false);
    expect(pods.led.get(id())).toBe(firstAddress());
    // As an API server does: the address is free when the Service is gone.
    world.superCluster.put(resources.ipAddresses, ofAllocator(`skerry-tenant-${id()}`));
    pods.onFree = () => {
      if (reserved() === undefined)
        world.superCluster.remove(resources.ipAddresses, { name: firstAddress() });
    };
    world.edit('a', { driver: 'process' });
    await untilMoved('process');
    expect(reserved()).toBe('kubernetes');
  });

  it('waits for an address that what was deleted there has not left yet', async () => {
    run();
    await make();
    let tries = 0;
    pods.isFree = () => {
      tries++;
      const gone = { resource: 'services', namespace: 'a-default', name: 'kubernetes' };
      // The API server removes this a moment after the Service.
      if (tries === 2)
        world.superCluster.put(resources.ipAddresses, {
          metadata: { name: firstAddress() },
          spec: { parentRef: gone },
        });
      if (tries === 3) world.superCluster.remove(resources.ipAddresses, { name: firstAddress() });
      return tries > 3;
    };
    world.edit('a', { driver: 'kubernetes' });
    const { status } = await world.until('a', (vc) => vc.status?.moved !== undefined);
    expect(status?.moved?.why).toBeUndefined();
    expect(pods.led.get(id())).toBe(firstAddress());
  });

  it('goes back, and says who holds the address of its API server, when a syncer does not let go of it', async () => {
    let elapsedMs = 0;
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + elapsedMs };
    // No lease is lost by that.
    const { lease } = fastPace(1);
    world.run({ otherDrivers: { kubernetes: pods }, settings, clock, lease });
    const { metadata } = await make();
    const ref = { namespace: 'a-default', name: 'kubernetes' };
    const labels = { [labelKeys.tenant]: metadata.uid ?? '' };
    let isStubborn = true;
    pods.isFree = () => {
      if (isStubborn) {
        // Seconds between two attempts.
        elapsedMs += 7_000;
        world.superCluster.put(resources.services, { metadata: { ...ref, labels } });
        const spec = { parentRef: { resource: 'services', ...ref } };
        world.superCluster.put(resources.ipAddresses, { metadata: { name: firstAddress() }, spec });
      }
      return !isStubborn;
    };
    world.edit('a', { driver: 'kubernetes' });
    const { status } = await world.until(
      'a',
      (vc) => vc.status?.moved?.why !== undefined && vc.status.phase === 'Ready' && isServed(vc),
    );
    expect(status?.driver).toBe('process');
    const why = status?.moved?.why;
    expect(why).toContain(`${firstAddress()}, where its pods look for their API server, is held by`);
    expect(why).toMatch(/held by services\/a-default\/kubernetes, .* within 20 s\. .*restart the one/);
    isStubborn = false;
    world.edit('a', { weight: 2 });
    await untilMoved('kubernetes');
  });

  it('goes back to an address of this machine when its pods do not become ready', async () => {
    run();
    await make();
    pods.beforeEnsure = () => {
      throw new DriverError('KeepsExiting', 'it exits again and again', { component: 'kube-apiserver' });
    };
    world.edit('a', { driver: 'kubernetes' });
    const { status } = await world.until(
      'a',
      (vc) => vc.status?.moved?.why !== undefined && vc.status.phase === 'Ready' && isServed(vc),
    );
    expect(status).toMatchObject({ driver: 'process', advertisedAddress: '192.0.2.1' });
    expect(status?.endpoint).toMatch(ofMachine);
    expect(status?.moved?.why).toContain('again and again');
    expect(serverOfSyncer()).toBe(status?.endpoint);
    expect(namesInCertificate()).toContain('IP Address:192.0.2.1');
    expect(pods.led).toEqual(new Map());
    expect(await pods.list()).toEqual([]);
    expect(reserved()).toBe('kubernetes');
  });

  it.each([
    [
      'of its pods',
      'process',
      'kubernetes',
      ofService,
      /does not reach it there .*where that address of a Service/,
    ],
    [
      'of this machine',
      'kubernetes',
      'process',
      ofMachine,
      /does not reach it there .*that port of the machine/,
    ],
  ] as const)(
    'goes back when the address %s leads nowhere from the manager',
    async (_, from, to, address, said) => {
      const connect = ({ server, beforeWrite = () => {} }: ConnectionOptions): KubeClient => {
        const nowhere = server.match(address) === null ? {} : { server: 'https://127.0.0.1:1' };
        return new KubeClient(new Connection({ ...world.tenant.connectionOptions, beforeWrite, ...nowhere }));
      };
      world.run({
        otherDrivers: { kubernetes: pods },
        settings: { ...settings, bootstrapTimeoutMs: 500 },
        connect,
      });
      await make({ driver: from });
      const { advertisedAddress } = world.get('a')?.status ?? {};
      world.edit('a', { driver: to });
      const { status } = await world.until(
        'a',
        (vc) => vc.status?.moved?.why !== undefined && vc.status.phase === 'Ready' && isServed(vc),
      );
      expect(status).toMatchObject({ driver: from, advertisedAddress });
      expect(status?.moved?.why).toMatch(said);
      expect(await { process: world.driver, kubernetes: pods }[to].list()).toEqual([]);
    },
  );

  it.each([
    ['into', 'process', 'kubernetes', ofService],
    ['out of', 'kubernetes', 'process', ofMachine],
  ] as const)('%s pods outlasts connections that are refused at first', async (_, from, to, address) => {
    let refusals = 0;
    class Refusing extends Connection {
      override async request(call: Parameters<Connection['request']>[0]) {
        if (refusals < 2) {
          refusals++;
          throw new ConnectionError('https://127.0.0.1:1', 'ECONNREFUSED');
        }
        return super.request(call);
      }
    }
    const connect = ({ server, beforeWrite = () => {} }: ConnectionOptions): KubeClient => {
      const isNew = world.get('a')?.status?.move !== undefined && server.match(address) !== null;
      const Chosen = isNew ? Refusing : Connection;
      return new KubeClient(new Chosen({ ...world.tenant.connectionOptions, beforeWrite }));
    };
    world.run({ otherDrivers: { kubernetes: pods }, settings, connect });
    await make({ driver: from });
    world.edit('a', { driver: to });
    const { status } = await world.until('a', (vc) => vc.status?.moved !== undefined);
    expect(status?.moved?.why).toBeUndefined();
    expect(status?.driver).toBe(to);
    expect(refusals).toBe(2);
  });

  it('goes to an etcd of its own at the same time, on this machine', async () => {
    run();
    await make({ driver: 'kubernetes' });
    const has: Entry[] = [{ key: 'configmaps/shop/settings', value: Buffer.from('blue') }];
    world.datastore.entries.set(id(), has);
    world.edit('a', { driver: 'process', template: 'v1-36-own-etcd' });
    const { status } = await untilMoved('process');
    const endpoint = `https://127.0.0.1:${status?.datastorePorts?.[0]}`;
    expect(status?.datastore).toBe('own');
    expect(world.ownDatastores.entries.get(endpoint)).toEqual(has);
    expect(status?.endpoint).toMatch(ofMachine);
    expect(world.datastore.tenants.size).toBe(0);
    const etcds = world.driver.ensured.flatMap(({ components }) =>
      components.filter(({ name }) => name === 'etcd').map(({ args }) => args),
    );
    expect(new Set(etcds.map((args) => args.join(' '))).size).toBe(1);
  });

  it('takes another port of this machine when somebody has the one that it was to get', async () => {
    run();
    await make({ driver: 'kubernetes' });
    let taken: number | undefined;
    world.driver.beforeEnsure = ({ components }) => {
      const port = components.find(({ name }) => name === 'kube-apiserver')?.ports[0]?.port;
      taken ??= port;
      if (port !== undefined && port === taken)
        throw new DriverError('PortInUse', 'the port is in use', { component: 'kube-apiserver', port });
    };
    world.edit('a', { driver: 'process' });
    const { status } = await untilMoved('process');
    expect(status?.moved?.why).toBeUndefined();
    expect(status?.advertisedPort).not.toBe(taken);
  });

  it.each([
    ['without a gateway', { gateway: undefined }, /--gateway and --gateway-domain/],
    [
      'that do not reach the datastore',
      { etcdEndpoint: 'https://localhost:2379' },
      /https:\/\/localhost:2379.*--etcd-endpoint/,
    ],
  ])('to pods %s is refused, and says what to set', async (_, more, said) => {
    run(more);
    await make();
    world.edit('a', { driver: 'kubernetes' });
    const vc = await world.untilReason('a', 'Placed', 'MoveNotSupported');
    expect(condition(vc, 'Placed')?.message).toMatch(said);
    expect(vc.status).toMatchObject({ driver: 'process', phase: 'Ready' });
    expect(vc.status?.move).toBeUndefined();
    expect(await pods.list()).toEqual([]);
  });

  it('is refused where the super cluster assigns service addresses', async () => {
    world.superCluster.inject({
      ...{ verb: 'list', plural: 'servicecidrs', times: 1_000 },
      fault: { kind: 'status', code: 404, reason: 'NotFound' },
    });
    world.superCluster.put(resources.services, {
      metadata: { namespace: 'default', name: 'kubernetes' },
      spec: { clusterIP: '10.43.0.1' },
    });
    run();
    await make();
    world.edit('a', { driver: 'kubernetes' });
    const vc = await world.untilReason('a', 'Placed', 'MoveNotSupported');
    expect(condition(vc, 'Placed')?.message).toMatch(/snapshot/);
  });
});
