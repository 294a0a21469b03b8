import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../api/labels.ts';
import { type KubeObject, resources } from '../kube/index.ts';
import { fastClock } from '../kube/testing/fast-clock.ts';
import { testTenant } from './kinds/testing.ts';
import { simulateControllers } from './reconcile/testing/random-operations.ts';
import { ReconcilerHarness } from './reconcile/testing/reconciler-harness.ts';
import { StepEngine } from './reconcile/testing/step-engine.ts';
import { TwoSides } from './reconcile/testing/two-sides.ts';

describe('engine', () => {
  const settings = (name: string, data: Record<string, string> = { a: '1' }): KubeObject => ({
    metadata: { name, labels: { [labelKeys.sync]: 'true' } },
    data,
  });

  const pod = (name: string): KubeObject => ({
    metadata: { name },
    spec: { serviceAccountName: 'default', containers: [{ name: 'main', image: 'busybox' }] },
    status: { phase: 'Pending' },
  });

  function uidMarkOf(object: KubeObject | undefined): string | undefined {
    return object?.metadata.annotations?.[annotationKeys.uid];
  }

  describe('the engine between two servers', () => {
    it('creates the super namespace first, then what is in it', async () => {
      await using sides = await TwoSides.start();
      const t = sides.inShop(resources.configMaps, settings('x'));
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      const order = sides.super.server.requests
        .filter((request) => request.verb === 'create')
        .map((request) => request.plural);
      expect(order.indexOf('namespaces')).toBeLessThan(order.indexOf('configmaps'));
      expect(uidMarkOf(sides.inSuper(resources.configMaps, 'x'))).toBe(t.metadata.uid);
    });

    it('carries changes down, repairs drift, and takes deletions down', async () => {
      await using sides = await TwoSides.start((s) => s.inShop(resources.configMaps, settings('x')));
      const data = (): unknown => sides.inSuper(resources.configMaps, 'x')?.['data'];
      await sides.until(() => data() !== undefined);
      sides.inShop(resources.configMaps, settings('x', { a: '2' }));
      await sides.until(() => (data() as { a?: string } | undefined)?.a === '2');

      const s = sides.inSuper(resources.configMaps, 'x') as KubeObject;
      sides.super.server.put(resources.configMaps, { ...s, data: { a: 'drift' } });
      await sides.until(() => (data() as { a?: string } | undefined)?.a === '2');

      sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') === undefined);
    });

    it.each([true, false])(
      'makes no pod before the policies that isolate it (sync rule `tenant-isolation`; fair: %s)',
      async (fair) => {
        const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['192.0.2.1/32'] };
        await using sides = await TwoSides.start(undefined, { fair, tenant: { isolation } });
        const fault = { kind: 'status', code: 503, reason: 'ServiceUnavailable' } as const;
        sides.super.server.inject({ verb: 'create', plural: 'networkpolicies', times: 1_000, fault });
        for (const name of ['a', 'b', 'c']) sides.inShop(resources.pods, pod(name));
        const isAttempt = ({ verb, plural, namespace }: (typeof sides.super.server.requests)[number]) =>
          verb === 'create' && plural === 'networkpolicies' && namespace === sides.shop;
        await sides.until(() => sides.super.server.requests.filter(isAttempt).length >= 8);
        expect(sides.super.server.list(resources.pods)).toEqual([]);
        sides.super.server.clearFaults();
        await sides.until(() => ['a', 'b', 'c'].every((name) => sides.inSuper(resources.pods, name)));
        const version = ({ metadata }: KubeObject): number => Number(metadata.resourceVersion);
        const policies = sides.super.server
          .list(resources.networkPolicies)
          .filter(({ metadata }) => metadata.namespace === sides.shop);
        expect(policies).toHaveLength(2);
        const firstPod = Math.min(...sides.super.server.list(resources.pods).map(version));
        expect(Math.max(...policies.map(version))).toBeLessThan(firstPod);
      },
    );

    it.each([true, false])(
      'makes no pod as long as it is not known whether anything isolates it, and then at once (fair: %s)',
      async (fair) => {
        const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['0.0.0.0/0'] };
        const tenant = { isolation, networkPoliciesEnforced: false, isIsolationUnknown: true } as const;
        await using sides = await TwoSides.start(undefined, { fair, tenant });
        sides.inShop(resources.pods, pod('web'));
        sides.inShop(resources.configMaps, settings('x'));
        await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
        const report = async () => JSON.stringify(await sides.engine.differences(sides.state.label, 10));
        await expect.poll(report).toContain('waits until it is known');
        // It is looked at again and again.
        for (let round = 0; round < 10; round++) {
          await sides.engine.resync(sides.state);
          while (sides.engine.depths().some((depth) => depth.background + depth.live + depth.processing > 0))
            await setImmediate();
        }
        expect(sides.inSuper(resources.pods, 'web')).toBeUndefined();
        expect(sides.super.server.list(resources.networkPolicies)).toEqual([]);
        sides.state.updateInfo({ ...sides.info, isolation: undefined, isIsolationUnknown: undefined });
        sides.engine.requeue(sides.state);
        await sides.until(() => sides.inSuper(resources.pods, 'web') !== undefined);
      },
    );

    it('remembers of a failure what people read', async () => {
      await using sides = await TwoSides.start();
      const message = `no\u001b[2J${'x'.repeat(7_000)}`;
      const fault = { kind: 'status', code: 500, reason: 'InternalError', message } as const;
      for (let i = 0; i < 5; i++) sides.super.server.inject({ verb: 'create', plural: 'configmaps', fault });
      sides.inShop(resources.configMaps, settings('x'));
      const failure = () => sides.state.failures.get('configmaps/shop/x');
      await sides.until(() => failure() !== undefined);
      expect(failure()?.message).toMatch(/no\?\[2Jx+\.\.\.$/);
      expect(failure()?.message).toHaveLength(1_003);
    });

    it('creates anew what disappears in the super cluster', async () => {
      await using sides = await TwoSides.start((s) => s.inShop(resources.configMaps, settings('x')));
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      const first = sides.inSuper(resources.configMaps, 'x')?.metadata.uid;
      sides.super.server.remove(resources.configMaps, { namespace: sides.shop, name: 'x' });
      await sides.until(
        () => ![undefined, first].includes(sides.inSuper(resources.configMaps, 'x')?.metadata.uid),
      );
    });

    it('never touches a look-alike without its marks (sync rule `unmarked-objects`), and says so in the tenant', async () => {
      await using sides = await TwoSides.start((s) => {
        s.super.server.put(resources.configMaps, {
          metadata: { namespace: s.shop, name: 'x' },
          data: { whose: 'mine' },
        });
        s.inShop(resources.configMaps, settings('x'));
      });
      const told = (): KubeObject | undefined =>
        sides.tenant.server.list(resources.events).find((event) => event['reason'] === 'NameConflict');
      await sides.until(() => told() !== undefined);
      expect(told()?.['involvedObject']).toMatchObject({ name: 'x', namespace: 'shop' });
      expect(sides.inSuper(resources.configMaps, 'x')?.['data']).toEqual({ whose: 'mine' });
    });

    it('ends with the UID mark of the last tenant object after 50 quick re-creations (sync rule `recreation`)', async () => {
      await using sides = await TwoSides.start(undefined, { clock: fastClock(20) });
      let last: KubeObject | undefined;
      for (let round = 0; round < 50; round++) {
        sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
        last = sides.inShop(resources.configMaps, settings('x', { round: String(round) }));
        if (round % 7 === 0) await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      }
      await sides.until(() => uidMarkOf(sides.inSuper(resources.configMaps, 'x')) === last?.metadata.uid);
      expect(sides.inSuper(resources.configMaps, 'x')?.['data']).toEqual({ round: '49' });
    });

    it('makes an object less and less often that the tenant shows with another UID each time (sync rule `contested-writes`)', async () => {
      await using sides = await TwoSides.start(undefined, { clock: fastClock(2) });
      let last: KubeObject | undefined;
      const isLast = () => uidMarkOf(sides.inSuper(resources.configMaps, 'x')) === last?.metadata.uid;
      const told = () =>
        sides.tenant.server.list(resources.events).find(({ reason }) => reason === 'ContestedWrites');
      for (let round = 0; round < 100 && told() === undefined; round++) {
        sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
        last = sides.inShop(resources.configMaps, settings('x'));
        await sides.until(() => isLast() || told() !== undefined);
      }
      const made = sides.super.server.requests.filter(
        ({ verb, plural, namespace }) =>
          verb === 'create' && plural === 'configmaps' && namespace === sides.shop,
      );
      expect(made.length).toBeGreaterThanOrEqual(11);
      expect(isLast()).toBe(false);
      await sides.until(isLast);
    });

    it('makes an object less and less often that the tenant deletes and shows again with the same UID (sync rule `contested-writes`)', async () => {
      await using sides = await TwoSides.start(undefined, { clock: fastClock(2) });
      const isMade = () => sides.inSuper(resources.configMaps, 'x') !== undefined;
      const told = () =>
        sides.tenant.server.list(resources.events).find(({ reason }) => reason === 'ContestedWrites');
      let rounds = 0;
      while (rounds < 50 && told() === undefined) {
        rounds += 1;
        const { metadata, ...rest } = settings('x');
        sides.inShop(resources.configMaps, { metadata: { ...metadata, uid: 'the-same' }, ...rest });
        await sides.until(() => isMade() || told() !== undefined);
        if (told() !== undefined) break;
        sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
        await sides.until(() => !isMade());
      }
      expect(rounds).toBeGreaterThan(10);
      expect(rounds).toBeLessThan(20);
      expect(isMade()).toBe(false);
      await sides.until(isMade);
    });

    it('looks at what is there when a create says AlreadyExists (sync rule `already-exists`)', async () => {
      await using sides = await TwoSides.start();
      sides.super.server.inject({ verb: 'create', plural: 'configmaps', fault: { kind: 'reset-in-body' } });
      const t = sides.inShop(resources.configMaps, settings('x'));
      await sides.until(() => uidMarkOf(sides.inSuper(resources.configMaps, 'x')) === t.metadata.uid);
    });

    it('tells the tenant why the super cluster refuses, in its own words, and tries again when the tenant object changes (sync rule `refused-writes`)', async () => {
      await using sides = await TwoSides.start();
      sides.super.server.inject({
        verb: 'create',
        plural: 'configmaps',
        times: 1_000,
        fault: { kind: 'status', code: 422, reason: 'Invalid', message: `no room in ${sides.shop}` },
      });
      sides.inShop(resources.configMaps, settings('x'));
      const told = (): KubeObject | undefined =>
        sides.tenant.server.list(resources.events).find((event) => event['reason'] === 'SyncRefused');
      await sides.until(() => told() !== undefined);
      expect(told()?.['message']).toBe('no room in shop');
      sides.super.server.clearFaults();
      sides.inShop(resources.configMaps, settings('x', { a: '2' }));
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
    });

    it('waits silently for a namespace that is on its way out (sync rule `refused-writes`)', async () => {
      await using sides = await TwoSides.start();
      sides.super.server.inject({
        verb: 'create',
        plural: 'configmaps',
        fault: {
          kind: 'status',
          code: 403,
          reason: 'Forbidden',
          causes: [
            { reason: 'NamespaceTerminating', message: 'being terminated', field: 'metadata.namespace' },
          ],
        },
      });
      sides.inShop(resources.configMaps, settings('x'));
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      expect(sides.tenant.server.list(resources.events)).toEqual([]);
    });
  });

  describe('what only looks like ours', () => {
    it('is left alone: an object that has our labels because a controller copied them', async () => {
      await using sides = await TwoSides.start((s) => s.inShop(resources.configMaps, settings('x')));
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      const { labels = {} } = (sides.inSuper(resources.configMaps, 'x') as KubeObject).metadata;
      const copied = { metadata: { name: 'x-copied', namespace: sides.shop, labels } };
      sides.super.server.put(resources.configMaps, copied);
      // What comes after it has been carried down, and it is still there.
      sides.inShop(resources.configMaps, settings('y'));
      await sides.until(() => sides.inSuper(resources.configMaps, 'y') !== undefined);
      sides.inShop(resources.configMaps, settings('x-copied', { mine: 'yes' }));
      await sides.until(() => sides.tenant.server.list(resources.events).length > 0);
      expect(sides.inSuper(resources.configMaps, 'x-copied')?.['data']).toBeUndefined();
    });

    it('goes nowhere when its namespace does not', async () => {
      await using sides = await TwoSides.start((s) => {
        s.tenant.server.put(resources.namespaces, { metadata: { name: 'kube-node-lease' } });
        s.tenant.server.put(resources.serviceAccounts, {
          metadata: { namespace: 'kube-node-lease', name: 'default' },
        });
      });
      sides.inShop(resources.configMaps, settings('x'));
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      const created = sides.super.server.requests.filter(
        ({ verb, plural }) => verb === 'create' && plural === 'serviceaccounts',
      );
      expect(created).toEqual([]);
    });
  });

  describe('deletions (sync rule `confirmed-delete`)', () => {
    it('stop when the tenant is another server, and nothing is lost', async () => {
      await using sides = await TwoSides.start((s) => s.inShop(resources.configMaps, settings('x')));
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      sides.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
      sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
      sides.tenant.server.remove(resources.namespaces, { name: 'shop' });
      await sides.reported('mismatch tenant');
      expect(sides.inSuper(resources.configMaps, 'x')).toBeDefined();
      expect(sides.super.server.get(resources.namespaces, { name: sides.shop })).toBeDefined();
    });

    it('are remembered while they are held, and no longer when both sides are gone', async () => {
      await using sides = await TwoSides.start();
      const { state } = sides;
      state.frozen = 'TenantIdentity';
      const annotations = { [annotationKeys.uid]: 'anything' };
      for (const name of ['a', 'b'])
        sides.tenant.server.put(resources.storageClasses, { metadata: { name, annotations } });
      await sides.until(() => state.held.size === 2);
      sides.tenant.server.remove(resources.storageClasses, { name: 'a' });
      await sides.until(() => state.held.size === 1);
      expect(state.held.get('storageclasses//b')).toBe(true);
    });

    it('wait for the operator when a fifth of the objects, and at least 20, are missing unseen', async () => {
      const names = Array.from({ length: 30 }, (_, index) => `x-${index}`);
      await using first = await TwoSides.start((s) => {
        for (const name of names) s.inShop(resources.configMaps, settings(name));
      });
      await first.until(() => names.every((name) => first.inSuper(resources.configMaps, name) !== undefined));
      const left = first.super.server.list(resources.configMaps);
      const namespaces = first.super.server.list(resources.namespaces);
      const shop = first.tenant.server.get(resources.namespaces, { name: 'shop' }) as KubeObject;

      // The syncer was away; now the tenant's server has the namespace, but none of its objects.
      await using sides = await TwoSides.start((s) => {
        s.tenant.server.put(resources.namespaces, shop);
        for (const namespace of namespaces) s.super.server.put(resources.namespaces, namespace);
        for (const object of left) s.super.server.put(resources.configMaps, object);
      });
      await sides.reported('held');
      expect(sides.super.server.list(resources.configMaps)).toHaveLength(30);

      const { hold } = sides.state.superDeletions;
      expect(hold).toMatchObject({ missing: 30 });
      expect(sides.state.superDeletions.confirm(hold?.id ?? '')).toBe(true);
      sides.engine.requeue(sides.state);
      await sides.until(() => sides.super.server.list(resources.configMaps).length === 0);
    });

    it('wait for the operator when a setting takes away the walls between pods', async () => {
      const names = Array.from({ length: 25 }, (_, index) => `x-${index}`);
      await using sides = await TwoSides.start((s) => {
        for (const name of names)
          s.inShop(resources.networkPolicies, { metadata: { name }, spec: { podSelector: {} } });
      });
      await sides.until(() =>
        names.every((name) => sides.inSuper(resources.networkPolicies, name) !== undefined),
      );
      sides.state.updateInfo({ ...sides.state.info, syncNetworkPolicies: false });
      sides.engine.requeue(sides.state);
      await sides.reported('held');
      expect(sides.super.server.list(resources.networkPolicies)).toHaveLength(25);
    });
  });

  describe('pods', () => {
    it('come up with their ServiceAccount, are bound and get their status', async () => {
      await using sides = await TwoSides.start((s) => {
        s.super.server.put(resources.nodes, { metadata: { name: 'n1' } });
        s.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
        s.inShop(resources.pods, pod('web'));
      });
      await sides.until(() => sides.inSuper(resources.pods, 'web') !== undefined);
      const s = sides.inSuper(resources.pods, 'web') as KubeObject;
      sides.super.server.put(resources.pods, {
        ...s,
        spec: { ...(s['spec'] as object), nodeName: 'n1' },
        status: { phase: 'Running', podIP: '10.0.0.1', conditions: [{ type: 'Ready', status: 'True' }] },
      });
      await sides.until(
        () =>
          (
            sides.tenant.server.get(resources.pods, { namespace: 'shop', name: 'web' })?.['status'] as {
              phase?: string;
            }
          )?.phase === 'Running',
      );
      const bindings = sides.tenant.server.requests.filter((request) => request.subresource === 'binding');
      expect(bindings).toHaveLength(1);
    });
  });
});

