import { describe, expect, it } from 'vitest';
import { defaultEffectivePolicy } from '../../api/default-policy.ts';
import type { EffectivePolicy } from '../../api/policy.ts';
import { type KubeObject, type Resource, resources } from '../../kube/index.ts';
import { fastClock } from '../../kube/testing/fast-clock.ts';
import type { SyncContext } from '../context.ts';
import type { DownKind } from '../kinds/contract.ts';
import { endpointSliceKind } from '../kinds/endpoint-slices.ts';
import { ingressKind } from '../kinds/ingresses.ts';
import { namespaceKind } from '../kinds/namespaces.ts';
import { podKind } from '../kinds/pods/pods.ts';
import { allKinds } from '../kinds/registry.ts';
import { serviceKind } from '../kinds/services/services.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { Caches } from '../reconcile/caches.ts';
import { TenantState } from '../reconcile/tenant-state.ts';
import type { TenantFilter } from './directory.ts';
import { tenantInfo } from './tenant-info.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

const policy = { ...defaultEffectivePolicy, ingressHosts: ['*.blue.example'], externalIPs: true };
const podIP = '10.244.1.7';
const classMetadata = { name: 'nginx', labels: { 'skerry.dev/public': 'true' } };
const web = { namespace: 'shop', name: 'web' };
const ingressSpec = (host: string) => ({ ingressClassName: 'nginx', rules: [{ host }] });

/** What is made from objects of a tenant of which the syncer knows nothing else. */
function contextOf(world: DirectoryWorld, name: string): SyncContext {
  const info = tenantInfo(world.vc(name), world.settings);
  const { client } = world.super;
  const caches = new Caches(allKinds, 'tenant');
  const superCaches = new Caches(allKinds, 'super');
  const options = { info, client, caches, superCaches, identity: undefined, nowMs: () => 0 };
  return new TenantState(options).context();
}

/** An Ingress of a tenant in the super cluster. */
function put(world: DirectoryWorld, of: string, name: string, host: string): void {
  const own = { metadata: { namespace: 'shop', name, uid: `i-${name}` }, spec: ingressSpec(host) };
  world.super.server.put(resources.ingresses, ingressKind.toSuper(own, contextOf(world, of)));
}

/** What an earlier syncer has made for a tenant: allowed all of it, but for the Ingress `bank`. */
function fill(world: DirectoryWorld, name: string): void {
  const context = contextOf(world, name);
  const make = (kind: DownKind, own: KubeObject, parts: object = {}): void =>
    void world.super.server.put(kind.resource, { ...kind.toSuper(own, context), ...parts } as KubeObject);
  make(namespaceKind, { metadata: { name: 'shop', uid: `n-${name}` } });
  put(world, name, 'web', 'a.blue.example');
  put(world, name, 'bank', 'bank.example');
  make(serviceKind, {
    metadata: { ...web, uid: 's1' },
    spec: { type: 'ClusterIP', ports: [{ port: 80 }], externalIPs: ['198.51.100.7'] },
  });
  const slice = { metadata: { ...web, uid: 'e1' }, addressType: 'IPv4', endpoints: [], ports: [] };
  make(endpointSliceKind, slice, { endpoints: [{ addresses: [podIP] }] });
  const containers = [{ name: 'main', image: 'busybox' }];
  const status = { phase: 'Running', podIP, podIPs: [{ ip: podIP }] };
  make(podKind, { metadata: { ...web, uid: 'p1' }, spec: { containers } }, { status });
}

interface NotJoined {
  readonly status?: object;
  readonly prepare?: (world: DirectoryWorld) => void;
}

interface Start extends NotJoined {
  readonly names?: readonly string[];
  readonly gate?: TenantFilter;
}

async function start({ status, prepare, names = ['blue'], gate }: Start): Promise<DirectoryWorld> {
  return DirectoryWorld.start(
    async (world) => {
      world.super.server.put(resources.ingressClasses, {
        metadata: classMetadata,
        spec: { controller: 'x' },
      });
      for (const name of names) {
        await world.make(name, { status: { policy, ...(name === 'blue' && status) } });
        fill(world, name);
      }
      prepare?.(world);
    },
    { clock: fastClock(100), ...(gate && { gate }) },
  );
}

function inSuper(
  world: DirectoryWorld,
  resource: Resource,
  name = 'web',
  of = 'blue',
): KubeObject | undefined {
  const namespace = superNamespaceName(tenantInfo(world.vc(of), world.settings), 'shop');
  return world.super.server.get(resource, { namespace, name });
}

const externalIPs = (world: DirectoryWorld): unknown =>
  (inSuper(world, resources.services)?.['spec'] as { externalIPs?: string[] } | undefined)?.externalIPs;

const endpoints = (world: DirectoryWorld): unknown => inSuper(world, resources.endpointSlices)?.['endpoints'];

