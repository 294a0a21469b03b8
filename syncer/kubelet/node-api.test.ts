import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { ListResponses } from './list-responses.ts';
import { MetricsApi } from './metrics-api.ts';
import { NodeApi, type NodeRequest } from './node-api.ts';
import { FakeResponse } from './testing/fake-response.ts';
import { KubeletWorld, type TestTenant } from './testing/kubelet-world.ts';
import type { UsageReader } from './usage-sources.ts';

const takenAtMs = Date.parse('2026-01-02T03:04:05Z');

/** Every pod's `main` uses a quarter of a core, and what the super cluster has put beside it more. */
const everyPod: UsageReader['read'] = async (pods) =>
  new Map(
    pods.map(({ metadata }) => [
      metadata.uid ?? '',
      {
        takenAtMs,
        windowMs: 10_000,
        containers: [
          { name: 'main', nanoCores: 250_000_000, workingSetBytes: 64 << 20 },
          { name: 'injected', nanoCores: 9e9, workingSetBytes: 9 << 20 },
        ],
      },
    ]),
  );

async function world(
  read = everyPod,
  faults: unknown[] = [],
): Promise<
  KubeletWorld & { get: (of: TestTenant, path: string, uri?: string) => ReturnType<KubeletWorld['ask']> }
> {
  const clock = new FakeClock();
  const onFault = (error: unknown): number => faults.push(error);
  const nodeApi = new NodeApi({ answers: new ListResponses(clock), reader: { read }, clock, onFault });
  const there = await KubeletWorld.start({
    nodeApi: (client, asked, response) => nodeApi.answer(client, asked, response),
  });
  const get = (of: TestTenant, path: string, uri = `/api/v1/nodes/node-1:10250/proxy${path}`) =>
    there.ask(path, of.kubeletClient, { headers: { 'x-forwarded-uri': uri } });
  return Object.assign(there, { get });
}

/** One more pod of this tenant, on another node. */
function elsewhere(tenant: TestTenant): void {
  const [pod, node] = tenant.tenantObjects as [KubeObject, KubeObject];
  const [superPod] = tenant.superObjects as [KubeObject];
  const renamed = (object: KubeObject, uid: string): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, name: 'web-2', uid },
    spec: { ...(object['spec'] as object), nodeName: 'node-2' },
  });
  const there = renamed(superPod, 'super-2');
  there.metadata.annotations = { ...there.metadata.annotations, [annotationKeys.uid]: 'pod-2' };
  const second = { ...node, metadata: { name: 'node-2' } };
  tenant.tenantObjects = [...tenant.tenantObjects, renamed(pod, 'pod-2'), second];
  tenant.superObjects = [...tenant.superObjects, there, second];
}

describe('a node that is asked for its pods', () => {
  it("lists the tenant's own there, as its API server has them", async () => {
    await using there = await world();
    elsewhere(there.blue);
    const names = async (node: string): Promise<unknown> => {
      const { status, body } = await there.get(there.blue, '/pods', `/api/v1/nodes/${node}/proxy/pods`);
      expect(status).toBe(200);
      const { kind, items } = JSON.parse(body) as { kind: string; items: KubeObject[] };
      return [kind, items.map(({ metadata }) => `${metadata.namespace}/${metadata.name} ${metadata.uid}`)];
    };
    expect(await names('node-1')).toEqual(['PodList', ['shop/web-1 blue-pod']]);
    expect(await names('node-2:10250')).toEqual(['PodList', ['shop/web-2 pod-2']]);
    // Nothing of it is written into the super cluster's terms.
    expect((await there.get(there.green, '/pods/')).body).not.toContain(there.green.superNamespaceName);
    expect(there.faults).toEqual([]);
  });

  it('leaves out a pod that its API server only claims to have there', async () => {
    await using there = await world();
    const [pod] = there.blue.tenantObjects as [KubeObject];
    const invented = { ...pod, metadata: { ...pod.metadata, name: 'invented', uid: 'invented' } };
    const replaced = { ...pod, metadata: { ...pod.metadata, uid: 'another' } };
    there.blue.tenantObjects = [replaced, invented, ...there.blue.tenantObjects.slice(1)];
    expect(JSON.parse((await there.get(there.blue, '/pods')).body)).toMatchObject({ items: [] });
  });

  it('is the one of the name that the tenant sees, where nodes are hidden', async () => {
    await using there = await world();
    const { blue } = there;
    Object.assign(blue.info, { hideNodes: true });
    const name = shownNodeName(blue.info, 'node-1');
    blue.tenantObjects = [
      ...blue.tenantObjects.slice(0, 1),
      { ...blue.tenantObjects[1], metadata: { name } } as KubeObject,
    ];
    const { body } = await there.get(blue, '/pods', `/api/v1/nodes/${name}/proxy/pods`);
    expect(JSON.parse(body)).toMatchObject({ items: [{ metadata: { name: 'web-1' } }] });
    expect(await there.get(blue, '/pods')).toMatchObject({ status: 404 });
  });

  it('has to be named, and to be there', async () => {
    await using there = await world();
    const { blue } = there;
    expect(await there.ask('/pods', blue.kubeletClient)).toMatchObject({
      status: 400,
      body: expect.stringContaining('/api/v1/nodes/NAME/proxy/'),
    });
    const gone = '/api/v1/nodes/node-9/proxy/pods';
    expect(await there.get(blue, '/pods', gone)).toMatchObject({
      status: 404,
      body: 'node "node-9" does not exist',
    });
    blue.isComplete = false;
    expect(await there.get(blue, '/pods')).toMatchObject({ status: 503 });
  });

  it('is only read', async () => {
    await using there = await world();
    expect(await there.ask('/pods', there.blue.kubeletClient, { method: 'POST' })).toMatchObject({
      status: 405,
    });
    expect(await there.upgrade('/pods', there.blue.kubeletClient)).toMatchObject({ status: 404 });
  });
});

