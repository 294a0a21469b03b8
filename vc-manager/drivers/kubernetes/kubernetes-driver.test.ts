import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import type { ControlPlanePlan } from '../../control-plane/plan.ts';
import { KubernetesDriver } from './kubernetes-driver.ts';
import { examplePlan } from './testing/example-plan.ts';
import { FakeWorkloads } from './testing/fake-workloads.ts';
import type { StatefulSet } from './types.ts';

const id = 'abc123';
const namespace = `skerry-tenant-${id}`;
const server = 'kube-apiserver';
const controllers = 'kube-controller-manager';
const { signal } = new AbortController();

let cluster: FakeCluster;
let workloads: FakeWorkloads;
let driver: KubernetesDriver;

beforeEach(async () => {
  cluster = await startFakeCluster({
    statusResources: ['pods', 'services', 'namespaces', 'statefulsets'],
  });
  workloads = new FakeWorkloads(cluster.server);
  driver = new KubernetesDriver({ client: cluster.client });
});

afterEach(async () => {
  await driver.close();
  await workloads[Symbol.asyncDispose]();
  await cluster[Symbol.asyncDispose]();
});

function statefulSet(name: string): StatefulSet {
  const found = cluster.server.get(resources.statefulSets, { namespace, name });
  if (found === undefined) throw new Error(`no StatefulSet ${name}`);
  return found as StatefulSet;
}

function names(objects: KubeObject[]): string[] {
  return objects.map(({ metadata }) => metadata.name ?? '').sort();
}

/** With little patience. */
function impatient(plan: ControlPlanePlan, timeoutMs = 300): ControlPlanePlan {
  const components = plan.components.map((component) => ({
    ...component,
    probe: { scheme: 'https', host: '', port: 1, path: '/readyz', timeoutMs } as const,
  }));
  return { ...plan, components };
}

