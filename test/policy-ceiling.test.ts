import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { VirtualClusterPolicySpec } from '../api/policy.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../kube/index.ts';
import { at } from './harness/checker/view.ts';
import { container, namespace, pod } from './harness/manifests.ts';
import { type Tenant, World } from './harness/world.ts';

const team = 'ceiling-team';
const privileged = { containers: [container({ securityContext: { privileged: true } })] };

describe('the policy of a namespace is a ceiling', () => {
  let world: World;
  let tenant: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    await world.superCluster.apply(
      namespace(team),
      ceiling({ podSecurity: 'privileged', maxVirtualClusters: 1 }),
    );
    // Of an earlier run, on a stack that outlived it.
    await world.cli(['delete', 'capped', 'second', '-n', team, '--wait', '--yes', '--ignore-not-found']);
    const { exitCode, stderr } = await world.cli(create('capped', '--pod-security', 'privileged', '--wait'));
    if (exitCode !== 0) throw new Error(stderr);
    tenant = await world.openTenant('capped', team);
    await tenant.apply(namespace('shop'));
  });

  afterAll(async () => {
    await world?.cli(['delete', 'capped', 'second', 'old', '-n', team, '--yes', '--ignore-not-found']);
    await world?.superCluster.kubectl('delete', 'vcpolicy', 'ceiling-test', '--ignore-not-found');
    await world?.close();
  });

  function create(name: string, ...options: string[]): string[] {
    return ['create', name, '-n', team, ...options];
  }

  function ceiling(spec: Omit<VirtualClusterPolicySpec, 'namespaces'>): KubeObject {
    return {
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'VirtualClusterPolicy',
      metadata: { name: 'ceiling-test' },
      spec: { namespaces: [team], ...spec },
    };
  }

  const until = <R>(
    name: string,
    what: string,
    answer: (vc: VirtualCluster) => R | undefined | false,
  ): Promise<R> =>
    world.superCluster.until<R, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: team, name, what },
      ([vc]) => vc !== undefined && answer(vc),
    );
  const conditionOf = (vc: VirtualCluster, type: string) =>
    vc.status?.conditions?.find((condition) => condition.type === type);
  const enforced = (level: string): Promise<boolean> =>
    world.superCluster.until(
      {
        resource: resources.namespaces,
        labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=shop`,
        what: `the super namespace to enforce ${level}`,
      },
      ([found]) => found?.metadata.labels?.['pod-security.kubernetes.io/enforce'] === level,
    );
  const pool = { 'kubernetes.io/hostname': 'sim-1' };
  const untilInPool = (): Promise<boolean> =>
    until(
      'capped',
      'its pool',
      (vc) => vc.status?.policy?.nodeSelector?.['kubernetes.io/hostname'] === 'sim-1',
    );
  const running = (name: string): Promise<boolean> =>
    tenant.until(
      { resource: resources.pods, namespace: 'shop', name, what: `${name} to run` },
      ([found]) => at(found, 'status', 'phase') === 'Running',
    );

  it('that a VirtualCluster may reach', async () => {
    expect(tenant.virtualCluster.status?.policy).toMatchObject({
      ceiling: 'ceiling-test',
      podSecurity: 'privileged',
    });
    await enforced('privileged');
    await tenant.apply(pod('shop', 'mighty', privileged));
    await running('mighty');
    const { stdout } = await world.cli(['describe', 'capped', '-n', team]);
    expect(stdout).toMatch(/Limited by: +VirtualClusterPolicy ceiling-test\n +Pod Security: +privileged/);
  });

  it('that comes down on those that exist: in their status, in the super namespaces, for their pods', async () => {
    await world.superCluster.apply(ceiling({ podSecurity: 'baseline', maxVirtualClusters: 1 }));
    const limited = await until('capped', 'its policy to be cut', (vc) =>
      vc.status?.policy?.podSecurity === 'baseline' ? conditionOf(vc, 'PolicyLimited') : undefined,
    );
    expect(limited).toMatchObject({
      status: 'True',
      message: expect.stringMatching(/ceiling-test limits.*podSecurity is baseline, not privileged/),
    });
    await enforced('baseline');
    await tenant.apply(pod('shop', 'late', privileged));
    await tenant.until(
      { resource: resources.events, namespace: 'shop', what: 'a warning on the privileged pod' },
      (events) =>
        events.some(
          (event) => at(event, 'involvedObject', 'name') === 'late' && event['reason'] === 'PodSecurity',
        ),
    );
    await world.superCluster.apply(ceiling({ podSecurity: 'privileged', maxVirtualClusters: 1 }));
    await running('late');
  });

  it('for the nodes that they use and see, whatever they ask for', async () => {
    await tenant.kubectl('-n', 'shop', 'delete', 'pod', '--all');
    await world.superCluster.apply(ceiling({ podSecurity: 'privileged', nodeSelector: pool }));
    await untilInPool();
    await tenant.until({ resource: resources.nodes, what: 'the nodes of the pool alone' }, (nodes) => {
      return nodes.map(({ metadata }) => metadata.name).join() === 'sim-1';
    });
    for (const name of ['kept-1', 'kept-2', 'kept-3']) {
      await tenant.apply(pod('shop', name));
      await running(name);
    }
    const { items } = await tenant.client.list(resources.pods, { namespace: 'shop' });
    expect(new Set(items.map((each) => at(each, 'spec', 'nodeName')))).toEqual(new Set(['sim-1']));
    await world.superCluster.apply(ceiling({ podSecurity: 'privileged', maxVirtualClusters: 1 }));
    // The manager has heard of it.
    await until(
      'capped',
      'no pool',
      (vc) => vc.status?.policy?.nodeSelector?.['kubernetes.io/hostname'] === undefined,
    );
  });

  it('for their number, too', async () => {
    expect((await world.cli(create('second'))).exitCode).toBe(0);
    const waiting = await until('second', 'it to wait', (vc) =>
      conditionOf(vc, 'Ready')?.reason === 'TooManyVirtualClusters' ? vc : undefined,
    );
    expect(waiting.status?.phase).toBe('Pending');
    expect(waiting.status?.id).toBeUndefined();
    const { stdout } = await world.cli(['describe', 'second', '-n', team]);
    expect(stdout.split('What to do:')[1]).toContain('allows no more than 1 in the namespace ceiling-team');
    expect((await world.cli(['delete', 'second', '-n', team, '--wait', '--yes'])).exitCode).toBe(0);
  });

  it('and for the templates to choose from', async () => {
    await world.superCluster.apply(
      ceiling({ podSecurity: 'privileged', nodeSelector: pool, templates: ['v1-36'] }),
    );
    // The manager has heard of it. Another level of Pod Security would start the API server anew.
    await untilInPool();
    const { exitCode, stderr } = await world.cli(create('old', '--version', '1.35', '--wait'));
    expect(exitCode).toBe(1);
    expect(stderr).toContain('VirtualClusterPolicy ceiling-test does not allow the template v1-35');
    await world.cli(['delete', 'old', '-n', team, '--wait', '--yes']);
  });

  it('without one, nothing can be had but the defaults', async () => {
    const { ref } = await world.sharedTenant('ceiling');
    const spec = { policy: { podSecurity: 'privileged', daemonSets: 'allow' } };
    await world.superCluster.client.patch(resources.virtualClusters, ref, { spec }, { type: 'merge' });
    const limited = await world.superCluster.until<VirtualCluster, VirtualCluster>(
      { resource: resources.virtualClusters, ...ref, what: 'what it asks for to be refused' },
      // The policy of the tests before has gone, which the manager hears of when it does.
      ([vc]) =>
        vc !== undefined &&
        conditionOf(vc, 'PolicyLimited')?.message?.includes(
          'No VirtualClusterPolicy selects the namespace default',
        ) === true &&
        vc,
    );
    expect(limited.status?.policy).toMatchObject({ podSecurity: 'baseline', daemonSets: 'deny' });
  });

  it('refuses nonsense, and says what to write instead', async () => {
    const spec = { namespaces: ['Team'], ingressHosts: ['https://x'], endpointCIDRs: ['10.0.0.1'] };
    const input = JSON.stringify({ ...ceiling({}), metadata: { name: 'ceiling-nonsense' }, spec });
    const { exitCode, stderr } = await world.superCluster.tryKubectl(['apply', '-f', '-'], { input });
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('spec.namespaces[0]: Invalid value');
    expect(stderr).toContain('*.example.com for every name below example.com');
    expect(stderr).toContain('192.0.2.7/32 for one address');
  });
});
