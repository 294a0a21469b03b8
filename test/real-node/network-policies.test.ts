import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { namespace } from '../harness/manifests.ts';
import { type Tenant, World } from '../harness/world.ts';
import { idlePod, inPod, untilReady, webPod } from './suite/pods.ts';

/** Set by whoever has put an engine onto the nodes that enforces NetworkPolicies. */
const isEnforced = process.env['SKERRY_NETWORK_POLICIES'] === 'enforced';
const ns = 'shop';

describe.skipIf(!isEnforced)('network policies, on nodes with an engine (skipped: these have none)', () => {
  let world: World;
  let tenant: Tenant;
  let address: string;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant('walled');
    await tenant.apply(namespace(ns), namespace('friends'));
    await tenant.apply(webPod(ns, 'web'), idlePod(ns, 'near'), idlePod('friends', 'far'));
    await untilReady(tenant, ns, 'web', 'near');
    await untilReady(tenant, 'friends', 'far');
    address = await tenant.kubectl('-n', ns, 'get', 'pod', 'web', '-o', 'jsonpath={.status.podIP}');
  });

  afterAll(() => world?.close());

  const reaches = (from: string, name: string): Promise<boolean> =>
    inPod(tenant, { namespace: from, name }, 'curl', '-s', '-m', '3', `http://${address}:8080/hostname`).then(
      () => true,
      () => false,
    );

  it('let in whom the tenant names, and nobody else', async () => {
    expect([await reaches(ns, 'near'), await reaches('friends', 'far')]).toEqual([true, true]);
    await tenant.apply({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { namespace: ns, name: 'wall' },
      spec: {
        podSelector: { matchLabels: { app: 'web' } },
        ingress: [
          { from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'friends' } } }] },
        ],
      },
    });
    await expect.poll(() => reaches(ns, 'near'), { timeout: 30_000, interval: 500 }).toBe(false);
    expect(await reaches('friends', 'far')).toBe(true);
  });
});
