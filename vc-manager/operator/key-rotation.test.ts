import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, resources, Store, systemClock } from '../../kube/index.ts';
import type { ControlPlanePlan } from '../control-plane/plan.ts';
import { wantedWake } from './jobs.ts';
import { condition, jobRequests, World } from './testing/world.ts';

/** Names of the keys in the order of an API server's configuration; the first one writes. */
function keysOf(plan: ControlPlanePlan): string[] {
  const file = plan.components[0]?.files.find(({ path }) => path === 'encryption.yaml');
  const { resources: [secrets] = [] } = parse(file?.content ?? '') as {
    resources: { providers: { secretbox?: { keys: { name: string }[] } }[] }[];
  };
  return (secrets?.providers ?? []).flatMap(({ secretbox }) =>
    secretbox === undefined ? ['identity'] : secretbox.keys.map(({ name }) => name),
  );
}

describe('the encryption key of a tenant', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
    world.tenant.put(resources.secrets, { metadata: { namespace: 'default', name: 'kept' } });
  });
  afterEach(() => world.end());

  const { annotate, cancel, jobs, stall } = jobRequests(() => world);
  const rotate = (request: string): void => annotate('a', annotationKeys.rotateEncryptionKey, request);
  const ended = () =>
    world.until(
      'a',
      (vc) => vc.status?.jobs?.history?.[0]?.kind === 'key-rotation' && vc.status.jobs.current === undefined,
    );
  /** What API servers were told, without repetitions. */
  const configurations = (): string[][] =>
    world.driver.ensured.map(keysOf).filter((keys, at, all) => String(keys) !== String(all[at - 1]));
  const pki = (): KubeObject => world.secretOf('a', 'pki') as KubeObject;

  it('is made with it, and rotated on request: learnt, written with, and alone at the end', async () => {
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const old = status?.encryption?.key ?? '';
    expect(configurations()).toEqual([[old]]);
    rotate('one');
    const after = await ended();
    const is = after.status?.encryption?.key ?? '';
    expect(is).not.toBe(old);
    expect(configurations()).toEqual([[old], [old, is], [is, old], [is]]);
    expect(jobs('a')).toMatchObject({ rotated: 'one', history: [{ result: 'Succeeded' }, {}] });
    // The same request is not followed again.
    world.edit('a', { weight: 7 });
    await world.until('a', (vc) => vc.status?.observedGeneration === 2);
    expect(configurations()).toHaveLength(4);
  });

  it('comes to a control plane that was made without one, behind its old way of reading', async () => {
    const maker = world.run();
    world.create('a');
    const first = await world.untilReady('a');
    await maker.stop();
    const { 'encryption.json': _, ...data } = pki()['data'] as Record<string, string>;
    world.superCluster.put(resources.secrets, { ...pki(), data });
    const { encryption: __, ...status } = first.status ?? {};
    world.superCluster.put(resources.virtualClusters, { ...first, status } as KubeObject);
    world.driver.ensured.length = 0;
    world.run();
    const vc = await world.until(
      'a',
      (each) => each.status?.encryption?.key !== undefined && !each.status.encryption.rotation,
    );
    const key = vc.status?.encryption?.key ?? '';
    await world.superCluster.until(() => configurations().length === 3);
    expect(configurations()).toEqual([['identity', key], [key, 'identity'], [key]]);
  });

  it.each([1, 2, 3])('is rotated to the end when the manager dies at roll %d', async (roll) => {
    const first = world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const old = status?.encryption?.key ?? '';
    const told = (): number => configurations().length;
    const reached = Promise.withResolvers<void>();
    world.driver.beforeEnsure = (_plan, { signal }) => {
      if (told() !== roll + 1) return;
      reached.resolve();
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    rotate('one');
    await reached.promise;
    await first.stop();
    world.driver.beforeEnsure = () => {};
    world.run();
    await world.superCluster.until(() => configurations().length === 4);
    const after = await world.untilReady('a');
    const is = after.status?.encryption?.key ?? '';
    expect(configurations()).toEqual([[old], [old, is], [is, old], [is]]);
  });

  it('stays when the rotation is cancelled before the new one has written, and not later', async () => {
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const old = status?.encryption?.key ?? '';
    const first = stall();
    rotate('one');
    await world.until(
      'a',
      (vc) =>
        vc.status?.jobs?.current?.kind === 'key-rotation' && vc.status.encryption?.rotation === 'distribute',
    );
    world.driver.beforeEnsure = () => {};
    cancel('a');
    await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.result === 'Cancelled');
    first.release();
    await world.until('a', (vc) => vc.status?.encryption?.rotation === undefined);
    expect(world.get('a')?.status?.encryption?.key).toBe(old);

    world.driver.beforeEnsure = (plan) => {
      if (keysOf(plan)[0] !== old) throw new Error('does not start');
    };
    rotate('two');
    await world.until(
      'a',
      (vc) => vc.status?.encryption?.rotation === 'write' && vc.status.jobs?.current?.failing === true,
    );
    cancel('a');
    const refused = await world.until('a', (vc) => vc.status?.jobs?.current?.refusal !== undefined);
    expect(refused.status?.jobs?.current?.refusal).toContain('written with the new key');
    world.driver.beforeEnsure = () => {};
    annotate('a', annotationKeys.retryJob, 'now');
    const after = (await world.until('a', (vc) => vc.status?.jobs?.rotated === 'two')) as VirtualCluster;
    expect(after.status?.encryption?.key).not.toBe(old);
  });

  it('stays in use under a template that does not name it: the change is refused', async () => {
    const maker = world.run();
    world.create('a');
    await world.untilReady('a');
    await maker.stop();
    world.driver.ensured.length = 0;
    world.changeTemplates(({ spec }) => {
      for (const { args } of spec.components) delete args?.['encryption-provider-config'];
    });
    world.run();
    const refused = await world.until('a', (vc) => vc.status?.phase === 'Failed');
    expect(condition(refused, 'CertificatesReady')).toMatchObject({
      status: 'False',
      reason: 'EncryptionChanged',
    });
    expect(configurations()).toEqual([]);
  });

  it('goes on being needed as long as a Secret cannot be rewritten', async () => {
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const old = status?.encryption?.key ?? '';
    const allow = world.tenant.inject({
      fault: { kind: 'status', code: 403, reason: 'Forbidden' },
      verb: 'patch',
      plural: 'secrets',
      times: Number.POSITIVE_INFINITY,
    });
    rotate('one');
    const { status: meanwhile } = await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    expect(meanwhile?.jobs?.current?.message).toContain('default/kept');
    // The control plane is well.
    expect(meanwhile?.phase).toBe('Ready');
    const written = JSON.parse(
      Buffer.from((pki()['data'] as Record<string, string>)['encryption.json'] ?? '', 'base64').toString(),
    );
    expect(written.current.name).toBe(old);
    // It does not keep the tenant awake, nor wake it.
    annotate('a', annotationKeys.sleep, 'one');
    const asleep = await world.until('a', (vc) => vc.status?.sleep?.stopped === true);
    const slept = { kind: 'sleep', result: 'Succeeded' };
    await world.until('a', (vc) => vc.status?.jobs?.current === undefined);
    expect(jobs('a')?.history?.[0]).toMatchObject(slept);
    const seen = { activity: new Store(), settings: { namespace: 'x' }, clock: systemClock } as never;
    expect(wantedWake(asleep, seen)).toBeUndefined();
    const { rotation: _, ...encryption } = asleep.status?.encryption ?? {};
    expect(wantedWake({ ...asleep, status: { ...asleep.status, encryption } }, seen)).toBe('KeyRotation');
    annotate('a', annotationKeys.wake, 'one');
    await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.kind === 'wake');
    expect(jobs('a')?.history?.[0]?.result).toBe('Succeeded');
    allow();
    annotate('a', annotationKeys.retryJob, 'now');
    await ended();
    expect(world.get('a')?.status?.encryption?.key).not.toBe(old);
  });
});
