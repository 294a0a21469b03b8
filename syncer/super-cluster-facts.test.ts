import { describe, expect, it, vi } from 'vitest';
import { resources } from '../kube/index.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from '../kube/testing/index.ts';
import {
  findSuperClusterFacts,
  followSuperClusterFacts,
  networkPoliciesAreEnforced,
  protectedRanges,
  type SuperClusterFacts,
} from './super-cluster-facts.ts';

const { signal } = new AbortController();

describe('where the super cluster itself is (sync rule `endpoint-slices`)', () => {
  it('is whom we talk to, what its default/kubernetes leads to, and the ranges of its Services', async () => {
    await using cluster = await startFakeCluster();
    const slice = (name: string, service: string, address: string) => ({
      metadata: { namespace: 'default', name, labels: { 'kubernetes.io/service-name': service } },
      endpoints: [{ addresses: [address] }],
    });
    cluster.server.put(resources.endpointSlices, slice('kubernetes', 'kubernetes', '192.0.2.1'));
    cluster.server.put(resources.endpointSlices, slice('kubernetes-6', 'kubernetes', '2001:db8::1'));
    cluster.server.put(resources.endpointSlices, slice('web', 'web', '192.0.2.99'));
    cluster.server.put(resources.serviceCidrs, {
      metadata: { name: 'kubernetes' },
      spec: { cidrs: ['10.96.0.0/16', 'fd00:96::/112'] },
    });
    const ranges = await protectedRanges(cluster.client, signal);
    expect(ranges.toSorted()).toEqual(
      ['10.96.0.0/16', '127.0.0.1/32', '192.0.2.1/32', '2001:db8::1/128', 'fd00:96::/112'].toSorted(),
    );
  });

  it('is told without ServiceCIDRs where there are none', async () => {
    await using cluster = await startFakeCluster();
    const fault = { kind: 'status', code: 404, reason: 'NotFound' } as const;
    cluster.server.inject({ verb: 'list', plural: 'servicecidrs', fault });
    expect(await protectedRanges(cluster.client, signal)).toEqual(['127.0.0.1/32']);
  });
});

const cidr = (name: string, range: string) => ({ metadata: { name }, spec: { cidrs: [range] } });

function around(cluster: FakeCluster) {
  const warnings: string[] = [];
  const options = {
    options: {
      networkPolicies: 'enforced',
      protectedCIDRs: ['192.0.2.0/24'],
      isolateTenants: false,
      podCIDRs: [],
    },
    nodes: () => [],
    superClient: cluster.client,
    clock: new FakeClock({ autoAdvance: true }),
    logger: { info: () => undefined, warn: (_fields: unknown, message: string) => warnings.push(message) },
  } as unknown as Parameters<typeof findSuperClusterFacts>[0];
  return { options, warnings };
}

describe('what pods of tenants are kept from (sync rule `tenant-isolation`)', () => {
  const node = (address: string, ...podCIDRs: string[]) => ({
    metadata: { name: address },
    spec: { podCIDRs },
    status: {
      addresses: [
        { type: 'InternalIP', address },
        { type: 'Hostname', address: 'node' },
      ],
    },
  });

  async function isolationOf(nodes: ReturnType<typeof node>[], changed: object = {}) {
    await using cluster = await startFakeCluster();
    const { options } = around(cluster);
    const isolated = { ...options.options, isolateTenants: true, ...changed };
    const found = await findSuperClusterFacts({ ...options, options: isolated, nodes: () => nodes }, signal);
    return found.isolation;
  }

  it('is nodes, API servers and what the operator protects; pods are where nodes say', async () => {
    const nodes = [node('198.51.100.1', '10.244.0.0/24', 'fd00::/64'), node('198.51.100.2', '10.244.3.0/24')];
    expect(await isolationOf(nodes)).toEqual({
      podCIDRs: ['10.244.0.0/22', 'fd00::/64'],
      closedCIDRs: ['127.0.0.1/32', '192.0.2.0/24', '198.51.100.1/32', '198.51.100.2/32'],
    });
  });

  it('says each range where one for all would be too wide, and those of the operator alone where given', async () => {
    const nodes = [node('198.51.100.1', '10.0.0.0/24'), node('198.51.100.2', '10.200.0.0/24')];
    expect((await isolationOf(nodes))?.podCIDRs).toEqual(['10.0.0.0/24', '10.200.0.0/24']);
    const given = { podCIDRs: ['10.128.0.0/14'] };
    expect((await isolationOf(nodes, given))?.podCIDRs).toEqual(['10.128.0.0/14']);
    expect((await isolationOf([node('198.51.100.1', 'nonsense')]))?.podCIDRs).toEqual([]);
  });

  it('is nothing where nothing enforces policies, or the operator wants none', async () => {
    expect(await isolationOf([], { networkPolicies: 'unenforced' })).toBeUndefined();
    expect(await isolationOf([], { isolateTenants: false })).toBeUndefined();
  });
});

