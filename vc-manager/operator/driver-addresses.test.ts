import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { connectionFromSecret, type KubeObject, resources } from '../../kube/index.ts';
import { DriverError } from '../drivers/errors.ts';
import { LocatingDriver } from './testing/locating-driver.ts';
import { condition, World } from './testing/world.ts';

let world: World;
let driver: LocatingDriver;
/** What was stored of the VirtualCluster whenever the driver was asked where one is. */
let seen: (string | undefined)[];

beforeEach(async () => {
  world = await World.start();
  driver = new LocatingDriver();
  seen = [];
  driver.onLocate = () => {
    const [vc] = world.superCluster.list(resources.virtualClusters);
    seen.push((vc?.['status'] as { id?: string } | undefined)?.id);
  };
});

afterEach(() => world.end());

function run(replicas = 1, warm = 0): ReturnType<World['run']> {
  return world.run({
    driver,
    settings: {
      advertiseAddress: '192.0.2.1',
      etcdEndpoint: 'https://127.0.0.1:2379',
      driver: 'kubernetes',
      replicas,
      warm,
    },
  });
}

function pkiOf(name: string): Record<string, string> {
  const found = world.secretOf(name, 'pki') as KubeObject;
  const data = found['data'] as Record<string, string>;
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}

describe('a driver that gives control planes addresses', () => {
  it('decides where the API server is reached, by people, pods and its own components', async () => {
    run(2);
    const vc = world.create('blue', { dns: 'none' });
    const { status } = await world.untilReady('blue');
    expect(status).toMatchObject({
      driver: 'kubernetes',
      datastore: 'shared',
      endpoint: 'https://10.96.0.7:443',
      advertisedAddress: '10.96.0.7',
      advertisedPort: 443,
    });
    const [plan] = driver.ensured;
    const [server, controllers] = plan?.components ?? [];
    expect(server?.args).toEqual(
      expect.arrayContaining([
        '--secure-port=6443',
        '--bind-address=0.0.0.0',
        '--advertise-address=10.96.0.7',
      ]),
    );
    expect(plan?.components.map(({ replicas }) => replicas)).toEqual([2, 2]);
    expect(plan?.network).toEqual({
      tenantUid: vc.metadata.uid,
      serviceCIDR: status?.serviceCIDR,
      datastore: 'https://127.0.0.1:2379',
    });
    const kubeconfig = controllers?.files.find(({ path }) => path.endsWith('kubeconfig'))?.content ?? '';
    expect(connectionFromSecret(kubeconfig).server).toBe('https://10.96.0.7:443');
    const { subjectAltName = '' } = new X509Certificate(pkiOf('blue')['apiserver.crt'] ?? '');
    expect(subjectAltName).toContain('IP Address:10.96.0.7');
    expect(subjectAltName).toContain(`DNS:kube-apiserver.skerry-tenant-${status?.id}.svc`);
    expect(subjectAltName).not.toContain('192.0.2.1');
  });

  it('is asked for what bears an id when that is written down', async () => {
    run();
    world.create('blue', { dns: 'none' });
    const { status } = await world.untilReady('blue');
    expect(new Set(seen)).toEqual(new Set([status?.id]));
  });

  it('leads to the API servers from where pods look for theirs, and keeps the address by that', async () => {
    run();
    world.create('blue', { dns: 'none' });
    const { status } = await world.untilReady('blue');
    const [slice = ''] = status?.serviceCIDR?.split('/') ?? [];
    const first = slice.replace(/0$/, '1');
    expect(driver.led).toEqual(new Map([[status?.id, first]]));
    const kept = world.superCluster.list(resources.ipAddresses).map(({ metadata }) => metadata.name);
    expect(kept).toEqual([slice.replace(/0$/, '10')]);
  });

  it('has what waits in the warm pool stay where it is when it gets an owner', async () => {
    run(2, 1);
    let member: KubeObject | undefined;
    await world.superCluster.until(() => {
      [member] = world.superCluster.list(resources.virtualClusters);
      return (member as VirtualCluster | undefined)?.status?.phase === 'Ready';
    });
    const { id } = (member as VirtualCluster).status ?? {};
    const { metadata } = world.create('blue');
    const { status } = await world.untilReady('blue');
    expect(status).toMatchObject({ id, endpoint: 'https://10.96.0.7:443' });
    const [first, ...later] = driver.ensured.filter((plan) => plan.id === id);
    expect(later.at(-1)?.components).toEqual(first?.components);
    // Pods of its namespaces are its own to reach, and none of the member's.
    expect(later.at(-1)?.network).toEqual({ ...first?.network, tenantUid: metadata.uid });
  });

  it('has another range chosen when the address is somebody else’s', async () => {
    const asked: string[] = [];
    driver.isFree = (address) => asked.push(address) > 1;
    run();
    world.create('blue', { dns: 'none' });
    const { status } = await world.untilReady('blue');
    expect([...driver.led.values()]).toEqual([asked[1]]);
    expect(status?.serviceCIDR?.split('/')[0]?.replace(/0$/, '1')).toBe(asked[1]);
  });

  it('is given the address that a manager has kept free which led nothing there', async () => {
    const earlier = run();
    const vc = world.create('blue', { dns: 'none' });
    const { status } = await world.untilReady('blue');
    await earlier.stop();
    const name = [...driver.led.values()][0] ?? '';
    world.superCluster.put(resources.ipAddresses, {
      metadata: {
        name,
        labels: { [labelKeys.tenant]: vc.metadata.uid ?? '', [labelKeys.reserved]: 'kubernetes' },
      },
    });
    driver.led.clear();
    driver.isFree = (address) =>
      world.superCluster.get(resources.ipAddresses, { name: address }) === undefined;
    run();
    await expect.poll(() => driver.led.get(status?.id ?? '')).toBe(name);
  });

  it('may run an etcd for each, with an authority that no other tenant has a certificate of', async () => {
    run();
    world.create('blue', { dns: 'none', template: 'v1-36-own-etcd' });
    const { status } = await world.untilReady('blue');
    expect(status?.datastore).toBe('own');
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready?.message).toContain('has no volume');
    expect(world.datastore.tenants.size).toBe(0);
    const [etcd, server] = driver.ensured[0]?.components ?? [];
    expect(etcd?.name).toBe('etcd');
    expect(server?.args).toEqual(
      expect.arrayContaining(['--etcd-servers=https://10.96.0.8:2379', '--etcd-prefix=/registry']),
    );
    const pki = pkiOf('blue');
    const authority = new X509Certificate(pki['etcd-ca.crt'] ?? '');
    for (const name of ['etcd-client.crt', 'etcd-server.crt'])
      expect(new X509Certificate(pki[name] ?? '').verify(authority.publicKey)).toBe(true);
    expect(new X509Certificate(pki['etcd-server.crt'] ?? '').subjectAltName).toContain(
      'IP Address:10.96.0.8',
    );
  });
});

