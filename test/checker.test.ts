import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resources } from '../kube/index.ts';
import { differences, orphanedSuperObjects } from './harness/checker/differences.ts';
import { seededDifferences } from './harness/checker/kinds.ts';
import { Copy } from './harness/checker/seeded-differences.ts';
import {
  at,
  type CheckedKind,
  type CheckedTenant,
  type SuperSide,
  type TenantSide,
} from './harness/checker/view.ts';
import {
  claim,
  configMap,
  container,
  deployment,
  endpointSlice,
  namespace,
  pod,
  secret,
  service,
  statefulSet,
} from './harness/manifests.ts';
import { patienceMs, patiently } from './harness/poll.ts';
import { send } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

/** A judge that finds nothing proves nothing: here it has to find what was put there. */
describe('the checker', () => {
  let world: World;
  let tenant: Tenant;
  let own: TenantSide;
  let superSide: SuperSide;
  let checked: CheckedTenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant('checked');
    await tenant.apply(namespace('shop'));
    await tenant.apply(...everything);
    await tenant.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    await tenant.kubectl('-n', 'shop', 'rollout', 'status', 'statefulset/db', patiently);
    await tenant.untilBound('shop', 'data');
    await tenant.apply(endpointSlice('shop', 'manual', [await podAddress(tenant, 'app=web')]));
    // Sides that have counted nothing agree, too.
    await tenant.untilEndpoints('shop', 'web', 2);
    await tenant.until(
      { resource: resources.podDisruptionBudgets, namespace: 'shop', what: 'the budget to be counted' },
      ([budget]) => (at<number>(budget, 'status', 'expectedPods') ?? 0) > 0,
    );
    const checker = world.checker();
    const read = await checker.untilAgreed().finally(() => checker.close());
    superSide = read.superSide;
    own = read.tenants[0]?.own as TenantSide;
    checked = read.tenants[0]?.tenant as CheckedTenant;
  });

  afterAll(() => world?.close());

  const find = (copy: Copy): string[] => [
    ...orphanedSuperObjects(copy.superSide),
    ...differences(checked, copy.own, copy.superSide),
  ];

  it('finds nothing where there is nothing', () => {
    expect(find(new Copy(own, superSide))).toEqual([]);
  });

  it.each(seededDifferences)('finds that $what', ({ plant, message }) => {
    const copy = new Copy(own, superSide);
    plant(copy);
    expect(find(copy).join('\n')).toMatch(message);
  });

  it('finds what is changed in the servers while the syncer stands still, and sees it mended afterwards', async () => {
    const syncer = await world.process('vc-syncer');
    const checker = world.checker();
    const { client } = world.superCluster;
    const counterpart = (kind: CheckedKind, prefix: string) => {
      const { namespace = '', name = '' } = new Copy(own, superSide).superObject(kind, prefix).metadata;
      return { namespace, name };
    };
    send(syncer, 'SIGSTOP');
    try {
      await client.delete(resources.pods, counterpart('pods', 'web'), { gracePeriodSeconds: 0 });
      await client.patch(
        resources.services,
        counterpart('services', 'web'),
        { spec: { ports: [{ name: 'http', port: 81, targetPort: 8080 }] } },
        { type: 'merge' },
      );
      await tenant.client.create(resources.pods, pod('shop', 'late'));
      const found = (await checker.differences()).join('\n');
      expect(found).toMatch(/Pod shop\/web-\S+: is not in the super cluster/);
      expect(found).toMatch(/Service shop\/web: ports/);
      expect(found).toMatch(/Pod shop\/late: is not in the super cluster/);
    } finally {
      send(syncer, 'SIGCONT');
    }
    // It may have to take its part of the tenants up again.
    await checker.untilAgreed({ timeoutMs: patienceMs });
    checker.close();
  });
});

const everything = [
  configMap('shop', 'settings', { colour: 'blue' }),
  configMap('shop', 'unused'),
  secret('shop', 'password', { password: 'secret' }),
  claim('shop', 'data'),
  deployment('shop', 'web', 2, {
    containers: [
      container({
        envFrom: [{ configMapRef: { name: 'settings' } }],
        volumeMounts: [{ name: 'password', mountPath: '/password' }],
      }),
    ],
    volumes: [{ name: 'password', secret: { secretName: 'password' } }],
  }),
  statefulSet('shop', 'db', 1),
  service('shop', 'web'),
  service('shop', 'db', { clusterIP: 'None' }),
  service('shop', 'manual', { selector: {} }),
  {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'walls', namespace: 'shop' },
    spec: { podSelector: { matchLabels: { app: 'web' } }, ingress: [{ from: [{ namespaceSelector: {} }] }] },
  },
  {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name: 'web', namespace: 'shop' },
    spec: { minAvailable: '50%', selector: { matchLabels: { app: 'web' } } },
  },
];

async function podAddress(tenant: Tenant, labelSelector: string): Promise<string> {
  const { items } = await tenant.client.list(resources.pods, { namespace: 'shop', labelSelector });
  return at<string>(items[0], 'status', 'podIP') ?? '';
}