describe('a node that is asked for its summary', () => {
  it("says what the tenant's own containers use", async () => {
    await using there = await world();
    const { status, body } = await there.get(there.blue, '/stats/summary');
    const used = {
      cpu: { time: '2026-01-02T03:04:05Z', usageNanoCores: 250_000_000 },
      memory: { time: '2026-01-02T03:04:05Z', workingSetBytes: 64 << 20 },
    };
    expect(status).toBe(200);
    expect(JSON.parse(body)).toMatchObject({
      node: { nodeName: 'node-1', cpu: { usageNanoCores: 250_000_000 } },
      pods: [
        {
          podRef: { namespace: 'shop', name: 'web-1', uid: 'blue-pod' },
          containers: [{ name: 'main', ...used }],
          ...used,
        },
      ],
    });
    expect(body).not.toContain('injected');
  });

  it('goes without figures where there are none', async () => {
    const faults: unknown[] = [];
    for (const read of [async () => undefined, () => Promise.reject(new Error('no answer'))]) {
      await using there = await world(read, faults);
      const { status, body } = await there.get(there.blue, '/stats/summary');
      expect(status).toBe(200);
      expect(JSON.parse(body)).toMatchObject({ pods: [{ podRef: { name: 'web-1' }, containers: [] }] });
    }
    expect(faults).toHaveLength(1);
  });
});

/** Both APIs of one syncer, and what they write to clients that read nothing yet. */
async function unread() {
  const clock = new FakeClock();
  const answers = new ListResponses(clock);
  const reader = { read: everyPod };
  const nodeApi = new NodeApi({ answers, reader, clock, onFault: () => undefined });
  const metricsApi = new MetricsApi({ answers, reader, clock, nodes: () => [] });
  const there = await KubeletWorld.start();
  const clientOf = (tenant: TestTenant) => ({ uid: tenant.info.uid, tenant });
  return Object.assign(there, {
    clock,
    pods(of: TestTenant, what: NodeRequest['what'] = 'pods') {
      const response = new FakeResponse();
      const over = nodeApi.answer(clientOf(of), { what, node: 'node-1' }, response as never);
      over.catch(() => undefined);
      return { response, over };
    },
    metrics(of: TestTenant) {
      const response = new FakeResponse();
      const path = '/apis/metrics.k8s.io/v1beta1/pods';
      const asked = { path, query: new URLSearchParams(), method: 'GET', accept: '' };
      const over = metricsApi.answer(clientOf(of), asked, response as never);
      return { response, over };
    },
  });
}

describe('a tenant that asks for the pods of its nodes over hundreds of connections', () => {
  it.each(['pods', 'summary'] as const)(
    'gets one answer at a time, and another tenant its own: %s',
    async (what) => {
      await using there = await unread();
      const asked = Array.from({ length: 50 }, () => there.pods(there.blue, what));
      const others = there.metrics(there.blue);
      for (const [index, { response, over }] of asked.entries()) {
        await response.begun;
        const green = there.pods(there.green, what);
        expect(JSON.parse(await text(green.response))).toMatchObject({
          [what === 'pods' ? 'items' : 'pods']: [{}],
        });
        const begun = asked.filter(({ response: { statusCode } }) => statusCode !== 0);
        expect([begun.length, others.response.statusCode]).toEqual([index + 1, 0]);
        await text(response);
        await over;
      }
      expect(JSON.parse(await text(others.response))).toMatchObject({ kind: 'PodMetricsList', items: [{}] });
    },
  );

  it('is cut off where it does not read one', async () => {
    await using there = await unread();
    const [first, second] = [there.pods(there.blue), there.pods(there.blue)];
    await first.response.begun;
    await there.clock.advance(29_999);
    expect([first.response.destroyed, second.response.statusCode]).toEqual([false, 0]);
    await there.clock.advance(1);
    await expect(first.over).rejects.toThrow('the client takes too long');
    expect(first.response.destroyed).toBe(true);
    await second.response.begun;
    expect(JSON.parse(await text(second.response))).toMatchObject({ kind: 'PodList' });
    await there.clock.advance(60_000);
    await second.over;
  });

  it('is refused where a hundred wait already', async () => {
    await using there = await unread();
    const asked = Array.from({ length: 101 }, () => there.pods(there.blue));
    const more = there.pods(there.blue, 'summary');
    await expect(more.over).rejects.toMatchObject({ status: 429 });
    for (const { response, over } of asked) {
      response.destroy();
      await expect(over).rejects.toThrow('the client is gone');
    }
    const later = there.pods(there.blue);
    expect(JSON.parse(await text(later.response))).toMatchObject({ items: [{}] });
  });
});