describe('what the syncer knows of the super cluster', () => {
  it('is as bad as it can be while it cannot be found out, and what it was when it cannot any more', async () => {
    await using cluster = await startFakeCluster();
    const { options, warnings } = around(cluster);
    const fault = { kind: 'status', code: 500 } as const;
    const mended = cluster.server.inject({ verb: 'list', plural: 'servicecidrs', fault, times: Infinity });
    const unknown = await findSuperClusterFacts(options, signal);
    expect(unknown.protectedCIDRs).toEqual(['0.0.0.0/0', '::/0']);
    expect(unknown.isSuperClusterUnknown).toBe(true);
    expect(warnings).toHaveLength(1);
    expect((await findSuperClusterFacts(options, signal, unknown)).isSuperClusterUnknown).toBe(true);
    const before = { networkPoliciesEnforced: true, protectedCIDRs: ['10.96.0.0/16'] };
    expect(await findSuperClusterFacts(options, signal, before)).toEqual(before);
    mended();
    cluster.server.put(resources.serviceCidrs, cidr('kubernetes', '10.96.0.0/16'));
    const found = await findSuperClusterFacts(options, signal, unknown);
    expect(found.protectedCIDRs).toEqual(['192.0.2.0/24', '10.96.0.0/16', '127.0.0.1/32']);
    expect(found).not.toHaveProperty('isSuperClusterUnknown');
  });

  it('is not known as long as any of it has never been found out', async () => {
    await using cluster = await startFakeCluster();
    const { options } = around(cluster);
    const fault = { kind: 'status', code: 500 } as const;
    const mended = cluster.server.inject({ verb: 'list', plural: 'endpointslices', fault, times: 2 });
    expect(await findSuperClusterFacts(options, signal)).toMatchObject({ isSuperClusterUnknown: true });
    mended();
    const policiesUnknown = { ...options, options: { ...options.options, networkPolicies: 'auto' as const } };
    const raw = vi.spyOn(cluster.client, 'raw').mockRejectedValueOnce(new Error('no answer'));
    expect(await findSuperClusterFacts(policiesUnknown, signal)).toMatchObject({
      networkPoliciesEnforced: false,
      isSuperClusterUnknown: true,
    });
    raw.mockRestore();
  });

  it('is not whether anything isolates tenants until that was found out once', async () => {
    await using cluster = await startFakeCluster();
    const { options, warnings } = around(cluster);
    const with_ = (changed: object) => ({ ...options, options: { ...options.options, ...changed } });
    const isolated = with_({ networkPolicies: 'auto', isolateTenants: true });
    const raw = vi.spyOn(cluster.client, 'raw').mockRejectedValue(new Error('no answer'));
    const unknown = await findSuperClusterFacts(isolated, signal);
    expect(unknown).toMatchObject({
      networkPoliciesEnforced: false,
      isSuperClusterUnknown: true,
      isIsolationUnknown: true,
      isolation: { closedCIDRs: ['127.0.0.1/32', '192.0.2.0/24'] },
    });
    expect(warnings).toEqual([expect.stringContaining('no pods')]);
    expect(await findSuperClusterFacts(isolated, signal, unknown)).toEqual(unknown);
    const shared = await findSuperClusterFacts(with_({ networkPolicies: 'auto' }), signal);
    expect(shared).not.toHaveProperty('isIsolationUnknown');

    raw.mockResolvedValue({ groups: [] });
    const unenforced = await findSuperClusterFacts(isolated, signal, unknown);
    expect(Object.keys(unenforced).sort()).toEqual(['networkPoliciesEnforced', 'protectedCIDRs']);
    raw.mockRejectedValue(new Error('no answer'));
    expect(await findSuperClusterFacts(isolated, signal, unenforced)).toEqual(unenforced);
    raw.mockResolvedValue({ groups: [{ name: 'cilium.io' }] });
    expect(await findSuperClusterFacts(isolated, signal, unknown)).toMatchObject({
      networkPoliciesEnforced: true,
      isolation: { closedCIDRs: ['127.0.0.1/32', '192.0.2.0/24'] },
    });
    raw.mockRestore();
  });

  it('is looked at again soon as long as not all of it is known', async () => {
    await using cluster = await startFakeCluster();
    const { options } = around(cluster);
    const clock = new FakeClock({ autoAdvance: true });
    const ending = new AbortController();
    const fault = { kind: 'status', code: 500 } as const;
    cluster.server.inject({ verb: 'list', plural: 'servicecidrs', fault, times: 3 });
    const first = await findSuperClusterFacts(options, ending.signal);
    const changed = Promise.withResolvers<SuperClusterFacts>();
    const following = followSuperClusterFacts({ ...options, clock }, first, changed.resolve, ending.signal);
    expect(await changed.promise).not.toHaveProperty('isSuperClusterUnknown');
    expect(clock.sleeps.slice(0, 3)).toEqual([1_000, 2_000, 4_000]);
    ending.abort();
    await following;
  });

  it('is looked at again, and told when it has changed', async () => {
    await using cluster = await startFakeCluster();
    const ending = new AbortController();
    const { options } = around(cluster);
    cluster.server.put(resources.serviceCidrs, cidr('kubernetes', '10.96.0.0/16'));
    const first = await findSuperClusterFacts(options, ending.signal);
    const told: SuperClusterFacts[] = [];
    const changed = Promise.withResolvers<void>();
    const following = followSuperClusterFacts(
      options,
      first,
      (superClusterFacts) => {
        told.push(superClusterFacts);
        changed.resolve();
      },
      ending.signal,
    );
    const looks = (): number =>
      cluster.server.requests.filter(({ plural }) => plural === 'servicecidrs').length;
    // Two whole looks that find nothing new.
    await cluster.server.until(() => looks() >= 4);
    expect(told).toEqual([]);
    cluster.server.put(resources.serviceCidrs, cidr('later', '10.200.0.0/16'));
    await changed.promise;
    expect(told[0]?.protectedCIDRs).toContain('10.200.0.0/16');
    ending.abort();
    await following;
    expect(told).toHaveLength(1);
  });
});

/** A super cluster that offers these API groups. */
function offering(...groups: string[]) {
  const asked: string[] = [];
  return {
    asked,
    raw: (method: string, path: string) => {
      asked.push(`${method} ${path}`);
      return Promise.resolve({ groups: groups.map((name) => ({ name })) });
    },
  };
}

describe('whether the super cluster enforces network policies', () => {
  it('is what the operator says, and nobody is asked', async () => {
    const calico = offering('crd.projectcalico.org');
    expect(await networkPoliciesAreEnforced('unenforced', calico, signal)).toBe(false);
    expect(await networkPoliciesAreEnforced('enforced', offering(), signal)).toBe(true);
    expect(calico.asked).toEqual([]);
  });

  it('shows in the API groups that known engines bring along', async () => {
    for (const group of ['crd.projectcalico.org', 'cilium.io', 'crd.antrea.io', 'k8s.ovn.org']) {
      expect(await networkPoliciesAreEnforced('auto', offering('apps', group), signal)).toBe(true);
    }
    const plain = offering('apps', 'networking.k8s.io', 'policy.networking.k8s.io');
    expect(await networkPoliciesAreEnforced('auto', plain, signal)).toBe(false);
    expect(plain.asked).toEqual(['GET /apis']);
  });
});
