import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Resource, resources } from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import {
  controllerRestarts,
  expectAgreementAfterLoad,
  killed,
  reportControllerRestarts,
} from './harness/after-load.ts';
import { at } from './harness/checker/view.ts';
import { Churn } from './harness/churn.ts';
import { deployment, namespace, pod, service } from './harness/manifests.ts';
import { send } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

const writesAround = 25;

describe('under load', () => {
  let world: World;
  let tenants: Tenant[];

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenants = await world.createTenants('storm-a', 'storm-b');
    await Promise.all(
      tenants.map((tenant) =>
        tenant.apply(
          namespace('churn'),
          namespace('calm'),
          deployment('calm', 'web', 2),
          service('calm', 'web'),
        ),
      ),
    );
    await world.expectAgreement();
  });

  afterAll(() => world?.close());

  /** Load on both tenants from before until after the fault; then both sides have to agree. */
  const withChurn = async (seed: number, fault: () => Promise<void>): Promise<void> => {
    const churns = tenants.map(
      (tenant, index) => new Churn({ tenant, namespace: 'churn', seed: seed + index }),
    );
    try {
      await Promise.all(churns.map((churn) => churn.more(writesAround)));
      await fault();
      await Promise.all(churns.map((churn) => churn.more(writesAround)));
    } finally {
      await Promise.all(churns.map((churn) => churn.stop()));
    }
    await expectAgreementAfterLoad(world, tenants);
    await expectCalm();
  };

  let calm: unknown;
  /** What nobody touched is what it was, by UID, on both sides. */
  const expectCalm = async (): Promise<void> => {
    const uids = async (resource: Resource, labelSelector: string): Promise<(string | undefined)[]> =>
      (await world.superCluster.client.list(resource, { labelSelector })).items.map(
        ({ metadata }) => metadata.uid,
      );
    const now = await Promise.all(
      tenants.flatMap(({ uid }) =>
        [resources.pods, resources.services].map(async (resource) =>
          (await uids(resource, `skerry.dev/tenant=${uid},skerry.dev/namespace=calm`)).toSorted(),
        ),
      ),
    );
    expect(now.map(({ length }) => length)).toEqual([2, 1, 2, 1]);
    calm ??= now;
    expect(now).toEqual(calm);
  };

  itInTestAll('both sides agree without any fault', () => withChurn(1, async () => undefined));

  itInTestAll('the syncer is killed, and both sides agree afterwards', () =>
    withChurn(10, async () => void (await killed(world, 'vc-syncer'))),
  );

  itInTestAll('the manager is killed, and both sides agree afterwards', () =>
    withChurn(20, async () => void (await killed(world, 'vc-manager'))),
  );

  itInTestAll('the API server of a tenant is killed, and both sides agree afterwards', () =>
    withChurn(30, async () => void (await killed(world, 'kube-apiserver', tenants[0]))),
  );

  itInTestAll('the gateway is killed, and both sides agree afterwards', () =>
    withChurn(35, async () => void (await killed(world, 'vc-gateway'))),
  );

  itInTestAll('the controllers of a tenant are killed, and both sides agree afterwards', () =>
    withChurn(40, async () => void (await killed(world, 'kube-controller-manager', tenants[0]))),
  );

  itInTestAll('the API server of the super cluster is killed, and both sides agree afterwards', () =>
    withChurn(50, async () => void (await killed(world, 'kube-apiserver'))),
  );

  itInTestAll('the datastore of the tenants is killed, and both sides agree afterwards', () =>
    withChurn(60, async () => void (await killed(world, 'datastore'))),
  );

  it('what syncer and manager depend on is killed at once, API server of the super cluster and datastore of the tenants, and both sides agree afterwards', () =>
    withChurn(65, async () => {
      await Promise.all([killed(world, 'kube-apiserver'), killed(world, 'datastore')]);
    }));

  it('syncer, manager and API server are killed together, and both sides agree afterwards', () =>
    withChurn(70, async () => {
      await Promise.all([
        killed(world, 'vc-syncer'),
        killed(world, 'vc-manager'),
        killed(world, 'kube-apiserver', tenants[1]),
      ]);
    }));

  it('the API server of one tenant stands still, and the other one gets its pods all the same', async () => {
    const [still, other] = tenants as [Tenant, Tenant];
    const server = await world.process('kube-apiserver', still);
    const churn = new Churn({ tenant: still, namespace: 'churn', seed: 80 });
    await churn.more(writesAround);
    send(server, 'SIGSTOP');
    try {
      for (let round = 0; round < 10; round++) {
        await other.client.create(resources.pods, pod('calm', `meanwhile-${round}`));
      }
      await other.until(
        { resource: resources.pods, namespace: 'calm', what: '10 more pods to run' },
        (pods) => pods.filter((each) => at(each, 'status', 'phase') === 'Running').length === 12 || undefined,
      );
    } finally {
      send(server, 'SIGCONT');
      await churn.stop();
    }
    for (let round = 0; round < 10; round++) {
      await other.client.delete(resources.pods, { namespace: 'calm', name: `meanwhile-${round}` });
    }
    await world.superCluster.until(
      {
        resource: resources.pods,
        labelSelector: `skerry.dev/tenant=${other.uid},skerry.dev/namespace=calm`,
        what: 'the 10 pods to go',
      },
      (pods) => pods.length === 2,
    );
    await expectAgreementAfterLoad(world, tenants);
    await expectCalm();
  });

  it('after no more than one of these faults endpoints were missing until controllers were started anew', ({
    task,
  }) => {
    reportControllerRestarts(task.meta);
    expect(controllerRestarts.length, JSON.stringify(controllerRestarts)).toBeLessThanOrEqual(1);
  });
});
