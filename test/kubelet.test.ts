import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { createServer, request } from 'node:https';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { execa } from 'execa';
import { Agent, WebSocket } from 'undici';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { connectionFromSecret, type KubeObject, resource, resources } from '../kube/index.ts';
import { createTestCertificates } from '../kube/testing/index.ts';
import { listenInReach } from './harness/attacker-server.ts';
import { at } from './harness/checker/view.ts';
import { FakeKubelet, onFakeNode, taint } from './harness/fake-kubelet.ts';
import { container, namespace, pod } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

const apiServices = resource('apiregistration.k8s.io', 'v1', 'apiservices', 'APIService', false);
const nodeName = 'fake-kubelet';

interface KubeletAnswer {
  readonly status: number | undefined;
  readonly body: string;
}

describe('the kubelet of a tenant', () => {
  const stack = inject('stack');
  let world: World;
  let kubelet: FakeKubelet;
  let one: Tenant;
  let other: Tenant;

  beforeAll(async () => {
    world = new World(stack);
    kubelet = await FakeKubelet.start(nodeName, world.superCluster, world.stateDir);
    await world.superCluster.apply({
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'VirtualClusterPolicy',
      metadata: { name: 'kubelet-test' },
      spec: { namespaces: ['default'], tolerations: [taint.key] },
    });
    // The other one is deleted in the end.
    [one, other] = await Promise.all([world.sharedTenant('logged'), world.createTenant('kubelet-b')]);
    await other.apply(namespace('logged'));
    const spec = { policy: { tolerations: [taint.key] } };
    for (const tenant of [one, other])
      await world.superCluster.client.patch(
        resources.virtualClusters,
        tenant.ref,
        { spec },
        { type: 'merge' },
      );
    for (const tenant of [one, other]) await tenant.apply(pod('logged', 'web', onFakeNode(nodeName)));
    await other.apply(pod('logged', 'theirs', onFakeNode(nodeName)));
    await one.apply(pod('logged', 'simulated'));
    for (const tenant of [one, other])
      await tenant.kubectl('-n', 'logged', 'wait', 'pod', '--all', '--for=condition=Ready', patiently);
  });

  afterAll(async () => {
    await kubelet?.stop();
    await world?.superCluster.kubectl('delete', 'virtualclusterpolicy', 'kubelet-test', '--ignore-not-found');
    await world?.close();
  });

  it('gives logs, with every option that kubectl has', async () => {
    const options = ['--tail=5', '--since=1h', '--timestamps', '--limit-bytes=1000', '--previous'];
    const printed = await one.kubectl('-n', 'logged', 'logs', 'web', '-c', 'main', ...options);
    const [, query = ''] = printed.trim().split(' with ');
    expect(printed).toMatch(/^logs of web\/main with/);
    expect(Object.fromEntries(new URLSearchParams(query))).toEqual({
      limitBytes: '1000',
      previous: 'true',
      sinceSeconds: '3600',
      tailLines: '5',
      timestamps: 'true',
    });
  });

  it('follows logs line by line, until the reader goes', async () => {
    const following = execa(stack.kubectl, [
      `--kubeconfig=${one.kubeconfigFile}`,
      ...['-n', 'logged', 'logs', '-f', 'web'],
    ]);
    const lines = createInterface({ input: following.stdout })[Symbol.asyncIterator]();
    await lines.next();
    for (const line of ['first', 'second']) {
      kubelet.write(line);
      expect((await lines.next()).value).toBe(line);
    }
    following.kill();
    await following.catch(() => undefined);
    await expect.poll(() => kubelet.followers.size).toBe(0);
  });

  it('carries commands over web sockets, both ways', async () => {
    const { server, ca = '', cert = '', key = '' } = connectionFromSecret(one.kubeconfig);
    const dispatcher = new Agent({ allowH2: false, connect: { ca, cert, key } });
    const query =
      'container=main&command=sh&command=-c&command=a%26b&stdin=true&stdout=true&stderr=false&tty=false';
    const path = `/api/v1/namespaces/logged/pods/web/exec?${query}`;
    const socket = new WebSocket(`${server.replace('https', 'wss')}${path}`, {
      protocols: ['v4.channel.k8s.io'],
      dispatcher,
    });
    socket.binaryType = 'arraybuffer';
    const heard: string[] = [];
    const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
    socket.addEventListener('message', ({ data }) => {
      const message = Buffer.from(data as ArrayBuffer);
      if (message.length < 2) return;
      heard.push(`${message[0]} ${message.subarray(1)}`);
      // Bytes of channel 0: what the command reads.
      if (heard.length === 1) socket.send(Buffer.from('\0hello'));
      if (heard.length === 2) socket.send(Buffer.from('\0exit'));
    });
    socket.addEventListener('error', () => reject(new Error('the web socket failed')));
    socket.addEventListener('close', () => resolve());
    await ended;
    await dispatcher.close();
    expect(heard).toEqual([
      '1 running command=sh&command=-c&command=a%26b&input=1&output=1',
      '1 HELLO',
      '3 {"kind":"Status","status":"Success"}',
    ]);
  });

  it.each(['true', 'false'])(
    'tells kubectl in its own words why a command is not run (web sockets: %s)',
    async (KUBECTL_REMOTE_COMMAND_WEBSOCKETS) => {
      const { exitCode, stderr } = await one.tryKubectl(['-n', 'logged', 'exec', 'web', '--', 'ls'], {
        env: { KUBECTL_REMOTE_COMMAND_WEBSOCKETS },
      });
      expect(exitCode).not.toBe(0);
      expect(stderr).toContain('the fake kubelet speaks web sockets only');
      expect(kubelet.asked.at(-1)).toMatch(/^POST \/exec\/[^/]+\/web\/main\?command=ls&error=1&output=1$/);
    },
  );

  it('says of pods on simulated nodes that they run no containers', async () => {
    const { stderr } = await one.tryKubectl(['-n', 'logged', 'logs', 'simulated']);
    expect(stderr).toContain(
      'logs is not available for pod simulated: its node is simulated and runs no containers',
    );
    const { stderr: said } = await one.tryKubectl(['-n', 'logged', 'exec', 'simulated', '--', 'ls']);
    expect(said).toContain('exec is not available for pod simulated: its node is simulated');
  });

  it('keeps to itself what concerns the whole node', async () => {
    const before = kubelet.asked.length;
    for (const path of ['runningpods/', 'logs/', 'stats/container', 'metrics', 'configz']) {
      const { exitCode, stderr } = await one.tryKubectl([
        'get',
        '--raw',
        `/api/v1/nodes/${nodeName}/proxy/${path}`,
      ]);
      expect(exitCode, path).not.toBe(0);
      expect(stderr, path).toContain('the node is shared, and this would show more than your own pods');
    }
    expect(kubelet.asked.slice(before)).toEqual([]);
  });

  it("answers for a node with the tenant's own pods there, by the port of kubelets and by no other", async () => {
    const node = await one.client.get(resources.nodes, { name: nodeName });
    const { port } = placeOf(node);
    const raw = (name: string, path: string) =>
      one.tryKubectl(['get', '--raw', `/api/v1/nodes/${name}/proxy/${path}`]);
    // Of several stacks on one machine one has the usual port.
    for (const name of [nodeName, `https:${nodeName}:`, ...(port === 10_250 ? [`${nodeName}:10250`] : [])]) {
      const { stdout, stderr } = await raw(name, 'pods');
      expect(stderr).toBe('');
      const { items } = JSON.parse(stdout) as { items: KubeObject[] };
      expect(items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)).toEqual(['logged/web']);
      expect(JSON.parse((await raw(name, 'stats/summary')).stdout)).toMatchObject({
        node: { nodeName, cpu: { usageNanoCores: 250_000_000 } },
        pods: [{ podRef: { namespace: 'logged', name: 'web' }, memory: { workingSetBytes: 64 << 20 } }],
      });
      expect((await raw(name, 'healthz')).stdout).toBe('ok');
    }
    const simulated = await one.client.get(resources.pods, { namespace: 'logged', name: 'simulated' });
    const { stdout } = await raw(at<string>(simulated, 'spec', 'nodeName') ?? '', 'pods');
    const { items } = JSON.parse(stdout) as { items: KubeObject[] };
    // Other suites leave pods of other namespaces there.
    const here = items.filter(({ metadata }) => metadata.namespace === 'logged');
    expect(here.map(({ metadata }) => metadata.name)).toEqual(['simulated']);
    for (const name of [`${nodeName}:1`, `http:${nodeName}:8080`, `https:${nodeName}:${port + 1}`]) {
      const { exitCode, stderr } = await raw(name, 'pods');
      expect([name, exitCode]).toEqual([name, 1]);
      expect(stderr).toContain('A node is asked at its kubelet port alone');
    }
  });

  /** Asks the kubelet's port with the certificate that a tenant's API server has for it, or another one. */
  const ask = async (tenant: Tenant, path: string, names = 'kubelet-client'): Promise<KubeletAnswer> => {
    const response = await open(tenant, path, names);
    return { status: response.statusCode, body: await text(response) };
  };

  const open = async (tenant: Tenant, path: string, names = 'kubelet-client'): Promise<IncomingMessage> => {
    const files = join(world.stateDir, 'control-planes', tenant.id, 'files', 'kube-apiserver');
    const node = await tenant.client.get(resources.nodes, { name: nodeName });
    const asked = request({
      ...placeOf(node),
      path,
      ca: await readFile(join(files, 'kubelet-ca.crt')),
      cert: await readFile(join(files, `${names}.crt`)),
      key: await readFile(join(files, `${names}.key`)),
      agent: false,
    });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    return response;
  };

  it("gives the API server of a tenant its own pods, and not another's of whatever name", async () => {
    expect(await ask(other, '/containerLogs/logged/theirs/main')).toMatchObject({ status: 200 });
    const before = kubelet.asked.length;
    expect(await ask(one, '/containerLogs/logged/theirs/main')).toEqual({
      status: 404,
      body: 'pod "theirs" does not exist on this node',
    });
    const [theirs] = await world.superCluster.client
      .list(resources.pods, { labelSelector: `skerry.dev/tenant=${other.uid}` })
      .then(({ items }) => items.filter(({ metadata }) => metadata.name === 'theirs'));
    expect(theirs).toBeDefined();
    const path = `/containerLogs/${theirs?.metadata.namespace}/theirs/main`;
    expect(await ask(one, path)).toMatchObject({ status: 404 });
    expect(await ask(one, '/pods')).toMatchObject({ status: 400 });
    expect(kubelet.asked.slice(before)).toEqual([]);
  });

  it('knows nobody by another certificate of the tenant', async () => {
    for (const names of ['front-proxy-client', 'etcd-client']) {
      const { status, body } = await ask(one, '/containerLogs/logged/web/main', names);
      expect([names, status]).toEqual([names, 401]);
      expect(body).toContain("is not that of a tenant's API server");
    }
  });

  it('stays where it is when a tenant writes another address into its Node', async () => {
    const { server: certificate } = await createTestCertificates();
    const lured: string[] = [];
    const trap = createServer({ ...certificate }, (asked, response) => {
      lured.push(asked.url ?? '');
      response.end('lured');
    });
    trap.on('tlsClientError', () => undefined);
    const Port = await listenInReach(trap, '127.0.0.1');
    const status = {
      addresses: [{ type: 'InternalDNS', address: '127.0.0.1' }],
      daemonEndpoints: { kubeletEndpoint: { Port } },
    };
    await one.client.patch(
      resources.nodes,
      { name: nodeName },
      { status },
      { type: 'merge', subresource: 'status' },
    );
    // Whether it is put back already or not: the API server does not take that for a kubelet.
    const { stdout } = await one.tryKubectl(['-n', 'logged', 'logs', 'web']);
    expect(stdout).not.toContain('lured');
    await one.until(
      { resource: resources.nodes, name: nodeName, what: 'the address of the node to be put back' },
      ([node]) => node !== undefined && placeOf(node).port !== Port,
    );
    expect(await one.kubectl('-n', 'logged', 'logs', 'web')).toContain('logs of web/main');
    expect(lured).toEqual([]);
    trap.close();
  });

  it('serves top: of pods and nodes what is the tenant’s own', async () => {
    for (const tenant of [one, other]) {
      await tenant.until({ resource: apiServices, what: 'the metrics API' }, (all: KubeObject[]) =>
        all.some(
          (each) =>
            each.metadata.name === 'v1beta1.metrics.k8s.io' &&
            at(each, 'status', 'conditions', '0', 'status') === 'True',
        ),
      );
      // Discovery asks for itself, and later.
      const versions = async (): Promise<string> => (await tenant.tryKubectl(['api-versions'])).stdout;
      await expect.poll(versions).toContain('metrics.k8s.io/v1beta1');
    }
    const rows = (printed: string): string[] =>
      printed
        .trim()
        .split('\n')
        .map((row) => row.trim().replace(/\s+/g, ' '));
    expect(rows(await one.kubectl('top', 'pod', '-n', 'logged', '--no-headers')).toSorted()).toEqual([
      // Its node is simulated, and so are its figures.
      'simulated 10m 32Mi',
      'web 250m 64Mi',
    ]);
    expect(
      rows(await other.kubectl('top', 'pod', '-n', 'logged', '-l', 'app=theirs', '--no-headers')),
    ).toEqual(['theirs 250m 64Mi']);
    // The fake says nothing of itself but what all pods of both tenants use.
    expect(rows(await one.kubectl('top', 'node', nodeName, '--no-headers'))).toEqual([
      `${nodeName} 250m 3% 64Mi 0%`,
    ]);
    expect(rows(await other.kubectl('top', 'node', nodeName, '--no-headers'))).toEqual([
      `${nodeName} 500m 6% 128Mi 0%`,
    ]);
    const { items } = await world.superCluster.client.list(resources.services, {
      labelSelector: 'skerry.dev/tenant',
    });
    expect(items.map(({ metadata }) => metadata.name)).not.toContain('skerry-metrics');
    await world.expectAgreement([one, other]);
  });

  it('has autoscalers see the utilisation of simulated pods, and act on it', async () => {
    const name = 'busy';
    await one.apply(
      {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { namespace: 'logged', name },
        spec: {
          replicas: 1,
          selector: { matchLabels: { app: name } },
          template: {
            metadata: { labels: { app: name }, annotations: { 'simulation.skerry.dev/cpu': '90m' } },
            spec: { containers: [container({ resources: { requests: { cpu: '100m' } } })] },
          },
        },
      },
      {
        apiVersion: 'autoscaling/v2',
        kind: 'HorizontalPodAutoscaler',
        metadata: { namespace: 'logged', name },
        spec: {
          scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
          minReplicas: 1,
          maxReplicas: 2,
          metrics: [
            {
              type: 'Resource',
              resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 50 } },
            },
          ],
        },
      },
    );
    const autoscalers = resource(
      'autoscaling',
      'v2',
      'horizontalpodautoscalers',
      'HorizontalPodAutoscaler',
      true,
    );
    await one.until(
      {
        resource: autoscalers,
        namespace: 'logged',
        name,
        what: 'the utilisation, and two replicas',
      },
      ([scaler]) =>
        scaler !== undefined &&
        at(scaler, 'status', 'currentMetrics', '0', 'resource', 'current', 'averageUtilization') === 90 &&
        at(scaler, 'status', 'desiredReplicas') === 2,
    );
    await one.kubectl('-n', 'logged', 'delete', 'hpa,deployment', name);
  });

  it('cuts what a tenant has open when it goes, and knows it no longer', async () => {
    const following = await open(other, '/containerLogs/logged/theirs/main?follow=true');
    const [beginning] = await once(following, 'data');
    expect(String(beginning)).toContain('logs of theirs/main');
    const files = join(world.stateDir, 'control-planes', other.id, 'files', 'kube-apiserver');
    const [ca, cert, key] = await Promise.all(
      ['kubelet-ca.crt', 'kubelet-client.crt', 'kubelet-client.key'].map((name) =>
        readFile(join(files, name)),
      ),
    );
    const node = await other.client.get(resources.nodes, { name: nodeName });
    const cut = text(following).then(
      () => 'ended',
      () => 'cut',
    );
    const deleted = await world.cli(['delete', other.name, '--yes']);
    expect(deleted.exitCode, deleted.stderr).toBe(0);
    expect(await cut).toBe('cut');
    const again = request({
      ...placeOf(node),
      path: '/healthz',
      ...{ ca, cert, key },
      agent: false,
    });
    again.end();
    const [response] = (await once(again, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(401);
    response.destroy();
  });
});

/** Where a tenant's API server looks for the kubelet of this node. */
function placeOf(node: KubeObject): { host: string; port: number } {
  return {
    host: at<string>(node, 'status', 'addresses', '0', 'address') ?? '',
    port: at<number>(node, 'status', 'daemonEndpoints', 'kubeletEndpoint', 'Port') ?? 0,
  };
}