describe('a driver without addresses', () => {
  it('runs an etcd of its own on the machine, for the control plane and the manager alone', async () => {
    world.run();
    world.create('blue', { template: 'v1-36-own-etcd' });
    const { status } = await world.untilReady('blue');
    const [client, peer, metrics] = status?.datastorePorts ?? [];
    expect(new Set([client, peer, metrics, status?.advertisedPort]).size).toBe(4);
    const [etcd, server] = world.driver.ensured[0]?.components ?? [];
    expect(etcd?.ports).toEqual([
      { name: 'etcd', port: client, host: '127.0.0.1' },
      { name: 'etcd-peer', port: peer, host: '127.0.0.1' },
      { name: 'etcd-metrics', port: metrics, host: '127.0.0.1' },
    ]);
    expect(server?.ports[0]?.host).toBe('0.0.0.0');
    expect(server?.args).toContain(`--etcd-servers=https://127.0.0.1:${client}`);
    expect(world.datastore.tenants.size).toBe(0);
    // Another program has the port: it gets another one, unlike the API server of one that is in use.
    const before = world.driver.ensured.length;
    world.driver.beforeEnsure = ({ components }) => {
      const taken = components[0]?.ports.find(({ port }) => port === client);
      if (taken !== undefined)
        throw new DriverError('PortInUse', 'the port is in use', { component: 'etcd', port: taken.port });
    };
    world.edit('blue', { weight: 2 });
    const { status: later } = await world.until(
      'blue',
      (vc) => vc.status?.observedGeneration === vc.metadata.generation,
    );
    expect(later?.datastorePorts).not.toContain(client);
    expect(later?.advertisedPort).toBe(status?.advertisedPort);
    expect(world.driver.ensured.length).toBeGreaterThan(before);
  });

  it('leaves a control plane alone that another driver runs', async () => {
    const earlier = run();
    world.create('blue', { dns: 'none' });
    await world.untilReady('blue');
    await earlier.stop();
    world.run({ settings: { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379' } });
    const vc = await world.untilReason('blue', 'APIServerReady', 'DriverChanged');
    expect(condition(vc, 'APIServerReady')?.message).toContain('--driver kubernetes');
    expect(world.driver.ensured).toEqual([]);
    expect(vc.status?.driver).toBe('kubernetes');
    await world.delete('blue');
    const leaving = await world.until('blue', ({ status }) => status?.jobs?.current?.failing === true);
    expect(leaving.status?.jobs?.current).toMatchObject({
      kind: 'delete',
      step: 'own-driver',
      message: expect.stringContaining('--driver kubernetes'),
    });
  });
});
