import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
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
    .filter(({ plural, verb }) => plural === 'events' && verb !== 'get')
    .map(({ verb }) => verb);

describe('events that come up', () => {
  it('a burst of 1,000 identical events is one object with a count, and a few writes', async () => {
    const clock = fastClock(50);
    await using sides = await withPod({ clock });
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    const begun = clock.monotonic();
    for (let count = 2; count <= 1_000; count++) {
      tell(sides, 'web.1', count);
      // As they come: one by one.
      await new Promise((resolve) => setImmediate(resolve));
    }
    await sides.until(() => shown(sides, 'web.1')?.['count'] === 1_000);
    const periods = Math.ceil((clock.monotonic() - begun) / 5_000);
    expect(sides.tenant.server.list(resources.events)).toHaveLength(1);
    expect(writes(sides).filter((verb) => verb === 'create')).toHaveLength(1);
    expect(writes(sides).length).toBeLessThanOrEqual(1 + periods);
  });

  it('never keep a pod waiting, though the tenant takes none of them', async () => {
    await using sides = await withPod({ workers: 4 });
    sides.tenant.server.inject({ verb: 'create', plural: 'events', times: 1_000, fault: { kind: 'hang' } });
    for (let index = 0; index < 200; index++) tell(sides, `web.${index}`);
    await sides.until(() => writes(sides).length >= 2);
    sides.inShop(resources.pods, pod('urgent'));
    await sides.until(() => sides.inSuper(resources.pods, 'urgent') !== undefined);
    expect(writes(sides).length).toBeLessThan(200);
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
});