describe('ensure', () => {
  it('makes a namespace with all that a control plane needs, and resolves when it is ready', async () => {
    const ready: string[] = [];
    await driver.ensure(examplePlan({ replicas: 2 }), { signal, onReady: (name) => ready.push(name) });
    expect(ready).toEqual([server, controllers]);
    expect(names(cluster.server.list(resources.statefulSets))).toEqual([server, controllers]);
    expect(names(cluster.server.list(resources.pods))).toEqual([
      `${server}-0`,
      `${server}-1`,
      `${controllers}-0`,
      `${controllers}-1`,
    ]);
    expect(names(cluster.server.list(resources.secrets))).toEqual([
      `${server}-files`,
      `${controllers}-files`,
    ]);
    expect(names(cluster.server.list(resources.services))).toEqual([server]);
    expect(names(cluster.server.list(resources.podDisruptionBudgets))).toEqual([server, controllers]);
    expect(cluster.server.get(resources.namespaces, { name: namespace })?.metadata).toMatchObject({
      labels: { 'skerry.dev/id': id, 'pod-security.kubernetes.io/enforce': 'restricted' },
      annotations: { 'skerry.dev/virtualcluster': 'teams/blue' },
    });
  });

  it('starts nothing before what it depends on is ready', async () => {
    workloads.set('etcd', 'starting');
    const ensuring = driver.ensure(examplePlan({ template: 'v1-36-own-etcd' }), { signal });
    await cluster.server.until(() => workloads.history.length === 1);
    expect(names(cluster.server.list(resources.statefulSets))).toEqual(['etcd']);
    workloads.set('etcd', 'ready');
    await ensuring;
    expect(workloads.history.map(({ component }) => component)).toEqual(['etcd', server, controllers]);
  });

  it('changes nothing further when it has lost the right to in the middle', async () => {
    let may = true;
    const beforeWrite = (): void => {
      if (!may) throw new Error('another manager works on it');
    };
    const onReady = (): void => {
      may = false;
    };
    await expect(driver.ensure(examplePlan(), { signal, beforeWrite, onReady })).rejects.toThrow(
      'another manager',
    );
    expect(names(cluster.server.list(resources.statefulSets))).toEqual([server]);
  });

  it('takes over what another driver has started, without touching it', async () => {
    const plan = examplePlan({ replicas: 2 });
    await driver.ensure(plan, { signal });
    const started = workloads.history.length;
    const generations = [server, controllers].map((name) => statefulSet(name).metadata.generation);
    await new KubernetesDriver({ client: cluster.client }).ensure(plan, { signal });
    expect(workloads.history).toHaveLength(started);
    expect([server, controllers].map((name) => statefulSet(name).metadata.generation)).toEqual(generations);
  });

  it('changes the version of the API server first, and of the others when that is done', async () => {
    await driver.ensure(examplePlan({ version: '1.36.1' }), { signal });
    workloads.history.length = 0;
    await driver.ensure(examplePlan({ version: '1.36.3' }), { signal });
    expect(workloads.history).toEqual([
      { component: server, image: 'registry.k8s.io/kube-apiserver:v1.36.3' },
      { component: controllers, image: 'registry.k8s.io/kube-controller-manager:v1.36.3' },
    ]);
  });

  it('restarts only what has other files', async () => {
    await driver.ensure(examplePlan({ template: 'v1-36-own-etcd' }), { signal });
    workloads.history.length = 0;
    await driver.ensure(examplePlan({ template: 'v1-36-own-etcd', tokenKey: 'another' }), { signal });
    expect(workloads.history.map(({ component }) => component)).toEqual([server, controllers]);
  });

  it('stops and forgets what the plan names no more', async () => {
    const plan = examplePlan({ replicas: 2 });
    await driver.ensure(plan, { signal });
    await driver.ensure({ ...plan, components: plan.components.slice(0, 1) }, { signal });
    expect(names(cluster.server.list(resources.statefulSets))).toEqual([server]);
    expect(names(cluster.server.list(resources.secrets))).toEqual([`${server}-files`]);
    expect(names(cluster.server.list(resources.podDisruptionBudgets))).toEqual([server]);
  });

  it('leaves a control plane where it was located, whatever runs of it meanwhile', async () => {
    const addresses = async (): Promise<(string | undefined)[]> => {
      const { host, datastore } = await driver.locate(id, { signal, withDatastore: true });
      const services = cluster.server.list(resources.services);
      return [host, datastore?.host, ...services.map(({ metadata }) => metadata.uid)];
    };
    const plan = examplePlan({ template: 'v1-36-own-etcd' });
    const before = await addresses();
    await driver.ensure(plan, { signal });
    // As for a snapshot of one that is asleep, a restore or a move.
    const isData = ({ data }: { data?: boolean | undefined }): boolean => data === true;
    await driver.ensure({ ...plan, components: plan.components.filter(isData) }, { signal });
    expect(names(cluster.server.list(resources.statefulSets))).toEqual(['etcd']);
    expect(await addresses()).toEqual(before);
    await driver.ensure(examplePlan(), { signal });
    expect(await addresses()).toEqual(before);
    await driver.stop(id, { signal, components: ['etcd'], forget: true });
    expect(names(cluster.server.list(resources.services))).toEqual([server]);
  });

  it('takes the disruption budget away when there is only one left', async () => {
    await driver.ensure(examplePlan({ replicas: 2 }), { signal });
    await driver.ensure(examplePlan(), { signal });
    expect(cluster.server.list(resources.podDisruptionBudgets)).toEqual([]);
  });

  it('does not wait for the second of two that run as they should', async () => {
    const plan = examplePlan({ replicas: 2 });
    await driver.ensure(plan, { signal });
    const set = statefulSet(server);
    cluster.server.put(resources.statefulSets, {
      ...set,
      status: { ...set.status, readyReplicas: 1, availableReplicas: 1 },
    });
    await driver.ensure(plan, { signal });
  });

  it('touches no namespace that somebody else has made', async () => {
    cluster.server.put(resources.namespaces, { metadata: { name: namespace, labels: { team: 'other' } } });
    await expect(driver.ensure(examplePlan(), { signal })).rejects.toMatchObject({ code: 'NotOurs' });
    await driver.remove(id, { signal });
    expect(await driver.list()).toEqual([]);
    expect(cluster.server.list(resources.namespaces)).toHaveLength(1);
    expect(cluster.server.list(resources.secrets)).toEqual([]);
  });

  it('says what a component that keeps exiting has said', async () => {
    const text = 'the last thing that it said\n';
    cluster.server.inject({ fault: { kind: 'status', code: 200, text }, plural: 'pods', verb: 'get' });
    workloads.set(server, { waiting: { reason: 'CrashLoopBackOff' }, restarts: 2, exitCode: 3 });
    await expect(driver.ensure(examplePlan(), { signal })).rejects.toMatchObject({
      code: 'KeepsExiting',
      message: expect.stringMatching(/3 times in a row \(exit code 3\)[\s\S]*the last thing that it said/),
    });
  });

  it('names the image that cannot be had', async () => {
    const said: string[] = [];
    workloads.set(server, { waiting: { reason: 'ImagePullBackOff', message: 'no such image' } });
    await expect(
      driver.ensure(impatient(examplePlan()), { signal, onProgress: (message) => said.push(message) }),
    ).rejects.toMatchObject({
      code: 'CannotStart',
      fields: { id, component: server, path: 'registry.k8s.io/kube-apiserver:v1.36.3' },
      message: expect.stringContaining('no such image'),
    });
    expect(said).toContain(`${server}-0 has no image (ImagePullBackOff: no such image)`);
  });

  it('says that memory is short where the scheduler does, and not where anything else has those words', async () => {
    const said: (string | undefined)[] = [];
    const ensure = () =>
      driver.ensure(impatient(examplePlan()), { signal, onProgress: (_, reason) => said.push(reason) });
    const message = '0/3 nodes are available: 3 Insufficient memory.';
    workloads.set(server, { noNode: message });
    await expect(ensure()).rejects.toMatchObject({
      code: 'InsufficientMemory',
      fields: { component: server },
    });
    expect(said).toContain('InsufficientMemory');
    said.length = 0;
    workloads.set(server, { waiting: { reason: 'CreateContainerError', message } });
    await expect(ensure()).rejects.toMatchObject({
      code: 'NotReady',
      message: expect.stringContaining(message),
    });
    expect(said).not.toContain('InsufficientMemory');
  });

  it('tells why there is no pod at all', async () => {
    workloads.set(server, 'starting');
    cluster.server.put(resources.events, {
      metadata: { namespace, name: 'e' },
      involvedObject: { kind: 'StatefulSet', name: server },
      type: 'Warning',
      message: 'exceeded quota',
    });
    await workloads[Symbol.asyncDispose]();
    await expect(driver.ensure(impatient(examplePlan()), { signal })).rejects.toMatchObject({
      code: 'NotReady',
      message: expect.stringContaining('exceeded quota'),
    });
  });

  it('ends when it is told to', async () => {
    workloads.set(server, 'starting');
    const controller = new AbortController();
    const ensuring = driver.ensure(examplePlan(), { signal: controller.signal });
    await cluster.server.until(() => workloads.history.length === 1);
    controller.abort(new Error('enough'));
    await expect(ensuring).rejects.toThrow('enough');
  });
});