describe('several tenants', () => {
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
      await sides.until(
        () => sides.super.server.get(resources.namespaces, { name: sides.shop }) !== undefined,
      );
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

  describe('a tenant whose API server hangs (sync rule `hanging-tenant`)', () => {
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
      simulateControllers(sides.super.server);
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
});

const container = { name: 'main', image: 'nginx:1' };
const spec = { serviceAccountName: 'default', nodeName: 'n1', containers: [container] };

/** A running pod on both sides, the tenant object changed by `change` since. */
async function changedPod(change: Record<string, unknown>): Promise<ReconcilerHarness> {
  const harness = await ReconcilerHarness.start();
  harness.namespace('shop');
  harness.have('tenant', resources.nodes, { metadata: { name: 'n1' } });
  const annotations = { 'skerry.dev/super-uid': 'uid-of-s' };
  const t = harness.have('tenant', resources.pods, {
    metadata: { namespace: 'shop', name: 'web', annotations },
    spec: { ...spec, ...change },
    status: { phase: 'Pending' },
  });
  const s = harness.superOf(t, { spec, status: { phase: 'Running' } });
  harness.have('super', resources.pods, { ...s, metadata: { ...s.metadata, uid: 'uid-of-s' } });
  return harness;
}

const resize = { containers: [{ ...container, resources: { requests: { cpu: '1' } } }] };
const patches = (harness: ReconcilerHarness): (string | undefined)[] =>
  harness.super.server.requests.filter(({ verb }) => verb === 'patch').map(({ subresource }) => subresource);
const inSuper = (harness: ReconcilerHarness): KubeObject | undefined =>
  harness.super.server.get(resources.pods, { namespace: harness.shop, name: 'web' });
const events = (harness: ReconcilerHarness): unknown[] =>
  harness.tenant.server.list(resources.events).map(({ reason, message }) => [reason, message]);

describe('writes to subresources of a pod in the super cluster (sync rule `pod-subresources`)', () => {
  it('are several in one go, as each makes a new version of the super object', async () => {
    await using harness = await changedPod(resize);
    await harness.reconcile('pods', 'web', 'shop');
    expect(patches(harness)).toEqual(['resize', undefined]);
    expect(inSuper(harness)).toMatchObject({ spec: resize });
    expect(inSuper(harness)?.metadata.annotations).toHaveProperty(['skerry.dev/resources']);
  });

  it('may be refused: an event says so in scrubbed words, the tenant object has its status all the same, and it is tried again later', async () => {
    await using harness = await changedPod(resize);
    const message = `pods "web" in ${harness.shop}: no room`;
    const fault = { kind: 'status', code: 422, reason: 'Invalid', message } as const;
    harness.super.server.inject({ verb: 'patch', fault });
    const outcome = await harness.reconcile('pods', 'web', 'shop');
    expect(outcome).toEqual({ is: 'later', afterMs: 60_000 });
    const own = harness.tenant.server.get(resources.pods, { namespace: 'shop', name: 'web' });
    expect(own).toMatchObject({ status: { phase: 'Running' } });
    expect(events(harness)).toEqual([['SyncRefused', expect.stringMatching(/^pods "web" in shop: no room/)]]);
    // What was refused is not taken for done.
    expect(inSuper(harness)?.metadata.annotations).not.toHaveProperty(['skerry.dev/resources']);
  });

  it('of a debug container that is refused open none of its name that others add', async () => {
    await using harness = await changedPod({ ephemeralContainers: [{ name: 'debugger', image: 'x' }] });
    const refusal = { kind: 'status', code: 422, reason: 'Invalid' } as const;
    // As an API server refuses a container, and takes an annotation.
    const mend = harness.super.server.inject({
      verb: 'patch',
      subresource: 'ephemeralcontainers',
      fault: refusal,
    });
    await harness.reconcile('pods', 'web', 'shop');
    mend();
    const { metadata, spec } = inSuper(harness) as KubeObject & { spec: object };
    harness.have('super', resources.pods, {
      ...inSuper(harness),
      metadata,
      spec: { ...spec, ephemeralContainers: [{ name: 'debugger', image: 'tools' }] },
    });
    await harness.reconcile('pods', 'web', 'shop');
    expect(inSuper(harness)?.metadata.annotations?.['skerry.dev/containers'] ?? '').not.toContain('debugger');
  });

  it('that fail otherwise are tried again as any other', async () => {
    await using harness = await changedPod({ ephemeralContainers: [{ name: 'debugger', image: 'x' }] });
    harness.super.server.inject({
      verb: 'patch',
      fault: { kind: 'status', code: 500, reason: 'InternalError' },
    });
    expect(await harness.reconcile('pods', 'web', 'shop')).toMatchObject({ is: 'retry' });
    expect(events(harness)).toEqual([]);
    // The cache is behind what the first run has written to the tenant object.
    const own = harness.tenant.server.get(resources.pods, { namespace: 'shop', name: 'web' }) as KubeObject;
    harness.show('tenant', resources.pods, own);
    await harness.reconcile('pods', 'web', 'shop');
    expect(inSuper(harness)).toMatchObject({ spec: { ephemeralContainers: [{ name: 'debugger' }] } });
  });
});

describe('an error that no reconcile expects', () => {
  it('is reported with its key, and the key is tried again', async () => {
    const failed: unknown[] = [];
    let broken = true;
    await using sides = new StepEngine({
      workers: 2,
      observer: {
        outcome: (_tenant, key) => {
          if (broken && key.name === 'x') throw new Error('a defect');
        },
        failed: (tenant, key, error) => failed.push([tenant?.label, key?.kind, key?.name, String(error)]),
      },
    });
    const a = sides.join('a');
    const x = { metadata: { namespace: 'shop', name: 'x', labels: { [labelKeys.sync]: 'true' } } };
    sides.behave('super', 'conflicts');
    sides.show(a, resources.configMaps, x);
    await sides.turnsUntil('super create configmaps x', 5);
    await sides.turn();
    expect(failed).toEqual([[a.label, 'configmaps', 'x', 'Error: a defect']]);

    broken = false;
    sides.made.length = 0;
    await sides.clock.advance(60_000);
    await sides.turnsUntil('super create configmaps x', 5);
    expect(failed).toHaveLength(1);
  });

  it('of an observer costs the queue nothing: what was taken is given back', async () => {
    const failed: string[] = [];
    await using sides = new StepEngine({
      workers: 1,
      observer: {
        taken: () => {
          throw new Error('a defect');
        },
        failed: (_tenant, key, error) => failed.push(`${key?.name} ${String(error)}`),
      },
    });
    const a = sides.join('a');
    for (const name of ['x', 'y'])
      sides.show(a, resources.configMaps, {
        metadata: { namespace: 'shop', name, labels: { [labelKeys.sync]: 'true' } },
      });
    await sides.turnsUntil('super create configmaps y', 10);
    expect(failed).toContain('x Error: a defect');
    expect(failed).toContain('y Error: a defect');
  });
});
