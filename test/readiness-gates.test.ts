import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Condition, findCondition, type KubeObject, resources } from '../kube/index.ts';
import { listAt } from './harness/checker/view.ts';
import { pod } from './harness/manifests.ts';
import { type Tenant, World } from './harness/world.ts';

const gate = 'example.com/registered';

/** A controller of the tenant, such as one of load balancers, decides there when a pod is ready (sync rule `readiness-gates`). */
describe('the readiness gates of a tenant', () => {
  let world: World;
  let tenant: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant('gates');
    await tenant.apply(pod('gates', 'web', { readinessGates: [{ conditionType: gate }] }));
  });

  afterAll(() => world?.close());

  const conditionOf = (found: KubeObject | undefined, type: string): Condition | undefined =>
    findCondition(listAt(found, 'status', 'conditions') as unknown as Condition[], type);

  /** S as soon as its gate has this status; undefined: as soon as it has none. */
  const counterpartWith = (status: string | undefined): Promise<KubeObject> =>
    world.superCluster.until(
      {
        resource: resources.pods,
        labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=gates`,
        what: `the gate in the super cluster to be ${status ?? 'gone'}`,
      },
      (pods) => pods.find((found) => conditionOf(found, gate)?.status === status),
    );

  const ownThat = (what: string, holds: (found: KubeObject) => boolean): Promise<KubeObject> =>
    tenant.until(
      { resource: resources.pods, namespace: 'gates', name: 'web', what: `the pod to ${what}` },
      (pods) => pods.find(holds),
    );

  /** As a controller of the tenant does: its own condition alone, by type. */
  const tell = (condition: Record<string, unknown>): Promise<string> =>
    tenant.kubectl(
      ...['-n', 'gates', 'patch', 'pod', 'web', '--subresource=status', '--type=strategic'],
      ...['-p', JSON.stringify({ status: { conditions: [{ type: gate, ...condition }] } })],
    );

  it('reach the super cluster with their state, and no other condition is lost', async () => {
    await ownThat('run, and not be ready', (found) => conditionOf(found, 'Ready')?.status === 'False');
    const before = await counterpartWith(undefined);
    await tell({ status: 'True', reason: 'Registered', message: 'the balancer knows it' });
    const s = await counterpartWith('True');
    expect(s.metadata.uid).toBe(before.metadata.uid);
    expect(conditionOf(s, gate)).toMatchObject({ reason: 'Registered', message: 'the balancer knows it' });
    for (const type of ['PodScheduled', 'ContainersReady', 'Initialized'])
      expect(conditionOf(s, type), type).toMatchObject({ status: 'True' });
    const own = await ownThat('be ready', (found) => conditionOf(found, 'Ready')?.status === 'True');
    expect(conditionOf(own, gate)).toMatchObject({ status: 'True', reason: 'Registered' });
    await world.expectAgreement();
  });

  it('follow when they change, and when they are taken back', async () => {
    await tell({ status: 'False', reason: 'Draining' });
    expect(conditionOf(await counterpartWith('False'), gate)?.['reason']).toBe('Draining');
    await ownThat('be ready no more', (found) => conditionOf(found, 'Ready')?.status === 'False');
    await tell({ $patch: 'delete' });
    await counterpartWith(undefined);
    await world.expectAgreement();
  });
});
