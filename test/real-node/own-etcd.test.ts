import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { SteadyClient } from '../../scripts/bench/steady-client.ts';
import { KubernetesDriver } from '../../vc-manager/drivers/kubernetes/kubernetes-driver.ts';
import { EventLog } from '../drivers/driver-world.ts';
import { configMap } from '../harness/manifests.ts';
import { patientRequests, poll } from '../harness/poll.ts';
import { kill } from '../harness/processes.ts';
import { World } from '../harness/world.ts';
import { storageClassName } from './addons.ts';
import { type KubernetesWorld, kubernetesWorld } from './suite/kubernetes-world.ts';
import { LocatedPlan } from './suite/located-plan.ts';
import {
  type ConnectResult,
  connects,
  connectsFrom,
  type InPod,
  noRouteToHost,
  untilReady,
  webPod,
} from './suite/pods.ts';

const { signal } = new AbortController();
const etcd = 'etcd';
const others = ['kube-apiserver', 'kube-controller-manager'];

describe('a control plane with an etcd of its own on a volume', () => {
  const id = 'ownetcd';
  let world: KubernetesWorld;
  let driver: KubernetesDriver;
  let located: LocatedPlan;
  let events: EventLog;
  let around: World;

  beforeAll(async () => {
    around = new World(inject('stack'));
    world = await kubernetesWorld(inject('cluster'));
    driver = new KubernetesDriver({
      client: world.client,
      storage: { className: storageClassName, size: '1Gi' },
    });
    located = await LocatedPlan.prepare(world, id, 'v1-36-own-etcd');
    const first = new EventLog(driver, id);
    const since = performance.now();
    await driver.ensure(await located.plan(), { signal });
    console.log(`with an etcd of its own ready after ${secondsSince(since)} s`);
    // Then what comes is told.
    await first.until(`${etcd} ready`);
    first.close();
  });

  afterAll(async () => {
    await driver?.remove(id, { signal });
    await driver?.close();
    await world?.close();
    await around?.close();
  });

  beforeEach(() => {
    events = new EventLog(driver, id);
  });

  afterEach(() => events.close());

  const theOne = async (component: string): Promise<KubeObject> => {
    const [pod, ...more] = await world.podsOf(id, component);
    if (pod === undefined || more.length > 0) throw new Error(`${component} has not one pod`);
    return pod;
  };

  /** Which pods there are, and how often their containers were started again. */
  const lives = async (components: readonly string[]): Promise<unknown[]> =>
    Promise.all(
      components.map(async (component) => {
        const { metadata, status } = await theOne(component);
        const { containerStatuses } = status as { containerStatuses: { restartCount: number }[] };
        return [component, metadata.uid, containerStatuses[0]?.restartCount];
      }),
    );

  const keep = (name: string): Promise<unknown> =>
    located.withClient((client) =>
      client.create(resources.configMaps, configMap('default', name, { a: '1' })),
    );

  const kept = async (): Promise<string[]> => {
    const { items } = await located.withClient((client) =>
      client.list(resources.configMaps, { namespace: 'default' }),
    );
    return items.map(({ metadata }) => metadata.name ?? '');
  };

  /** Takes etcd away beside a client, and waits until that is served again; no `ensure` helps. */
  const without = async (what: string, takeAway: () => Promise<unknown>): Promise<void> => {
    const client = new SteadyClient(located.connectionOptions, {
      patienceMs: patientRequests.requestTimeoutMs,
    });
    try {
      await client.answered(40);
      await takeAway();
      await events.until(`${etcd} exited`, `${etcd} started`, `${etcd} ready`);
      await client.served(40);
      // On new connections, too: a kubelet that has found it not ready meanwhile takes the address away a moment later.
      let served = 0;
      const isServed = (): Promise<boolean> =>
        located.withClient((fresh) =>
          fresh.raw('GET', '/readyz').then(
            () => ++served === 50,
            () => {
              served = 0;
              return false;
            },
          ),
        );
      await poll('new connections to be served', isServed);
    } finally {
      await client.close();
    }
    const { answers, failures } = client;
    const [first, last] = [failures[0]?.at ?? 0, failures.at(-1)?.at ?? 0];
    const slowest = Math.max(...answers.map(({ tookMs }) => tookMs));
    const kinds = [...new Set(failures.map(({ error }) => error))].join('; ');
    console.log(
      `${what}: ${failures.length} of ${answers.length} requests failed, within ${Math.round(last - first)} ms; slowest ${Math.round(slowest)} ms. ${kinds}`,
    );
  };

  it('lets its API servers alone reach its etcd, and these nobody else', async () => {
    const { superCluster } = around;
    const { nodes } = inject('cluster');
    const stranger = webPod('default', 'stranger');
    await superCluster.apply(stranger);
    await untilReady(superCluster, 'default', 'stranger');
    const components = await Promise.all([etcd, ...others].map(theOne));
    const strange = await world.client.get(resources.pods, { namespace: 'default', name: 'stranger' });
    const addressOf = ({ status }: KubeObject): string => (status as { podIP: string }).podIP;
    const [store, server, controllers, elsewhere] = [...components, strange].map(addressOf);
    const targets = {
      'etcd 2379': [store, 2379],
      'etcd 2380': [store, 2380],
      'API server': [server, 6443],
      controllers: [controllers, 10_257],
      elsewhere: [elsewhere, 8080],
      // A tenant can make Nodes up, with addresses of these.
      ...Object.fromEntries(nodes.map(({ name, address }) => [name, [address, 10_250]])),
    } as Record<string, [string, number]>;
    const reach = async (
      pod: KubeObject,
      connect: (address: string, port: number) => Promise<ConnectResult>,
    ): Promise<string[]> => {
      const heard = Object.entries(targets)
        .filter(([, [address]]) => address !== addressOf(pod))
        .map(async ([name, [address, port]]) => [name, await connect(address, port)] as const);
      return (await Promise.all(heard)).filter(([, each]) => each !== noRouteToHost).map(([name]) => name);
    };
    const [ofStore, ofServer, ofControllers] = await Promise.all(
      components.map((pod) => reach(pod, (...to) => connectsFrom(world.processOf(pod), ...to))),
    );
    const ofStranger = await reach(strange, (...to) =>
      connects(superCluster, stranger.metadata as InPod, ...to),
    );
    expect({ ofStore, ofServer, ofControllers, ofStranger }).toEqual({
      ofStore: [],
      ofServer: ['etcd 2379'],
      ofControllers: ['API server'],
      ofStranger: ['API server', 'node-1', 'node-2'],
    });
    await superCluster.kubectl('-n', 'default', 'delete', 'pod', 'stranger', '--wait=false');
  });

  it('is served again by itself when its etcd is killed, with all objects, and nothing else is restarted', async () => {
    const [etcdBefore, before] = [await theOne(etcd), await lives(others)];
    await keep('before-kill');
    await without('etcd killed', () => kill(world.processOf(etcdBefore)));
    expect((await theOne(etcd)).metadata.uid).toBe(etcdBefore.metadata.uid);
    expect(await kept()).toContain('before-kill');
    await keep('after-kill');
    expect(await lives(others)).toEqual(before);
  });

  it('is served again by itself when the pod of its etcd is deleted, with all objects, and nothing else is restarted', async () => {
    const [etcdBefore, before] = [await theOne(etcd), await lives(others)];
    await keep('before-deletion');
    const { namespace, name = '' } = etcdBefore.metadata;
    await without('pod of etcd deleted', () => world.client.delete(resources.pods, { namespace, name }));
    expect((await theOne(etcd)).metadata.uid).not.toBe(etcdBefore.metadata.uid);
    expect(await kept()).toEqual(expect.arrayContaining(['before-kill', 'after-kill', 'before-deletion']));
    await keep('after-deletion');
    expect(await lives(others)).toEqual(before);
    // Of a pod the driver learns what its probe says, which may have failed meanwhile.
    const isRunning = async (): Promise<boolean> => {
      const { components } = await driver.observe(id);
      return [etcd, ...others].every((component) =>
        components.some(({ name, state }) => name === component && state === 'running'),
      );
    };
    await poll('all components to be seen running', isRunning);
  });
});

function secondsSince(since: number): string {
  return ((performance.now() - since) / 1000).toFixed(1);
}
