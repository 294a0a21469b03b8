import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { NodeApi } from './node-api.ts';
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
  const nodeApi = new NodeApi({ read }, new FakeClock(), (error) => faults.push(error));
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
