import ipaddr from 'ipaddr.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import { createSimulatedNodes, simulatedNode } from './simulated-nodes.ts';

const options = { address: '192.0.2.10', kubernetesVersion: '1.36.3' };
const { signal } = new AbortController();

describe('simulatedNode', () => {
  it('gives every node a pod range of its own, clear of the service ranges', () => {
    const ranges = Array.from({ length: 2048 }, (_, index) => {
      const { podCIDR } = simulatedNode(index, options)['spec'] as { podCIDR: string };
      return podCIDR;
    });
    expect(new Set(ranges).size).toBe(2048);
    expect([ranges[0], ranges[64], ranges.at(-1)]).toEqual([
      '10.64.0.0/22',
      '10.65.0.0/22',
      '10.95.252.0/22',
    ]);
    for (const service of ['10.96.0.0/16', '10.112.0.0/12'].map(ipaddr.parseCIDR)) {
      expect(ranges.some((range) => ipaddr.parseCIDR(range)[0].match(service))).toBe(false);
    }
  });
});

describe('createSimulatedNodes', () => {
  let server: FakeApiServer;
  let connection: Connection;
  beforeEach(async () => {
    // A real server takes the status that a new node brings, as kubelets send it.
    server = await FakeApiServer.start({ statusResources: [] });
    connection = new Connection(server.connectionOptions);
  });
  afterEach(async () => {
    await connection.close();
    await server.stop();
  });

  it('adds the nodes that are missing and says plainly that they are simulated', async () => {
    const client = new KubeClient(connection);
    await createSimulatedNodes(client, { ...options, count: 1, signal });
    const uid = server.get(resources.nodes, { name: 'sim-0' })?.metadata.uid;
    await createSimulatedNodes(client, { ...options, count: 3, signal });
    expect(
      server
        .list(resources.nodes)
        .map((node) => node.metadata.name)
        .sort(),
    ).toEqual(['sim-0', 'sim-1', 'sim-2']);
    expect(server.get(resources.nodes, { name: 'sim-0' })?.metadata.uid).toBe(uid);
    expect(server.get(resources.nodes, { name: 'sim-2' })).toMatchObject({
      metadata: { labels: { 'skerry.dev/simulated': 'true' }, annotations: { 'kwok.x-k8s.io/node': 'fake' } },
      status: { nodeInfo: { osImage: expect.stringContaining('simulated') } },
    });
  });

  it('refuses more nodes than there are pod ranges', async () => {
    const client = new KubeClient(connection);
    await expect(createSimulatedNodes(client, { ...options, count: 2049, signal })).rejects.toThrow(
      '0 to 2048',
    );
  });
});
