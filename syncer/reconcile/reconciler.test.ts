import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { allKinds } from '../kinds/registry.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';
import { resyncOf, settings } from './testing/resync-of.ts';

describe('reconcile', () => {
  const settings = (name: string, metadata: KubeObject['metadata'] = {}): KubeObject => ({
    metadata: { name, namespace: 'shop', labels: { [labelKeys.sync]: 'true' }, ...metadata },
    data: { a: '1' },
  });

  describe('the super namespace comes first (sync rule `namespace-names`)', () => {
    it('nothing is created while the cache does not show the tenant’s namespace, whatever the super cluster has', async () => {
      await using harness = await ReconcilerHarness.start();
      const earlier: KubeObject = { metadata: { name: 'shop', uid: 'earlier' } };
      harness.have('super', resources.namespaces, harness.superNamespaceOf(earlier));
      harness.have('tenant', resources.configMaps, settings('x'));
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'done' });
      expect(harness.asked('super')).toEqual([]);

      const own = harness.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(harness.asked('super')).toEqual([]);
      harness.super.server.remove(resources.namespaces, { name: harness.shop });
      harness.hide(
        'super',
        resources.namespaces,
        harness.superCaches.get(resources.namespaces, { name: harness.shop }) as KubeObject,
      );
      harness.have('super', resources.namespaces, harness.superNamespaceOf(own));
      await harness.reconcile('namespaces', 'shop');
      expect(harness.queued).toContain('configmaps/shop/x');
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(harness.asked('super')).toEqual(['create configmaps']);
    });

    it('an object without a namespace, as no server of Kubernetes has it, goes nowhere', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      const metadata = { name: 'x', uid: 'x' };
      const spec = { podSelector: {} };
      harness.show('tenant', resources.networkPolicies, { metadata, spec });
      expect(await harness.reconcile('networkpolicies', 'x')).toEqual({ is: 'done' });
      expect(harness.asked('super')).toEqual([]);
      harness.show('tenant', resources.networkPolicies, {
        metadata: { ...metadata, namespace: 'shop' },
        spec,
      });
      await harness.reconcile('networkpolicies', 'x', 'shop');
      expect(harness.asked('super')).toEqual(['create networkpolicies']);
    });

    it('one that was just made for an earlier namespace of that name does not count', async () => {
      await using harness = await ReconcilerHarness.start();
      const first = harness.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
      await harness.reconcile('namespaces', 'shop');
      expect(harness.asked('super')).toEqual(['create namespaces']);
      harness.tenant.server.remove(resources.namespaces, { name: 'shop' });
      harness.hide('tenant', resources.namespaces, first);
      harness.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
      harness.have('tenant', resources.configMaps, settings('x'));
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(harness.asked('super')).toEqual(['create namespaces']);
    });

    it('one that was just made for this namespace does', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
      harness.have('tenant', resources.configMaps, settings('x'));
      await harness.reconcile('namespaces', 'shop');
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(harness.asked('super')).toEqual(['create namespaces', 'create configmaps']);
    });
  });

  describe('a cache that is behind our own writes', () => {
    it('does not make the same object twice, and is looked at again although no event may ever come', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      harness.have('tenant', resources.configMaps, settings('x'));
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toMatchObject({ is: 'later' });
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toMatchObject({ is: 'later' });
      expect(harness.asked('super')).toEqual(['create configmaps']);
      // It was gone before any watch could show it.
      harness.super.server.remove(resources.configMaps, { namespace: harness.shop, name: 'x' });
      await harness.clock.advance(30_000);
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(harness.asked('super')).toEqual(['create configmaps', 'create configmaps']);
    });

    it('does not repeat a write, and forgets the wait when the watch has lost its place', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      const t = harness.have('tenant', resources.configMaps, settings('x'));
      harness.have('super', resources.configMaps, harness.superOf(t, { data: { a: 'drift' } }));
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toMatchObject({ is: 'later' });
      expect(harness.asked('super')).toEqual(['get configmaps', 'update configmaps']);
      await harness.clock.advance(5_000);
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'done' });
      expect(harness.asked('super')).toEqual(['get configmaps', 'update configmaps', 'get configmaps']);
    });
  });

  describe('an object that no server would take', () => {
    it('is refused with an event and is not sent, and another one of the tenant goes down', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      const policy = (name: string, peers: number): KubeObject => ({
        metadata: { name, namespace: 'shop' },
        spec: {
          podSelector: {},
          policyTypes: ['Ingress'],
          ingress: [
            {
              from: Array.from({ length: peers }, (_, at) => ({
                podSelector: { matchLabels: { [`key-${at}-${'x'.repeat(1_000)}`]: 'x' } },
              })),
            },
          ],
        },
      });
      harness.have('tenant', resources.networkPolicies, policy('huge', 4_000));
      harness.have('tenant', resources.networkPolicies, policy('small', 1));
      expect(await harness.reconcile('networkpolicies', 'huge', 'shop')).toMatchObject({
        is: 'refused',
        code: '413',
      });
      const [event] = harness.tenant.server.list(resources.events);
      expect(event).toMatchObject({
        reason: 'SyncRefused',
        message: expect.stringContaining('larger than the 3 MiB'),
      });
      expect(harness.asked('super')).toEqual([]);
      await harness.reconcile('networkpolicies', 'small', 'shop');
      expect(harness.asked('super')).toEqual(['create networkpolicies']);
    });
  });

  describe('a super object that is there although the cache does not show it', () => {
    it('gets back the label that we watch by, instead of the pod in the tenant being failed', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      const metadata = { name: 'web', namespace: 'shop', annotations: { [annotationKeys.superUid]: 's1' } };
      const spec = {
        nodeName: 'n1',
        serviceAccountName: 'default',
        containers: [{ name: 'main', image: 'busybox' }],
      };
      const t = harness.have('tenant', resources.pods, { metadata, spec, status: { phase: 'Running' } });
      const s = harness.superOf(t, { spec, status: { phase: 'Running' } });
      const { [labelKeys.tenant]: _lost, ...labels } = s.metadata.labels ?? {};
      harness.server('super', resources.pods, { ...s, metadata: { ...s.metadata, uid: 's1', labels } });
      // To a watch by label, losing the label is a deletion.
      harness.state.tombstones.super.set('pods/shop/web', { uid: 's1', object: s });
      await harness.reconcile('pods', 'web', 'shop');
      expect(harness.asked('tenant')).toEqual([]);
      expect(
        harness.super.server.get(resources.pods, { namespace: harness.shop, name: 'web' })?.metadata.labels,
      ).toMatchObject({
        [labelKeys.tenant]: harness.state.info.uid,
      });
    });

    it('is taken over again when it has lost its label and stands in the way of a create', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      const t = harness.have('tenant', resources.configMaps, settings('x'));
      const s = harness.superOf(t, { data: t['data'] });
      harness.server('super', resources.configMaps, { ...s, metadata: { ...s.metadata, labels: {} } });
      await harness.reconcile('configmaps', 'x', 'shop');
      const now = harness.super.server.get(resources.configMaps, { namespace: harness.shop, name: 'x' });
      expect(now?.metadata.labels?.[labelKeys.tenant]).toBe(harness.state.info.uid);
      expect(harness.tenant.server.list(resources.events)).toEqual([]);
    });

    it('is not deleted past the guards when it belongs to an earlier tenant object', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      harness.have('tenant', resources.configMaps, settings('x'));
      harness.server('super', resources.configMaps, harness.superOf(settings('x', { uid: 'earlier' })));
      harness.state.frozen = 'TenantIdentity';
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({
        is: 'retry',
        code: 'earlierObject',
      });
      expect(harness.asked('super')).toEqual(['create configmaps', 'get configmaps']);
    });

    it('does not make the tenant lose its object when the super cluster still has it', async () => {
      await using harness = await ReconcilerHarness.start({ tenant: { nodes: 'all' } });
      const node = harness.server('super', resources.nodes, { metadata: { name: 'n1' } });
      const copy = {
        metadata: { name: 'n1', annotations: { [annotationKeys.uid]: node.metadata.uid ?? '' } },
      };
      harness.have('tenant', resources.nodes, copy);
      expect(await harness.reconcile('nodes', 'n1')).toMatchObject({ is: 'retry', code: 'stillThere' });
      expect(harness.asked('tenant')).toEqual([]);
    });
  });

  describe('waiting for another key', () => {
    const pod: KubeObject = {
      metadata: { name: 'web', namespace: 'shop' },
      spec: {
        serviceAccountName: 'default',
        containers: [{ name: 'main', image: 'busybox', envFrom: [{ configMapRef: { name: 'x' } }] }],
      },
      status: { phase: 'Pending' },
    };

    it('ends when that one is in agreement', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
      harness.have('tenant', resources.pods, pod);
      await harness.reconcile('pods', 'web', 'shop');
      expect(harness.queued).toEqual(['configmaps/shop/x']);
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(harness.queued).toEqual(['configmaps/shop/x', 'pods/shop/web']);
      await harness.reconcile('pods', 'web', 'shop');
      expect(harness.asked('super')).toEqual(['create configmaps', 'create pods']);
    });

    it('ends when that one was refused first and is deleted then', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      const x = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
      harness.have('tenant', resources.pods, pod);
      await harness.reconcile('pods', 'web', 'shop');
      harness.super.server.inject({
        verb: 'create',
        plural: 'configmaps',
        fault: { kind: 'status', code: 422, reason: 'Invalid' },
      });
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toMatchObject({ is: 'refused' });
      expect(harness.queued).toEqual(['configmaps/shop/x']);
      harness.hide('tenant', resources.configMaps, x);
      await harness.reconcile('configmaps', 'x', 'shop');
      expect(harness.queued).toEqual(['configmaps/shop/x', 'pods/shop/web']);
    });
  });

  describe('a delete that answers with a conflict', () => {
    it('is not taken for done', async () => {
      await using harness = await ReconcilerHarness.start();
      harness.namespace('shop');
      harness.have('super', resources.configMaps, harness.superOf(settings('x', { uid: 't1' })));
      harness.super.server.inject({
        verb: 'delete',
        fault: { kind: 'status', code: 409, reason: 'Conflict' },
      });
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'conflict' });
      expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'done' });
      expect(harness.super.server.list(resources.configMaps)).toEqual([]);
    });
  });

  it('what cannot even be looked at is a failure of that key and nothing more', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.state.superRef = () => {
      throw new Error('nonsense');
    };
    expect(await harness.reconcile('configmaps', 'x', 'shop')).toMatchObject({
      is: 'retry',
      code: 'internal',
    });
  });

  it('a key of a kind that the tenant has let go of is dropped', async () => {
    await using harness = await ReconcilerHarness.start();
    expect(await harness.reconcile('widgets.example.com', 'x', 'shop')).toEqual({ is: 'done' });
    const key = { kind: 'widgets.example.com', namespace: 'shop', name: 'x' };
    expect(harness.reconciler.isDependencyMet(harness.state, key)).toBe(true);
    expect(harness.reconciler.driftOf(harness.state, key)).toBeUndefined();
  });
});