function allow(world: DirectoryWorld, change: Partial<EffectivePolicy>, name = 'blue'): void {
  world.change(name, (vc) => ({ ...vc, status: { ...vc.status, policy: { ...policy, ...change } } }));
}

/** Shows that a tenant has been looked at. */
const bankIsGone = (world: DirectoryWorld, of = 'blue'): Promise<void> =>
  world.super.server.until(() => inSuper(world, resources.ingresses, 'bank', of) === undefined);

const always = Number.POSITIVE_INFINITY;

const notJoined: Readonly<Record<string, NotJoined>> = {
  'is asleep': { status: { phase: 'Asleep' } },
  'is put back to a snapshot': { status: { phase: 'Restoring', restore: { request: 'one', from: 'x' } } },
  'is stopped, to be moved': { status: { phase: 'Moving', move: { pausedAt: '2030-01-01T00:00:00Z' } } },
  'has an API server that does not end one list': {
    prepare: (world) => {
      for (const verb of ['list', 'watch'] as const)
        world
          .tenantOf('blue')
          .server.inject({ verb, plural: 'configmaps', times: always, fault: { kind: 'hang' } });
    },
  },
  'has an API server that says that it is another one': {
    prepare: (world) => {
      const { server } = world.tenantOf('blue');
      server.remove(resources.namespaces, { name: 'kube-system' });
      server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'another' } });
    },
  },
  'takes more memory than it may': {
    prepare: (world) => {
      world.settings = { ...world.settings, tenantCacheMiB: 1 };
      for (const name of ['a', 'b', 'c', 'd'])
        world.tenantOf('blue').server.put(resources.namespaces, {
          metadata: { name, annotations: { note: 'x'.repeat(500_000) } },
        });
    },
  },
  'has no credentials for the syncer': {
    prepare: (world) =>
      void world.super.server.remove(resources.secrets, { namespace: 'skerry-system', name: 'blue-syncer' }),
  },
};

