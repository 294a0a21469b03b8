import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { labelKeys } from '../../api/labels.ts';
import type { Quota } from '../../api/quota.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { allKinds } from '../kinds/registry.ts';
import { serviceKind } from '../kinds/services/services.ts';
import type { Situation } from '../reconcile/decide.ts';
import type { Work } from '../reconcile/execute.ts';
import { ReconcilerHarness } from '../reconcile/testing/reconciler-harness.ts';
import { TwoSides } from '../reconcile/testing/two-sides.ts';
import { QuotaAdmission } from './quota-admission.ts';

const pod = (name: string, cpu = '100m'): KubeObject => ({
  metadata: { name },
  spec: {
    serviceAccountName: 'default',
    containers: [{ name: 'main', image: 'busybox', resources: { requests: { cpu } } }],
  },
  status: { phase: 'Pending' },
});

const settings = (name: string, data: Record<string, string> = { a: '1' }): KubeObject => ({
  metadata: { name, labels: { [labelKeys.sync]: 'true' } },
  data,
});

function startWith(quota: Quota, prepare?: (sides: TwoSides) => void): Promise<TwoSides> {
  return TwoSides.start((sides) => {
    sides.first.info = { ...sides.first.info, policy: { ...defaultPolicy, quota } };
    prepare?.(sides);
  });
}

const told = (sides: TwoSides, name: string): KubeObject | undefined =>
  sides.tenant.server
    .list(resources.events)
    .find(
      (event) =>
        event['reason'] === 'QuotaExceeded' && (event['involvedObject'] as { name?: string }).name === name,
    );

