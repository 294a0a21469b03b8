import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resources } from '../../../kube/index.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../../control-plane/plan.ts';
import { CpuRequests, cpuRequestOf } from './cpu-requests.ts';
import { KubernetesDriver } from './kubernetes-driver.ts';
import { SuperObjects } from './super-objects.ts';
import { examplePlan } from './testing/example-plan.ts';
import { FakeWorkloads } from './testing/fake-workloads.ts';
import type { Pod } from './types.ts';

const namespace = 'skerry-tenant-abc123';
const server = { namespace, name: 'kube-apiserver-0' };
const { signal } = new AbortController();

describe('the CPU request of a component', () => {
  const of = (cpu: string | undefined, weight: number, limit?: string): number | undefined =>
    cpuRequestOf(
      {
        resources: {
          requests: cpu === undefined ? {} : { cpu },
          ...(limit !== undefined && { limits: { cpu: limit } }),
        },
      },
      weight,
    );

  it('is that of its template, times the weight', () => {
    expect([of('50m', 1), of('50m', 4), of('10m', 3)]).toEqual([50, 200, 30]);
  });

  it('is half a CPU at most by weight, within its limit, and never below the template', () => {
    expect([of('50m', 1000, '2'), of('50m', 1000, '300m'), of('1', 4, '2')]).toEqual([500, 300, 1_000]);
  });

  it('is that of the cluster where its template has none', () => {
    expect([of(undefined, 4), cpuRequestOf({}, 4)]).toEqual([undefined, undefined]);
  });
});

describe('pods of a control plane', () => {
  let cluster: FakeCluster;
  let workloads: FakeWorkloads;
  let driver: KubernetesDriver;
  let problems: string[];

  beforeEach(async () => {
    problems = [];
    cluster = await startFakeCluster({
      statusResources: ['pods', 'services', 'namespaces', 'statefulsets'],
    });
    workloads = new FakeWorkloads(cluster.server);
    driver = new KubernetesDriver({
      client: cluster.client,
      onProblem: (_, what) => problems.push(what),
    });
  });

  afterEach(async () => {
    await driver.close();
    await workloads[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });

  const weighing = (weight: number): ControlPlanePlan => ({ ...examplePlan(), weight });
  const podOf = (ref = server): Pod => cluster.server.get(resources.pods, ref) as Pod;
  const cpu = (ref = server): string | undefined =>
    podOf(ref).spec?.containers?.[0]?.resources?.requests?.['cpu'];
  const template = (): unknown =>
    cluster.server.get(resources.statefulSets, { namespace, name: 'kube-apiserver' })?.['spec'];

  const asking = (request: string, managedFields: object[]): void => {
    const pod = podOf();
    const [container] = pod.spec?.containers ?? [];
    const containers = [{ ...container, resources: { requests: { cpu: request } } }];
    cluster.server.put(resources.pods, {
      ...pod,
      metadata: { ...pod.metadata, managedFields },
      spec: { ...pod.spec, containers },
    });
  };
  const resized = [{ manager: 'skerry-vc-manager', operation: 'Update', subresource: 'resize' }];

  it('request CPU by the weight of their tenant, and a change replaces none of them', async () => {
    await driver.ensure(weighing(1), { signal });
    expect(cpu()).toBe('50m');
    const [before, uid] = [template(), podOf().metadata.uid];
    await driver.ensure(weighing(4), { signal });
    expect([cpu(), cpu({ namespace, name: 'kube-controller-manager-0' })]).toEqual(['200m', '40m']);
    asking('200m', resized);
    await driver.ensure(weighing(2), { signal });
    expect(cpu()).toBe('100m');
    expect([template(), podOf().metadata.uid]).toEqual([before, uid]);
  });

  it('request it again when they were made anew', async () => {
    await driver.ensure(weighing(4), { signal });
    expect(cpu()).toBe('200m');
    cluster.server.remove(resources.pods, server);
    await cluster.server.until(() => cluster.server.get(resources.pods, server) !== undefined);
    expect(cpu()).toBe('50m');
    await driver.ensure(weighing(4), { signal });
    expect(cpu()).toBe('200m');
  });

  it('keep what others have had them request, where the weight says no more, and lose what an earlier weight gave', async () => {
    await driver.ensure(weighing(1), { signal });
    asking('250m', [{ manager: 'webhook', operation: 'Update' }]);
    await driver.ensure(weighing(1), { signal });
    expect(cpu()).toBe('250m');
    await driver.ensure(weighing(4), { signal });
    expect(cpu()).toBe('250m');
    await driver.ensure(weighing(8), { signal });
    expect(cpu()).toBe('400m');
    asking('400m', resized);
    await driver.ensure(weighing(1), { signal });
    expect(cpu()).toBe('50m');
  });

  it('serve as before when it is refused, which is told once', async () => {
    await driver.ensure(weighing(1), { signal });
    cluster.server.inject({
      fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'node has not enough' },
      plural: 'pods',
      subresource: 'resize',
      times: Number.POSITIVE_INFINITY,
    });
    await driver.ensure(weighing(4), { signal });
    await driver.ensure(weighing(4), { signal });
    expect(problems).toEqual([
      `cannot set the CPU request of ${namespace}/kube-apiserver-0 by weight`,
      `cannot set the CPU request of ${namespace}/kube-controller-manager-0 by weight`,
    ]);
    expect(cpu()).toBe('50m');
  });

  it('are forgotten when nobody has asked for them in an hour, as those that are gone', async () => {
    const clock = new FakeClock();
    const objects = new SuperObjects(cluster.client);
    const requests = new CpuRequests({ objects, clock, onProblem: (_, what) => problems.push(what) });
    cluster.server.inject({
      fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'node has not enough' },
      plural: 'pods',
      subresource: 'resize',
      times: Number.POSITIVE_INFINITY,
    });
    const requested = { name: 'c', resources: { requests: { cpu: '50m' } } };
    const component = { ...examplePlan().components[0], ...requested } as ComponentPlan;
    const containers = [requested];
    const pod = { metadata: { namespace, name: 'c-0', uid: 'uid' }, spec: { containers } } as Pod;
    const told = async (afterMinutes: number): Promise<number> => {
      await clock.advance(afterMinutes * 60_000);
      await requests.set([pod], component, { weight: 4, signal, beforeWrite: () => undefined });
      return problems.length;
    };
    expect([await told(0), await told(50), await told(50), await told(60)]).toEqual([1, 1, 1, 2]);
  });
});
