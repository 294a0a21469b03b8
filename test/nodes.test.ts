import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { isNotFound, type KubeObject, resources } from '../kube/index.ts';
import { annotation, at, label, listAt } from './harness/checker/view.ts';
import type { Cluster } from './harness/cluster.ts';
import { namespace, pod } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

const simulated = ['sim-0', 'sim-1', 'sim-2'];
/** Nodes that nobody looks after but these tests. */
const labelOfTests = 'e2e.example/nodes';
const zone = 'topology.kubernetes.io/zone';

describe('virtual nodes', () => {
  let world: World;
  let all: Tenant;
  let used: Tenant;
  let hidden: Tenant;
  let pool: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    await removeNodes();
    [all, used, hidden, pool] = (await Promise.all([
      world.sharedTenant('housed'),
      world.createTenant('nodes-used', '--nodes', 'used'),
      world.createTenant('nodes-hidden', '--hide-nodes'),
      world.createTenant('nodes-pool', '--node-selector', 'e2e.example/pool=a'),
    ])) as [Tenant, Tenant, Tenant, Tenant];
    await Promise.all([used, hidden, pool].map((tenant) => tenant.apply(namespace('housed'))));
  });

  afterAll(async () => {
    await removeNodes();
    await world?.close();
  });

  const removeNodes = async (): Promise<void> => {
    const { client } = world.superCluster;
    const { items } = await client.list(resources.nodes, { labelSelector: labelOfTests });
    await Promise.all(
      items.map(({ metadata: { name = '' } }) =>
        client.delete(resources.nodes, { name }).catch((error: unknown) => {
          if (!isNotFound(error)) throw error;
        }),
      ),
    );
  };

  const status = (ready: 'True' | 'False', beat = new Date(), cpu = '4') => ({
    capacity: { cpu, memory: '8Gi', pods: '10' },
    allocatable: { cpu, memory: '8Gi', pods: '10' },
    addresses: [{ type: 'InternalIP', address: '198.51.100.7' }],
    nodeInfo: { kubeletVersion: 'v1.36.3', operatingSystem: 'linux', architecture: 'amd64' },
    conditions: [
      {
        type: 'Ready',
        status: ready,
        reason: 'Test',
        message: 'as the test says',
        lastHeartbeatTime: beat.toISOString().replace(/\.\d+/, ''),
        lastTransitionTime: '2026-01-01T00:00:00Z',
      },
    ],
  });

  /** A node of the super cluster that is ready and that no pod tolerates. */
  const makeNode = async (name: string, labels: Record<string, string> = {}): Promise<KubeObject> => {
    await world.superCluster.client.create(resources.nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { [labelOfTests]: '', 'kubernetes.io/hostname': name, ...labels } },
      spec: { taints: [{ key: 'e2e.example/keep-out', effect: 'NoSchedule' }] },
      status: status('True'),
    });
    return world.superCluster.until(
      { resource: resources.nodes, name, what: `the super cluster to take its taint off ${name}` },
      ([node]) => !taints(node).includes('node.kubernetes.io/not-ready') && node,
    );
  };

  const report = (name: string, ...how: Parameters<typeof status>): Promise<KubeObject> =>
    world.superCluster.client.patch(
      resources.nodes,
      { name },
      { status: status(...how) },
      { type: 'merge', subresource: 'status' },
    );

  const taints = (node: KubeObject | undefined): string[] =>
    listAt<{ key: string }>(node, 'spec', 'taints').map(({ key }) => key);

  const until = (
    tenant: Cluster,
    name: string,
    what: string,
    holds: (node: KubeObject) => boolean,
  ): Promise<KubeObject> =>
    tenant.until({ resource: resources.nodes, name, what: `${name}: ${what}` }, ([node]) =>
      node !== undefined && holds(node) ? node : undefined,
    );

  const names = async (tenant: Cluster): Promise<string[]> =>
    (await tenant.client.list(resources.nodes)).items.map(({ metadata }) => metadata.name ?? '').toSorted();

  it('all: each is there, ready, without a taint, under address and port of the kubelet proxy', async () => {
    await makeNode('e2e-plain');
    await until(all, 'e2e-plain', 'no taint', (node) => taints(node).length === 0);
    // A node that comes is ahead of those that were there.
    for (const name of simulated) await until(all, name, 'there', () => true);
    const node = await until(all, 'sim-0', 'no taint', (found) => taints(found).length === 0);
    const real = await world.superCluster.client.get(resources.nodes, { name: 'sim-0' });
    const [own] = listAt<{ type: string; address: string }>(real, 'status', 'addresses');
    // The kubelet proxy of a local stack is at the address that simulated nodes have.
    expect(at(node, 'status', 'addresses')).toEqual([own, { type: 'Hostname', address: 'sim-0' }]);
    const port = at(node, 'status', 'daemonEndpoints', 'kubeletEndpoint', 'Port');
    expect(port).not.toBe(at(real, 'status', 'daemonEndpoints', 'kubeletEndpoint', 'Port'));
    expect(await all.kubectl('get', 'nodes', '--no-headers')).toMatch(/e2e-plain +Ready /);
    expect((await all.client.list(resources.leases, { namespace: 'kube-node-lease' })).items).toEqual([]);
    await world.expectAgreement([all]);
  });

  it('follow what the real ones report, but heartbeats cost no write at all', async () => {
    await makeNode('e2e-beat');
    await until(all, 'e2e-beat', 'no taint', (node) => taints(node).length === 0);
    const versions = new Set<string>();
    const looked = Promise.withResolvers<void>();
    const changed = all.until(
      { resource: resources.nodes, name: 'e2e-beat', what: 'the change after the heartbeats' },
      ([node]) => {
        versions.add(node?.metadata.resourceVersion ?? '');
        looked.resolve();
        return at(node, 'status', 'allocatable', 'cpu') === '3';
      },
    );
    await looked.promise;
    const begun = Date.now();
    for (let beat = 1; beat <= 30; beat++) await report('e2e-beat', 'True', new Date(begun + beat * 10_000));
    // What comes after them has been seen after them.
    await report('e2e-beat', 'True', new Date(begun + 310_000), '3');
    await changed;
    expect(versions.size).toBe(2);
  });

  it('have the taints that go with their conditions, and look cordoned when the operator has done that', async () => {
    await makeNode('e2e-sick');
    await until(all, 'e2e-sick', 'no taint', (node) => taints(node).length === 0);
    await report('e2e-sick', 'False');
    // The taint comes with one write, the condition with another.
    await until(
      all,
      'e2e-sick',
      'not ready',
      (node) =>
        taints(node).includes('node.kubernetes.io/not-ready') &&
        listAt(node, 'status', 'conditions').some(
          ({ type, status }) => type === 'Ready' && status === 'False',
        ),
    );
    expect(await all.kubectl('get', 'node', 'e2e-sick')).toContain('NotReady');
    await report('e2e-sick', 'True');
    await until(all, 'e2e-sick', 'ready again', (node) => taints(node).length === 0);
    await world.superCluster.kubectl('cordon', 'e2e-sick');
    await until(all, 'e2e-sick', 'cordoned', (node) =>
      taints(node).includes('node.kubernetes.io/unschedulable'),
    );
    expect(await all.kubectl('get', 'node', 'e2e-sick')).toContain('SchedulingDisabled');
    await world.superCluster.kubectl('uncordon', 'e2e-sick');
    await until(all, 'e2e-sick', 'uncordoned', (node) => taints(node).length === 0);
    expect(await all.kubectl('get', 'node', 'e2e-sick')).not.toContain('SchedulingDisabled');
  });

  it("keep the tenant's own labels and taints, which go nowhere else (sync rule `virtual-node-edits`)", async () => {
    await all.kubectl('label', 'node', 'sim-1', 'team.example/owner=me');
    await all.kubectl('taint', 'node', 'sim-1', 'team.example/mine=x:NoExecute');
    await makeNode('e2e-mine');
    await until(all, 'e2e-mine', 'no taint', (node) => taints(node).length === 0);
    await all.kubectl('taint', 'node', 'e2e-mine', 'team.example/mine=x:NoSchedule');
    await report('e2e-mine', 'False');
    await until(all, 'e2e-mine', 'both taints', (node) => taints(node).length === 2);
    await report('e2e-mine', 'True');
    const kept = await until(all, 'e2e-mine', 'its own taint', (node) => taints(node).length === 1);
    expect(taints(kept)).toEqual(['team.example/mine']);
    for (const elsewhere of [world.superCluster, used, hidden, pool]) {
      const { items } = await elsewhere.client.list(resources.nodes);
      for (const node of items) {
        expect(label(node, 'team.example/owner')).toBeUndefined();
        expect(taints(node)).not.toContain('team.example/mine');
      }
    }
    const own = await all.client.get(resources.nodes, { name: 'sim-1' });
    expect(label(own, 'team.example/owner')).toBe('me');
    expect(taints(own)).toEqual(['team.example/mine']);
    await all.kubectl('taint', 'node', 'sim-1', 'team.example/mine-');
    await all.kubectl('label', 'node', 'sim-1', 'team.example/owner-');
  });

  it('deleted or cordoned by a tenant they are put back, and the real node hears nothing of it (sync rule `virtual-node-edits`)', async () => {
    const real = await world.superCluster.client.get(resources.nodes, { name: 'sim-2' });
    const before = await all.client.get(resources.nodes, { name: 'sim-2' });
    await all.kubectl('delete', 'node', 'sim-2', '--wait=false');
    await until(all, 'sim-2', 'there again', ({ metadata }) => metadata.uid !== before.metadata.uid);
    await until(all, 'sim-2', 'no taint', (node) => taints(node).length === 0);
    // Not `kubectl cordon`, which may look between its write and the next.
    const cordon = { spec: { unschedulable: true } };
    const { metadata } = await all.client.patch(resources.nodes, { name: 'sim-2' }, cordon, {
      type: 'merge',
    });
    await until(
      all,
      'sim-2',
      'uncordoned',
      (node) =>
        Number(node.metadata.resourceVersion) > Number(metadata.resourceVersion) &&
        at(node, 'spec', 'unschedulable') !== true &&
        taints(node).length === 0,
    );
    const after = await world.superCluster.client.get(resources.nodes, { name: 'sim-2' });
    expect(after.metadata.uid).toBe(real.metadata.uid);
    expect(after['spec']).toEqual(real['spec']);
  });

  it('address, port, provider and mark are put back: the API server would dial what stands there (sync rule `virtual-node-edits`)', async () => {
    const before = await all.client.get(resources.nodes, { name: 'sim-0' });
    const places = (node: KubeObject) =>
      JSON.stringify([at(node, 'status', 'addresses'), at(node, 'status', 'daemonEndpoints')]);
    const elsewhere = {
      addresses: [{ type: 'InternalDNS', address: '169.254.169.254' }],
      daemonEndpoints: { kubeletEndpoint: { Port: 80 } },
    };
    await all.client.patch(
      resources.nodes,
      { name: 'sim-0' },
      { status: elsewhere },
      { type: 'merge', subresource: 'status' },
    );
    await until(all, 'sim-0', 'its address again', (node) => places(node) === places(before));
    const provider = await all.tryKubectl([
      ...['patch', 'node', 'sim-0', '--type=merge'],
      ...['-p', '{"spec":{"providerID":"aws:///us-east-1a/i-0123456789"}}'],
    ]);
    expect(provider.exitCode).not.toBe(0);
    await all.client.patch(
      resources.nodes,
      { name: 'sim-0' },
      { metadata: { annotations: null } },
      { type: 'merge' },
    );
    const marked = await until(
      all,
      'sim-0',
      'its mark again',
      (node) => annotation(node, 'skerry.dev/uid') !== undefined,
    );
    expect(marked.metadata.uid).toBe(before.metadata.uid);
    await world.expectAgreement([all]);
  });

  it('one that is replaced under its name is replaced at once', async () => {
    const first = await makeNode('e2e-swap');
    await until(
      all,
      'e2e-swap',
      'the first',
      (node) => annotation(node, 'skerry.dev/uid') === first.metadata.uid,
    );
    await world.superCluster.client.delete(resources.nodes, { name: 'e2e-swap' });
    const second = await makeNode('e2e-swap');
    await all.until(
      { resource: resources.nodes, name: 'e2e-swap', what: 'the second e2e-swap', timeoutMs: 45_000 },
      ([node]) => node !== undefined && annotation(node, 'skerry.dev/uid') === second.metadata.uid,
    );
  });

  it('used: one comes with the first pod on it, and goes two minutes after the last', async () => {
    expect(await names(used)).toEqual([]);
    // A host name may be asked for only where DaemonSets may run.
    const onSim1 = { nodeSelector: { [zone]: 'simulated-b' } };
    await used.apply(pod('housed', 'one', onSim1), pod('housed', 'two', onSim1));
    await used.kubectl('-n', 'housed', 'wait', 'pod/one', 'pod/two', '--for=condition=Ready', patiently);
    expect(await names(used)).toEqual(['sim-1']);
    await world.expectAgreement([used]);
    const one = await used.client.get(resources.pods, { namespace: 'housed', name: 'one' });
    const sim = await used.client.get(resources.nodes, { name: 'sim-1' });
    expect(label(one, zone)).toBeDefined();
    expect(label(one, zone)).toBe(label(sim, zone));
    await usage(used, 1);

    const deletedAt = Date.now();
    await used.kubectl('-n', 'housed', 'delete', 'pod', 'one');
    await used.kubectl('-n', 'housed', 'delete', 'pod', 'two');
    const mark = 'skerry.dev/unused-since';
    const unused = await until(used, 'sim-1', 'unused', (node) => annotation(node, mark) !== undefined);
    expect(Number(annotation(unused, mark))).toBeGreaterThanOrEqual(deletedAt);

    // A pod in between starts the two minutes anew.
    await used.apply(pod('housed', 'three', onSim1));
    await until(used, 'sim-1', 'used again', (node) => annotation(node, mark) === undefined);
    await used.kubectl('-n', 'housed', 'delete', 'pod', 'three');
    await until(used, 'sim-1', 'unused again', (node) => annotation(node, mark) !== undefined);
    // Two minutes are over.
    const over = { metadata: { annotations: { [mark]: String(Date.now() - 120_000) } } };
    await used.client.patch(resources.nodes, { name: 'sim-1' }, over, { type: 'merge' });
    await used.untilGone(resources.nodes, { name: 'sim-1' });
    await usage(used, 0);
  });

  it('all of a pool: those with its labels, no others; one that leaves the pool disappears', async () => {
    expect(await names(pool)).toEqual([]);
    await makeNode('e2e-in', { 'e2e.example/pool': 'a' });
    await makeNode('e2e-out', { 'e2e.example/pool': 'b' });
    await until(pool, 'e2e-in', 'ready', (node) => taints(node).length === 0);
    await world.superCluster.kubectl('label', 'node', 'e2e-out', 'e2e.example/pool=a', '--overwrite');
    await until(pool, 'e2e-out', 'ready', (node) => taints(node).length === 0);
    await world.superCluster.kubectl('label', 'node', 'e2e-in', 'e2e.example/pool=b', '--overwrite');
    await pool.untilGone(resources.nodes, { name: 'e2e-in' });
    expect(await names(pool)).toEqual(['e2e-out']);
    for (const name of ['e2e-in', 'e2e-out']) await until(all, name, 'there', () => true);
    await world.expectAgreement([pool]);
    await usage(pool, 1);
  });

  it("hidden: names of Skerry's own, and no real name or address anywhere in the tenant", async () => {
    await makeNode('e2e-secret-name');
    await hidden.apply(pod('housed', 'web'));
    await hidden.kubectl('-n', 'housed', 'wait', 'pod/web', '--for=condition=Ready', patiently);
    const web = await hidden.client.get(resources.pods, { namespace: 'housed', name: 'web' });
    const node = await hidden.client.get(resources.nodes, {
      name: at<string>(web, 'spec', 'nodeName') ?? '',
    });
    expect(node.metadata.name).toMatch(/^node-[a-z2-7]{8}$/);
    expect(label(node, 'kubernetes.io/hostname')).toBe(node.metadata.name);
    expect(at(web, 'status', 'hostIP')).toBe(at(node, 'status', 'addresses', '0', 'address'));

    const scheduled = await hidden.until(
      { resource: resources.events, namespace: 'housed', what: 'the event Scheduled' },
      (events) => events.find(({ reason }) => reason === 'Scheduled'),
    );
    expect(scheduled['message']).toContain(`to ${node.metadata.name}`);
    await hidden.until(
      { resource: resources.nodes, what: 'as many nodes as there are' },
      (nodes) => nodes.length >= simulated.length + 1,
    );
    const kinds = [resources.nodes, resources.pods, resources.events];
    const everything = JSON.stringify(await Promise.all(kinds.map((kind) => hidden.client.list(kind))));
    for (const secret of [...simulated, 'e2e-secret-name', '198.51.100.7']) {
      expect(everything, secret).not.toContain(secret);
    }
    await world.expectAgreement([hidden]);

    // Under another name they are as virtual as any.
    await hidden.kubectl('delete', 'node', node.metadata.name ?? '', '--wait=false');
    await until(
      hidden,
      node.metadata.name ?? '',
      'there again',
      ({ metadata }) => metadata.uid !== node.metadata.uid,
    );
  });

  /** `status.usage.nodes` of the VirtualCluster. */
  const usage = (tenant: Tenant, nodes: number): Promise<unknown> =>
    world.superCluster.until(
      { resource: resources.virtualClusters, ...tenant.ref, what: `status.usage.nodes = ${nodes}` },
      ([vc]) => at(vc, 'status', 'usage', 'nodes') === nodes,
    );
});
