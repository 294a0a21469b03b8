import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import { type KubeClient, type KubeObject, resources } from '../../kube/index.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { SharedLists } from './deletion-safety.ts';
import { keyId } from './keys.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';

const boundPod = (name: string): KubeObject => ({
  metadata: { name, namespace: 'shop', annotations: { [annotationKeys.superUid]: `s-${name}` } },
  spec: { nodeName: 'n1', serviceAccountName: 'default', containers: [{ name: 'main', image: 'busybox' }] },
  status: { phase: 'Running' },
});

/** A ConfigMap of the super cluster whose original was not seen going. */
function orphan(harness: ReconcilerHarness): void {
  harness.namespace('shop');
  const original = { metadata: { name: 'x', namespace: 'shop', uid: 't1' } };
  harness.have('super', resources.configMaps, harness.superOf(original));
}

describe('the gate before every deletion (sync rule `confirmed-delete`)', () => {
  it('opens for what the live server does not have', async () => {
    await using harness = await ReconcilerHarness.start();
    orphan(harness);
    await harness.reconcile('configmaps', 'x', 'shop');
    expect(harness.super.server.list(resources.configMaps)).toEqual([]);
  });

  it('stays shut for what the live server has', async () => {
    await using harness = await ReconcilerHarness.start();
    orphan(harness);
    harness.server('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop', uid: 't1' } });
    expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'retry', code: 'stillThere' });
  });

  it('stays shut for the original of a hidden node, whose name only the server knows now', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { hideNodes: true } });
    const node = harness.have('super', resources.nodes, { metadata: { name: 'n1' } });
    harness.server('super', resources.nodes, { metadata: { name: 'n2' } });
    const shown = shownNodeName(harness.state.info, 'n1');
    await harness.reconcile('nodes', shown);
    const [copy] = harness.tenant.server.list(resources.nodes) as [KubeObject];
    expect(copy.metadata.name).toBe(shown);
    harness.show('tenant', resources.nodes, copy);
    harness.hide('super', resources.nodes, node);
    expect(await harness.reconcile('nodes', shown)).toEqual({ is: 'retry', code: 'stillThere' });
    harness.super.server.remove(resources.nodes, { name: 'n1' });
    await harness.clock.advance(2_000);
    await harness.reconcile('nodes', shown);
    expect(harness.tenant.server.list(resources.nodes)).toEqual([]);
  });

  it('lists nodes once for all that say they are hidden ones, and keeps the list for two seconds', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { hideNodes: true } });
    const forge = (name: string): void => {
      const annotations = { [annotationKeys.uid]: 'anything' };
      harness.have('tenant', resources.nodes, { metadata: { name, annotations } });
    };
    const lists = (): number => harness.asked('super').filter((each) => each === 'list nodes').length;
    const names = Array.from({ length: 15 }, (_, n) => `forged-${n}`);
    for (const name of names) forge(name);
    await Promise.all(names.map((name) => harness.reconcile('nodes', name)));
    expect(harness.tenant.server.list(resources.nodes)).toEqual([]);
    expect(lists()).toBe(1);
    await harness.clock.advance(2_000);
    forge('later');
    await harness.reconcile('nodes', 'later');
    expect(lists()).toBe(2);
  });

  it('asks again when the clock was set back, as the list may be old', async () => {
    let asked = 0;
    const list = async (): Promise<{ items: KubeObject[] }> => ({
      items: [{ metadata: { name: `n${++asked}` } }],
    });
    const lists = new SharedLists({ list } as unknown as KubeClient);
    await lists.of(resources.nodes, 3_600_000);
    expect(await lists.of(resources.nodes, 1_000)).toEqual([{ metadata: { name: 'n2' } }]);
    expect(await lists.of(resources.nodes, 1_500)).toEqual([{ metadata: { name: 'n2' } }]);
  });

  it('asks again for a list that failed', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { hideNodes: true } });
    const annotations = { [annotationKeys.uid]: 'anything' };
    harness.have('tenant', resources.nodes, { metadata: { name: 'forged', annotations } });
    harness.super.server.inject({
      verb: 'list',
      plural: 'nodes',
      times: 1,
      fault: { kind: 'status', code: 500 },
    });
    expect(await harness.reconcile('nodes', 'forged')).toMatchObject({ is: 'retry', code: '500' });
    expect(await harness.reconcile('nodes', 'forged')).toEqual({ is: 'done' });
  });

  it('asks the super cluster for what a tenant says is a copy no more than so often, and for others as before', async () => {
    await using harness = await ReconcilerHarness.start();
    const forged: KubeObject = {
      metadata: { name: 'forged', uid: 'f', annotations: { [annotationKeys.uid]: 'anything' } },
    };
    harness.show('tenant', resources.nodes, forged);
    // The server of the tenant has no such node, so that it stays in the cache.
    let outcome = await harness.reconcile('nodes', 'forged');
    let tries = 1;
    for (; outcome.is !== 'retry' && tries < 1_100; tries += 1)
      outcome = await harness.reconcile('nodes', 'forged');
    expect(outcome).toEqual({ is: 'retry', code: 'liveChecks', afterMs: 5_000 });
    expect(tries).toBe(1_001);
    const asked = harness.asked('super').length;
    await harness.reconcile('nodes', 'forged');
    expect(harness.asked('super')).toHaveLength(asked);
    orphan(harness);
    await harness.reconcile('configmaps', 'x', 'shop');
    expect(harness.super.server.list(resources.configMaps)).toEqual([]);
    await harness.clock.advance(1_000);
    await harness.reconcile('nodes', 'forged');
    expect(harness.asked('super').length).toBeGreaterThan(asked + 1);
  });

  it('asks for a hidden node by the name that it had when it was seen going', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { hideNodes: true } });
    const node = harness.have('super', resources.nodes, { metadata: { name: 'n1' } });
    const shown = shownNodeName(harness.state.info, 'n1');
    await harness.reconcile('nodes', shown);
    harness.show('tenant', resources.nodes, harness.tenant.server.list(resources.nodes)[0] as KubeObject);
    const id = keyId({ kind: 'nodes', name: shown });
    harness.state.tombstones.super.set(id, { uid: node.metadata.uid ?? '', object: node });
    harness.hide('super', resources.nodes, node);
    await harness.reconcile('nodes', shown);
    expect(harness.super.server.requests.map(({ verb, name }) => `${verb} ${name}`)).toContain('get n1');
    expect(harness.asked('super')).not.toContain('list nodes');
  });

  it('shuts at once, for everything, when the tenant is another server', async () => {
    await using harness = await ReconcilerHarness.start();
    orphan(harness);
    harness.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(harness.state.frozen).toBe('TenantIdentity');
    expect(harness.reports).toEqual(['mismatch tenant']);
    harness.tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'tenant' } });
    expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(harness.state.held.get('configmaps/shop/x')).toBe(true);
  });

  it('remembers no more than 10,000 of the keys that it has held back', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.state.frozen = 'TenantIdentity';
    for (let index = 0; index < 10_010; index += 1) {
      const name = `forged-${index}`;
      const metadata = { name, uid: name, annotations: { [annotationKeys.uid]: 'anything' } };
      harness.show('tenant', resources.storageClasses, { metadata });
      expect(await harness.reconcile('storageclasses', name)).toEqual({ is: 'held' });
      // Each is there for a moment only.
      harness.hide('tenant', resources.storageClasses, { metadata });
    }
    expect(harness.state.held.size).toBe(10_000);
  });

  it('shuts in both directions when the super cluster is not the one that the tenant was made on', async () => {
    await using harness = await ReconcilerHarness.start({ superIdentity: 'another' });
    harness.namespace('shop');
    harness.have('tenant', resources.pods, boundPod('web'));
    expect(await harness.reconcile('pods', 'web', 'shop')).toEqual({ is: 'held' });
    expect(harness.state.frozen).toBe('SuperClusterIdentity');
    harness.state.frozen = undefined;
    const original = { metadata: { name: 'x', namespace: 'shop', uid: 't1' } };
    harness.have('super', resources.configMaps, harness.superOf(original));
    expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(harness.reports).toEqual(['mismatch super', 'mismatch super']);
  });

  it('shuts when the super cluster has shown its own past', async () => {
    await using harness = await ReconcilerHarness.start();
    orphan(harness);
    harness.superIdentity.distrust('its versions ran backwards');
    expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(harness.reports).toEqual(['mismatch super']);
  });

  it('asks the super cluster itself before a pod is failed, even if its super object was seen going', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const t = harness.have('tenant', resources.pods, boundPod('web'));
    harness.state.tombstones.super.set('pods/shop/web', { uid: 's-web', object: harness.superOf(t) });
    await harness.reconcile('pods', 'web', 'shop');
    expect(harness.asked('super')).toEqual(['get pods']);
    expect(harness.asked('tenant')).toEqual(['patch pods', 'delete pods']);
  });

  it('holds back what would fail many pods of the tenant at once, until the operator has spoken (sync rule `mass-deletion-hold`)', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const names = Array.from({ length: 25 }, (_, index) => `web-${index}`);
    for (const name of names) harness.have('tenant', resources.pods, boundPod(name));
    expect(await harness.reconcile('pods', 'web-0', 'shop')).toEqual({ is: 'held' });
    expect(harness.reports).toEqual(['held']);
    expect(harness.asked('tenant')).toEqual([]);
    const { hold } = harness.state.tenantDeletions;
    expect(hold).toMatchObject({ missing: 25, total: 25 });
    expect(harness.state.tenantDeletions.confirm(hold?.id ?? '')).toBe(true);
    await harness.reconcile('pods', 'web-0', 'shop');
    expect(harness.asked('tenant')).toEqual(['patch pods', 'delete pods']);
  });

  it('holds back objects that only look unused while those that use them are missing', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    for (let index = 0; index < 25; index++) {
      harness.have(
        'super',
        resources.pods,
        harness.superOf({ metadata: { name: `web-${index}`, namespace: 'shop', uid: `t${index}` } }),
      );
    }
    const t = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
    harness.have('super', resources.configMaps, harness.superOf(t));
    expect(await harness.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(harness.super.server.list(resources.configMaps)).toHaveLength(1);
  });

  it('lets a pod end that the tenant itself is deleting, however many have lost their super object', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    for (let index = 0; index < 25; index++) harness.have('tenant', resources.pods, boundPod(`web-${index}`));
    const { metadata, ...rest } = boundPod('leaving');
    const leaving = { deletionTimestamp: '2030-01-01T00:00:30Z', deletionGracePeriodSeconds: 30 };
    harness.have('tenant', resources.pods, { ...rest, metadata: { ...metadata, ...leaving } });
    await harness.reconcile('pods', 'leaving', 'shop');
    expect(harness.asked('tenant')).toContain('delete pods');
  });
});
