import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { ActionGate } from './execute.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';

const spec = { serviceAccountName: 'default', containers: [{ name: 'main', image: 'nginx:1' }] };

async function reconciled(own: object, resource = resources.pods) {
  await using harness = await ReconcilerHarness.start();
  harness.namespace('shop');
  harness.have('tenant', resource, { metadata: { namespace: 'shop', name: 'web' }, ...own } as KubeObject);
  harness.have('super', resources.serviceAccounts, {
    metadata: { namespace: harness.shop, name: 'default' },
  });
  const outcome = await harness.reconcile(resource.plural, 'web', 'shop');
  const { items } = await harness.tenant.client.list(resources.events);
  return {
    outcome,
    asked: harness.asked('super'),
    events: items.map(({ reason, message }) => `${reason}: ${message}`),
  };
}

describe('what is about to be sent (sync rule `validated-writes`)', () => {
  it('of a pod with a field that is not known is not sent, and an event names the field', async () => {
    const newer = { ...spec, containers: [{ ...spec.containers[0], hostRoot: true }] };
    const { outcome, asked, events } = await reconciled({ spec: newer });
    expect(outcome).toMatchObject({ is: 'refused', code: 'UnknownField' });
    expect(asked).toEqual([]);
    expect(events).toEqual([
      expect.stringContaining(
        'UnknownField: this cluster does not take the field spec.containers[0].hostRoot',
      ),
    ]);
  });

  it('is, without the field', async () => {
    expect(await reconciled({ spec })).toMatchObject({ asked: ['create pods'], events: [] });
  });

  it('is judged as a gate has left it', async () => {
    const lift = (action: Parameters<ActionGate>[1]): typeof action =>
      action.do === 'createSuper'
        ? { ...action, object: { ...action.object, spec: { ...spec, hostRoot: true } } }
        : action;
    const sent = async (gate: ActionGate) => {
      await using harness = await ReconcilerHarness.start({ gates: { pods: gate } });
      harness.namespace('shop');
      harness.have('tenant', resources.pods, { metadata: { namespace: 'shop', name: 'web' }, spec });
      harness.have('super', resources.serviceAccounts, {
        metadata: { namespace: harness.shop, name: 'default' },
      });
      const outcome = await harness.reconcile('pods', 'web', 'shop');
      return { outcome, asked: harness.asked('super') };
    };
    expect(await sent(async (_work, action) => action)).toMatchObject({ asked: ['create pods'] });
    expect(await sent(async (_work, action) => lift(action))).toMatchObject({
      outcome: { is: 'refused', code: 'UnknownField' },
      asked: [],
    });
  });

  it('of a Service is judged alike', async () => {
    const own = { type: 'ClusterIP', clusterIP: 'None', ports: [{ port: 80 }] };
    expect(await reconciled({ spec: own }, resources.services)).toMatchObject({ asked: ['create services'] });
    const { asked, events } = await reconciled({ spec: { ...own, steal: true } }, resources.services);
    expect(asked).toEqual([]);
    expect(events).toEqual([
      expect.stringContaining('UnknownField: this cluster does not take the field spec.steal'),
    ]);
  });

  it.each([
    ['ConfigMap', resources.configMaps, { data: { a: '1' } }],
    ['Secret', resources.secrets, { type: 'Opaque', data: {} }],
  ])(
    'of a %s is refused by name, too, once it is read, and what requires it waits',
    async (_kind, resource, data) => {
      await using harness = await ReconcilerHarness.start({
        tenant: { syncConfigMaps: 'all', syncSecrets: 'all' },
      });
      harness.namespace('shop');
      const key = { kind: resource.plural, namespace: 'shop', name: 'web' };
      const metadata = { namespace: 'shop', name: 'web' };
      harness.have('tenant', resource, { metadata, ...data, vault: {} });
      expect(await harness.reconcile(resource.plural, 'web', 'shop')).toEqual({ is: 'done' });
      expect(harness.asked('super')).toEqual([]);
      const { items } = await harness.tenant.client.list(resources.events);
      expect(items.map(({ reason, message }) => `${reason}: ${message}`)).toEqual([
        expect.stringContaining('UnknownField: this cluster does not take the field vault:'),
      ]);
      expect(harness.reconciler.driftOf(harness.state, key)).toBeUndefined();
      // Something else may have its name in the super namespace.
      harness.have('super', resource, { metadata: { namespace: harness.shop, name: 'web' } });
      expect(harness.reconciler.isDependencyMet(harness.state, key)).toBe(false);
      // Read once.
      await harness.reconcile(resource.plural, 'web', 'shop');
      expect(harness.asked('tenant').filter((call) => call === `get ${resource.plural}`)).toHaveLength(1);

      const ref = { namespace: harness.shop, name: 'web' };
      harness.hide('super', resource, harness.super.server.get(resource, ref) as KubeObject);
      harness.super.server.remove(resource, ref);
      harness.have('tenant', resource, { metadata, ...data });
      await harness.reconcile(resource.plural, 'web', 'shop');
      expect(harness.super.server.get(resource, ref)).toMatchObject(data);
    },
  );

  it.each([
    [
      'a source beside one that is null',
      { volumes: [{ name: 'v', emptyDir: null, nfs: { server: 'a', path: '/' } }] },
      'NotSupported',
    ],
    [
      'a source beside another',
      { volumes: [{ name: 'v', emptyDir: {}, nfs: { server: 'a', path: '/' } }] },
      'NotSupported',
    ],
    ['a text for a list', { volumes: 'all of them' }, 'InvalidField'],
    ['no object', 'a pod', 'InvalidField'],
  ])('is nothing of a pod with %s', async (_what, lie, reason) => {
    const { asked, events } = await reconciled({ spec: typeof lie === 'string' ? lie : { ...spec, ...lie } });
    expect(asked).toEqual([]);
    expect(events).toEqual([expect.stringContaining(`${reason}: `)]);
  });

  it('is a change that a pod may not have: it stays behind, and the status comes up all the same', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const lying = {
      metadata: { namespace: 'shop', name: 'web' },
      spec: { ...spec, nodeName: 'n1', readinessGates: [{ conditionType: 'Ready' }] },
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
    };
    const honest = { ...lying, spec: { ...spec, nodeName: 'n1' } };
    const t = harness.have('tenant', resources.pods, honest);
    const s = harness.superOf(t, { spec: honest.spec, status: { phase: 'Running', podIP: '10.1.2.3' } });
    harness.have('super', resources.pods, { ...s, metadata: { ...s.metadata, uid: 'uid-of-s' } });
    const withGate: KubeObject = {
      ...t,
      spec: { ...lying.spec, readinessGates: [{ conditionType: 'example.com/x' }] },
    };
    withGate['status'] = { phase: 'Running', conditions: [{ type: 'example.com/x', status: 'True' }] };
    harness.have('tenant', resources.pods, withGate);
    await harness.reconcile('pods', 'web', 'shop');
    expect(harness.asked('super')).toEqual([]);
    const shown = await harness.tenant.client.get(resources.pods, { namespace: 'shop', name: 'web' });
    expect(shown['status']).toMatchObject({ podIP: '10.1.2.3' });
  });
});
