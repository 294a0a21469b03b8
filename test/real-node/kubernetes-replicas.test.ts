import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { ApiError, type KubeObject, resources } from '../../kube/index.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { SteadyClient } from '../../scripts/bench/steady-client.ts';
import { KubernetesDriver } from '../../vc-manager/drivers/kubernetes/kubernetes-driver.ts';
import { at } from '../harness/checker/view.ts';
import { patientRequests } from '../harness/poll.ts';
import { isAlive, kill } from '../harness/processes.ts';
import { expectAllServed } from '../harness/steady-load.ts';
import { until } from '../harness/until.ts';
import { type KubernetesWorld, kubernetesWorld } from './suite/kubernetes-world.ts';
import { LocatedPlan } from './suite/located-plan.ts';
import { privateMemoryOf } from './suite/pods.ts';

const { signal } = new AbortController();
const server = 'kube-apiserver';
const controllers = 'kube-controller-manager';
const inMegabytes = (bytes: number): number => Math.round(bytes / 1_000_000);

describe('two of each component of a control plane', () => {
  const id = 'replicated';
  let world: KubernetesWorld;
  let driver: KubernetesDriver;
  let located: LocatedPlan;

  beforeAll(async () => {
    world = await kubernetesWorld(inject('cluster'));
    driver = new KubernetesDriver({ client: world.client });
    located = await LocatedPlan.prepare(world, id);
    const since = performance.now();
    await driver.ensure(await located.plan({ replicas: 2 }), { signal });
    console.log(`two replicas of each ready after ${((performance.now() - since) / 1000).toFixed(1)} s`);
  });

  afterAll(async () => {
    await driver?.remove(id, { signal });
    await driver?.close();
    await world?.close();
  });

  const isReady = (pod: KubeObject): boolean =>
    (pod['status'] as { conditions?: { type: string; status: string }[] }).conditions?.some(
      ({ type, status }) => type === 'Ready' && status === 'True',
    ) ?? false;

  const untilReady = (component: string, count: number): Promise<true> =>
    until<true>(
      {
        client: world.client,
        resource: resources.pods,
        namespace: `skerry-tenant-${id}`,
        labelSelector: `skerry.dev/component=${component}`,
        what: `${count} pods of ${component} to be ready`,
      },
      (pods) => (pods.length === count && pods.every(isReady)) || undefined,
    );

  const steady = async (): Promise<SteadyClient> => {
    const client = new SteadyClient(located.connectionOptions, {
      patienceMs: patientRequests.requestTimeoutMs,
    });
    await client.answered(40);
    return client;
  };

  const tell = (what: string, client: SteadyClient): void => console.log(client.describe(what));

  it('run on different nodes, and one of the controllers leads', async () => {
    for (const component of [server, controllers]) {
      const pods = await world.podsOf(id, component);
      const nodes = new Set(pods.map(({ spec }) => (spec as { nodeName: string }).nodeName));
      expect([component, nodes.size]).toEqual([component, 2]);
      const memory = pods.map((pod) => inMegabytes(privateMemoryOf(world.processOf(pod))));
      console.log(`${component}: ${memory.join(' and ')} MB of its own`);
    }
    // They run some time before one of them has asked for it.
    const holder = async (): Promise<unknown> =>
      at(
        await located.withClient((client) =>
          client
            .get(resources.leases, { namespace: 'kube-system', name: controllers })
            .catch(() => undefined),
        ),
        'spec',
        'holderIdentity',
      );
    await expect.poll(holder).toContain(controllers);
  });

  it('go on when one API server is killed, and the other one is never touched', async () => {
    const [first, second] = await world.podsOf(id, server);
    if (first === undefined || second === undefined) throw new Error('there are no two pods');
    const survivor = world.processOf(second);
    const client = await steady();
    await kill(world.processOf(first));
    await until<true>(
      {
        client: world.client,
        resource: resources.pods,
        namespace: `skerry-tenant-${id}`,
        name: first.metadata.name,
        what: 'the API server to be started again',
      },
      ([pod]) => {
        if (pod === undefined) return undefined;
        const { containerStatuses = [] } = pod['status'] as {
          containerStatuses?: { restartCount: number }[];
        };
        return ((containerStatuses[0]?.restartCount ?? 0) > 0 && isReady(pod)) || undefined;
      },
    );
    await client.answered(60);
    await client.close();
    tell('one of two API servers killed', client);
    expect(client.answers.slice(-40).filter(({ error }) => error !== undefined)).toEqual([]);
    expect(isAlive(survivor)).toBe(true);
    expect((await driver.observe(id)).components.map(({ state }) => state)).toEqual(['running', 'running']);
  });

  itInTestAll('are evicted one at a time', async () => {
    await untilReady(server, 2);
    const client = await steady();
    const [first, second] = await world.podsOf(id, server);
    const evict = async (pod: KubeObject | undefined): Promise<unknown> => {
      const { namespace, name = '' } = pod?.metadata ?? {};
      const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name } };
      return world.client.createSubresource(resources.pods, { namespace, name }, 'eviction', body);
    };
    await until<true>(
      {
        client: world.client,
        resource: resources.podDisruptionBudgets,
        namespace: first?.metadata.namespace ?? '',
        name: server,
        what: 'one that may be spared',
      },
      ([budget]) => at(budget, 'status', 'disruptionsAllowed') === 1 || undefined,
    );
    await evict(first);
    const refused = await evict(second).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({ code: 429 });
    await until<true>(
      {
        client: world.client,
        resource: resources.pods,
        namespace: `skerry-tenant-${id}`,
        labelSelector: `skerry.dev/component=${server}`,
        what: 'another pod in its place',
      },
      (pods) =>
        (pods.length === 2 &&
          pods.every(isReady) &&
          pods.every(({ metadata }) => metadata.uid !== first?.metadata.uid)) ||
        undefined,
    );
    await client.answered(20);
    await client.close();
    tell('one of two API servers evicted', client);
    expectAllServed(client, 1);
  });

  it('change their version without a request that fails', async () => {
    await untilReady(server, 2);
    const before = await world.podsOf(id, server);
    const client = await steady();
    const since = performance.now();
    await driver.ensure(await located.plan({ replicas: 2, version: world.otherVersion }), { signal });
    const took = performance.now() - since;
    await client.answered(20);
    await client.close();
    tell(`another version, in ${(took / 1000).toFixed(1)} s`, client);
    const after = await world.podsOf(id, server);
    const images = after.map(
      ({ spec }) => (spec as { containers: { image: string }[] }).containers[0]?.image,
    );
    expect(images).toEqual(Array(2).fill(`registry.k8s.io/${server}:v${world.otherVersion}`));
    expect(after.map(({ metadata }) => metadata.uid)).not.toEqual(before.map(({ metadata }) => metadata.uid));
    expectAllServed(client, 2);
  });
});