describe('a tenant that has not joined (sync rule `policy-over-holds`)', () => {
  it.each(Object.entries(notJoined))(
    'and %s loses what policy allows no more, the addresses of pods that are gone, and nothing else',
    async (_, way) => {
      await using world = await start(way);
      await bankIsGone(world);
      expect(inSuper(world, resources.ingresses)).toBeDefined();
      expect(externalIPs(world)).toEqual(['198.51.100.7']);
      expect(endpoints(world)).toHaveLength(1);

      allow(world, { ingressHosts: ['*.green.example'], externalIPs: false });
      await world.super.server.until(
        () => inSuper(world, resources.ingresses) === undefined && externalIPs(world) === undefined,
      );
      expect(endpoints(world)).toHaveLength(1);
      const { namespace = '', name = '' } = inSuper(world, resources.pods)?.metadata ?? {};
      world.super.server.remove(resources.pods, { namespace, name });
      await world.super.server.until(() => (endpoints(world) as unknown[]).length === 0);

      const left = [resources.namespaces, resources.services, resources.endpointSlices].map(
        (resource) => world.objectsOf('blue', resource).length,
      );
      expect(left).toEqual([1, 1, 1]);
      expect(world.condition('blue', 'Synced')?.reason).not.toBe('Joined');
      if (way.prepare === undefined) expect(world.tenantOf('blue').server.requests).toEqual([]);
    },
  );

  it('has an address taken out of a slice when its pod has ended or has another one', async () => {
    await using world = await start({ status: { phase: 'Asleep' } });
    const { server } = world.super;
    const change = (status: object): void => {
      const pod = inSuper(world, resources.pods) as KubeObject;
      server.put(resources.pods, { ...pod, status });
    };
    await bankIsGone(world);
    change({ phase: 'Running', podIP, podIPs: [{ ip: podIP }], message: 'well' });
    change({ phase: 'Running', podIP: '10.244.1.8', podIPs: [{ ip: '10.244.1.8' }] });
    await server.until(() => (endpoints(world) as unknown[]).length === 0);
    const slice = inSuper(world, resources.endpointSlices) as KubeObject;
    server.put(resources.endpointSlices, { ...slice, endpoints: [{ addresses: ['10.244.1.8'] }] });
    change({ phase: 'Failed', podIP: '10.244.1.8', podIPs: [{ ip: '10.244.1.8' }] });
    await server.until(() => (endpoints(world) as unknown[]).length === 0);
  });

  it('loses an Ingress whose class is offered no more', async () => {
    await using world = await start({ status: { phase: 'Asleep' } });
    await bankIsGone(world);
    world.super.server.put(resources.ingressClasses, {
      metadata: { name: 'nginx' },
      spec: { controller: 'x' },
    });
    await world.super.server.until(() => inSuper(world, resources.ingresses) === undefined);
  });

  it('loses a pod that waits for a node and that its policy refuses now, and keeps those that are bound or allowed', async () => {
    await using world = await start({ status: { phase: 'Asleep' } });
    await bankIsGone(world);
    const { server } = world.super;
    const pod = (name: string, spec: object): void => {
      const own = { metadata: { namespace: 'shop', name, uid: `p-${name}` }, spec };
      const made = podKind.toSuper(own, contextOf(world, 'blue'));
      server.put(resources.pods, { ...made, spec } as KubeObject);
    };
    const nobody = { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } };
    const closed = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
    const main = { name: 'main', image: 'busybox' };
    pod('waiting', { containers: [main] });
    pod('bound', { containers: [main], nodeName: 'n1' });
    pod('allowed', { containers: [{ ...main, securityContext: closed }], securityContext: nobody });
    put(world, 'blue', 'bank', 'bank.example');
    await bankIsGone(world);
    expect(inSuper(world, resources.pods, 'waiting')).toBeDefined();
    allow(world, { podSecurity: 'restricted' });
    await server.until(() => inSuper(world, resources.pods, 'waiting') === undefined);
    put(world, 'blue', 'bank', 'bank.example');
    await bankIsGone(world);
    expect(inSuper(world, resources.pods, 'bound')).toBeDefined();
    expect(inSuper(world, resources.pods, 'allowed')).toBeDefined();
    expect(world.tenantOf('blue').server.requests).toEqual([]);
  });

  it('loses a pod that waits for a node with an image that its policy refuses now, also where a webhook has put a mirror in its place', async () => {
    await using world = await start({ status: { phase: 'Asleep' } });
    await bankIsGone(world);
    const { server } = world.super;
    const pod = (name: string, image: string): void => {
      const spec = { containers: [{ name: 'main', image }] };
      const own = { metadata: { namespace: 'shop', name, uid: `p-${name}` }, spec };
      const made = podKind.toSuper(own, contextOf(world, 'blue'));
      const mirrored = { containers: [{ name: 'main', image: `mirror.example/${name}` }] };
      server.put(resources.pods, { ...made, spec: mirrored } as KubeObject);
    };
    pod('evil', 'evil.example/evil:1');
    pod('good', 'good.example/good:1');
    allow(world, { imageRegistries: ['good.example', 'evil.example'] });
    put(world, 'blue', 'bank', 'bank.example');
    await bankIsGone(world);
    expect(inSuper(world, resources.pods, 'evil')).toBeDefined();
    allow(world, { imageRegistries: ['good.example'] });
    await server.until(() => inSuper(world, resources.pods, 'evil') === undefined);
    put(world, 'blue', 'bank', 'bank.example');
    await bankIsGone(world);
    expect(inSuper(world, resources.pods, 'good')).toBeDefined();
  });

  it('loses what comes back to the super cluster, as with a backup', async () => {
    await using world = await start({ status: { phase: 'Asleep' } });
    await bankIsGone(world);
    put(world, 'blue', 'bank', 'bank.example');
    await bankIsGone(world);
  });

  it('is kept apart from other tenants by what is known of nodes and API servers now', async () => {
    const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['192.0.2.10/32'] };
    await using world = await start({
      status: { phase: 'Asleep' },
      prepare: (before) => {
        before.settings = { ...before.settings, isolation };
      },
    });
    const policies = (): string => JSON.stringify(world.objectsOf('blue', resources.networkPolicies));
    await world.super.server.until(() => world.objectsOf('blue', resources.networkPolicies).length === 2);
    expect(policies()).toContain('192.0.2.10/32');
    const closedCIDRs = ['192.0.2.10/32', '192.0.2.11/32'];
    world.settings = { ...world.settings, isolation: { ...isolation, closedCIDRs } };
    world.directory.reconsider();
    await world.super.server.until(() => policies().includes('192.0.2.11/32'));
    const [first] = world.objectsOf('blue', resources.networkPolicies);
    const { namespace = '', name = '' } = first?.metadata ?? {};
    world.super.server.remove(resources.networkPolicies, { namespace, name });
    await world.super.server.until(() => world.objectsOf('blue', resources.networkPolicies).length === 2);
  });

  it('has all again that its policy allows when it joins, and is held to it again when it falls asleep', async () => {
    await using world = await start({ status: { phase: 'Asleep' } });
    allow(world, { ingressHosts: [] });
    await world.super.server.until(() => inSuper(world, resources.ingresses) === undefined);
    const { server } = world.tenantOf('blue');
    server.put(resources.namespaces, { metadata: { name: 'shop', uid: 'n-blue' } });
    server.put(resources.ingresses, {
      metadata: { ...web, uid: 'i-web' },
      spec: ingressSpec('a.blue.example'),
    });
    world.change('blue', (vc) => ({
      ...vc,
      spec: { sync: { ingresses: true } },
      status: { ...vc.status, policy, phase: 'Ready' },
    }));
    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.super.server.until(() => inSuper(world, resources.ingresses) !== undefined);

    world.change('blue', (vc) => ({ ...vc, status: { ...vc.status, phase: 'Asleep' } }));
    await world.says('blue', 'Synced', 'False', 'Left');
    const asked = server.requests.length;
    world.change('blue', (vc) => ({
      ...vc,
      status: { ...vc.status, policy: { ...policy, ingressHosts: [] } },
    }));
    await world.super.server.until(() => inSuper(world, resources.ingresses) === undefined);
    expect(server.requests.length).toBe(asked);
  });

  it.each<[string, object]>([
    ['that is on its way out', { phase: 'Deleting' }],
    ['of another super cluster', { phase: 'Asleep', identities: { tenant: 'x', superCluster: 'another' } }],
  ])('is left alone: one %s', async (_, status) => {
    await using world = await start({ status, names: ['blue', 'green'] });
    await bankIsGone(world, 'green');
    expect(inSuper(world, resources.ingresses, 'bank')).toBeDefined();
  });

  it('loses nothing as long as it is not known where the super cluster itself is', async () => {
    const protectedCIDRs = ['0.0.0.0/0'];
    await using world = await start({
      status: { phase: 'Asleep', policy: { ...policy, endpointCIDRs: ['203.0.113.0/24'] } },
      names: ['blue', 'green'],
      prepare: (before) => {
        before.settings = { ...before.settings, protectedCIDRs, isSuperClusterUnknown: true };
        const slice = inSuper(before, resources.endpointSlices) as KubeObject;
        const outside = { addresses: ['203.0.113.9'] };
        before.super.server.put(resources.endpointSlices, { ...slice, endpoints: [outside] });
      },
    });
    const { server } = world.super;
    const { isSuperClusterUnknown: _, ...known } = { ...world.settings, protectedCIDRs: [] };
    await world.says('green', 'Synced', 'True', 'Joined');
    await bankIsGone(world, 'green');
    expect(inSuper(world, resources.ingresses, 'bank')).toBeDefined();
    world.settings = known;
    world.directory.reconsider();
    await bankIsGone(world);
    expect(endpoints(world)).toEqual([{ addresses: ['203.0.113.9'] }]);
    world.settings = { ...known, protectedCIDRs };
    world.directory.reconsider();
    await server.until(() => (endpoints(world) as unknown[]).length === 0);
  });

  it("is held to policy by the replica whose it is, as soon as it is that one's", async () => {
    let all = false;
    const listeners: (() => Promise<void>)[] = [];
    const gate: TenantFilter = {
      seesAll: true,
      serves: ({ metadata }) => all || metadata.name === 'green',
      see: () => undefined,
      subscribe: (listener) => {
        listeners.push(listener);
        return () => undefined;
      },
    };
    const change = async (to: boolean): Promise<void> => {
      all = to;
      await Promise.all(listeners.map((listener) => listener()));
    };
    await using world = await start({ status: { phase: 'Asleep' }, names: ['blue', 'green'], gate });
    await bankIsGone(world, 'green');
    expect(inSuper(world, resources.ingresses, 'bank')).toBeDefined();
    await change(true);
    await bankIsGone(world);
    await change(false);
    for (const name of ['blue', 'green']) put(world, name, 'bank', 'bank.example');
    await bankIsGone(world, 'green');
    expect(inSuper(world, resources.ingresses, 'bank')).toBeDefined();
  });
});

describe('a tenant that has joined, and whose API server does not answer any more (sync rule `policy-over-holds`)', () => {
  it('loses what the super cluster does not offer any more', async () => {
    await using world = await start({
      prepare: (before) => {
        before.change('blue', (vc) => ({ ...vc, spec: { sync: { ingresses: true } } }));
        const { server } = before.tenantOf('blue');
        server.put(resources.namespaces, { metadata: { name: 'shop', uid: 'n-blue' } });
        const spec = ingressSpec('a.blue.example');
        server.put(resources.ingresses, { metadata: { ...web, uid: 'i-web' }, spec });
      },
    });
    await world.says('blue', 'Synced', 'True', 'Joined');
    const fault = { kind: 'status', code: 500 } as const;
    world.tenantOf('blue').server.inject({ times: always, fault });
    await world.says('blue', 'Synced', 'False', 'Unreachable');
    expect(inSuper(world, resources.ingresses)).toBeDefined();
    world.super.server.put(resources.ingressClasses, {
      metadata: { name: 'nginx' },
      spec: { controller: 'x' },
    });
    await world.super.server.until(() => inSuper(world, resources.ingresses) === undefined);
  });
});
