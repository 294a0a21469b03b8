import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ControlPlaneTemplateSpec } from '../../api/control-plane-template.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import { BinaryError } from '../binaries/index.ts';
import { DriverError } from '../drivers/errors.ts';
import { JobLog } from './jobs.ts';
import { condition, fastPace, jobRequests, World } from './testing/world.ts';

describe('the jobs that a manager has begun', () => {
  it('are one for each VirtualCluster, until it succeeds, fails or is not wanted any more', () => {
    const activeJobs = new Map<string, string>();
    const services = { activeJobs, identity: 'manager-1', clock: { now: () => 0 } } as never;
    let status: VirtualCluster['status'] = {};
    const tenant = {
      uid: 'uid-a',
      vc: {
        get status() {
          return status;
        },
      },
      status: {
        set: (change: (old: VirtualCluster['status']) => VirtualCluster['status']) => {
          status = change(status);
        },
      },
    } as never;
    const begin = (kind: 'snapshot' | 'renewal' | 'look'): JobLog => new JobLog(tenant, services, { kind });
    begin('snapshot');
    const [first] = activeJobs.values();
    begin('snapshot');
    expect([...activeJobs]).toEqual([['uid-a', first]]);
    // It is replaced, or cancelled.
    begin('renewal');
    expect([...activeJobs]).not.toEqual([['uid-a', first]]);
    expect(activeJobs.size).toBe(1);
    for (const end of [
      () => void begin('look'),
      () => begin('renewal').succeeded(),
      () => begin('renewal').failed('no'),
    ]) {
      begin('renewal');
      end();
      expect(activeJobs.size).toBe(0);
    }
  });
});