it('a resync compares two objects once, until one of them or a setting changes', async () => {
  await using harness = await ReconcilerHarness.start();
  harness.namespace('shop');
  const looked: string[] = [];
  const kinds = allKinds.map((kind) =>
    kind.direction === 'up'
      ? kind
      : {
          ...kind,
          down: (...sides: Parameters<typeof kind.down>) => {
            looked.push(`${kind.name}/${sides[0].metadata.name}`);
            return kind.down(...sides);
          },
        },
  );
  const running = { phase: 'Running', containerStatuses: [{ name: 'main', ready: true }] };
  const pod = (name: string, nodeName?: string): KubeObject => ({
    metadata: { name, namespace: 'shop' },
    spec: { nodeName, containers: [{ name: 'main', image: 'a' }] },
    status: running,
  });
  const inSuper = (own: KubeObject, image = 'a'): KubeObject => ({
    ...harness.superOf(own, { spec: { nodeName: 'n1', containers: [{ name: 'main', image }] } }),
    status: running,
  });
  const marked = (own: KubeObject, s: KubeObject): KubeObject => ({
    ...own,
    metadata: { ...own.metadata, annotations: { [annotationKeys.superUid]: s.metadata.uid ?? '' } },
  });
  const t = harness.have('tenant', resources.pods, pod('run', 'n1'));
  const s = harness.have('super', resources.pods, inSuper(t));
  harness.have('tenant', resources.pods, marked(t, s));
  const same = harness.have('tenant', resources.configMaps, settings('same'));
  harness.have('super', resources.configMaps, harness.superOf(same));
  await harness.reconcile('configmaps', 'same', 'shop');
  const { resync, queued } = resyncOf(harness, { kinds });
  const round = async (): Promise<string[]> => {
    looked.length = 0;
    await resync.run(harness.state);
    return looked.filter((id) => id.startsWith('pods/') || id.startsWith('configmaps/'));
  };

  expect((await round()).toSorted()).toEqual(['configmaps/same', 'pods/run']);
  expect(queued).toEqual([]);
  // Only kinds that say so: others may depend on more.
  expect(await round()).toEqual(['configmaps/same']);
  harness.state.updateInfo({ ...harness.state.info });
  expect(await round()).toContain('pods/run');
  expect(await round()).toEqual(['configmaps/same']);

  const own = marked(t, s);
  harness.have('tenant', resources.pods, { ...own, metadata: { ...own.metadata, labels: { a: 'new' } } });
  expect(await round()).toContain('pods/run');
  harness.have('tenant', resources.pods, own);
  expect(await round()).toContain('pods/run');
  expect(queued).toEqual(['pods/shop/run']);
  harness.have('super', resources.pods, { ...inSuper(t, 'drift'), metadata: s.metadata });
  await round();
  expect(queued).toHaveLength(2);
  // What differs is not forgotten.
  await round();
  expect(queued).toHaveLength(3);
});
