import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../kube/index.ts';
import { at, listAt } from './harness/checker/view.ts';
import { configMap, container, image, pod } from './harness/manifests.ts';
import { type Tenant, World } from './harness/world.ts';

/** Profile `general`, which is kubectl's default, asks for more than Pod Security baseline allows. */
const debugging = (name: string, container: string, profile: 'baseline' | 'sysadmin'): string[] => [
  ...['-n', 'changes', 'debug', name, `--image=${image}`],
  ...[`--container=${container}`, `--profile=${profile}`],
];
const nowhere = { nodeSelector: { 'example.com/none': 'such' } };

describe('what may be changed of a pod', () => {
  let world: World;
  let tenant: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant('changes');
  });

  afterAll(() => world?.close());

  const own = (name: string, inNamespace = 'changes'): Promise<KubeObject> =>
    tenant.client.get(resources.pods, { namespace: inNamespace, name });

  const marked = (inNamespace = 'changes'): string =>
    `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=${inNamespace}`;

  const counterpart = async (name: string, inNamespace = 'changes'): Promise<KubeObject | undefined> => {
    const { items } = await world.superCluster.client.list(resources.pods, {
      labelSelector: marked(inNamespace),
    });
    return items.find(({ metadata }) => metadata.name === name);
  };

  /** S as soon as this holds for it. */
  const counterpartThat = (
    name: string,
    what: string,
    holds: (superPod: KubeObject) => boolean,
    inNamespace = 'changes',
  ): Promise<KubeObject> =>
    world.superCluster.until(
      { resource: resources.pods, labelSelector: marked(inNamespace), what: `${name} to ${what}` },
      (pods) => pods.find((found) => found.metadata.name === name && holds(found)),
    );

  const ownThat = (name: string, what: string, holds: (pod: KubeObject) => boolean): Promise<KubeObject> =>
    tenant.until(
      { resource: resources.pods, namespace: 'changes', name, what: `${name} to ${what}` },
      (pods) => pods.find(holds),
    );

  const isRunning = (found: KubeObject): boolean => at(found, 'status', 'phase') === 'Running';
  const patch = (name: string, change: unknown, ...args: string[]): Promise<string> =>
    tenant.kubectl('-n', 'changes', 'patch', 'pod', name, '-p', JSON.stringify(change), ...args);

  const warning = (name: string, reason: string): Promise<string> =>
    tenant.until(
      { resource: resources.events, namespace: 'changes', what: `a warning ${reason} on ${name}` },
      (events) =>
        events
          .filter((event) => at(event, 'involvedObject', 'name') === name && event['type'] === 'Warning')
          .filter((event) => event['reason'] === reason)
          .map((event) => String(event['message']))[0],
    );

  const added = (found: KubeObject): unknown[] =>
    listAt(found, 'spec', 'ephemeralContainers').map(({ name }) => name);

  it('labels, annotations, the image, a deadline and added tolerations arrive in place', async () => {
    await tenant.apply(pod('changes', 'web'));
    await ownThat('web', 'run', isRunning);
    const before = await counterpart('web');
    const toleration = { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoSchedule' };
    const tolerations = [...listAt(await own('web'), 'spec', 'tolerations'), toleration];
    await patch('web', {
      metadata: { labels: { tier: 'front', app: null }, annotations: { note: 'changed' } },
      spec: {
        containers: [{ name: 'main', image: 'example.com/next:2' }],
        activeDeadlineSeconds: 3600,
        tolerations,
      },
    });
    await world.expectAgreement();
    const s = await counterpart('web');
    expect(s?.metadata.uid).toBe(before?.metadata.uid);
    expect(s?.metadata.labels).toMatchObject({ tier: 'front' });
    expect(s?.metadata.labels).not.toHaveProperty('app');
    expect(s?.metadata.annotations).toMatchObject({ note: 'changed' });
    expect(at(s, 'spec', 'activeDeadlineSeconds')).toBe(3600);
    expect(listAt(s, 'spec', 'tolerations')).toContainEqual(toleration);
    expect(at(s, 'spec', 'containers', '0', 'image')).toBe('example.com/next:2');
  });

  it('what kubectl debug adds goes down, and is kept when there is more', async () => {
    await tenant.apply(configMap('changes', 'tools', { level: 'high' }), pod('changes', 'patient'));
    await ownThat('patient', 'run', isRunning);
    const debug = (name: string, ...env: string[]): Promise<string> =>
      tenant.kubectl(...debugging('patient', name, 'baseline'), ...env);
    await debug('first', '--env=LEVEL=low');
    const first = await counterpartThat('patient', 'get the first', (found) =>
      added(found).includes('first'),
    );
    const env = listAt(first, 'spec', 'ephemeralContainers', '0', 'env');
    expect(env).toContainEqual({ name: 'LEVEL', value: 'low' });
    expect(env.map(({ name }) => name)).toContain('KUBERNETES_SERVICE_HOST');
    await debug('second');
    const second = await counterpartThat('patient', 'get the second', (found) =>
      added(found).includes('second'),
    );
    expect(added(second)).toEqual(['first', 'second']);
    expect(second.metadata.uid).toBe(first.metadata.uid);
    expect(listAt(second, 'spec', 'ephemeralContainers')[0]).toEqual(
      listAt(first, 'spec', 'ephemeralContainers')[0],
    );
    await world.expectAgreement();
  });

  it('a privileged container does not, and the tenant reads why', async () => {
    await tenant.apply(pod('changes', 'guarded'));
    await ownThat('guarded', 'run', isRunning);
    await tenant.kubectl(...debugging('guarded', 'root', 'sysadmin'));
    expect(await warning('guarded', 'PodSecurity')).toMatch(/"root".*privileged/);
    const told = await ownThat('guarded', 'say why', (found) =>
      listAt(found, 'status', 'ephemeralContainerStatuses').some(({ name }) => name === 'root'),
    );
    expect(at(told, 'status', 'ephemeralContainerStatuses', '0', 'state', 'waiting', 'reason')).toBe(
      'PodSecurity',
    );
    // One that may run is not held up by one that may not.
    await tenant.kubectl(...debugging('guarded', 'plain', 'baseline'));
    const s = await counterpartThat('guarded', 'get the other', (found) => added(found).includes('plain'));
    expect(added(s)).toEqual(['plain']);
    await world.expectAgreement();
  });

  it('a resize goes down by its subresource, and how far it has got comes up', async () => {
    const sizes = (cpu: string) => ({
      requests: { cpu, memory: '64Mi' },
      limits: { cpu: '1', memory: '64Mi' },
    });
    await tenant.apply(pod('changes', 'sized', { containers: [container({ resources: sizes('100m') })] }));
    await ownThat('sized', 'run', isRunning);
    const asKubelet = async (status: Record<string, unknown>): Promise<void> => {
      const s = await counterpart('sized');
      const { namespace = '', name = '' } = s?.metadata ?? {};
      await world.superCluster.client.patch(
        resources.pods,
        { namespace, name },
        { status },
        { type: 'strategic', subresource: 'status' },
      );
    };
    // A simulated kubelet says nothing of sizes, and API servers resize no pod on a kubelet that does not.
    const resourcesOf = (cpu: string) => ({
      containerStatuses: [{ name: 'main', resources: sizes(cpu), allocatedResources: sizes(cpu).requests }],
    });
    await asKubelet(resourcesOf('100m'));
    await ownThat(
      'sized',
      'tell its size',
      (found) => at(found, 'status', 'containerStatuses', '0', 'resources') !== undefined,
    );

    await patch(
      'sized',
      { spec: { containers: [{ name: 'main', resources: { requests: { cpu: '200m' } } }] } },
      '--subresource=resize',
    );
    const cpuOf = (found: KubeObject): unknown =>
      at(found, 'spec', 'containers', '0', 'resources', 'requests', 'cpu');
    const s = await counterpartThat('sized', 'be resized', (found) => cpuOf(found) === '200m');
    expect(at(s, 'spec', 'nodeName')).toBe(at(await own('sized'), 'spec', 'nodeName'));

    const pending = { type: 'PodResizePending', status: 'True', reason: 'Deferred', message: 'no room' };
    await asKubelet({ conditions: [pending] });
    const waiting = await ownThat('sized', 'wait for room', (found) =>
      listAt(found, 'status', 'conditions').some(({ type }) => type === 'PodResizePending'),
    );
    expect(listAt(waiting, 'status', 'conditions')).toContainEqual(expect.objectContaining(pending));
    await asKubelet({ ...resourcesOf('200m'), conditions: [{ $patch: 'delete', type: 'PodResizePending' }] });
    const done = await ownThat(
      'sized',
      'have its new size',
      (found) => at(found, 'status', 'containerStatuses', '0', 'resources', 'requests', 'cpu') === '200m',
    );
    expect(listAt(done, 'status', 'conditions').map(({ type }) => type)).not.toContain('PodResizePending');
    await world.expectAgreement();
  });

  it('a pod waits for its last scheduling gate, and goes down with what was changed until then', async () => {
    await tenant.apply(
      configMap('changes', 'gated-settings', { a: '1' }),
      pod('changes', 'gated', {
        schedulingGates: [{ name: 'example.com/one' }, { name: 'example.com/two' }],
        containers: [container({ envFrom: [{ configMapRef: { name: 'gated-settings' } }] })],
      }),
    );
    const term = (...values: string[]) => ({
      matchExpressions: [{ key: 'kubernetes.io/os', operator: 'In', values }],
    });
    await patch('gated', {
      spec: {
        nodeSelector: { 'kubernetes.io/os': 'linux' },
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [term('linux', 'other')] },
          },
        },
      },
    });
    const ungate = (index: number): Promise<string> =>
      tenant.kubectl(
        ...['-n', 'changes', 'patch', 'pod', 'gated', '--type=json'],
        ...['-p', JSON.stringify([{ op: 'remove', path: `/spec/schedulingGates/${index}` }])],
      );
    await ungate(0);
    // Whatever was to come of the changes so far has come once this one, which was made later, is there.
    await tenant.apply(pod('changes', 'afterwards'));
    await ownThat('afterwards', 'run', isRunning);
    await world.expectAgreement();
    expect(await counterpart('gated')).toBeUndefined();
    const { items } = await world.superCluster.client.list(resources.configMaps, { labelSelector: marked() });
    expect(items.map(({ metadata }) => metadata.name)).not.toContain('gated-settings');
    const reasonOf = (found: KubeObject): unknown =>
      listAt(found, 'status', 'conditions').find(({ type }) => type === 'PodScheduled')?.['reason'];
    expect(reasonOf(await own('gated'))).toBe('SchedulingGated');

    await ungate(0);
    await ownThat('gated', 'run', isRunning);
    const s = await counterpart('gated');
    expect(at(s, 'spec', 'nodeSelector')).toEqual({ 'kubernetes.io/os': 'linux' });
    expect(
      listAt(
        s,
        ...[
          'spec',
          'affinity',
          'nodeAffinity',
          'requiredDuringSchedulingIgnoredDuringExecution',
          'nodeSelectorTerms',
        ],
      ),
    ).toEqual([term('linux', 'other')]);
    expect(at(s, 'spec', 'schedulingGates')).toBeUndefined();
    await world.expectAgreement();
  });

  it('sidecars, and resources of the whole pod, go down as they are', async () => {
    const resourcesOfPod = { requests: { cpu: '200m' }, limits: { cpu: '500m' } };
    await tenant.apply(
      pod('changes', 'helped', {
        initContainers: [container({ name: 'log', restartPolicy: 'Always' })],
        resources: resourcesOfPod,
      }),
    );
    await ownThat('helped', 'run', isRunning);
    const s = await counterpart('helped');
    expect(at(s, 'spec', 'initContainers', '0', 'restartPolicy')).toBe('Always');
    expect(at(s, 'spec', 'resources')).toEqual(resourcesOfPod);
    await world.expectAgreement();
  });

  it('a change before a pod has a node arrives as well', async () => {
    await tenant.apply(pod('changes', 'homeless', nowhere));
    await ownThat('homeless', 'be told that there is no node', (found) =>
      listAt(found, 'status', 'conditions').some(({ reason }) => reason === 'Unschedulable'),
    );
    await tenant.kubectl('-n', 'changes', 'label', 'pod', 'homeless', 'tier=back');
    await counterpartThat(
      'homeless',
      'get its label',
      ({ metadata }) => metadata.labels?.['tier'] === 'back',
    );
    await tenant.kubectl('-n', 'changes', 'delete', 'pod', 'homeless');
  });

  it('generation and observedGeneration tell the truth all the while', async () => {
    await tenant.apply(pod('changes', 'counted'));
    await ownThat('counted', 'run', isRunning);
    await patch('counted', { spec: { containers: [{ name: 'main', image: 'example.com/next:3' }] } });
    const s = await counterpartThat(
      'counted',
      'get its image',
      (found) => at(found, 'spec', 'containers', '0', 'image') === 'example.com/next:3',
    );
    const {
      generation = 0,
      namespace = '',
      name = '',
    } = s.metadata as { generation?: number } & typeof s.metadata;
    await world.superCluster.client.patch(
      resources.pods,
      { namespace, name },
      { status: { observedGeneration: generation } },
      { type: 'merge', subresource: 'status' },
    );
    const seen = await ownThat(
      'counted',
      'be observed',
      (found) => at(found, 'status', 'observedGeneration') === found.metadata['generation'],
    );
    expect(seen.metadata['generation']).toBe(2);
  });
});