describe('jobs', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start(fastPace(10));
  });
  afterEach(() => world.end());

  const { annotate, cancel, jobs, stall } = jobRequests(() => world);
  const versionOfPlan = (): string | undefined => {
    const binary = world.driver.ensured.at(-1)?.components[0]?.binary;
    return binary !== undefined && 'version' in binary ? binary.version : undefined;
  };
  /** A namespace of the tenant stays in the super cluster until the answer is called. */
  const deletionThatWaits = async (): Promise<() => Promise<void>> => {
    world.run();
    const { metadata } = world.create('a');
    await world.untilReady('a');
    const labels = { [labelKeys.tenant]: metadata.uid ?? '' };
    world.superCluster.put(resources.namespaces, { metadata: { name: 'stuck', labels, finalizers: ['x'] } });
    await world.delete('a');
    await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'super-namespaces');
    return async () => {
      world.superCluster.remove(resources.namespaces, { name: 'stuck' });
      await world.untilGone('a');
    };
  };

  it('tell of a control plane that is made while it is, and afterwards', async () => {
    const { release } = stall();
    world.run();
    world.create('a');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'control-plane');
    expect(status?.jobs?.current).toMatchObject({ kind: 'provision', attempts: 1, holder: 'manager-1' });
    release();
    await world.untilReady('a');
    expect(jobs('a')?.current).toBeUndefined();
    expect(jobs('a')?.history).toMatchObject([{ kind: 'provision', result: 'Succeeded', attempts: 1 }]);
  });

  it('write nothing that would not be written anyway', async () => {
    world.run();
    world.create('a');
    await world.untilReady('a');
    const writes = world.superCluster.requests.filter(
      ({ method, plural, subresource }) =>
        method === 'PUT' && plural === 'virtualclusters' && subresource === 'status',
    );
    expect(writes.length).toBeLessThanOrEqual(6);
  });

  it('count attempts, and say why the last one failed', async () => {
    let failures = 0;
    world.driver.beforeEnsure = ({ id }) => {
      failures += 1;
      if (failures < 3) throw new DriverError('NotReady', 'not today', { id, component: 'kube-apiserver' });
    };
    world.run();
    world.create('a');
    const failing = await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    expect(failing.status?.jobs?.current).toMatchObject({ message: expect.stringContaining('not today') });
    await world.untilReady('a');
    expect(jobs('a')?.history).toMatchObject([{ result: 'Succeeded', attempts: 3 }]);
  });

  it('go on as the same job when another manager takes over', async () => {
    stall();
    const first = world.run();
    world.create('a');
    await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'control-plane');
    const id = jobs('a')?.current?.id;
    await first.stop();
    world.driver.beforeEnsure = () => {};
    world.run();
    await world.untilReady('a');
    expect(jobs('a')?.history).toMatchObject([{ id, result: 'Succeeded', attempts: 2 }]);
  });

  it('of a new one can be cancelled: it stays so until somebody wants it again', async () => {
    stall();
    world.run();
    world.create('a');
    await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'control-plane');
    cancel('a');
    const { status } = await world.until('a', (vc) => vc.status?.phase === 'Cancelled');
    expect(status?.jobs).toMatchObject({ history: [{ kind: 'provision', result: 'Cancelled' }] });
    expect(condition(world.get('a') as VirtualCluster, 'Ready')?.message).toContain('jobs retry');
    const { length } = world.driver.ensured;
    world.driver.beforeEnsure = () => {};
    // Not by itself: another one is made meanwhile.
    world.create('b');
    await world.untilReady('b');
    expect(world.driver.ensured.length).toBe(length + 1);
    annotate('a', annotationKeys.retryJob, 'now');
    await world.untilReady('a');
    expect(jobs('a')).toMatchObject({
      retried: 'now',
      history: [{ result: 'Succeeded' }, { result: 'Cancelled' }],
    });
  });

  it('of one that was cancelled are over, but what it has is held to a policy that changes', async () => {
    stall();
    world.run();
    world.create('a', { policy: { podSecurity: 'restricted' } });
    await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'control-plane');
    cancel('a');
    const { status } = await world.until('a', (vc) => vc.status?.phase === 'Cancelled');
    world.superCluster.put(resources.virtualClusterPolicies, {
      metadata: { name: 'gold' },
      spec: { namespaces: ['team'], hideNodes: true },
    });
    const held = await world.until('a', (vc) => vc.status?.policy?.hideNodes === true);
    expect(held.status).toMatchObject({ phase: 'Cancelled', jobs: { history: status?.jobs?.history } });
    expect(condition(held, 'Ready')?.reason).toBe('Cancelled');
  });

  it('of one that was cancelled begin anew when its spec changes', async () => {
    stall();
    world.run();
    world.create('a');
    await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'control-plane');
    cancel('a');
    await world.until('a', (vc) => vc.status?.phase === 'Cancelled');
    world.driver.beforeEnsure = () => {};
    world.edit('a', { weight: 2 });
    await world.untilReady('a');
  });

  it('change the version of one that runs, one minor version up', async () => {
    world.run();
    world.create('a', { version: '1.35' });
    await world.untilReady('a');
    expect(versionOfPlan()).toBe('1.35.4');
    const { release } = stall();
    world.edit('a', { version: '1.36' });
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.replacing === true);
    expect(status).toMatchObject({ phase: 'Upgrading', version: '1.35.4' });
    expect(status?.jobs?.current).toMatchObject({ kind: 'version-change', target: '1.36.3' });
    release();
    await world.until('a', (vc) => vc.status?.version === '1.36.3' && vc.status.phase === 'Ready');
    expect(versionOfPlan()).toBe('1.36.3');
    expect(jobs('a')?.history?.[0]).toMatchObject({
      kind: 'version-change',
      target: '1.36.3',
      result: 'Succeeded',
    });
  });

  it.each([
    ['1.34', '1.35', 'VersionDowngrade', 'is older than'],
    ['1.37', '1.36', 'VersionTooNew', 'more than one minor version above the super cluster'],
    ['1.36', '1.34', 'VersionSkipped', 'Ask for 1.35'],
  ])('do not change to %s from %s, and say why', async (wanted, from, reason, text) => {
    world.superVersion = 'v1.35.0';
    if (wanted === '1.36') world.superVersion = 'v1.36.0';
    world.run();
    world.create('a', { version: from });
    const before = await world.untilReady('a');
    if (wanted === '1.37') addTemplate('1.37.0');
    world.edit('a', { version: wanted });
    await world.untilReason('a', 'VersionCurrent', reason);
    const after = await world.untilReady('a');
    expect(after.status?.version).toBe(before.status?.version);
    expect(condition(after, 'VersionCurrent')?.message).toContain(text);
    expect(jobs('a')?.history).toHaveLength(1);
  });

  it('say no more why a version was refused once it is to be tried again, until that is known anew', async () => {
    world.superVersion = 'v1.35.0';
    world.run();
    world.create('a', { version: '1.35' });
    await world.untilReady('a');
    world.edit('a', { version: '1.34' });
    await world.untilReason('a', 'VersionCurrent', 'VersionDowngrade');
    await world.untilReady('a');
    annotate('a', annotationKeys.retryJob, 'again');
    const tried = await world.until('a', (vc) => vc.status?.jobs?.retried === 'again');
    expect(condition(tried, 'VersionCurrent')).toBeUndefined();
    await world.untilReason('a', 'VersionCurrent', 'VersionDowngrade');
  });

  function addTemplate(version: string): void {
    const [template] = world.superCluster.list(resources.controlPlaneTemplates);
    const name = `v${version.split('.').slice(0, 2).join('-')}`;
    world.superCluster.put(resources.controlPlaneTemplates, {
      ...template,
      metadata: { name },
      spec: { ...(template?.['spec'] as object), kubernetesVersion: version },
    });
  }

  it('go back by themselves from a new version that does not start, and try it again when asked', async () => {
    world.run();
    world.create('a', { version: '1.35.4' });
    await world.untilReady('a');
    const credentials = world.get('a')?.status?.syncerSecret?.version;
    let isBroken = true;
    world.driver.beforeEnsure = ({ id, components }) => {
      const binary = components[0]?.binary;
      if (isBroken && binary !== undefined && 'version' in binary && binary.version === '1.36.3')
        throw new DriverError('NotReady', `kube-apiserver of ${id} has exited.`, {
          id,
          component: 'kube-apiserver',
        });
    };
    world.edit('a', { version: '1.36.3' });
    const held = await world.untilReason('a', 'VersionCurrent', 'RolledBack');
    const why = 'kube-apiserver of team/a has exited.';
    expect(condition(held, 'VersionCurrent')?.message).toContain(`1.36.3 did not start: ${why}`);
    const back = await world.untilReady('a');
    expect(back.status?.version).toBe('1.35.4');
    expect(back.status?.syncerSecret?.version).toBe(credentials);
    expect(versionOfPlan()).toBe('1.35.4');
    expect(jobs('a')?.history?.[0]).toMatchObject({
      kind: 'version-change',
      result: 'Failed',
      message: why,
    });
    isBroken = false;
    annotate('a', annotationKeys.retryJob, 'again');
    await world.until('a', (vc) => vc.status?.version === '1.36.3' && vc.status.phase === 'Ready');
    expect(condition(world.get('a') as VirtualCluster, 'VersionCurrent')).toBeUndefined();
  });

  it('go back to the template that it had, where a version and a template of it do not start together', async () => {
    world.run();
    world.create('a', { version: '1.36.1' });
    await world.untilReady('a');
    const template = world.superCluster.get(resources.controlPlaneTemplates, { name: 'v1-36' });
    const spec = template?.['spec'] as ControlPlaneTemplateSpec;
    const components = spec.components.map((each) => ({
      ...each,
      args: { ...each.args, 'no-such-flag': 'x' },
    }));
    world.superCluster.put(resources.controlPlaneTemplates, {
      ...template,
      metadata: { name: 'broken' },
      spec: { ...spec, components, kubernetesVersion: '1.36.3' },
    });
    world.driver.beforeEnsure = ({ id, components: [first] }) => {
      if (first?.args.every((each) => !each.includes('no-such-flag'))) return;
      throw new DriverError('KeepsExiting', 'kube-apiserver has exited.', {
        id,
        component: 'kube-apiserver',
      });
    };
    world.edit('a', { version: '1.36.3', template: 'broken' });
    await world.untilReason('a', 'VersionCurrent', 'RolledBack');
    const { status } = await world.untilReady('a');
    expect(status).toMatchObject({ version: '1.36.1', template: 'v1-36' });
    expect(jobs('a')?.history?.[0]).toMatchObject({ kind: 'version-change', result: 'Failed', attempts: 1 });
    world.driver.beforeEnsure = () => {};
    annotate('a', annotationKeys.retryJob, 'again');
    const changed = await world.until('a', (vc) => vc.status?.version === '1.36.3');
    expect(changed.status?.template).toBe('broken');
  });

  it('go back from a version that there is not, and fail at once without another one', async () => {
    world.run();
    world.create('a', { version: '1.35.4' });
    await world.untilReady('a');
    world.driver.beforeEnsure = ({ components }) => {
      const binary = components[0]?.binary;
      if (binary !== undefined && 'version' in binary && binary.version === '1.36.99')
        throw new BinaryError('NoSuchVersion', 'there is no Kubernetes 1.36.99');
    };
    const phases: (string | undefined)[] = [];
    world.edit('a', { version: '1.36.99' });
    const held = await world.until('a', (vc) => {
      phases.push(vc.status?.phase);
      return condition(vc, 'VersionCurrent')?.reason === 'RolledBack';
    });
    expect(condition(held, 'VersionCurrent')?.message).toContain('there is no Kubernetes 1.36.99');
    expect((await world.untilReady('a')).status?.version).toBe('1.35.4');
    expect(phases).not.toContain('Failed');
    world.create('b', { version: '1.36.99' });
    const failed = await world.until('b', (vc) => vc.status?.phase === 'Failed');
    expect(condition(failed, 'Ready')?.reason).toBe('NoSuchVersion');
  });

  it('try a new version again whose place is at fault, and not the version', async () => {
    world.run();
    world.create('a', { version: '1.35.4' });
    await world.untilReady('a');
    let failures = 0;
    world.driver.beforeEnsure = ({ id }) => {
      if (++failures <= 2) throw new DriverError('CannotWrite', 'The disk is full.', { id });
    };
    world.edit('a', { version: '1.36.3' });
    await world.until('a', (vc) => vc.status?.version === '1.36.3' && vc.status.phase === 'Ready');
    expect(failures).toBeGreaterThan(2);
  });

  it('cancel a change of version before the API server is touched, and refuse it then', async () => {
    world.run();
    world.create('a', { version: '1.35.4' });
    await world.untilReady('a');
    const datastore = Promise.withResolvers<void>();
    world.datastore.beforeEnsure = () => datastore.promise;
    world.edit('a', { version: '1.36.3' });
    await world.until('a', (vc) => vc.status?.jobs?.current?.kind === 'version-change');
    cancel('a');
    datastore.resolve();
    await world.untilReason('a', 'VersionCurrent', 'Cancelled');
    expect((await world.untilReady('a')).status?.version).toBe('1.35.4');
    expect(jobs('a')?.history?.[0]).toMatchObject({ kind: 'version-change', result: 'Cancelled' });

    const { release } = stall();
    annotate('a', annotationKeys.retryJob, 'again');
    await world.until('a', (vc) => vc.status?.jobs?.current?.replacing === true);
    cancel('a');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.refusal !== undefined);
    expect(status?.jobs?.current?.refusal).toContain('comes back by itself');
    world.driver.beforeEnsure = () => {};
    release();
    await world.until('a', (vc) => vc.status?.version === '1.36.3' && vc.status.phase === 'Ready');
    expect(condition(world.get('a') as VirtualCluster, 'VersionCurrent')).toBeUndefined();
  });

  it('write nothing while a deletion waits', async () => {
    const goOn = await deletionThatWaits();
    const count = (wanted: { method: string; plural: string }): number =>
      world.superCluster.requests.filter(
        ({ method, plural }) => method === wanted.method && plural === wanted.plural,
      ).length;
    const looks = (): number => count({ method: 'GET', plural: 'namespaces' });
    const before = looks();
    await expect.poll(looks).toBeGreaterThan(before + 1);
    const written = count({ method: 'PUT', plural: 'virtualclusters' });
    await expect.poll(looks).toBeGreaterThan(before + 5);
    expect(count({ method: 'PUT', plural: 'virtualclusters' })).toBe(written);
    await goOn();
  });

  it('do not cancel a deletion, and say so', async () => {
    const goOn = await deletionThatWaits();
    expect(jobs('a')?.current).toMatchObject({ kind: 'delete', attempts: 1 });
    cancel('a');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.refusal !== undefined);
    expect(status?.jobs?.current?.refusal).toContain('cannot be taken back');
    await goOn();
  });
});
