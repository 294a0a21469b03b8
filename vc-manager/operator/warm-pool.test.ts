import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import type { ControlPlanePlan } from '../control-plane/plan.ts';
import type { MachineMemory, WarmPoolSize } from './services.ts';
import { fastPace, World } from './testing/world.ts';
import { lacksMemory, memoryOf, nextStep } from './warm-pool.ts';

type View = Parameters<typeof nextStep>[0];

const GiB = 1024 ** 3;
const empty: View = {
  templates: [{ template: 'v1-36', wanted: 2, bytes: GiB }],
  members: [],
  isBusy: false,
  isShort: false,
  isFreeing: false,
  isPaused: false,
  memory: undefined,
  limitBytes: Number.POSITIVE_INFINITY,
};

let age = 0;
function member(change: Partial<View['members'][number]> = {}): View['members'][number] {
  const bornAt = String(++age).padStart(4, '0');
  const vc: VirtualCluster = { metadata: { name: `warm-${bornAt}`, creationTimestamp: bornAt, uid: bornAt } };
  return { vc, template: 'v1-36', isReady: true, isOutdated: false, bytes: GiB, ...change };
}

describe('what the pool needs next', () => {
  it('is one more at a time, until there are as many as wanted', () => {
    expect(nextStep(empty)).toEqual({ remove: [], add: 'v1-36' });
    expect(nextStep({ ...empty, members: [member({ isReady: false })] })).toEqual({ remove: [] });
    expect(nextStep({ ...empty, members: [member()] })).toEqual({ remove: [], add: 'v1-36' });
    expect(nextStep({ ...empty, members: [member(), member()] })).toEqual({ remove: [] });
  });

  it('is nothing while owners wait for theirs, or a pause lasts', () => {
    expect(nextStep({ ...empty, isBusy: true })).toEqual({ remove: [] });
    expect(nextStep({ ...empty, isPaused: true })).toEqual({ remove: [] });
  });

  it('is the template that lacks most for its number', () => {
    const templates = [
      { template: 'big', wanted: 4, bytes: GiB },
      { template: 'small', wanted: 1, bytes: GiB },
    ];
    const members = [member({ template: 'big' })];
    expect(nextStep({ ...empty, templates, members }).add).toBe('small');
    expect(nextStep({ ...empty, templates, members: [...members, member({ template: 'small' })] }).add).toBe(
      'big',
    );
  });

  it('is that those go that are too many, outdated or of no template that is wanted: what waits longest stays', () => {
    const [old, young, filling] = [member(), member(), member({ isReady: false })];
    expect(nextStep({ ...empty, members: [old, young, filling] })).toEqual({ remove: [filling.vc] });
    const templates = [{ template: 'v1-36', wanted: 1, bytes: GiB }];
    expect(nextStep({ ...empty, templates, members: [old, young] })).toEqual({ remove: [young.vc] });
    const outdated = member({ isOutdated: true });
    expect(nextStep({ ...empty, members: [old, outdated] })).toEqual({ remove: [outdated.vc] });
    const foreign = member({ template: 'gone' });
    expect(nextStep({ ...empty, members: [foreign] })).toEqual({ remove: [foreign.vc] });
  });

  it('keeps to its limit', () => {
    const limited = { ...empty, limitBytes: 1.5 * GiB };
    expect(nextStep(limited).add).toBe('v1-36');
    const [old, young] = [member(), member()];
    expect(nextStep({ ...limited, members: [old] })).toEqual({ remove: [] });
    expect(nextStep({ ...limited, members: [old, young] })).toEqual({
      remove: [young.vc],
      isGivingBack: true,
    });
  });

  it('adds nothing that would take the last tenth of the machine, and gives back when that is gone', () => {
    const memory = (availableBytes: number): MachineMemory => ({ totalBytes: 10 * GiB, availableBytes });
    expect(nextStep({ ...empty, memory: memory(2 * GiB) }).add).toBe('v1-36');
    expect(nextStep({ ...empty, memory: memory(2 * GiB - 1) })).toEqual({ remove: [] });
    const [old, young] = [member(), member()];
    const short = { ...empty, members: [old, young], memory: memory(GiB - 1) };
    expect(nextStep(short)).toEqual({ remove: [young.vc], isGivingBack: true });
    // It still has its memory: whether that is enough is seen when it is gone.
    expect(nextStep({ ...short, members: [old], isFreeing: true })).toEqual({ remove: [] });
  });

  it('gives back when a control plane of an owner has no place', () => {
    const one = member();
    expect(nextStep({ ...empty, members: [one], isShort: true })).toEqual({
      remove: [one.vc],
      isGivingBack: true,
    });
    expect(nextStep({ ...empty, isShort: true })).toEqual({ remove: [] });
  });
});

