import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { testTenant } from '../kinds/testing.ts';
import { tend } from './testing/disturbance.ts';
import { TwoSides } from './testing/two-sides.ts';

const settings = (name: string): KubeObject => ({
  metadata: { name, labels: { [labelKeys.sync]: 'true' } },
  data: { a: '1' },
});

const pod = (name: string): KubeObject => ({
  metadata: { name },
  spec: { serviceAccountName: 'default', containers: [{ name: 'main', image: 'busybox' }] },
  status: { phase: 'Pending' },
});

describe('a tenant that leaves and joins again', () => {
  it('takes its calls under way with it, and is served as before', async () => {
    await using sides = await TwoSides.start();
    await sides.until(() => sides.super.server.get(resources.namespaces, { name: sides.shop }) !== undefined);
    sides.super.server.inject({ verb: 'create', plural: 'configmaps', fault: { kind: 'hang' } });
    sides.inShop(resources.configMaps, settings('x'));
    const creates = (): number =>
      sides.super.server.requests.filter(({ verb, plural }) => verb === 'create' && plural === 'configmaps')
        .length;
    await sides.until(() => creates() === 1);
    const { state } = sides;
    sides.engine.leave(state.info.uid);
    sides.engine.join(state, 1);
    await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
    expect(creates()).toBe(2);
  });
});

describe('a tenant whose API server hangs (sync rule 34)', () => {
  it('does not keep another one waiting', async () => {
    await using sides = await TwoSides.start(undefined, { workers: 4 });
    const green = await sides.add(testTenant({ uid: 'uid-of-green', id: 'green00000', name: 'green' }));
    green.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
    // Not more than go to the scheduler at once: it does not work yet.
    const pods = Array.from({ length: 20 }, (_, index) => `web-${index}`);
    for (const name of pods) green.inShop(resources.pods, pod(name));
    await sides.until(() => sides.super.server.list(resources.pods).length === pods.length);

    for (const verb of ['get', 'create', 'patch', 'delete'] as const) {
      green.cluster.server.inject({ verb, times: 1_000_000, fault: { kind: 'hang' } });
    }
    // Now every one of its pods has something to be written in the tenant.
    tend(sides.super.server);
    const hung = (): number =>
      green.cluster.server.requests.filter(({ subresource }) => subresource === 'binding').length;
    await sides.until(() => hung() >= 2);

    const names = Array.from({ length: 20 }, (_, index) => `x-${index}`);
    for (const name of names) sides.inShop(resources.configMaps, settings(name));
    await sides.until(() => names.every((name) => sides.inSuper(resources.configMaps, name) !== undefined));
    // Alone in having something to do, it may have earned one more than half; the last quarter is never its own.
    expect(hung()).toBeLessThanOrEqual(3);
  });
});
