import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseKubeconfig, resources } from '../../kube/index.ts';
import { LocatingDriver } from './testing/locating-driver.ts';
import { World } from './testing/world.ts';

describe('the address of a tenant behind a gateway', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  const settings = (gateway: object | undefined) =>
    ({ settings: { advertiseAddress: '192.0.2.10', etcdEndpoint: 'https://127.0.0.1:1', gateway } }) as never;
  const clusterOf = (name: string): Record<string, unknown> | undefined => {
    const { data } = world.superCluster
      .list(resources.secrets)
      .find(({ metadata }) => metadata.name === `${name}-kubeconfig`) as {
      data?: Record<string, string>;
    };
    const text = Buffer.from(Object.values(data ?? {})[0] ?? '', 'base64').toString();
    return parseKubeconfig(text).clusters[0]?.cluster;
  };

  it('is in the kubeconfig: the gateway, and the name by which it knows the tenant', async () => {
    world.run(settings({ domain: 'tenants.example.com', host: '192.0.2.20', port: 443 }));
    world.create('a');
    const { status } = await world.untilReady('a');
    const serverName = `${status?.id}.tenants.example.com`;
    expect(status?.gateway).toEqual({ server: 'https://192.0.2.20:443', serverName });
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'provision', attempts: 1 });
    expect(clusterOf('a')).toMatchObject({ server: 'https://192.0.2.20:443', 'tls-server-name': serverName });
  });

  it('is its name where no host is set', async () => {
    world.run(settings({ domain: 'tenants.example.com', port: 7443 }));
    world.create('a');
    const { status } = await world.untilReady('a');
    expect(status?.gateway?.server).toBe(`https://${status?.id}.tenants.example.com:7443`);
  });

  it('is in the kubeconfig the one port of all where only pods are told those of tenants', async () => {
    const gateway = {
      domain: 'tenants.example.com',
      host: '192.0.2.20',
      port: 443,
      podAddress: '192.0.2.30',
    };
    world.run(settings({ ...gateway, ports: { first: 23_000, last: 23_999 }, portsForPods: true }));
    world.create('a');
    const { status } = await world.untilReady('a');
    const server = 'https://192.0.2.20:443';
    expect(clusterOf('a')).toMatchObject({ server, 'tls-server-name': status?.gateway?.serverName });
    expect(status?.gateway).toMatchObject({
      server,
      podAddress: '192.0.2.30',
      port: expect.toSatisfy((port: number) => port >= 23_000),
    });
  });

  it('is that of the gateway for pods too, where it has one for them and they are to wake the tenant', async () => {
    const ports = { first: 23_000, last: 23_999 };
    const gateway = { domain: 'tenants.example.com', host: '127.0.0.1', port: 7443, ports };
    const first = world.run(settings({ ...gateway, podAddress: '192.0.2.30' }));
    world.create('a', { dns: 'coredns' });
    const ready = (await world.untilReady('a')).status;
    expect(ready?.gateway).toMatchObject({ port: expect.any(Number), podAddress: '192.0.2.30' });
    const where = (): unknown => {
      const ref = { namespace: 'default', name: 'kubernetes' };
      const [slice, endpoints] = [resources.endpointSlices, resources.endpoints].map((each) =>
        world.tenant.get(each, ref),
      ) as { endpoints?: { addresses: string[] }[]; ports?: object[]; subsets?: object[] }[];
      expect(endpoints?.subsets).toMatchObject([
        { addresses: [{ ip: slice?.endpoints?.[0]?.addresses[0] }], ports: slice?.ports },
      ]);
      return { address: slice?.endpoints?.[0]?.addresses, ...slice?.ports?.[0] };
    };
    const atGateway = { address: ['192.0.2.30'], port: ready?.gateway?.port };
    expect(where()).toMatchObject(atGateway);
    // What watches without end is known there by a name that does not keep the tenant awake.
    const corefile = { namespace: 'kube-system', name: 'coredns' };
    const deployment = (): string => JSON.stringify(world.tenant.get(resources.deployments, corefile));
    const background = `background-${ready?.gateway?.serverName}`;
    expect(deployment()).toContain(`{"ip":"192.0.2.30","hostnames":["${background}"]}`);
    expect(deployment()).toContain(`{"name":"KUBERNETES_SERVICE_HOST","value":"${background}"}`);
    expect(deployment()).toContain(
      `{"name":"KUBERNETES_SERVICE_PORT","value":"${String(ready?.gateway?.port)}"}`,
    );
    const { data } = world.secretOf('a', 'pki') as { data?: Record<string, string> };
    const server = new X509Certificate(Buffer.from(data?.['apiserver.crt'] ?? '', 'base64'));
    expect(server.checkHost(background)).toBe(background);
    const itself = { address: ['192.0.2.10'], port: ready?.advertisedPort };
    world.edit('a', { sleep: { afterIdle: '30m', wakeForPods: false } });
    await world.until('a', ({ status }) => status?.observedGeneration === 2);
    expect(where()).toMatchObject(itself);
    expect(deployment()).not.toContain(background);
    world.edit('a', { sleep: { afterIdle: '30m' } });
    await world.until('a', ({ status }) => status?.observedGeneration === 3);
    expect(where()).toMatchObject(atGateway);
    await first.stop();
    world.run(settings(gateway));
    await world.until('a', ({ status }) => status?.gateway?.podAddress === undefined);
    await world.until('a', ({ status }) => status?.jobs?.current === undefined);
    await expect.poll(where).toMatchObject(itself);
  });

  it('is that of the gateway for pods with a driver that makes addresses too, in place of its Service', async () => {
    const driver = new LocatingDriver();
    const ports = { first: 23_000, last: 23_999 };
    const gateway = { domain: 'tenants.example.com', port: 443, ports, podAddress: '192.0.2.30' };
    const { settings: chosen } = settings(gateway) as { settings: object };
    world.run({ driver, settings: { ...chosen, driver: 'kubernetes' } as never });
    world.create('a');
    const { status } = await world.untilReady('a');
    const [slice = ''] = status?.serviceCIDR?.split('/') ?? [];
    const first = slice.replace(/0$/, '1');
    const addresses = (): unknown[] =>
      world.superCluster.list(resources.ipAddresses).map(({ metadata }) => metadata.name);
    const ofSlice = { namespace: 'default', name: 'kubernetes' };
    const where = (): unknown =>
      (world.tenant.get(resources.endpointSlices, ofSlice) as { endpoints?: { addresses: string[] }[] })
        .endpoints?.[0]?.addresses;
    expect(where()).toEqual(['192.0.2.30']);
    expect(driver.led.size).toBe(0);
    expect(addresses()).toContain(first);
    // The reservation makes room for the Service.
    driver.isFree = () => !addresses().includes(first);
    world.edit('a', { sleep: { afterIdle: '30m', wakeForPods: false } });
    await world.until('a', (vc) => vc.status?.observedGeneration === 2);
    expect(where()).toEqual(['10.96.0.7']);
    expect([...driver.led.values()]).toEqual([first]);
    world.edit('a', { sleep: { afterIdle: '30m' } });
    await world.until('a', (vc) => vc.status?.observedGeneration === 3);
    expect(where()).toEqual(['192.0.2.30']);
    expect(driver.led.size).toBe(0);
    expect(addresses()).toContain(first);
  });

  it('is a port of its own, which it keeps; and none any more when the manager runs without a gateway', async () => {
    const ports = { first: 23_000, last: 23_999 };
    const gateway = { domain: 'tenants.example.com', host: '127.0.0.1', port: 7443, ports };
    const first = world.run(settings(gateway));
    world.create('a');
    world.create('b');
    const [a, b] = [await world.untilReady('a'), await world.untilReady('b')].map(
      ({ status }) => status?.gateway,
    );
    expect(a?.port).toBeGreaterThanOrEqual(ports.first);
    expect(b?.port).not.toBe(a?.port);
    expect(clusterOf('a')).toMatchObject({ server: `https://127.0.0.1:${a?.port}` });
    expect(clusterOf('a')).not.toHaveProperty('tls-server-name');
    await first.stop();
    const second = world.run(settings(gateway));
    world.edit('a', { weight: 7 });
    const again = await world.until('a', (vc) => vc.status?.observedGeneration === 2);
    expect(again.status?.gateway).toEqual(a);
    await second.stop();
    world.run(settings(undefined));
    const without = await world.until('a', (vc) => vc.status?.gateway === undefined);
    expect(without.status?.endpoint).toBeDefined();
  });

  it('is another port than that of an older tenant, which keeps it, where two had the same', async () => {
    class SharedDriver extends LocatingDriver {
      readonly isShared = true;
    }
    const driver = new SharedDriver();
    const gateway = { domain: 'tenants.example.com', port: 443, ports: { first: 23_000, last: 23_999 } };
    const { settings: chosen } = settings(gateway) as { settings: object };
    const options = { driver, settings: { ...chosen, driver: 'kubernetes' } as never };
    const first = world.run(options);
    // Within one second of each other the UID decides.
    world.create('older', {}, { uid: '00000000-0000-4000-8000-000000000001' });
    world.create('younger', {}, { uid: '00000000-0000-4000-8000-000000000002' });
    const older = (await world.untilReady('older')).status?.gateway;
    const younger = await world.untilReady('younger');
    expect(younger.status?.gateway?.port).not.toBe(older?.port);
    await first.stop();
    const status = { ...younger.status, gateway: { ...younger.status?.gateway, port: older?.port } };
    world.superCluster.put(resources.virtualClusters, { ...younger, status });
    for (const name of ['older', 'younger']) world.edit(name, { weight: 7 });
    world.run(options);
    const portOf = async (name: string): Promise<number | undefined> =>
      (await world.until(name, (vc) => vc.status?.observedGeneration === 2)).status?.gateway?.port;
    expect(await portOf('older')).toBe(older?.port);
    const found = await portOf('younger');
    expect(found).not.toBe(older?.port);
    expect(clusterOf('younger')?.['server']).toContain(`:${found}`);
  });
});
