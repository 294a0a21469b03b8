import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { DownKind } from '../kinds/contract.ts';
import { podKind } from '../kinds/pods/pods.ts';
import { serviceKind } from '../kinds/services/services.ts';
import type { Situation } from './decide.ts';
import { Executor, recordOverQuota, type Work } from './execute.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';

const spec = { serviceAccountName: 'default', containers: [{ name: 'main', image: 'nginx:1' }] };

describe('the binding of a pod (sync rule `pod-binding`)', () => {
  it('is sent once, however often the super object changes before the tenant shows it', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.nodes, { metadata: { name: 'n1' } });
    const t = harness.have('tenant', resources.pods, {
      metadata: { namespace: 'shop', name: 'web' },
      spec,
      status: { phase: 'Pending' },
    });
    const s = harness.superOf(t, { spec: { ...spec, nodeName: 'n1' }, status: { phase: 'Pending' } });
    harness.have('super', resources.pods, { ...s, metadata: { ...s.metadata, uid: 'uid-of-s' } });
    for (let time = 0; time < 3; time++) await harness.reconcile('pods', 'web', 'shop');
    const bindings = harness.tenant.server.requests.filter(({ subresource }) => subresource === 'binding');
    expect(bindings).toHaveLength(1);
  });

  it('carries the labels of zone and region that binding the super object has added', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.nodes, { metadata: { name: 'n1' } });
    const t = harness.have('tenant', resources.pods, {
      metadata: { namespace: 'shop', name: 'web', labels: { app: 'web' } },
      spec,
      status: { phase: 'Pending' },
    });
    const zone = { 'topology.kubernetes.io/zone': 'a' };
    const s = harness.superOf(t, { spec: { ...spec, nodeName: 'n1' }, status: { phase: 'Pending' } });
    const metadata = { ...s.metadata, uid: 'uid-of-s', labels: { ...s.metadata.labels, ...zone } };
    harness.have('super', resources.pods, { ...s, metadata });
    await harness.reconcile('pods', 'web', 'shop');
    const bound = await harness.tenant.client.get(resources.pods, { namespace: 'shop', name: 'web' });
    expect(bound.metadata.labels).toEqual({ app: 'web', ...zone });
  });
});

describe('a patch (sync rule `contested-writes`)', () => {
  it('is held back when something undoes it again and again, and other writes of the object are not', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const t = harness.have('tenant', resources.configMaps, {
      metadata: {
        namespace: 'shop',
        name: 'x',
        labels: { 'skerry.dev/sync': 'true', 'helm.sh/chart': 'web' },
      },
      data: { round: '0' },
    });
    const s = harness.superOf(t, { data: { round: '0' } });
    const reverted = { ...s.metadata, labels: { ...s.metadata.labels, 'helm.sh/chart': 'undone' } };
    const writes = () =>
      harness.asked('super').filter((asked) => ['patch configmaps', 'update configmaps'].includes(asked))
        .length;
    let last: unknown;
    const round = async (data: Record<string, string>) => {
      harness.have('super', resources.configMaps, { ...s, data, metadata: reverted });
      last = await harness.reconcile('configmaps', 'x', 'shop');
      await harness.clock.advance(500);
    };
    for (let n = 0; n < 60; n++) await round({ round: '0' });
    expect(writes()).toBeGreaterThan(10);
    expect(writes()).toBeLessThan(30);
    expect(last).toMatchObject({ is: 'retry', code: 'contested' });
    const events = harness.tenant.server.list(resources.events);
    expect(events.map(({ reason }) => reason)).toEqual(['ContestedWrites']);
    expect(events[0]?.['message']).toContain('metadata.labels.helm.sh/chart');
    const before = writes();
    await round({ round: 'another' });
    expect(writes()).toBe(before + 1);
  });

  it('is held back when the tenant undoes it in a new way each time, until its source has changed', async () => {
    await using harness = await ReconcilerHarness.start();
    const kind = resources.priorityClasses;
    const gold = { metadata: { name: 'gold', labels: { 'skerry.dev/public': 'true' } }, value: 1_000 };
    harness.have('super', kind, gold);
    const reconcile = () => harness.reconcile('priorityclasses', 'gold');
    await reconcile();
    const writes = () => harness.asked('tenant').filter((asked) => asked === 'patch priorityclasses').length;
    let last: unknown;
    const round = async (added: string) => {
      const copy = await harness.tenant.client.get(kind, { name: 'gold' });
      const labels = { ...copy.metadata.labels, [added]: '' };
      harness.have('tenant', kind, { ...copy, metadata: { ...copy.metadata, labels } });
      last = await reconcile();
      await harness.clock.advance(500);
    };
    for (let n = 0; n < 60; n++) await round(`mine-${n}`);
    expect(writes()).toBeGreaterThan(10);
    expect(writes()).toBeLessThan(30);
    expect(last).toMatchObject({ is: 'retry', code: 'contested' });
    const before = writes();
    harness.have('super', kind, { ...gold, description: 'for few' });
    await round('mine');
    expect(writes()).toBe(before + 1);
  });
});

describe('why there is no super object, said in a status (sync rule `quota`)', () => {
  const statusWrites = (harness: ReconcilerHarness): number =>
    harness.tenant.server.requests.filter(
      ({ verb, subresource }) => verb === 'patch' && subresource === 'status',
    ).length;
  const notice = { type: 'Warning', reason: 'QuotaExceeded' } as const;
  const workOf = (harness: ReconcilerHarness, kind: DownKind, tenantObject: KubeObject): Work => ({
    kind,
    situation: {
      key: { kind: kind.name, namespace: 'shop', name: 'web' },
      tenantObject,
      namespaceReady: true,
      context: harness.state.context(),
    } as Situation,
    tenant: harness.state,
    signal: new AbortController().signal,
  });

  it.each([
    ['services', serviceKind],
    ['pods', podKind],
  ])('is written once in 10 s where the server never shows it: %s', async (_, kind) => {
    await using harness = await ReconcilerHarness.start();
    const hidden = harness.have('tenant', kind.resource, {
      metadata: { namespace: 'shop', name: 'web' },
      spec,
      status: {},
    });
    const say = async (requested: number): Promise<number> => {
      const stale = { ...hidden, metadata: { ...hidden.metadata } };
      const message = `exceeded quota, requested: pods=${requested}, used: pods=1 limited: pods=1`;
      return recordOverQuota(workOf(harness, kind, stale), { ...notice, message });
    };
    expect(await say(0)).toBe(0);
    for (let n = 1; n < 20; n++) expect(await say(n)).toBe(10_000);
    expect(statusWrites(harness)).toBe(1);
    await harness.clock.advance(10_000);
    expect(await say(20)).toBe(0);
    expect(statusWrites(harness)).toBe(2);
  });
});

describe('a super object that is held back', () => {
  it('is not even made', async () => {
    await using harness = await ReconcilerHarness.start();
    const executor = new Executor({
      superClient: harness.super.client,
      isDependencyMet: () => true,
      enqueue: () => undefined,
      holdsBack: async () => true,
    });
    const key = { kind: 'pods', namespace: 'shop', name: 'web' };
    const situation = { key, context: harness.state.context() } as Situation;
    const { signal } = new AbortController();
    let made = 0;
    const creation = {
      do: 'createSuper' as const,
      get object(): KubeObject {
        made += 1;
        return { metadata: { namespace: harness.shop, name: 'web' }, spec };
      },
    };
    const work = { kind: podKind, situation, tenant: harness.state, signal };
    expect(await executor.run([creation], work)).toEqual({ is: 'done' });
    expect([made, harness.asked('super')]).toEqual([0, []]);
  });
});
