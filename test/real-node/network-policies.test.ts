import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import type { Cluster } from '../harness/cluster.ts';
import { namespace } from '../harness/manifests.ts';
import { type Tenant, World } from '../harness/world.ts';
import { run } from './machine/machine.ts';
import { connects, type InPod, idlePod, noRouteToHost, onNode, untilReady, webPod } from './suite/pods.ts';

const ns = 'walled';
const port = 8080;
/** Where a cloud gives machines their credentials. */
const metadataAddress = '169.254.169.254';

describe("a tenant's network policies, on nodes that act on them", () => {
  let world: World;
  let tenant: Tenant;
  let other: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [tenant, other] = await world.joinTenants(ns, 'friends');
    await tenant.apply(namespace(ns), namespace('friends'));
    await tenant.apply(
      webPod(ns, 'web', onNode('node-1')),
      // A connection within a node takes another way than one between nodes.
      ...['node-1', 'node-2'].flatMap((node) => [
        idlePod(ns, `near-${node}`, onNode(node)),
        idlePod('friends', `far-${node}`, onNode(node)),
      ]),
    );
    await other.apply(namespace('friends'));
    await other.apply(webPod('friends', 'foreign'));
    await untilReady(tenant, ns, 'web', 'near-node-1', 'near-node-2');
    await untilReady(tenant, 'friends', 'far-node-1', 'far-node-2');
    await untilReady(other, 'friends', 'foreign');
  });

  afterAll(() => world?.close());

  const addressOf = (cluster: Tenant, namespace: string, name: string): Promise<string> =>
    cluster.kubectl('-n', namespace, 'get', 'pod', name, '-o', 'jsonpath={.status.podIP}');

  /** What each pod hears from the web server. */
  const heard = async (): Promise<Record<string, string>> => {
    const web = await addressOf(tenant, ns, 'web');
    const pods: [Tenant, string, string][] = [
      [tenant, ns, 'near-node-1'],
      [tenant, ns, 'near-node-2'],
      [tenant, 'friends', 'far-node-1'],
      [tenant, 'friends', 'far-node-2'],
      [other, 'friends', 'foreign'],
    ];
    const answers = pods.map(
      async ([cluster, namespace, name]) =>
        [name, await connects(cluster, { namespace, name }, web, port)] as const,
    );
    return Object.fromEntries(await Promise.all(answers));
  };

  const policy = (name: string, spec: object): KubeObject => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { namespace: ns, name },
    spec,
  });

  /** As long as no policy of the tenant says otherwise (sync rule `tenant-isolation`). */
  const ownPods = {
    'near-node-1': 'connected',
    'near-node-2': 'connected',
    'far-node-1': 'connected',
    'far-node-2': 'connected',
    foreign: noRouteToHost,
  };
  /** An engine says to nobody that it has taken a policy over. */
  const soon = { interval: 250 };

  it('let in whom the tenant names, and nobody else, not even a namespace of that name elsewhere', async () => {
    await expect.poll(heard, soon).toEqual(ownPods);
    await tenant.apply(
      policy('wall', {
        podSelector: { matchLabels: { app: 'web' } },
        ingress: [
          { from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'friends' } } }] },
        ],
      }),
    );
    await expect.poll(heard, soon).toEqual({
      'near-node-1': noRouteToHost,
      'near-node-2': noRouteToHost,
      'far-node-1': 'connected',
      'far-node-2': 'connected',
      foreign: noRouteToHost,
    });
    await tenant.kubectl('-n', ns, 'delete', 'networkpolicy', 'wall');
    await expect.poll(heard, soon).toEqual(ownPods);
  });

  it("let the tenant's pods out to whom it names, and to nobody else", async () => {
    const [web, foreign] = await Promise.all([
      addressOf(tenant, ns, 'web'),
      addressOf(other, 'friends', 'foreign'),
    ]);
    const near = { namespace: ns, name: 'near-node-2' };
    const reached = (): Promise<string[]> =>
      Promise.all([web, foreign].map((address) => connects(tenant, near, address, port)));
    await expect.poll(reached, soon).toEqual(['connected', noRouteToHost]);
    // All namespaces: all of the tenant's.
    await tenant.apply(
      policy('home', {
        podSelector: { matchLabels: { app: 'near-node-2' } },
        policyTypes: ['Egress'],
        egress: [{ to: [{ namespaceSelector: {} }] }],
      }),
    );
    await expect.poll(reached, soon).toEqual(['connected', noRouteToHost]);
  });

  it("keep tenants apart by default, which a tenant's own policies open for its own pods only (sync rule `tenant-isolation`)", async () => {
    const foreign = await addressOf(other, 'friends', 'foreign');
    const near = { namespace: ns, name: 'near-node-1' };
    const heardThere = (): Promise<string> => connects(tenant, near, foreign, port);
    await expect.poll(heardThere, soon).toBe(noRouteToHost);
    // The other tenant lets everyone in, and this one lets its pod out: both have to.
    const everyone = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy' };
    await other.apply({
      ...everyone,
      metadata: { namespace: 'friends', name: 'open' },
      spec: { podSelector: {}, ingress: [{}] },
    });
    expect(await heardThere()).toBe(noRouteToHost);
    await tenant.apply(
      policy('out', {
        podSelector: { matchLabels: { app: 'near-node-1' } },
        policyTypes: ['Egress'],
        egress: [{}],
      }),
    );
    await expect.poll(heardThere, soon).toBe('connected');
    await tenant.kubectl('-n', ns, 'delete', 'networkpolicy', 'out');
    await other.kubectl('-n', 'friends', 'delete', 'networkpolicy', 'open');
    await expect.poll(heardThere, soon).toBe(noRouteToHost);
  });

  it('close the ways to nodes and to the API servers of others, whatever the tenant allows itself', async () => {
    const near = { namespace: ns, name: 'near-node-1' };
    const { address, nodes } = inject('cluster');
    const superApi = new URL(world.superCluster.client.connection.server);
    // At the gateway: nobody's API server is reached where it listens itself.
    const own = tenant.virtualCluster.status;
    const foreign = other.virtualCluster.status;
    expect(own?.gateway?.podAddress).toBe(address);
    const kubelet = nodes[0]?.address ?? '';
    const reached = (): Promise<string[]> =>
      Promise.all([
        connects(tenant, near, address, own?.gateway?.port ?? 0),
        connects(tenant, near, own?.advertisedAddress ?? '', own?.advertisedPort ?? 0),
        connects(tenant, near, superApi.hostname, Number(superApi.port)),
        connects(tenant, near, kubelet, 10_250),
        connects(tenant, near, foreign?.advertisedAddress ?? '', foreign?.advertisedPort ?? 0),
        // Nor is the gateway a way to the others.
        connects(tenant, near, address, foreign?.gateway?.port ?? 0),
      ]);
    const closed = ['connected', ...Array.from({ length: 5 }, () => noRouteToHost)];
    await expect.poll(reached, soon).toEqual(closed);
    await tenant.apply(everywhere(kubelet));
    await expect.poll(reached, soon).toEqual(closed);
    await tenant.kubectl('-n', ns, 'delete', 'networkpolicy', 'all');
  });

  it('close the ways to etcd on a node and to the metadata of a cloud, which pods of the super cluster have', async () => {
    const near = { namespace: ns, name: 'near-node-1' };
    const operator = { namespace: 'default', name: 'unwalled' };
    const node = inject('cluster').nodes.find(({ name }) => name === 'node-1');
    if (node === undefined) throw new Error('there is no node-1');
    const places = [
      [node.address, 2379],
      [metadataAddress, 80],
    ] as const;
    const reached = (cluster: Cluster, pod: InPod): Promise<string[]> =>
      Promise.all(places.map(([address, port]) => connects(cluster, pod, address, port)));
    const leave = await listenOn(node, places);
    try {
      await world.superCluster.apply(
        idlePod(operator.namespace, operator.name, { nodeSelector: { 'kubernetes.io/hostname': 'node-1' } }),
      );
      await untilReady(world.superCluster, operator.namespace, operator.name);
      expect(await reached(world.superCluster, operator)).toEqual(['connected', 'connected']);
      await expect.poll(() => reached(tenant, near), soon).toEqual([noRouteToHost, noRouteToHost]);
      await tenant.apply(everywhere(node.address, metadataAddress));
      const web = await addressOf(tenant, ns, 'web');
      await expect.poll(() => connects(tenant, near, web, port), soon).toBe('connected');
      expect(await reached(tenant, near)).toEqual([noRouteToHost, noRouteToHost]);
      await tenant.kubectl('-n', ns, 'delete', 'networkpolicy', 'all');
    } finally {
      await world.superCluster.tryKubectl(['-n', 'default', 'delete', 'pod', 'unwalled', '--wait=false']);
      await leave();
    }
  });

  /** Lets all pods of the namespace out, to these addresses by name. */
  const everywhere = (...addresses: string[]): KubeObject =>
    policy('all', {
      podSelector: {},
      policyTypes: ['Egress'],
      egress: [{}, { to: addresses.map((each) => ({ ipBlock: { cidr: `${each}/32` } })) }],
    });
});

/** Servers in the network of a node, at addresses that it gets for them; resolves to what takes them away. */
async function listenOn(
  { pid }: { pid: number },
  places: readonly (readonly [address: string, port: number])[],
): Promise<() => Promise<void>> {
  const within = ['-t', String(pid), '-n'];
  const alias = (what: 'replace' | 'delete'): Promise<string> =>
    run('nsenter', [...within, 'ip', 'address', what, `${metadataAddress}/32`, 'dev', 'lo']);
  await alias('replace');
  const program = `
    const { createServer } = require('node:net');
    const listening = ${JSON.stringify(places)}.map(([host, port]) =>
      new Promise((ready) => createServer((socket) => socket.end()).listen({ host, port }, ready)));
    Promise.all(listening).then(() => console.log('ready'));`;
  const server = spawn('nsenter', [...within, process.execPath, '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(server, 'exit');
  const leave = async (): Promise<void> => {
    server.kill();
    await ended;
    await alias('delete');
  };
  const [said] = await Promise.race([once(server.stdout, 'data'), ended]);
  if (String(said).trim() === 'ready') return leave;
  await leave();
  throw new Error('the servers on the node did not start');
}