it('a control plane takes what its components ask for, each as often as there is of it', () => {
  const component = { name: 'a', binary: 'etcd', args: {}, stopTimeoutSeconds: 1 } as const;
  const spec = {
    kubernetesVersion: '1.36.3',
    components: [
      { ...component, resources: { requests: { memory: '1Gi' } } },
      { ...component, replicas: 3 },
      { ...component, data: true },
    ],
  };
  expect(memoryOf(spec, 2)).toBe(2 * GiB + (3 + 1) * 64 * 1024 ** 2);
});

describe('a control plane that lacks memory', () => {
  const message = 'kube-apiserver-0 has no node: 0/3 nodes are available: 3 Insufficient memory.';
  const withCondition = (type: string, reason: string): VirtualCluster => ({
    metadata: { name: 'a' },
    status: { conditions: [{ type, status: 'False', reason, message, lastTransitionTime: '' }] },
  });

  it.each(['Ready', 'APIServerReady', 'ControllerManagerReady'])('is told by its driver in %s', (type) => {
    expect(lacksMemory(withCondition(type, 'InsufficientMemory'))).toBe(true);
  });

  it.each([
    ['DNSReady', 'Starting'],
    ['DNSReady', 'InsufficientMemory'],
    ['Ready', 'Forbidden'],
    ['APIServerReady', 'NotReady'],
  ])('is not told by words that a tenant may have written into %s, %s', (type, reason) => {
    expect(lacksMemory(withCondition(type, reason))).toBe(false);
  });
});

describe('the warm pool of a manager', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  const run = (warm: number, options: Parameters<World['run']>[0] = {}) =>
    world.run({
      ...options,
      settings: {
        advertiseAddress: '192.0.2.1',
        etcdEndpoint: 'https://127.0.0.1:2379',
        warm,
        ...options.settings,
      },
    });
  const members = (): VirtualCluster[] =>
    (world.superCluster.list(resources.virtualClusters) as VirtualCluster[]).filter(
      ({ metadata }) => metadata.labels?.[labelKeys.warm] !== undefined,
    );
  const untilReady = (count: number): Promise<void> =>
    world.superCluster.until(() => {
      const phases: (VirtualClusterPhase | undefined)[] = members().map(({ status }) => status?.phase);
      return phases.length === count && phases.every((phase) => phase === 'Ready');
    });

  it('is filled one after the other, and says how far it is', async () => {
    const sizes: WarmPoolSize[] = [];
    run(3, { onWarmPool: (size) => sizes.push(size) });
    await untilReady(3);
    expect(world.driver.maxActive).toBe(1);
    await world.superCluster.until(() => sizes.at(-1)?.ready === 3);
    expect(sizes.at(-1)).toEqual({ ready: 3, other: 0, wanted: 3 });
    expect(Math.max(...sizes.map(({ ready, other }) => ready + other))).toBe(3);
  });

  it('has what a template asks for, which comes before what the manager is set to', async () => {
    world.changeTemplates(({ metadata, spec }) => {
      if (metadata.name === 'v1-35') spec.warm = 1;
      if (metadata.name === 'v1-36') spec.warm = 0;
    });
    run(5);
    await untilReady(1);
    expect(members().map(({ spec }) => spec?.template)).toEqual(['v1-35']);
  });

  it('gives one back when memory is short, and has it again when there is some', async () => {
    const memory = { totalBytes: 100 * GiB, availableBytes: 50 * GiB };
    const first = run(1, { machineMemory: () => memory });
    await untilReady(1);
    memory.availableBytes = 9 * GiB;
    world.create('a', { dns: 'coredns' });
    await untilReady(0);
    await first.stop();
    memory.availableBytes = 50 * GiB;
    run(1, { machineMemory: () => memory });
    await untilReady(1);
  });

  it('is filled although a control plane of an owner is being made without end', async () => {
    const isOfOwner = ({ labels }: ControlPlanePlan): boolean => labels[labelKeys.virtualCluster] === 'a';
    world.driver.beforeEnsure = (plan, { signal }) =>
      isOfOwner(plan)
        ? new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        : undefined;
    world.create('a');
    run(2, fastPace(200));
    await world.superCluster.until(
      () => members().filter(({ status }) => status?.phase === 'Ready').length === 2,
    );
    expect(world.driver.ensured.map(isOfOwner)).toContain(true);
    expect(world.get('a')?.status?.phase).toBe('Provisioning');
  });

  it('makes another one in the place of one that is not what a new tenant would get', async () => {
    const first = run(1);
    await untilReady(1);
    const [old] = members();
    await first.stop();
    world.changeTemplates(({ metadata, spec }) => {
      if (metadata.name === 'v1-36') spec.kubernetesVersion = '1.36.9';
    });
    run(1);
    await world.superCluster.until(() => members().some(({ status }) => status?.version === '1.36.9'));
    await world.superCluster.until(() =>
      members().every(({ metadata }) => metadata.uid !== old?.metadata.uid),
    );
  });
});
