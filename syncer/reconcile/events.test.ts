import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { fastClock } from './testing/fast-clock.ts';
import { TwoSides, type TwoSidesOptions } from './testing/two-sides.ts';

/** Two sides in agreement about the pod `web`, and its events in the super cluster. */
async function withPod(options?: TwoSidesOptions): Promise<TwoSides> {
  const sides = await TwoSides.start((s) => {
    s.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
    s.inShop(resources.pods, pod('web'));
  }, options);
  await sides.until(() => sides.inSuper(resources.pods, 'web') !== undefined);
  return sides;
}

const pod = (name: string): KubeObject => ({
  metadata: { name },
  spec: { serviceAccountName: 'default', containers: [{ name: 'main', image: 'busybox' }] },
  status: { phase: 'Pending' },
});

function tell(sides: TwoSides, name: string, count = 1): void {
  sides.super.server.put(resources.events, {
    metadata: { name, namespace: sides.shop },
    involvedObject: {
      apiVersion: 'v1',
      kind: 'Pod',
      namespace: sides.shop,
      name: 'web',
      uid: sides.inSuper(resources.pods, 'web')?.metadata.uid,
    },
    reason: 'BackOff',
    message: 'Back-off restarting failed container',
    type: 'Warning',
    count,
  });
}

const shown = (sides: TwoSides, name: string): KubeObject | undefined =>
  sides.tenant.server.get(resources.events, { namespace: 'shop', name });

const writes = (sides: TwoSides): string[] =>
  sides.tenant.server.requests
    .filter(
      ({ plural, verb }) => plural === 'events' && ['create', 'patch', 'update', 'delete'].includes(verb),
    )
    .map(({ verb }) => verb);

/** The engine has seen this count, and has nothing to do at this time. */
async function handled(sides: TwoSides, name: string, count: number): Promise<void> {
  const ref = { namespace: sides.shop, name };
  const seen = () => sides.superCaches.get(resources.events, ref)?.['count'];
  const isBusy = () =>
    sides.engine.depths().some(({ live, background, processing }) => live + background + processing > 0);
  while (seen() !== count || isBusy()) await setImmediate();
}

describe('events that come up', () => {
  it('one that somebody else has written meanwhile is looked at anew, and goes on', async () => {
    await using sides = await withPod({ clock: fastClock(20) });
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    const present = shown(sides, 'web.1') as KubeObject;
    const { metadata } = present;
    const annotations = { ...metadata.annotations, note: 'mine' };
    sides.tenant.server.put(resources.events, { ...present, metadata: { ...metadata, annotations } });
    tell(sides, 'web.1', 2);
    await sides.until(() => shown(sides, 'web.1')?.['count'] === 2);
    expect(shown(sides, 'web.1')?.metadata.annotations).toMatchObject({ note: 'mine' });
  });

  it('a burst of 1,000 identical events is one object with a count, and a few writes', async () => {
    const clock = new FakeClock();
    await using sides = await withPod({ clock });
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    const wanted = ['create'];
    for (let count = 2; count <= 1_000; count++) {
      tell(sides, 'web.1', count);
      // As they come: one by one.
      await setImmediate();
      if (count % 250 > 0) continue;
      await handled(sides, 'web.1', count);
      await clock.advance(4_999);
      await handled(sides, 'web.1', count);
      expect(writes(sides)).toEqual(wanted);
      await clock.advance(1);
      await sides.until(() => shown(sides, 'web.1')?.['count'] === count);
      wanted.push('patch');
    }
    expect(writes(sides)).toEqual(wanted);
    expect(sides.tenant.server.list(resources.events)).toHaveLength(1);
  });

  it('never keep a pod waiting, though the tenant takes none of them', async () => {
    await using sides = await withPod({ workers: 4 });
    sides.tenant.server.inject({ verb: 'create', plural: 'events', times: 1_000, fault: { kind: 'hang' } });
    for (let index = 0; index < 200; index++) tell(sides, `web.${index}`);
    // All the workers that this tenant gets for what can wait.
    while (writes(sides).length < 2) await setImmediate();
    sides.inShop(resources.pods, pod('urgent'));
    await sides.until(() => sides.inSuper(resources.pods, 'urgent') !== undefined);
    expect(writes(sides)).toEqual(['create', 'create']);
  });

  it('are written anew when the tenant has forgotten them and they go on', async () => {
    await using sides = await withPod({ clock: fastClock(100) });
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    sides.tenant.server.remove(resources.events, { namespace: 'shop', name: 'web.1' });
    tell(sides, 'web.1', 7);
    await sides.until(() => shown(sides, 'web.1')?.['count'] === 7);
  });

  it('go on being counted by a syncer that knows nothing of its predecessor', async () => {
    await using sides = await withPod();
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    const { uid } = shown(sides, 'web.1')?.metadata ?? {};
    await sides.restart();
    tell(sides, 'web.1', 3);
    await sides.until(() => shown(sides, 'web.1')?.['count'] === 3);
    expect(shown(sides, 'web.1')?.metadata.uid).toBe(uid);
    expect(sides.tenant.server.list(resources.events)).toHaveLength(1);
  });

  it('are not written once more by a syncer that finds them there', async () => {
    await using sides = await withPod();
    for (const name of ['web.1', 'web.2', 'web.3']) tell(sides, name);
    await sides.until(() => shown(sides, 'web.3') !== undefined);
    await handled(sides, 'web.3', 1);
    const before = writes(sides).length;
    await sides.restart();
    tell(sides, 'web.4');
    await sides.until(() => shown(sides, 'web.4') !== undefined);
    await handled(sides, 'web.4', 1);
    expect(writes(sides).slice(before)).toEqual(['create']);
  });
});
