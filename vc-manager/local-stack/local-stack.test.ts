import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  Connection,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  Reflector,
  type Resource,
  resource,
  resources,
  Store,
} from '../../kube/index.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { Binaries, defaultCacheDirectory } from '../binaries/index.ts';
import type { ControlPlaneDriver, EnsureOptions } from '../drivers/driver.ts';
import { LocalStack, type LocalStackParts } from './local-stack.ts';

const { signal } = new AbortController();
const jobs = resource('batch', 'v1', 'jobs', 'Job', true);
const container = { name: 'main', image: 'example.com/image' };

describe('LocalStack', () => {
  let directory: string;
  let parts: LocalStackParts;
  let connection: Connection;
  let client: KubeClient;

  function stack(): LocalStack {
    const binaries = new Binaries({
      cacheDir: defaultCacheDirectory(process.env),
      env: process.env,
      offline: true,
    });
    return new LocalStack({
      stateDir: directory,
      binaries,
      advertiseAddress: '192.0.2.10',
      superCluster: { nodes: 2 },
      unsafeNoFsync: true,
    });
  }

  /** Watches until it is so, or the test's own timeout ends a wait in vain. An object that is not there has no name. */
  async function until(
    condition: (object: KubeObject) => boolean,
    kind: Resource,
    name: string,
  ): Promise<KubeObject> {
    const store = new Store<KubeObject>();
    const found = Promise.withResolvers<KubeObject>();
    const fieldSelector = `metadata.name=${name}`;
    const ending = new AbortController();
    const reflector = new Reflector({
      ...{ client, resource: kind, store, fieldSelector, consistentStart: true },
      onProblem: ({ error }) => found.reject(error),
    });
    const look = (): void => {
      const [object = { metadata: {} }] = store.list();
      if (condition(object)) found.resolve(object);
    };
    store.subscribe(look);
    const running = reflector.run(ending.signal);
    try {
      await Promise.race([reflector.synced(ending.signal), found.promise]);
      look();
      return await found.promise;
    } finally {
      ending.abort();
      await running;
    }
  }

  /** How often the server was asked to delete a pod that was gone. */
  async function deletedInVain(): Promise<number> {
    const labels = ['code="404"', 'resource="pods"', 'verb="DELETE"'];
    return String(await client.raw('GET', '/metrics'))
      .split('\n')
      .filter((line) => line.startsWith('apiserver_request_total{'))
      .filter((line) => labels.every((label) => line.includes(label)))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'skerry-stack-'));
    parts = await stack().start({ signal });
    connection = new Connection(connectionFromSecret(parts.superCluster?.kubeconfig ?? ''));
    client = new KubeClient(connection);
  }, 180_000);

  afterAll(async () => {
    await connection.close();
    await stack().remove({ signal });
    expect(await readdir(directory)).toEqual([]);
    await rm(directory, { recursive: true });
  });

  it('has nodes that are ready and say that they are simulated', async () => {
    const { items } = await client.list(resources.nodes);
    expect(items.map((node) => node.metadata.name)).toEqual(['sim-0', 'sim-1']);
    expect(items.every((node) => node.metadata.labels?.['skerry.dev/simulated'] === 'true')).toBe(true);
  });

  it('deletes a pod on its nodes once, and not the next one of that name', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `again-${index}`);
    const runs = async (name: string): Promise<void> => {
      const pod: KubeObject = { metadata: { namespace: 'default', name }, spec: { containers: [container] } };
      const { metadata } = await client.create(resources.pods, pod);
      const isRunning = (it: KubeObject) => (it['status'] as { phase?: string })?.phase === 'Running';
      const running = await until(
        (it) => isRunning(it) || it.metadata.uid !== metadata.uid,
        resources.pods,
        name,
      );
      expect(running.metadata.uid).toBe(metadata.uid);
    };
    const goes = async (name: string): Promise<void> => {
      await client.delete(resources.pods, { namespace: 'default', name });
      await until((it) => it.metadata.name === undefined, resources.pods, name);
    };
    const before = await deletedInVain();
    await Promise.all(
      names.map(async (name) => {
        await runs(name);
        await goes(name);
        await runs(name);
        await goes(name);
      }),
    );
    expect(await deletedInVain()).toBe(before);
  }, 180_000);

  it('runs a deployment, with addresses of the nodes', async () => {
    await client.create(resources.deployments, {
      metadata: { name: 'web', namespace: 'default' },
      spec: {
        replicas: 3,
        selector: { matchLabels: { app: 'web' } },
        template: {
          metadata: { labels: { app: 'web' } },
          spec: { initContainers: [{ name: 'first', image: 'x' }], containers: [container] },
        },
      },
    });
    await until(
      (it) => (it['status'] as { readyReplicas?: number })?.readyReplicas === 3,
      resources.deployments,
      'web',
    );
    const pods = await client.list(resources.pods, { namespace: 'default', labelSelector: 'app=web' });
    const addresses = pods.items.map((pod) => (pod['status'] as { podIP: string }).podIP);
    expect(new Set(addresses).size).toBe(3);
    expect(addresses.every((address) => address.startsWith('10.64.'))).toBe(true);
    await client.delete(resources.deployments, { namespace: 'default', name: 'web' });
  }, 180_000);

  it('binds a claim, lets it grow, and removes the volume with it', async () => {
    const ref = { namespace: 'default', name: 'data' };
    await client.create(resources.persistentVolumeClaims, {
      metadata: ref,
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
    const phase = (it: KubeObject) => (it['status'] as { phase?: string } | undefined)?.phase;
    const bound = await until((it) => phase(it) === 'Bound', resources.persistentVolumeClaims, 'data');
    const { volumeName } = bound['spec'] as { volumeName: string };
    const patch = { spec: { resources: { requests: { storage: '2Gi' } } } };
    await client.patch(resources.persistentVolumeClaims, ref, patch, { type: 'merge' });
    const capacity = (it: KubeObject) =>
      (it['status'] as { capacity?: { storage: string } }).capacity?.storage;
    await until((it) => capacity(it) === '2Gi', resources.persistentVolumeClaims, 'data');
    await client.delete(resources.persistentVolumeClaims, ref);
    await until((it) => it.metadata.name === undefined, resources.persistentVolumes, volumeName);
  }, 180_000);

  it('completes the pods of jobs, with the exit code that is asked for', async () => {
    const job = (name: string, annotations: Record<string, string>): KubeObject => ({
      metadata: { name, namespace: 'default' },
      spec: {
        backoffLimit: 0,
        template: { metadata: { annotations }, spec: { restartPolicy: 'Never', containers: [container] } },
      },
    });
    await client.create(jobs, job('good', {}));
    await client.create(
      jobs,
      job('bad', { 'simulation.skerry.dev/run-for': '10ms', 'simulation.skerry.dev/exit-code': '3' }),
    );
    const done = (it: KubeObject) =>
      ((it['status'] as { conditions?: { type: string }[] }).conditions ?? []).map(
        (condition) => condition.type,
      );
    await until((it) => done(it).includes('Complete'), jobs, 'good');
    await until((it) => done(it).includes('Failed'), jobs, 'bad');
  }, 180_000);

  it('keeps a pod with a readiness gate unready until the gate opens, and ends it at once when it is deleted', async () => {
    const ref = { namespace: 'default', name: 'gated' };
    await client.create(resources.pods, {
      metadata: ref,
      spec: { readinessGates: [{ conditionType: 'example.com/open' }], containers: [container] },
    });
    const condition = (it: KubeObject, type: string) =>
      (it['status'] as { conditions?: { type: string; status: string }[] }).conditions?.find(
        (each) => each.type === type,
      )?.status;
    const closed = await until((it) => condition(it, 'ContainersReady') === 'True', resources.pods, 'gated');
    expect(condition(closed, 'Ready')).toBe('False');
    const patch = { status: { conditions: [{ type: 'example.com/open', status: 'True' }] } };
    await client.patch(resources.pods, ref, patch, { type: 'strategic', subresource: 'status' });
    await until((it) => condition(it, 'Ready') === 'True', resources.pods, 'gated');
    await client.delete(resources.pods, ref);
    await until((it) => it.metadata.name === undefined, resources.pods, 'gated');
  }, 180_000);

  itInTestAll(
    'resumes with its state and its ports after a stop, and adopts what runs',
    async () => {
      const uid = (await client.get(resources.nodes, { name: 'sim-0' })).metadata.uid;
      await stack().stop({ signal });
      const again = await stack().start({ signal });
      expect(again.superCluster?.kubeconfig).toBe(parts.superCluster?.kubeconfig);
      expect((await client.get(resources.nodes, { name: 'sim-0' })).metadata.uid).toBe(uid);
      const pids = async () => (await stack().observe()).components.map(({ name, pid }) => [name, pid]);
      const before = await pids();
      await stack().start({ signal });
      expect(await pids()).toEqual(before);
    },
    120_000,
  );
});

describe('LocalStack.start', () => {
  it.each([
    ['as their programs come where nothing runs', [], true],
    ['when all programs are there where something runs', ['etcd'], false],
  ])('starts components %s', async (_, running, expected) => {
    const stateDir = await mkdtemp(join(tmpdir(), 'skerry-stack-'));
    const asked: unknown[] = [];
    const driver = {
      observe: async () => ({ components: running.map((name) => ({ name, state: 'running' })) }),
      ensure: async (_plan: unknown, options: EnsureOptions) => void asked.push(options.startAsFetched),
    } as unknown as ControlPlaneDriver;
    const binaries = { ensure: () => Promise.reject(new Error('not asked for')) };
    await new LocalStack({ stateDir, binaries, driver, advertiseAddress: '192.0.2.10' }).start({ signal });
    expect(asked).toEqual([expected]);
    await rm(stateDir, { recursive: true });
  });
});