describe('ensure with a second API server', () => {
  const before = examplePlan({ tokenKey: 'one' });
  const after = examplePlan({ tokenKey: 'two' });
  const surgeOf = (plan: ControlPlanePlan) => ({
    component: server,
    plan: async () => plan,
    handOver: async () => {},
  });
  const uidOf = (pod: string): string | undefined =>
    cluster.server.get(resources.pods, { namespace, name: pod })?.metadata.uid;
  const servers = (): string[] =>
    names(cluster.server.list(resources.pods)).filter((name) => name.startsWith(server));
  /** Which pods of it were there, each time that it changed. */
  const follow = async (isOver: () => boolean): Promise<string[]> => {
    const seen: string[] = [];
    await cluster.server.until(() => {
      const now = servers()
        .map((pod) => uidOf(pod))
        .join(' ');
      if (seen.at(-1) !== now) seen.push(now);
      return isOver();
    });
    return seen;
  };

  it('has one serve at every moment, and one in the end', async () => {
    await driver.ensure(before, { signal, surge: surgeOf(before) });
    const first = uidOf(`${server}-0`) ?? '';
    let isOver = false;
    const following = follow(() => isOver);
    const events: string[] = [];
    driver.watch((_, component, what) => events.push(`${component} ${what}`));
    await driver.ensure(after, { signal, surge: surgeOf(after) });
    isOver = true;
    cluster.server.put(resources.configMaps, { metadata: { name: 'over', namespace: 'default' } });
    const seen = await following;
    const [second, third] = [seen[1]?.split(' ')[1] ?? '', uidOf(`${server}-0`) ?? ''];
    expect(seen).not.toContain('');
    expect(seen.slice(0, 2)).toEqual([first, `${first} ${second}`]);
    expect(seen.slice(-2)).toEqual([`${third} ${second}`, third]);
    expect(servers()).toEqual([`${server}-0`]);
    expect(events.filter((event) => event.endsWith('exited'))).toEqual([]);
    await driver.ensure(after, { signal, surge: surgeOf(after) });
    expect(uidOf(`${server}-0`)).toBe(third);
  });

  it('leaves the first one as it is when the second one does not start, then and when it goes back', async () => {
    await driver.ensure(before, { signal });
    const first = uidOf(`${server}-0`);
    cluster.server.inject({ fault: { kind: 'status', code: 200, text: '' }, plural: 'pods', verb: 'get' });
    workloads.set(`${server}-1`, { waiting: { reason: 'CrashLoopBackOff' }, restarts: 2, exitCode: 3 });
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(driver.ensure(after, { signal, surge: surgeOf(after) })).rejects.toMatchObject({
        code: 'KeepsExiting',
      });
      await cluster.server.until(() => servers().length === 1);
      expect(uidOf(`${server}-0`)).toBe(first);
    }
    workloads.set(`${server}-1`, 'ready');
    await driver.ensure(before, { signal, surge: surgeOf(before) });
    expect([servers(), uidOf(`${server}-0`)]).toEqual([[`${server}-0`], first]);
    expect(statefulSet(server).spec).toMatchObject({
      replicas: 1,
      updateStrategy: { type: 'RollingUpdate' },
    });
  });

  it.each([
    ['the second one starts', `${server}-1`, 0],
    ['the first one is started anew', `${server}-0`, 1],
  ])('is gone on with by the next manager when one is killed while %s', async (_, starting, partition) => {
    await driver.ensure(before, { signal });
    const first = uidOf(`${server}-0`);
    const killed = new AbortController();
    const isThere = (): boolean =>
      partition === 0
        ? uidOf(`${server}-1`) !== undefined
        : ![first, undefined].includes(uidOf(`${server}-0`));
    if (partition === 0) workloads.set(starting, 'starting');
    const ensuring = driver.ensure(after, { signal: killed.signal, surge: surgeOf(after) });
    await cluster.server.until(isThere);
    killed.abort(new Error('killed'));
    await expect(ensuring).rejects.toThrow('killed');
    expect(servers()).toHaveLength(2);
    workloads.set(starting, 'ready');
    const next = new KubernetesDriver({ client: cluster.client });
    await next.ensure(after, { signal, surge: surgeOf(after) });
    await next.close();
    expect(servers()).toEqual([`${server}-0`]);
    expect(uidOf(`${server}-0`)).not.toBe(first);
    expect(statefulSet(server).metadata.annotations?.['skerry.dev/template-hash']).not.toBe('');
  });

  it('replaces it with a pause where there is no node for a second one', async () => {
    await driver.ensure(before, { signal });
    const first = uidOf(`${server}-0`);
    workloads.set(`${server}-1`, 'unschedulable');
    const said: string[] = [];
    await driver.ensure(impatient(after, 2_000), {
      signal,
      surge: surgeOf(after),
      onProgress: (message) => said.push(message),
    });
    expect(said).toContainEqual(expect.stringContaining('no node for a second'));
    expect(uidOf(`${server}-0`)).not.toBe(first);
  });
});

