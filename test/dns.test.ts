import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { type KubeObject, type ObjectRef, type Resource, resources } from '../kube/index.ts';
import { addressAt } from '../vc-manager/os/network.ts';
import { at, listAt } from './harness/checker/view.ts';
import { namespace, pod } from './harness/manifests.ts';
import { type Tenant, World } from './harness/world.ts';

const system = 'kube-system';
const kubeDns: ObjectRef = { namespace: system, name: 'kube-dns' };

// Nodes are simulated: whether names are resolved is shown by the suite with real nodes.
describe('DNS of a tenant', () => {
  let world: World;
  let tenant: Tenant;
  let address: string;

  beforeAll(async () => {
    world = new World(inject('stack'));
    // The strictest level: what the manager installs has to pass it.
    tenant = await world.createTenant('named', '--dns', 'coredns', '--pod-security', 'restricted');
    address = addressAt(tenant.virtualCluster.status?.serviceCIDR ?? '', 10);
    await tenant.apply(namespace('shop'));
  });

  afterAll(() => world?.close());

  /** S of an object of kube-system, found by its marks. */
  const counterpart = async (resource: Resource, name: string): Promise<KubeObject | undefined> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=${system}`;
    const { items } = await world.superCluster.client.list(resource, { labelSelector });
    return items.find(({ metadata }) => metadata.name === name);
  };
  const dnsOf = async (name: string): Promise<KubeObject> => {
    await tenant.apply(pod('shop', name, restricted));
    return world.superCluster.until(
      {
        resource: resources.pods,
        labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=shop,app=${name}`,
        what: `S of ${name}`,
      },
      ([found]) => found,
    );
  };
  const edit = async (spec: object): Promise<void> => {
    const ref = tenant.ref;
    await world.superCluster.client.patch(resources.virtualClusters, ref, { spec }, { type: 'merge' });
  };
  const untilCondition = (status: string | undefined): Promise<boolean> =>
    world.superCluster.until<boolean, VirtualCluster>(
      { resource: resources.virtualClusters, ...tenant.ref, what: `DNSReady to be ${status}` },
      ([vc]) => vc?.status?.conditions?.find(({ type }) => type === 'DNSReady')?.status === status,
    );

  it('has the tenth address of its slice, on both sides', async () => {
    const service = await tenant.client.get(resources.services, kubeDns);
    expect(at(service, 'spec', 'clusterIP')).toBe(address);
    expect(service.metadata.labels).toMatchObject({ 'k8s-app': 'kube-dns' });
    const ports = listAt(service, 'spec', 'ports').map(({ port, protocol }) => `${port}/${protocol}`);
    expect(ports).toEqual(['53/UDP', '53/TCP', '9153/TCP']);
    await world.expectAgreement([tenant]);
    expect(at(await counterpart(resources.services, 'kube-dns'), 'spec', 'clusterIP')).toBe(address);
  });

  it('runs at the strictest level of Pod Security, and the manager says when', async () => {
    await untilCondition('True');
    const { items } = await tenant.client.list(resources.pods, {
      namespace: system,
      labelSelector: 'k8s-app=kube-dns',
    });
    expect(items.map((found) => at(found, 'status', 'phase'))).toEqual(['Running']);
    await tenant.untilEndpoints(system, 'kube-dns', 1);
  });

  it('is what pods of the tenant ask', async () => {
    const s = await dnsOf('asker');
    expect(at(s, 'spec', 'dnsPolicy')).toBe('None');
    expect(at(s, 'spec', 'dnsConfig', 'nameservers')).toEqual([address]);
    expect(at(s, 'spec', 'dnsConfig', 'searches')).toEqual([
      'shop.svc.cluster.local',
      'svc.cluster.local',
      'cluster.local',
    ]);
  });

  it("keeps the tenant's Corefile, and comes back when it is deleted", async () => {
    const ref = { namespace: system, name: 'coredns' };
    await tenant.client.patch(resources.configMaps, ref, { data: { Corefile: '# mine' } }, { type: 'merge' });
    const { metadata } = await tenant.client.get(resources.services, kubeDns);
    await tenant.kubectl('-n', system, 'delete', 'deployment/coredns', 'service/kube-dns');
    // Sooner than the manager would look by itself.
    await edit({ weight: 2 });
    const service = await tenant.until(
      { resource: resources.services, ...kubeDns, what: 'kube-dns to be back' },
      ([found]) => found?.metadata.uid !== metadata.uid && found,
    );
    expect(at(service, 'spec', 'clusterIP')).toBe(address);
    await untilCondition('True');
    expect(at(await tenant.client.get(resources.configMaps, ref), 'data', 'Corefile')).toBe('# mine');
    await world.expectAgreement([tenant]);
  });

  it('goes when the tenant wants none, with nothing else', async () => {
    await edit({ dns: 'none' });
    await untilCondition(undefined);
    for (const [resource, name] of [
      [resources.services, 'kube-dns'],
      [resources.deployments, 'coredns'],
      [resources.configMaps, 'coredns'],
      [resources.serviceAccounts, 'coredns'],
    ] as const) {
      expect(await tenant.find(resource, { namespace: system, name })).toBeUndefined();
    }
    expect(
      await tenant.find(resources.configMaps, { namespace: system, name: 'kube-root-ca.crt' }),
    ).toBeDefined();
    await world.expectAgreement([tenant]);
    expect(await counterpart(resources.services, 'kube-dns')).toBeUndefined();
    expect(at(await dnsOf('later'), 'spec', 'dnsPolicy')).toBe('Default');
  });

  it('is not there where the nodes are simulated and nobody asks for it', async () => {
    const plain = await world.sharedTenant('nameless');
    expect(await plain.find(resources.services, kubeDns)).toBeUndefined();
  });
});

const restricted = {
  securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    {
      name: 'main',
      image: 'registry.k8s.io/pause:3.10',
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    },
  ],
};
