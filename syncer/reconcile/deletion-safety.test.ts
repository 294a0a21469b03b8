import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { keyId } from './keys.ts';
import { Bench } from './testing/bench.ts';

const boundPod = (name: string): KubeObject => ({
  metadata: { name, namespace: 'shop', annotations: { [annotationKeys.superUid]: `s-${name}` } },
  spec: { nodeName: 'n1', serviceAccountName: 'default', containers: [{ name: 'main', image: 'busybox' }] },
  status: { phase: 'Running' },
});

/** A ConfigMap of the super cluster whose original was not seen going. */
function orphan(bench: Bench): void {
  bench.namespace('shop');
  const original = { metadata: { name: 'x', namespace: 'shop', uid: 't1' } };
  bench.have('super', resources.configMaps, bench.superOf(original));
}

describe('the gate before every deletion (sync rule `confirmed-delete`)', () => {
  it('opens for what the live server does not have', async () => {
    await using bench = await Bench.start();
    orphan(bench);
    await bench.reconcile('configmaps', 'x', 'shop');
    expect(bench.super.server.list(resources.configMaps)).toEqual([]);
  });

  it('stays shut for what the live server has', async () => {
    await using bench = await Bench.start();
    orphan(bench);
    bench.server('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop', uid: 't1' } });
    expect(await bench.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'retry', code: 'stillThere' });
  });

  it('stays shut for the original of a hidden node, whose name only the server knows now', async () => {
    await using bench = await Bench.start({ tenant: { hideNodes: true } });
    const node = bench.have('super', resources.nodes, { metadata: { name: 'n1' } });
    bench.server('super', resources.nodes, { metadata: { name: 'n2' } });
    const shown = shownNodeName(bench.state.info, 'n1');
    await bench.reconcile('nodes', shown);
    const [copy] = bench.tenant.server.list(resources.nodes) as [KubeObject];
    expect(copy.metadata.name).toBe(shown);
    bench.show('tenant', resources.nodes, copy);
    bench.hide('super', resources.nodes, node);
    expect(await bench.reconcile('nodes', shown)).toEqual({ is: 'retry', code: 'stillThere' });
    bench.super.server.remove(resources.nodes, { name: 'n1' });
    await bench.clock.advance(2_000);
    await bench.reconcile('nodes', shown);
    expect(bench.tenant.server.list(resources.nodes)).toEqual([]);
  });

  it('lists nodes once for all that say they are hidden ones, and keeps the list for two seconds', async () => {
    await using bench = await Bench.start({ tenant: { hideNodes: true } });
    const forge = (name: string): void => {
      const annotations = { [annotationKeys.uid]: 'anything' };
      bench.have('tenant', resources.nodes, { metadata: { name, annotations } });
    };
    const lists = (): number => bench.asked('super').filter((each) => each === 'list nodes').length;
    const names = Array.from({ length: 15 }, (_, n) => `forged-${n}`);
    for (const name of names) forge(name);
    await Promise.all(names.map((name) => bench.reconcile('nodes', name)));
    expect(bench.tenant.server.list(resources.nodes)).toEqual([]);
    expect(lists()).toBe(1);
    await bench.clock.advance(2_000);
    forge('later');
    await bench.reconcile('nodes', 'later');
    expect(lists()).toBe(2);
  });

  it('asks again for a list that failed', async () => {
    await using bench = await Bench.start({ tenant: { hideNodes: true } });
    const annotations = { [annotationKeys.uid]: 'anything' };
    bench.have('tenant', resources.nodes, { metadata: { name: 'forged', annotations } });
    bench.super.server.inject({
      verb: 'list',
      plural: 'nodes',
      times: 1,
      fault: { kind: 'status', code: 500 },
    });
    expect(await bench.reconcile('nodes', 'forged')).toMatchObject({ is: 'retry', code: '500' });
    expect(await bench.reconcile('nodes', 'forged')).toEqual({ is: 'done' });
  });

  it('asks the super cluster for what a tenant says is a copy no more than so often, and for others as before', async () => {
    await using bench = await Bench.start();
    const forged: KubeObject = {
      metadata: { name: 'forged', uid: 'f', annotations: { [annotationKeys.uid]: 'anything' } },
    };
    bench.show('tenant', resources.nodes, forged);
    // The server of the tenant has no such node, so that it stays in the cache.
    let outcome = await bench.reconcile('nodes', 'forged');
    let tries = 1;
    for (; outcome.is !== 'retry' && tries < 1_100; tries += 1)
      outcome = await bench.reconcile('nodes', 'forged');
    expect(outcome).toEqual({ is: 'retry', code: 'liveChecks', afterMs: 5_000 });
    expect(tries).toBe(1_001);
    const asked = bench.asked('super').length;
    await bench.reconcile('nodes', 'forged');
    expect(bench.asked('super')).toHaveLength(asked);
    orphan(bench);
    await bench.reconcile('configmaps', 'x', 'shop');
    expect(bench.super.server.list(resources.configMaps)).toEqual([]);
    await bench.clock.advance(1_000);
    await bench.reconcile('nodes', 'forged');
    expect(bench.asked('super').length).toBeGreaterThan(asked + 1);
  });

  it('asks for a hidden node by the name that it had when it was seen going', async () => {
    await using bench = await Bench.start({ tenant: { hideNodes: true } });
    const node = bench.have('super', resources.nodes, { metadata: { name: 'n1' } });
    const shown = shownNodeName(bench.state.info, 'n1');
    await bench.reconcile('nodes', shown);
    bench.show('tenant', resources.nodes, bench.tenant.server.list(resources.nodes)[0] as KubeObject);
    const id = keyId({ kind: 'nodes', name: shown });
    bench.state.tombstones.super.set(id, { uid: node.metadata.uid ?? '', object: node });
    bench.hide('super', resources.nodes, node);
    await bench.reconcile('nodes', shown);
    expect(bench.super.server.requests.map(({ verb, name }) => `${verb} ${name}`)).toContain('get n1');
    expect(bench.asked('super')).not.toContain('list nodes');
  });

  it('shuts at once, for everything, when the tenant is another server', async () => {
    await using bench = await Bench.start();
    orphan(bench);
    bench.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    expect(await bench.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(bench.state.frozen).toBe('TenantIdentity');
    expect(bench.reports).toEqual(['mismatch tenant']);
    bench.tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'tenant' } });
    expect(await bench.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(bench.state.held.get('configmaps/shop/x')).toBe(true);
  });

  it('remembers no more than 10,000 of the keys that it has held back', async () => {
    await using bench = await Bench.start();
    bench.state.frozen = 'TenantIdentity';
    for (let index = 0; index < 10_010; index += 1) {
      const name = `forged-${index}`;
      const metadata = { name, uid: name, annotations: { [annotationKeys.uid]: 'anything' } };
      bench.show('tenant', resources.storageClasses, { metadata });
      expect(await bench.reconcile('storageclasses', name)).toEqual({ is: 'held' });
      // Each is there for a moment only.
      bench.hide('tenant', resources.storageClasses, { metadata });
    }
    expect(bench.state.held.size).toBe(10_000);
  });

  it('shuts in both directions when the super cluster is not the one that the tenant was made on', async () => {
    await using bench = await Bench.start({ superIdentity: 'another' });
    bench.namespace('shop');
    bench.have('tenant', resources.pods, boundPod('web'));
    expect(await bench.reconcile('pods', 'web', 'shop')).toEqual({ is: 'held' });
    expect(bench.state.frozen).toBe('SuperClusterIdentity');
    bench.state.frozen = undefined;
    const original = { metadata: { name: 'x', namespace: 'shop', uid: 't1' } };
    bench.have('super', resources.configMaps, bench.superOf(original));
    expect(await bench.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(bench.reports).toEqual(['mismatch super', 'mismatch super']);
  });

  it('shuts when the super cluster has shown its own past', async () => {
    await using bench = await Bench.start();
    orphan(bench);
    bench.superIdentity.distrust('its versions ran backwards');
    expect(await bench.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(bench.reports).toEqual(['mismatch super']);
  });

  it('asks the super cluster itself before a pod is failed, even if its super object was seen going', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    const t = bench.have('tenant', resources.pods, boundPod('web'));
    bench.state.tombstones.super.set('pods/shop/web', { uid: 's-web', object: bench.superOf(t) });
    await bench.reconcile('pods', 'web', 'shop');
    expect(bench.asked('super')).toEqual(['get pods']);
    expect(bench.asked('tenant')).toEqual(['patch pods', 'delete pods']);
  });

  it('holds back what would fail many pods of the tenant at once, until the operator has spoken (sync rule `mass-deletion-hold`)', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    const names = Array.from({ length: 25 }, (_, index) => `web-${index}`);
    for (const name of names) bench.have('tenant', resources.pods, boundPod(name));
    expect(await bench.reconcile('pods', 'web-0', 'shop')).toEqual({ is: 'held' });
    expect(bench.reports).toEqual(['held']);
    expect(bench.asked('tenant')).toEqual([]);
    const { hold } = bench.state.tenantDeletions;
    expect(hold).toMatchObject({ missing: 25, total: 25 });
    expect(bench.state.tenantDeletions.confirm(hold?.id ?? '')).toBe(true);
    await bench.reconcile('pods', 'web-0', 'shop');
    expect(bench.asked('tenant')).toEqual(['patch pods', 'delete pods']);
  });

  it('holds back objects that only look unused while those that use them are missing', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    for (let index = 0; index < 25; index++) {
      bench.have(
        'super',
        resources.pods,
        bench.superOf({ metadata: { name: `web-${index}`, namespace: 'shop', uid: `t${index}` } }),
      );
    }
    const t = bench.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
    bench.have('super', resources.configMaps, bench.superOf(t));
    expect(await bench.reconcile('configmaps', 'x', 'shop')).toEqual({ is: 'held' });
    expect(bench.super.server.list(resources.configMaps)).toHaveLength(1);
  });

  it('lets a pod end that the tenant itself is deleting, however many have lost their super object', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    for (let index = 0; index < 25; index++) bench.have('tenant', resources.pods, boundPod(`web-${index}`));
    const { metadata, ...rest } = boundPod('leaving');
    const leaving = { deletionTimestamp: '2030-01-01T00:00:30Z', deletionGracePeriodSeconds: 30 };
    bench.have('tenant', resources.pods, { ...rest, metadata: { ...metadata, ...leaving } });
    await bench.reconcile('pods', 'leaving', 'shop');
    expect(bench.asked('tenant')).toContain('delete pods');
  });
});