describe('stop', () => {
  it('stops those that depend on others first, keeps what they have, and lets ensure start them again', async () => {
    const plan = examplePlan({ replicas: 2 });
    await driver.ensure(plan, { signal });
    await driver.stop(id, { signal });
    expect(cluster.server.list(resources.pods)).toEqual([]);
    expect(cluster.server.list(resources.secrets)).toHaveLength(2);
    expect((await driver.observe(id)).components).toMatchObject([{ state: 'stopped' }, { state: 'stopped' }]);
    const scaled = cluster.server.requests
      .filter(
        ({ verb, plural, query }) => verb === 'patch' && plural === 'statefulsets' && !query.has('force'),
      )
      .map(({ name }) => name);
    expect(scaled).toEqual([controllers, server]);
    await driver.ensure(plan, { signal });
    expect(cluster.server.list(resources.pods)).toHaveLength(4);
  });

  it('leads to an API server that is not ready while it wakes, and only then', async () => {
    const isLedTo = (): unknown =>
      (
        cluster.server.get(resources.services, { namespace, name: server })?.['spec'] as
          | KubeObject
          | undefined
      )?.['publishNotReadyAddresses'] ?? false;
    await driver.ensure(examplePlan(), { signal });
    expect(isLedTo()).toBe(false);
    await driver.stop(id, { signal });
    expect(isLedTo()).toBe(false);
    workloads.set(server, 'starting');
    for (const isWaking of [true, false]) {
      const starting = driver.ensure(examplePlan(), { signal, isWaking });
      await cluster.server.until(() => names(cluster.server.list(resources.pods)).includes(`${server}-0`));
      expect(isLedTo()).toBe(isWaking);
      workloads.set(server, 'ready');
      await starting;
      expect(isLedTo()).toBe(false);
      await driver.stop(id, { signal });
      workloads.set(server, 'starting');
    }
    workloads.set(server, 'ready');
    // Of several some are ready before others.
    await driver.ensure(examplePlan({ replicas: 2 }), { signal });
    await driver.stop(id, { signal });
    workloads.set(server, 'starting');
    const both = driver.ensure(examplePlan({ replicas: 2 }), { signal, isWaking: true });
    await cluster.server.until(() => names(cluster.server.list(resources.pods)).includes(`${server}-1`));
    expect(isLedTo()).toBe(false);
    workloads.set(server, 'ready');
    await both;
  });

  it('stops only what is named', async () => {
    await driver.ensure(examplePlan(), { signal });
    await driver.stop(id, { signal, components: [controllers] });
    expect(names(cluster.server.list(resources.pods))).toEqual([`${server}-0`]);
    expect((await driver.observe(id)).components.map(({ state }) => state)).toEqual(['running', 'stopped']);
  });

  it('waits until pods are gone, and not only told to go', async () => {
    await driver.ensure(examplePlan(), { signal });
    workloads.stubborn.add(`${controllers}-0`);
    let isStopped = false;
    const stopping = driver.stop(id, { signal, components: [controllers] }).then(() => {
      isStopped = true;
    });
    const pod = { namespace, name: `${controllers}-0` };
    await cluster.server.until(
      () => cluster.server.get(resources.pods, pod)?.metadata.deletionTimestamp !== undefined,
    );
    expect(isStopped).toBe(false);
    workloads.stubborn.clear();
    cluster.server.remove(resources.pods, pod);
    await stopping;
  });

  it('has nothing to do where there is nothing', async () => {
    await driver.stop(id, { signal });
    expect(await driver.observe(id)).toEqual({ id, components: [] });
  });
});

