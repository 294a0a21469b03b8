import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, resources, systemClock } from '../../kube/index.ts';
import { jobRequests, World } from './testing/world.ts';

describe('renewals of certificates', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  const { annotate, cancel, jobs, stall } = jobRequests(() => world);
  /** No Secret can be written until the answer is called. */
  const unwritable = (): (() => void) =>
    world.superCluster.inject({
      fault: { kind: 'status', code: 422, reason: 'Invalid' },
      verb: 'patch',
      plural: 'secrets',
      times: Number.POSITIVE_INFINITY,
    });

  it('are jobs, begun when certificates are due', async () => {
    const due = (vc: VirtualCluster): number => Date.parse(vc.status?.certificatesDue ?? '');
    const maker = world.run();
    world.create('a');
    const first = await world.untilReady('a');
    await maker.stop();
    const ahead = due(first) - Date.now() + 60_000;
    const clock = { ...systemClock, now: () => Date.now() + ahead };
    const gate = Promise.withResolvers<void>();
    world.datastore.beforeEnsure = () => gate.promise;
    const running = world.run({ clock });
    await world.until('a', (vc) => vc.status?.jobs?.current?.kind === 'renewal');
    gate.resolve();
    const renewed = await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.kind === 'renewal');
    expect(renewed.status?.jobs?.history?.[0]).toMatchObject({ result: 'Succeeded' });
    expect(due(renewed)).toBeGreaterThan(due(first));
    await running.stop();
  });

  it('that are cancelled wait an hour, in which the control plane goes on', async () => {
    const maker = world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    await maker.stop();
    let ahead = Date.parse(status?.certificatesDue ?? '') - Date.now() + 60_000;
    const clock = { ...systemClock, now: () => Date.now() + ahead };
    const writable = unwritable();
    const running = world.run({ clock });
    await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    cancel('a');
    const held = await world.until('a', (vc) => vc.status?.jobs?.renewalHeldUntil !== undefined);
    expect(held.status?.jobs?.history?.[0]).toMatchObject({ kind: 'renewal', result: 'Cancelled' });
    world.edit('a', { weight: 7 });
    const after = await world.until('a', (vc) => vc.status?.observedGeneration === 2);
    expect(after.status).toMatchObject({ phase: 'Ready', certificatesDue: status?.certificatesDue });
    writable();
    ahead += 61 * 60_000;
    world.edit('a', { weight: 8 });
    await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.result === 'Succeeded');
    await running.stop();
  });

  it('are done once for each request, and not for one that was cancelled', async () => {
    const pki = () => world.secretOf('a', 'pki')?.['data'];
    const first = () => jobs('a')?.history?.[0];
    world.run();
    world.create('a');
    await world.untilReady('a');
    const before = pki();
    annotate('a', annotationKeys.renewCertificates, 'one');
    await world.until('a', () => first()?.kind === 'renewal');
    const renewed = pki();
    expect(renewed).not.toEqual(before);
    const change = { kind: 'version-change', generation: 1 } as const;
    const vc = world.get('a') as VirtualCluster;
    const status = { ...vc.status, jobs: { ...vc.status?.jobs, held: change } };
    world.superCluster.put(resources.virtualClusters, { ...vc, status } as KubeObject);
    const writable = unwritable();
    annotate('a', annotationKeys.renewCertificates, 'two');
    await world.until('a', (vc) => vc.status?.jobs?.current?.failing === true);
    cancel('a');
    await world.until('a', () => first()?.result === 'Cancelled');
    // A change of version that was cancelled before stays so.
    expect(jobs('a')?.held).toEqual(change);
    writable();
    world.edit('a', { weight: 7 });
    await world.until('a', (vc) => vc.status?.observedGeneration === 2 && vc.status.phase === 'Ready');
    expect(pki()).toEqual(renewed);
    // Cut in the middle of a character.
    annotate('a', annotationKeys.renewCertificates, `${'a'.repeat(63)}😀`);
    await world.until('a', () => first()?.result === 'Succeeded');
    expect(pki()).not.toEqual(renewed);
    expect(jobs('a')?.renewed?.isWellFormed()).toBe(true);
  });

  it('are not cancelled once the certificates are issued, and say so', async () => {
    world.run();
    world.create('a');
    await world.untilReady('a');
    const { release } = stall();
    annotate('a', annotationKeys.renewCertificates, 'one');
    await world.until('a', (vc) => vc.status?.jobs?.current?.replacing === true);
    cancel('a');
    const { status } = await world.until('a', (vc) => vc.status?.jobs?.current?.refusal !== undefined);
    expect(status?.jobs?.current?.refusal).toContain('take them up');
    world.driver.beforeEnsure = () => {};
    release();
    await world.until('a', (vc) => vc.status?.jobs?.history?.[0]?.kind === 'renewal');
    expect(jobs('a')?.history?.[0]).toMatchObject({ result: 'Succeeded' });
  });
});
