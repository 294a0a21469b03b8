import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../kube/index.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { at, listAt } from './harness/checker/view.ts';
import { evict } from './harness/evict.ts';
import { deployment } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

const root = join(import.meta.dirname, '..');

describe('disruption budgets', () => {
  let world: World;
  let tenant: Tenant;
  /** The only one with room at the beginning of each test. */
  let node: string;
  let others: string[];

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant('budgeted');
    const { items } = await world.superCluster.client.list(resources.nodes);
    const names = items.map(({ metadata }) => metadata.name ?? '').sort();
    [node, ...others] = names as [string, ...string[]];
  });

  beforeEach(async () => {
    await cordon(others, true);
    await tenant.apply(deployment('budgeted', 'web', 4), {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'web', namespace: 'budgeted' },
      spec: { minAvailable: '50%', selector: { matchLabels: { app: 'web' } } },
    });
    await untilReady(4);
    await untilCounted(2, 2);
  });

  afterEach(async () => {
    await cordon([node, ...others], false);
    await tenant.kubectl(
      '-n',
      'budgeted',
      'delete',
      'deployment,poddisruptionbudget',
      '--all',
      '--wait=false',
    );
    await world.superCluster.until({ ...below(), what: 'all pods to go' }, (pods) => pods.length === 0);
  });

  afterAll(() => world?.close());

  const cordon = async (names: readonly string[], unschedulable: boolean): Promise<void> => {
    for (const name of names) {
      const patch = { spec: { unschedulable } };
      await world.superCluster.client.patch(resources.nodes, { name }, patch, { type: 'merge' });
    }
  };

  const ofSuite = (): string => `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=budgeted`;
  const below = () => ({ resource: resources.pods, labelSelector: `${ofSuite()},app=web` });

  /** Both sides have counted the pods, each for itself; only then do they agree on more than that nobody has. */
  const untilCounted = async (enough: number, allowed: number): Promise<void> => {
    const isCounted = ({ metadata, status }: KubeObject): boolean =>
      at(status, 'observedGeneration') === metadata.generation &&
      at(status, 'disruptionsAllowed') === allowed;
    await tenant.until(
      {
        resource: resources.podDisruptionBudgets,
        namespace: 'budgeted',
        what: `${allowed} allowed disruptions`,
      },
      ([budget, ...others]) => budget !== undefined && others.length === 0 && isCounted(budget),
    );
    const labelSelector = ofSuite();
    await world.superCluster.until(
      { resource: resources.podDisruptionBudgets, labelSelector, what: `${allowed} allowed disruptions` },
      ([budget, ...others]) =>
        budget !== undefined &&
        others.length === 0 &&
        isCounted(budget) &&
        at(budget, 'spec', 'minAvailable') === enough,
    );
    await world.expectAgreement();
  };

  const untilReady = (count: number): Promise<boolean> =>
    world.superCluster.until(
      { ...below(), what: `${count} ready pods` },
      (pods) => pods.filter(isReady).length === count && pods.length === count,
    );

  it('of a share go down as the number that it comes to, and follow the number of pods', async () => {
    await tenant.kubectl('-n', 'budgeted', 'scale', 'deployment', 'web', '--replicas=7');
    await untilReady(7);
    await untilCounted(4, 3);
  });

  it('hold a drain of a node of the super cluster up, until there are enough pods elsewhere', async () => {
    let drained = false;
    let fewest = Number.POSITIVE_INFINITY;
    const counting = world.superCluster.until({ ...below(), what: 'all pods elsewhere' }, (pods) => {
      const ready = pods.filter(isReady);
      fewest = Math.min(fewest, ready.length);
      return ready.length === 4 && ready.every((pod) => at(pod, 'spec', 'nodeName') !== node);
    });
    const page = readFileSync(join(root, 'docs/operating.md'), 'utf8');
    const command = scriptRunBy(page, 'test/disruption.test.ts', 'kubectl drain', { NODE: node });
    const [, ...words] = command.split(' ');
    // But for pods of other suites.
    const drain = world.superCluster
      .tryKubectl([...words, `--pod-selector=${ofSuite()}`, patiently])
      .finally(() => {
        drained = true;
      });
    const held = await world.superCluster.until(
      { ...below(), what: 'two pods left and two without a node' },
      (pods) => {
        const ready = pods.filter(isReady);
        const waiting = pods.filter((pod) => isEmptyText(at(pod, 'spec', 'nodeName')));
        return ready.length === 2 && waiting.length === 2 && pods.length === 4 && ready;
      },
    );
    // What kubectl hears for the next pod, which it may be slow to ask for.
    expect(await evict(world.superCluster.client, held[0])).toBe(429);
    expect(drained).toBe(false);

    await cordon(others, false);
    const { exitCode, stderr } = await drain;
    expect(exitCode, stderr).toBe(0);
    await counting;
    expect(fewest).toBe(2);
    await world.expectAgreement();
  });

  it("count evictions through the tenant's API server and the super cluster's together", async () => {
    await cordon([node], true);
    const { items } = await tenant.client.list(resources.pods, {
      namespace: 'budgeted',
      labelSelector: 'app=web',
    });
    expect(await evict(tenant.client, items[0])).toBe(201);
    const left = await world.superCluster.until(
      { ...below(), what: 'three ready pods' },
      (pods) => pods.filter(isReady).length === 3 && pods.length === 4 && pods.filter(isReady),
    );
    await untilCounted(2, 1);
    expect(await evict(world.superCluster.client, left[0])).toBe(201);
    await world.superCluster.until(
      { ...below(), what: 'two ready pods' },
      (pods) => pods.filter(isReady).length === 2 && pods.length === 4,
    );
    await untilCounted(2, 0);
    const evicted = [items[0]?.metadata.uid, left[0]?.metadata.annotations?.['skerry.dev/uid']];
    const third = items.find(({ metadata }) => !evicted.includes(metadata.uid));
    const itsPicture = left.find(
      ({ metadata }) => metadata.annotations?.['skerry.dev/uid'] === third?.metadata.uid,
    );
    expect(await evict(tenant.client, third)).toBe(429);
    expect(await evict(world.superCluster.client, itsPicture)).toBe(429);

    await cordon([node], false);
    await untilReady(4);
    await untilCounted(2, 2);
    expect(await evict(tenant.client, third)).toBe(201);
    await untilReady(4);
  });
});

function isReady(pod: KubeObject): boolean {
  const ready = listAt(pod, 'status', 'conditions').find(({ type }) => type === 'Ready');
  return pod.metadata.deletionTimestamp === undefined && ready?.['status'] === 'True';
}

function isEmptyText(value: unknown): boolean {
  return value === undefined || value === '';
}