describe('remove', () => {
  it('takes the namespace away, and may be repeated', async () => {
    await driver.ensure(examplePlan(), { signal });
    expect(await driver.list()).toEqual([id]);
    await driver.remove(id, { signal });
    await driver.remove(id, { signal });
    expect(await driver.list()).toEqual([]);
    expect(cluster.server.list(resources.namespaces)).toEqual([]);
    expect(cluster.server.list(resources.pods)).toEqual([]);
  });

  it('deletes no namespace that has come in its place', async () => {
    await driver.ensure(examplePlan(), { signal });
    await driver.stop(id, { signal });
    cluster.server.inject({
      fault: { kind: 'status', code: 409, reason: 'Conflict' },
      verb: 'delete',
      plural: 'namespaces',
    });
    const removing = driver.remove(id, { signal });
    await cluster.server.until(() =>
      cluster.server.requests.some(({ verb, plural }) => verb === 'delete' && plural === 'namespaces'),
    );
    cluster.server.remove(resources.namespaces, { name: namespace });
    cluster.server.put(resources.namespaces, { metadata: { name: namespace, uid: 'another' } });
    await removing;
    expect(cluster.server.list(resources.namespaces)).toHaveLength(1);
  });
});

describe('observe, watch and logs', () => {
  it('show a component that cannot run', async () => {
    await driver.ensure(examplePlan(), { signal });
    workloads.set(server, { waiting: { reason: 'CrashLoopBackOff' }, restarts: 4, exitCode: 1 });
    expect((await driver.observe(id)).components[0]).toMatchObject({
      name: server,
      state: 'failed',
      restarts: 4,
      lastExit: { code: 1 },
    });
  });

  /** By what tells of events: `ensure` has watches of its own, in one namespace. */
  const untilWatched = (): Promise<void> =>
    cluster.server.until(() =>
      cluster.server.watches('pods').some(({ info }) => info.namespace === undefined),
    );

  it('tell of exits that nobody asked for, and of nothing that was there before', async () => {
    await driver.ensure(examplePlan(), { signal });
    const events: string[] = [];
    const first = Promise.withResolvers<void>();
    const stop = driver.watch((which, component, what) => {
      events.push(`${which} ${component} ${what}`);
      first.resolve();
    });
    await untilWatched();
    workloads.set(server, { waiting: { reason: 'CrashLoopBackOff' }, restarts: 1, exitCode: 1 });
    await first.promise;
    expect(events).toEqual([`${id} ${server} exited`]);
    stop();
  });

  it('keep quiet about pods in other namespaces, whatever their labels say', async () => {
    await driver.ensure(examplePlan(), { signal });
    const events: string[] = [];
    const first = Promise.withResolvers<void>();
    driver.watch((_, component, what) => {
      events.push(`${component} ${what}`);
      first.resolve();
    });
    await untilWatched();
    const real = cluster.server.list(resources.pods).find(({ metadata }) => metadata.name === `${server}-0`);
    const forged = { namespace: 'default', name: 'forged' };
    cluster.server.put(resources.pods, {
      metadata: { ...forged, labels: { ...real?.metadata.labels } },
      status: real?.['status'],
    });
    cluster.server.remove(resources.pods, forged);
    workloads.set(server, { waiting: { reason: 'CrashLoopBackOff' }, restarts: 1, exitCode: 1 });
    await first.promise;
    expect(events).toEqual([`${server} exited`]);
  });

  it('keep quiet about pods that we stop ourselves', async () => {
    await driver.ensure(examplePlan(), { signal });
    const events: string[] = [];
    driver.watch((_, component, what) => events.push(`${component} ${what}`));
    await untilWatched();
    await driver.stop(id, { signal });
    expect(events).toEqual([]);
  });

  it('tell of exits of pods that have stayed when there were to be more of them, or fewer', async () => {
    await driver.ensure(examplePlan({ replicas: 2 }), { signal });
    const events: string[] = [];
    const told = Promise.withResolvers<void>();
    driver.watch((_, component, what) => {
      events.push(`${component} ${what}`);
      if (what === 'exited') told.resolve();
    });
    await untilWatched();
    await driver.ensure(examplePlan({ replicas: 3 }), { signal });
    await driver.ensure(examplePlan({ replicas: 2 }), { signal });
    expect(events.filter((event) => event.endsWith('exited'))).toEqual([]);
    cluster.server.remove(resources.pods, { namespace, name: `${server}-0` });
    await told.promise;
    expect(events.filter((event) => event.endsWith('exited'))).toEqual([`${server} exited`]);
  });

  it('know which components have a log', async () => {
    await driver.ensure(examplePlan(), { signal });
    const read = async (component: string): Promise<string[]> => {
      const lines: string[] = [];
      for await (const line of driver.logs(id, component, { signal, tailLines: 2 })) lines.push(line);
      return lines;
    };
    await expect(read('nobody')).rejects.toMatchObject({
      code: 'UnknownComponent',
      message: expect.stringContaining(`${server}, ${controllers}`),
    });
    const text = 'one\ntwo\nthree';
    cluster.server.inject({ fault: { kind: 'status', code: 200, text }, plural: 'pods', verb: 'get' });
    expect(await read(server)).toEqual(['two', 'three']);
  });
});
