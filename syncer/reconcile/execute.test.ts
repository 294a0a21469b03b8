import { describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { Bench } from './testing/bench.ts';

const spec = { serviceAccountName: 'default', containers: [{ name: 'main', image: 'nginx:1' }] };

describe('the binding of a pod (sync rule `pod-binding`)', () => {
  it('is sent once, however often the super object changes before the tenant shows it', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    bench.have('tenant', resources.nodes, { metadata: { name: 'n1' } });
    const t = bench.have('tenant', resources.pods, {
      metadata: { namespace: 'shop', name: 'web' },
      spec,
      status: { phase: 'Pending' },
    });
    const s = bench.superOf(t, { spec: { ...spec, nodeName: 'n1' }, status: { phase: 'Pending' } });
    bench.have('super', resources.pods, { ...s, metadata: { ...s.metadata, uid: 'uid-of-s' } });
    for (let time = 0; time < 3; time++) await bench.reconcile('pods', 'web', 'shop');
    const bindings = bench.tenant.server.requests.filter(({ subresource }) => subresource === 'binding');
    expect(bindings).toHaveLength(1);
  });

  it('carries the labels of zone and region that binding the super object has added', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    bench.have('tenant', resources.nodes, { metadata: { name: 'n1' } });
    const t = bench.have('tenant', resources.pods, {
      metadata: { namespace: 'shop', name: 'web', labels: { app: 'web' } },
      spec,
      status: { phase: 'Pending' },
    });
    const zone = { 'topology.kubernetes.io/zone': 'a' };
    const s = bench.superOf(t, { spec: { ...spec, nodeName: 'n1' }, status: { phase: 'Pending' } });
    const metadata = { ...s.metadata, uid: 'uid-of-s', labels: { ...s.metadata.labels, ...zone } };
    bench.have('super', resources.pods, { ...s, metadata });
    await bench.reconcile('pods', 'web', 'shop');
    const bound = await bench.tenant.client.get(resources.pods, { namespace: 'shop', name: 'web' });
    expect(bound.metadata.labels).toEqual({ app: 'web', ...zone });
  });
});
