import ipaddr from 'ipaddr.js';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../kube/index.ts';
import { addressAt } from '../vc-manager/os/network.ts';
import { at, listAt } from './harness/checker/view.ts';
import { deployment, endpointSlice, pod, service } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

/** Whether an address is one of the tenant's slice. */
function isInside(address: string, { virtualCluster }: Tenant): boolean {
  const slice = virtualCluster.status?.serviceCIDR ?? '';
  return ipaddr.parse(address).match(ipaddr.parseCIDR(slice));
}

describe('services', () => {
  let world: World;
  let tenant: Tenant;
  let neighbour: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [tenant, neighbour] = await world.sharedTenants('services');
  });

  afterAll(() => world?.close());

  const own = (name: string, of = tenant, inNamespace = 'services'): Promise<KubeObject> =>
    of.client.get(resources.services, { namespace: inNamespace, name });
  const addressOf = (object: KubeObject | undefined): string => at<string>(object, 'spec', 'clusterIP') ?? '';

  /** S of a Service, found by its marks; undefined if there is none. */
  const counterpart = async (
    name: string,
    of = tenant,
    inNamespace = 'services',
  ): Promise<KubeObject | undefined> => {
    const labelSelector = `skerry.dev/tenant=${of.uid},skerry.dev/namespace=${inNamespace}`;
    const { items } = await world.superCluster.client.list(resources.services, { labelSelector });
    return items.find(({ metadata }) => metadata.name === name);
  };

  const warning = (name: string, reason: string): Promise<string> =>
    tenant.until(
      { resource: resources.events, namespace: 'services', what: `a warning ${reason} on ${name}` },
      (events) =>
        events
          .filter((event) => at(event, 'involvedObject', 'name') === name && event['type'] === 'Warning')
          .filter((event) => event['reason'] === reason)
          .map((event) => String(event['message']))[0],
    );

  it('have the same ClusterIP on both sides, out of the slice of their tenant', async () => {
    await tenant.apply(deployment('services', 'web', 2), service('services', 'web'));
    await neighbour.apply(deployment('services', 'web', 1), service('services', 'web'));
    // Their addresses are used below.
    for (const each of [tenant, neighbour])
      await each.kubectl('-n', 'services', 'rollout', 'status', 'deployment/web', patiently);
    await world.expectAgreement();
    const [first, second] = [addressOf(await own('web')), addressOf(await own('web', neighbour))];
    expect(addressOf(await counterpart('web'))).toBe(first);
    expect(addressOf(await counterpart('web', neighbour))).toBe(second);
    expect(isInside(first, tenant)).toBe(true);
    expect(isInside(second, neighbour)).toBe(true);
  });

  it('headless, NodePort and ExternalName keep what they are, and follow changes', async () => {
    await tenant.apply(
      service('services', 'headless', { clusterIP: 'None' }),
      service('services', 'outside', { type: 'NodePort' }),
      { ...service('services', 'elsewhere'), spec: { type: 'ExternalName', externalName: 'example.com' } },
    );
    await world.expectAgreement();
    expect(addressOf(await counterpart('headless'))).toBe('None');
    const nodePort = at(await own('outside'), 'spec', 'ports', '0', 'nodePort');
    expect(nodePort).toBeGreaterThan(0);
    expect(at(await counterpart('outside'), 'spec', 'ports', '0', 'nodePort')).toBe(nodePort);
    expect(at(await counterpart('elsewhere'), 'spec', 'externalName')).toBe('example.com');

    await tenant.kubectl(
      ...['-n', 'services', 'patch', 'service', 'web', '--type=merge', '-p'],
      JSON.stringify({
        spec: { sessionAffinity: 'ClientIP', ports: [{ name: 'http', port: 8000, targetPort: 1 }] },
      }),
    );
    await tenant.kubectl('-n', 'services', 'delete', 'service', 'outside');
    await world.expectAgreement();
    expect(at(await counterpart('web'), 'spec', 'ports', '0', 'port')).toBe(8000);
    expect(at(await counterpart('web'), 'spec', 'sessionAffinity')).toBe('ClientIP');
    expect(await counterpart('outside')).toBeUndefined();
  });

  it('without a selector lead to own pods by own slices, and to nothing else', async () => {
    const { items } = await tenant.client.list(resources.pods, {
      namespace: 'services',
      labelSelector: 'app=web',
    });
    const addresses = items.map((pod) => at<string>(pod, 'status', 'podIP') ?? '');
    await tenant.apply(
      service('services', 'manual', { selector: {} }),
      endpointSlice('services', 'manual', addresses),
    );
    await world.expectAgreement();

    const { items: others } = await neighbour.client.list(resources.pods, { namespace: 'services' });
    const foreign = at<string>(others[0], 'status', 'podIP') ?? '';
    await tenant.apply(
      service('services', 'thief', { selector: {} }),
      endpointSlice('services', 'thief', [foreign]),
    );
    expect(await warning('thief-1', 'EndpointNotAllowed')).toContain(foreign);
    await world.expectAgreement();
    const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
    const slices = (await world.superCluster.client.list(resources.endpointSlices, { labelSelector })).items;
    const reached = slices
      .flatMap((slice) => listAt(slice, 'endpoints'))
      .flatMap(({ addresses: all }) => all);
    expect(reached).toEqual(expect.arrayContaining(addresses));
    expect(reached).not.toContain(foreign);
  });

  it('lose an endpoint with the pod that it was', async () => {
    await tenant.client.create(resources.pods, pod('services', 'brief'));
    const address = await tenant.until(
      { resource: resources.pods, namespace: 'services', name: 'brief', what: 'an address' },
      ([found]) => at<string>(found, 'status', 'podIP'),
    );
    await tenant.apply(
      service('services', 'short', { selector: {} }),
      endpointSlice('services', 'short', [address]),
    );
    await world.expectAgreement();
    const reached = async (): Promise<number> => {
      const labelSelector = `skerry.dev/tenant=${tenant.uid},kubernetes.io/service-name=short`;
      const { items } = await world.superCluster.client.list(resources.endpointSlices, { labelSelector });
      return items.flatMap((slice) => listAt(slice, 'endpoints')).length;
    };
    expect(await reached()).toBe(1);
    await tenant.kubectl('-n', 'services', 'delete', 'pod', 'brief', patiently);
    await world.expectAgreement();
    expect(await reached()).toBe(0);
  });

  it('default/kubernetes is there on both sides and leads to the API server of the tenant, through the gateway', async () => {
    const { serviceCIDR = '', gateway, advertisedPort } = tenant.virtualCluster.status ?? {};
    const first = addressAt(serviceCIDR, 1);
    expect(addressOf(await own('kubernetes', tenant, 'default'))).toBe(first);
    expect(addressOf(await counterpart('kubernetes', tenant, 'default'))).toBe(first);
    const labelSelector = `skerry.dev/tenant=${tenant.uid},kubernetes.io/service-name=kubernetes`;
    const { items } = await world.superCluster.client.list(resources.endpointSlices, { labelSelector });
    const ours = await tenant.client.get(resources.endpointSlices, {
      namespace: 'default',
      name: 'kubernetes',
    });
    for (const slice of [...items, ours]) {
      expect(at(slice, 'endpoints', '0', 'addresses')).toEqual([gateway?.podAddress]);
      expect(at(slice, 'ports', '0', 'port')).toBe(gateway?.port);
    }
    expect(items).toHaveLength(1);
    expect(tenant.virtualCluster.status?.endpoint).toBe(`https://127.0.0.1:${advertisedPort}`);
  });

  it('whose address the super cluster has given away move to another, and stay who they are', async () => {
    // Of those that the tenant's API server does not give away by itself while there are others.
    const taken = addressAt(tenant.virtualCluster.status?.serviceCIDR ?? '', 42);
    const blocker = service('default', 'serve-blocker', { clusterIP: taken });
    await world.superCluster.client.create(resources.services, blocker);
    try {
      const created = await tenant.client.create(
        resources.services,
        service('services', 'moved', { clusterIP: taken }),
      );
      await tenant.until(
        { resource: resources.services, namespace: 'services', name: 'moved', what: 'another address' },
        ([moved]) => !['', taken].includes(addressOf(moved)),
      );
      await world.expectAgreement();
      const moved = await own('moved');
      expect(moved.metadata.uid).toBe(created.metadata.uid);
      expect(at(moved, 'spec', 'type')).toBe('ClusterIP');
      expect(addressOf(await counterpart('moved'))).toBe(addressOf(moved));
    } finally {
      await world.superCluster.client.delete(resources.services, {
        namespace: 'default',
        name: 'serve-blocker',
      });
    }
  });

  it('whose node port another tenant has get another one, and an event', async () => {
    const nodePort = 30_042;
    const ports = [{ name: 'http', port: 80, nodePort }];
    await neighbour.apply(service('services', 'node', { type: 'NodePort', ports }));
    await world.expectAgreement();
    await tenant.apply(service('services', 'node', { type: 'NodePort', ports }));
    await tenant.until(
      { resource: resources.services, namespace: 'services', name: 'node', what: 'another node port' },
      ([moved]) => at(moved, 'spec', 'ports', '0', 'nodePort') !== nodePort,
    );
    await world.expectAgreement();
    await tenant.until(
      { resource: resources.events, namespace: 'services', what: 'an event NodePortChanged' },
      (events) => events.some(({ reason }) => reason === 'NodePortChanged'),
    );
    expect(at(await own('node', neighbour), 'spec', 'ports', '0', 'nodePort')).toBe(nodePort);
  });

  it('with an address outside of the slice are refused, whatever ranges the tenant makes', async () => {
    await tenant.apply({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'ServiceCIDR',
      metadata: { name: 'mine' },
      spec: { cidrs: ['10.250.0.0/24'] },
    });
    await tenant.kubectl('wait', 'servicecidr/mine', '--for=condition=Ready', patiently);
    const stray = service('services', 'stray', { clusterIP: '10.250.0.7' });
    await tenant.untilAdmitted(stray);
    await tenant.apply(stray);
    expect(addressOf(await own('stray'))).toBe('10.250.0.7');
    expect(await warning('stray', 'ClusterIPNotAllowed')).toContain('10.250.0.7');
    await world.expectAgreement();
    expect(await counterpart('stray')).toBeUndefined();
    // Or the tenant's API server would go on to allocate from it. It is kept for ten seconds, in which nothing is.
    await tenant.kubectl('-n', 'services', 'delete', 'service', 'stray');
    await tenant.kubectl('delete', 'servicecidr', 'mine', '--wait=false');
  });
});
