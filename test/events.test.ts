import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, type Resource, resources } from '../kube/index.ts';
import { at } from './harness/checker/view.ts';
import { pod } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

/** The same objects as `events`, in the words of the newer API. */
const newEvents: Resource = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};

describe('events', () => {
  let world: World;
  let tenant: Tenant;
  let own: KubeObject;
  let counterpart: KubeObject;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant('told');
    await tenant.apply(pod('told', 'web'));
    await tenant.kubectl('-n', 'told', 'wait', 'pod/web', '--for=condition=Ready', patiently);
    own = await tenant.client.get(resources.pods, { namespace: 'told', name: 'web' });
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=told`;
    const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
    counterpart = items.find(({ metadata }) => metadata.name === 'web') as KubeObject;
  });

  afterAll(() => world?.close());

  const superNamespace = (): string => counterpart.metadata.namespace ?? '';
  const now = (): string => new Date().toISOString().replace(/\.\d+/, '');

  /** An event of the super cluster about S of the pod, unless it says otherwise. */
  const told = (name: string, change: object = {}, about: object = {}): KubeObject => ({
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: superNamespace() },
    involvedObject: {
      apiVersion: 'v1',
      kind: 'Pod',
      namespace: superNamespace(),
      name: 'web',
      uid: counterpart.metadata.uid,
      fieldPath: 'spec.containers{main}',
      ...about,
    },
    type: 'Warning',
    reason: 'BackOff',
    message: `Back-off restarting failed container main in pod web_${superNamespace()}`,
    source: { component: 'kubelet', host: 'sim-0' },
    firstTimestamp: now(),
    lastTimestamp: now(),
    count: 1,
    ...change,
  });

  const tell = (event: KubeObject): Promise<KubeObject> =>
    world.superCluster.client.create(resources.events, event);

  const shown = (
    name: string,
    holds: (event: KubeObject) => boolean = () => true,
    resource: Resource = resources.events,
  ): Promise<KubeObject> =>
    tenant.until({ resource, namespace: 'told', name, what: `the event ${name}` }, ([event]) =>
      event !== undefined && holds(event) ? event : undefined,
    );

  it('about synced objects come up, about the tenant object by its UID, in the words of the tenant', async () => {
    const scheduled = await tenant.until(
      { resource: resources.events, namespace: 'told', what: 'the event Scheduled' },
      (events) => events.find(({ reason }) => reason === 'Scheduled'),
    );
    expect(scheduled['message']).toMatch(/^Successfully assigned told\/web to sim-\d$/);
    expect(at(scheduled, 'involvedObject')).toMatchObject({ namespace: 'told', uid: own.metadata.uid });

    await tell(told('web.path'));
    const event = await shown('web.path');
    expect(at(event, 'involvedObject')).toMatchObject({
      uid: own.metadata.uid,
      fieldPath: 'spec.containers{main}',
    });
    expect(event['message']).toBe('Back-off restarting failed container main in pod web_told');
    const described = await tenant.kubectl('-n', 'told', 'describe', 'pod', 'web');
    expect(described).toMatch(/Normal +Scheduled /);
    expect(described).toMatch(/Warning +BackOff /);
    expect(JSON.stringify(event)).not.toContain(superNamespace());
  });

  it('of a burst of 200 identical ones there is one object with a count, written a few times', async () => {
    await tell(told('web.burst'));
    await shown('web.burst');
    const versions = new Set<string>();
    const begun = performance.now();
    const counted = (event: KubeObject): boolean => {
      versions.add(event.metadata.resourceVersion ?? '');
      return event['count'] === 200;
    };
    const complete = shown('web.burst', counted);
    const { client } = world.superCluster;
    for (let count = 2; count <= 200; count++) {
      const patch = { count, lastTimestamp: now() };
      await client.patch(resources.events, { namespace: superNamespace(), name: 'web.burst' }, patch, {
        type: 'merge',
      });
    }
    await complete;
    const periods = Math.ceil((performance.now() - begun) / 5_000);
    expect(versions.size).toBeLessThanOrEqual(2 + periods);
    const { items } = await tenant.client.list(resources.events, { namespace: 'told' });
    expect(items.filter(({ metadata }) => metadata.name?.startsWith('web.burst'))).toHaveLength(1);
  });

  it('of the newer API keep their series current, controller and note included', async () => {
    const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}.000000Z`;
    const { metadata, involvedObject, type, reason, message } = told('web.series');
    await world.superCluster.client.create(newEvents, {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata,
      type,
      reason,
      regarding: involvedObject,
      note: message,
      action: 'Restarting',
      eventTime: at(0),
      reportingController: 'example.com/restarter',
      reportingInstance: 'restarter-1',
    });
    const first = await shown('web.series', undefined, newEvents);
    expect(first).toMatchObject({
      regarding: { uid: own.metadata.uid, namespace: 'told' },
      note: 'Back-off restarting failed container main in pod web_told',
      action: 'Restarting',
      reportingController: 'example.com/restarter',
      reportingInstance: 'restarter-1',
    });
    const ref = { namespace: superNamespace(), name: 'web.series' };
    for (let count = 2; count <= 20; count++) {
      const patch = { series: { count, lastObservedTime: at(count) } };
      await world.superCluster.client.patch(newEvents, ref, patch, { type: 'merge' });
    }
    const last = await shown(
      'web.series',
      (event) => Number((event['series'] as { count?: number })?.count) === 20,
      newEvents,
    );
    expect(last['series']).toMatchObject({ count: 20, lastObservedTime: at(20) });
    expect(last.metadata.uid).toBe(first.metadata.uid);
  });

  it('about what the tenant does not have stay where they are', async () => {
    const { client } = world.superCluster;
    await tell(
      told('web.namespace', {}, { kind: 'Namespace', name: superNamespace(), namespace: superNamespace() }),
    );
    await tell(told('web.earlier', {}, { uid: '00000000-0000-4000-8000-000000000000' }));
    await tell(told('web.unknown', {}, { name: 'sidecar-of-the-operator', uid: undefined }));
    await tell(told('web.node', {}, { kind: 'Node', name: 'sim-0', uid: undefined }));
    await client.create(resources.events, {
      ...told('web.elsewhere', {}, { namespace: 'default' }),
      metadata: { name: 'web.elsewhere', namespace: 'default' },
    });
    await tell(told('web.last'));
    await shown('web.last');
    const { items } = await tenant.client.list(resources.events);
    const names = items.map(({ metadata }) => metadata.name);
    for (const name of ['namespace', 'earlier', 'unknown', 'node', 'elsewhere'])
      expect(names).not.toContain(`web.${name}`);
  });
});