describe('the quota of a tenant', () => {
  const account = (sides: TwoSides): void => {
    sides.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
  };

  it('keeps pods back that are too many, says so on them, and lets them in when there is room', async () => {
    await using sides = await startWith({ pods: '2' }, account);
    for (const name of ['a', 'b']) sides.inShop(resources.pods, pod(name));
    await sides.until(() => sides.super.server.list(resources.pods).length === 2);
    sides.inShop(resources.pods, pod('c'));
    await sides.until(() => told(sides, 'c') !== undefined);
    const message = 'exceeded quota, requested: pods=1, used: pods=2, limited: pods=2';
    expect(told(sides, 'c')?.['message']).toBe(message);
    const ofC = (): KubeObject | undefined =>
      sides.tenant.server.get(resources.pods, { namespace: 'shop', name: 'c' });
    await sides.until(() => JSON.stringify(ofC()?.['status']).includes('PodScheduled'));
    expect(ofC()?.['status']).toMatchObject({
      conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
    });
    expect(sides.inSuper(resources.pods, 'c')).toBeUndefined();

    const finished = sides.inSuper(resources.pods, 'a') as KubeObject;
    sides.super.server.put(resources.pods, { ...finished, status: { phase: 'Succeeded' } });
    await sides.until(() => sides.inSuper(resources.pods, 'c') !== undefined);
  });

  it('is never exceeded for a moment by many that come at once, in order of their coming', async () => {
    await using sides = await startWith({ pods: '5', 'requests.cpu': '400m' }, account);
    for (let i = 0; i < 40; i += 1) sides.inShop(resources.pods, pod(`p${i}`));
    const running = (): KubeObject[] => sides.super.server.list(resources.pods);
    let most = 0;
    for (let gone = 0; gone < 40; gone += 1) {
      await sides.until(() => {
        most = Math.max(most, running().length);
        return running().length > 0;
      });
      const name = running()[0]?.metadata.name ?? '';
      sides.tenant.server.remove(resources.pods, { namespace: 'shop', name });
      await sides.until(() => {
        most = Math.max(most, running().length);
        return sides.inSuper(resources.pods, name) === undefined;
      });
    }
    expect(most).toBe(4);
  });

  it('knows what is there already when the engine starts anew', async () => {
    await using sides = await startWith({ configmaps: '1' });
    sides.inShop(resources.configMaps, settings('x'));
    await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
    await sides.restart();
    sides.inShop(resources.configMaps, settings('y'));
    await sides.until(() => told(sides, 'y') !== undefined);
    expect(sides.inSuper(resources.configMaps, 'y')).toBeUndefined();
    sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'x' });
    await sides.until(() => sides.inSuper(resources.configMaps, 'y') !== undefined);
  });

  it('judges what makes an object grow, and still carries up what happens to it', async () => {
    await using sides = await startWith({ 'services.loadbalancers': '0' });
    const service = (type: string, more: object = {}): KubeObject => ({
      metadata: { name: 'web', ...more },
      spec: { type, clusterIP: '10.112.4.7', clusterIPs: ['10.112.4.7'], ports: [{ port: 80 }] },
    });
    sides.inShop(resources.services, service('ClusterIP'));
    await sides.until(() => sides.inSuper(resources.services, 'web') !== undefined);
    sides.inShop(resources.services, service('LoadBalancer'));
    await sides.until(() => told(sides, 'web') !== undefined);
    expect(sides.inSuper(resources.services, 'web')?.['spec']).toMatchObject({ type: 'ClusterIP' });
    sides.inShop(resources.services, service('ClusterIP', { labels: { again: 'yes' } }));
    await sides.until(() => sides.inSuper(resources.services, 'web')?.metadata.labels?.['again'] === 'yes');

    await using roomy = await startWith({ 'services.loadbalancers': '1' });
    const typeOf = (of: typeof sides): unknown =>
      (of.inSuper(resources.services, 'web')?.['spec'] as { type?: string } | undefined)?.type;
    roomy.inShop(resources.services, service('LoadBalancer'));
    await roomy.until(() => typeOf(roomy) === 'LoadBalancer');
  });

  it('lets a claim grow as far as there is storage left', async () => {
    await using sides = await startWith({ 'requests.storage': '3Gi' }, ({ super: { server } }) => {
      const labels = { [labelKeys.public]: 'true' };
      server.put(resources.storageClasses, { metadata: { name: 'fast', labels }, provisioner: 'p' });
    });
    const claim = (storage: string): KubeObject => ({
      metadata: { name: 'data' },
      spec: {
        storageClassName: 'fast',
        accessModes: ['ReadWriteOnce'],
        resources: { requests: { storage } },
      },
    });
    const size = (): unknown => {
      const spec = sides.inSuper(resources.persistentVolumeClaims, 'data')?.['spec'];
      return (spec as { resources?: { requests?: { storage?: string } } } | undefined)?.resources?.requests
        ?.storage;
    };
    sides.inShop(resources.persistentVolumeClaims, claim('1Gi'));
    await sides.until(() => size() === '1Gi');
    // Only a claim that has its volume grows.
    const bound = sides.inSuper(resources.persistentVolumeClaims, 'data') as KubeObject;
    const status = { phase: 'Bound', capacity: { storage: '1Gi' } };
    sides.super.server.put(resources.persistentVolumeClaims, { ...bound, status });
    sides.inShop(resources.persistentVolumeClaims, claim('5Gi'));
    await sides.until(() => told(sides, 'data') !== undefined);
    expect(told(sides, 'data')?.['message']).toBe(
      'exceeded quota, requested: requests.storage=4Gi, used: requests.storage=1Gi, limited: requests.storage=3Gi',
    );
    expect(size()).toBe('1Gi');
    sides.inShop(resources.persistentVolumeClaims, claim('3Gi'));
    await sides.until(() => size() === '3Gi');
  });

  describe('says so in a condition of what has conditions, until it goes through', () => {
    type Condition = { type: string; status: string; reason: string; message: string };
    const waits = (object: KubeObject | undefined): Condition | undefined =>
      ((object?.['status'] as { conditions?: Condition[] } | undefined)?.conditions ?? []).find(
        ({ type }) => type === 'skerry.dev/WithinQuota',
      );
    const statusWrites = (sides: TwoSides, plural: string): number =>
      sides.tenant.server.requests.filter(
        (request) =>
          request.verb === 'patch' && request.plural === plural && request.subresource === 'status',
      ).length;
    const service = (name: string, type = 'ClusterIP'): KubeObject => ({
      metadata: { name },
      spec: { type, clusterIP: 'None', ports: [{ port: 80 }] },
      status: { loadBalancer: {} },
    });

    it('of a Service that is one too many', async () => {
      await using sides = await startWith({ services: '1' });
      const own = (): KubeObject | undefined =>
        sides.tenant.server.get(resources.services, { namespace: 'shop', name: 'b' });
      sides.inShop(resources.services, service('a'));
      await sides.until(() => sides.inSuper(resources.services, 'a') !== undefined);
      sides.inShop(resources.services, service('b'));
      await sides.until(() => waits(own()) !== undefined);
      expect(waits(own())).toMatchObject({
        status: 'False',
        reason: 'QuotaExceeded',
        message: 'exceeded quota, requested: services=1, used: services=1, limited: services=1',
      });
      sides.tenant.server.remove(resources.services, { namespace: 'shop', name: 'a' });
      await sides.until(() => sides.inSuper(resources.services, 'b') !== undefined);
      await sides.until(() => waits(own()) === undefined);
      // One to say it, one to take it back.
      expect(statusWrites(sides, 'services')).toBe(2);
    });

    it('of a Service that would grow, and of one that would no longer', async () => {
      await using sides = await startWith({ 'services.loadbalancers': '0' });
      const ref = { namespace: 'shop', name: 'web' };
      const own = (): KubeObject => sides.tenant.server.get(resources.services, ref) as KubeObject;
      const become = (type: string): void => {
        const { status, metadata } = own();
        sides.tenant.server.put(resources.services, {
          ...own(),
          metadata,
          spec: service('web', type)['spec'],
          status,
        });
      };
      sides.inShop(resources.services, service('web'));
      await sides.until(() => sides.inSuper(resources.services, 'web') !== undefined);
      become('LoadBalancer');
      await sides.until(() => waits(own()) !== undefined);
      become('ClusterIP');
      await sides.until(() => waits(own()) === undefined);
      expect(sides.inSuper(resources.services, 'web')?.['spec']).toMatchObject({ type: 'ClusterIP' });
      expect(statusWrites(sides, 'services')).toBe(2);
    });

    it('of a namespace, and none of a ConfigMap, which has no place for it', async () => {
      await using sides = await startWith({ 'count/namespaces': '2', configmaps: '0' });
      const own = (): KubeObject | undefined =>
        sides.tenant.server.get(resources.namespaces, { name: 'more' });
      sides.inShop(resources.configMaps, settings('x'));
      await sides.until(() => told(sides, 'x') !== undefined);
      sides.tenant.server.put(resources.namespaces, { metadata: { name: 'more' } });
      await sides.until(() => waits(own()) !== undefined);
      sides.state.updateInfo({ ...sides.info, policy: { ...defaultPolicy, quota: {} } });
      await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
      await sides.until(() => waits(own()) === undefined);
      expect(statusWrites(sides, 'configmaps')).toBe(0);
    });
  });

  it('lets a pod be resized in place as far as there is room', async () => {
    await using sides = await startWith({ 'requests.cpu': '300m' }, account);
    const cpu = (): unknown => {
      const spec = sides.inSuper(resources.pods, 'web')?.['spec'];
      const { containers: [main] = [] } = (spec ?? {}) as {
        containers?: { resources?: { requests?: { cpu?: string } } }[];
      };
      return main?.resources?.requests?.cpu;
    };
    const made = sides.inShop(resources.pods, pod('web'));
    await sides.until(() => cpu() === '100m');
    const resized = (to: string): KubeObject => ({ ...made, spec: pod('web', to)['spec'] });
    sides.inShop(resources.pods, resized('500m'));
    await sides.until(() => told(sides, 'web') !== undefined);
    expect(cpu()).toBe('100m');
    sides.inShop(resources.pods, resized('300m'));
    await sides.until(() => cpu() === '300m');
  });

  it('holds back nothing that policy demands, though nothing is left of what it may write (sync rule `policy-over-holds`)', async () => {
    const policy = { ...defaultPolicy, quota: { 'writes.bytes-per-minute': '1' } };
    await using harness = await ReconcilerHarness.start({ tenant: { policy } });
    const quota = new QuotaAdmission({
      kinds: allKinds,
      superCaches: harness.superCaches,
      monotonicMs: () => 0,
      sleep: async () => undefined,
      wake: () => undefined,
    });
    quota.join(harness.state);
    const key = { kind: 'services', namespace: 'shop', name: 'web' };
    const tenantObject = { metadata: { namespace: 'shop', name: 'web', uid: 't1' } };
    const superObject = harness.superOf(tenantObject, { spec: { externalIPs: ['198.51.100.7'] } });
    const context = harness.state.context();
    const { signal } = new AbortController();
    const situation = { key, tenantObject, superObject, namespaceReady: true, context } as Situation;
    const work = { kind: serviceKind, situation, tenant: harness.state, signal, definition: undefined };
    const patch = { spec: { externalIPs: null } };
    const asked = async (more: { isDemanded?: true }) =>
      quota.gate(work, { do: 'patchSuper', patch, ...more });
    for (let i = 0; i < 3; i++) await asked({});
    expect(await asked({})).toMatchObject({ skip: true });
    expect(await asked({ isDemanded: true })).toMatchObject({ do: 'patchSuper', patch });
  });

  it('has what is made wait after many deletions, for a minute at most, and deletions never', async () => {
    const policy = { ...defaultPolicy, quota: { 'writes.bytes-per-minute': '64Mi' } };
    await using harness = await ReconcilerHarness.start({ tenant: { policy } });
    let nowMs = 0;
    const quota = new QuotaAdmission({
      kinds: allKinds,
      superCaches: harness.superCaches,
      monotonicMs: () => nowMs,
      sleep: async () => undefined,
      wake: () => undefined,
    });
    quota.join(harness.state);
    const { signal } = new AbortController();
    const context = harness.state.context();
    const workOf = (name: string): Work => {
      const key = { kind: 'services', namespace: 'shop', name };
      const tenantObject = { metadata: { namespace: 'shop', name, uid: name } };
      const situation = { key, tenantObject, namespaceReady: true, context } as Situation;
      return { kind: serviceKind, situation, tenant: harness.state, signal };
    };
    const created = async (name: string) =>
      quota.gate(workOf(name), { do: 'createSuper', object: { metadata: { name } } });
    const isDeleted = async (times: number): Promise<boolean> => {
      for (let i = 0; i < times; i += 1) {
        const granted = await quota.gate(workOf('old'), { do: 'deleteSuper' });
        if (!('do' in granted) || granted.do !== 'deleteSuper') return false;
      }
      return true;
    };
    // As many as a namespace has.
    expect(await isDeleted(500)).toBe(true);
    expect(await created('a')).toMatchObject({ do: 'createSuper' });
    expect(await isDeleted(20_000)).toBe(true);
    expect(await created('b')).toEqual({ is: 'later', afterMs: 60_000 });
    expect(await isDeleted(20_000)).toBe(true);
    nowMs = 59_000;
    expect(await created('b')).toMatchObject({ is: 'later' });
    nowMs = 60_001;
    expect(await created('b')).toMatchObject({ do: 'createSuper' });
  });

  it('makes a loop of large writes wait, and not another tenant', async () => {
    await using sides = await startWith({ 'writes.bytes-per-minute': '20k' });
    const other = await sides.add({
      ...sides.info,
      uid: 'u2',
      id: 'other',
      name: 'red',
      policy: defaultPolicy,
    });
    for (let i = 0; i < 10; i += 1)
      sides.inShop(resources.configMaps, settings(`x${i}`, { a: 'x'.repeat(9_000) }));
    await sides.until(() =>
      sides.tenant.server.list(resources.events).some(({ reason }) => reason === 'QuotaExceeded'),
    );
    expect(sides.super.server.list(resources.configMaps).length).toBeLessThanOrEqual(3);
    other.inShop(resources.configMaps, settings('mine', { a: 'x'.repeat(100_000) }));
    const theirs = { namespace: other.superNamespace('shop'), name: 'mine' };
    await sides.until(() => sides.super.server.get(resources.configMaps, theirs) !== undefined);
    expect(sides.super.server.list(resources.configMaps).length).toBeLessThanOrEqual(4);
  });

  it('does not read again what a loop changes until that is made up for', async () => {
    await using sides = await startWith({ 'writes.bytes-per-minute': '4Mi' });
    const reads = (): number =>
      sides.tenant.server.requests.filter(({ verb, plural }) => verb === 'get' && plural === 'configmaps')
        .length;
    sides.inShop(resources.configMaps, settings('after'));
    await sides.until(() => sides.inSuper(resources.configMaps, 'after') !== undefined);
    sides.inShop(resources.configMaps, settings('x', { a: 'first' }));
    await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
    sides.inShop(resources.configMaps, settings('x', { a: 'x'.repeat(3_000_000) }));
    await sides.until(() => JSON.stringify(sides.inSuper(resources.configMaps, 'x')).length > 3_000_000);
    sides.tenant.server.requests.length = 0;
    for (let i = 0; i < 20; i += 1) sides.inShop(resources.configMaps, settings('x', { a: `${i}` }));
    // The watch shows it after all of these changes, and a deletion never waits.
    sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'after' });
    await sides.until(() => sides.inSuper(resources.configMaps, 'after') === undefined);
    expect(reads()).toBe(0);
  });

  it('knows the size of a copy that the watch shows without its payload', async () => {
    await using sides = await startWith({ 'objects.bytes': '100k' });
    const used = (): number =>
      [...sides.engine.quotaOf(sides.info.uid)].find(({ resource }) => resource === 'objects.bytes')?.used ??
      0;
    const cache = sides.superCaches.store(resources.configMaps);
    const tooLittle: number[] = [];
    cache.subscribe(() => {
      if (used() < JSON.stringify(sides.inSuper(resources.configMaps, 'x') ?? '').length - 200)
        tooLittle.push(used());
    });
    for (const size of [10, 50_000, 20_000]) {
      const data = { a: 'x'.repeat(size) };
      sides.inShop(resources.configMaps, settings('x', data));
      await sides.until(() => isDeepStrictEqual(sides.inSuper(resources.configMaps, 'x')?.['data'], data));
      sides.inShop(resources.configMaps, settings(`after-${size}`));
      await sides.until(() => sides.inSuper(resources.configMaps, `after-${size}`) !== undefined);
      const shown = cache.get({ namespace: sides.shop, name: 'x' });
      expect(used()).toBeGreaterThan(size);
      expect(used()).toBeLessThan(size + 5_000);
      expect(JSON.stringify(shown).length).toBeLessThan(5_000);
    }
    expect(tooLittle).toEqual([]);
    sides.inShop(resources.configMaps, settings('y', { a: 'y'.repeat(90_000) }));
    await sides.until(() => told(sides, 'y') !== undefined);
  });

  it('does not read again and again what its quota has no room for', async () => {
    await using sides = await startWith({ 'writes.bytes-per-minute': '4Mi', configmaps: '1' });
    sides.inShop(resources.configMaps, settings('first'));
    await sides.until(() => sides.inSuper(resources.configMaps, 'first') !== undefined);
    sides.inShop(resources.configMaps, settings('x', { a: 'x'.repeat(3_000_000) }));
    await sides.until(() => told(sides, 'x') !== undefined);
    sides.tenant.server.requests.length = 0;
    sides.inShop(resources.configMaps, settings('x', { a: 'y' }));
    sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'first' });
    await sides.until(() => sides.inSuper(resources.configMaps, 'first') === undefined);
    const reads = sides.tenant.server.requests.filter(
      ({ verb, plural }) => verb === 'get' && plural === 'configmaps',
    );
    expect(reads).toEqual([]);
  });

  it('keeps the place of one that has room and has to wait for bytes', async () => {
    await using sides = await startWith({ configmaps: '1' });
    sides.inShop(resources.configMaps, settings('first'));
    await sides.until(() => sides.inSuper(resources.configMaps, 'first') !== undefined);
    for (const name of ['second', 'third']) {
      sides.inShop(resources.configMaps, settings(name));
      await sides.until(() => told(sides, name) !== undefined);
    }
    const limit = (quota: Quota): void =>
      sides.state.updateInfo({ ...sides.info, policy: { ...defaultPolicy, quota } });
    const waitsForBytes = (name: string): boolean =>
      sides.tenant.server
        .list(resources.events)
        .some(
          (event) =>
            (event['involvedObject'] as { name?: string }).name === name &&
            String(event['message']).includes('writes.bytes-per-minute'),
        );
    limit({ configmaps: '1', 'writes.bytes-per-minute': '0' });
    sides.tenant.server.remove(resources.configMaps, { namespace: 'shop', name: 'first' });
    await sides.until(() => waitsForBytes('second'));
    // Looks at the third one again, which has no room although nothing is in the super cluster.
    sides.inShop(resources.configMaps, settings('third', { a: '2' }));
    await sides.until(() => waitsForBytes('third'));
    limit({ configmaps: '1' });
    sides.inShop(resources.configMaps, settings('third', { a: '3' }));
    sides.inShop(resources.configMaps, settings('second', { a: '2' }));
    await sides.until(() => sides.inSuper(resources.configMaps, 'second') !== undefined);
    expect(sides.inSuper(resources.configMaps, 'third')).toBeUndefined();
  });

  it('reads by the limit that holds now', async () => {
    await using sides = await startWith({ 'writes.bytes-per-minute': '8Mi' });
    sides.inShop(resources.configMaps, settings('first'));
    await sides.until(() => sides.inSuper(resources.configMaps, 'first') !== undefined);
    const limit = (quota: Quota): void =>
      sides.state.updateInfo({ ...sides.info, policy: { ...defaultPolicy, quota } });
    limit({ 'writes.bytes-per-minute': '0' });
    sides.inShop(resources.configMaps, settings('x'));
    await sides.until(() => told(sides, 'x') !== undefined);
    limit({});
    sides.inShop(resources.configMaps, settings('x', { a: '2' }));
    await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
  });

  it('has new namespaces wait for what the super cluster makes in them', async () => {
    await using sides = await startWith({ 'writes.bytes-per-minute': '8Mi' });
    for (let i = 0; i < 30; i += 1)
      sides.tenant.server.put(resources.namespaces, { metadata: { name: `n${i}` } });
    const told = (): KubeObject[] =>
      sides.tenant.server.list(resources.events).filter(({ reason }) => reason === 'QuotaExceeded');
    await sides.until(() => told().length > 0);
    // Two of the suite, and the one that took more than was left.
    expect(sides.super.server.list(resources.namespaces).length).toBeLessThanOrEqual(3);
    sides.inShop(resources.configMaps, settings('x'));
    await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
  });

  it('lets in what a raised quota has room for, when its usage is read first as well', async () => {
    await using sides = await startWith({ configmaps: '0' });
    sides.inShop(resources.configMaps, settings('x'));
    await sides.until(() => told(sides, 'x') !== undefined);
    sides.state.updateInfo({ ...sides.info, policy: { ...defaultPolicy, quota: { configmaps: '1' } } });
    const [usage] = sides.engine.quotaOf(sides.info.uid);
    expect(usage).toEqual({ resource: 'configmaps', used: 0, limit: 1, quantity: '0' });
    await sides.until(() => sides.inSuper(resources.configMaps, 'x') !== undefined);
  });

  it('counts what is reserved and stored, whether that is limited or not', async () => {
    await using sides = await startWith({ 'requests.cpu': '4' }, (before) => {
      account(before);
      const labels = { [labelKeys.public]: 'true' };
      const fast = { metadata: { name: 'fast', labels }, provisioner: 'p' };
      before.super.server.put(resources.storageClasses, fast);
    });
    sides.inShop(resources.pods, pod('a', '300m'));
    sides.inShop(resources.persistentVolumeClaims, {
      metadata: { name: 'data' },
      spec: {
        storageClassName: 'fast',
        accessModes: ['ReadWriteOnce'],
        resources: { requests: { storage: '3Gi' } },
      },
    });
    await sides.until(
      () =>
        sides.inSuper(resources.pods, 'a') !== undefined &&
        sides.inSuper(resources.persistentVolumeClaims, 'data') !== undefined,
    );
    expect(sides.engine.usedBy(sides.info.uid)).toEqual({
      pods: '1',
      'requests.cpu': '300m',
      'requests.memory': '0',
      'requests.storage': expect.stringMatching(/^(3Gi|3221225472)$/),
    });
    expect([...sides.engine.quotas()].map(({ resource }) => resource)).toEqual(['requests.cpu']);
  });
});
