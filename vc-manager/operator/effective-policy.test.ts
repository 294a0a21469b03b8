import { describe, expect, it } from 'vitest';
import { defaultQuota } from '../../api/default-policy.ts';
import type {
  EffectivePolicy,
  RequestedPolicy,
  VirtualClusterPolicy,
  VirtualClusterPolicySpec,
} from '../../api/policy.ts';
import type { VirtualClusterSpec } from '../../api/virtual-cluster.ts';
import {
  effectivePolicy,
  effectiveQuota,
  isHostAllowed,
  isRangeAllowed,
  limitingPolicy,
} from './effective-policy.ts';

function policy(name: string, ...namespaces: string[]): VirtualClusterPolicy {
  return { metadata: { name }, spec: { namespaces } };
}

describe('the policy that limits a namespace', () => {
  it.each([
    ['is one that names it', [policy('a', 'other'), policy('b', 'team')], 'b'],
    ['is one for all where none names it', [policy('a', 'other'), policy('b', '*')], 'b'],
    ['is one that names it before one for all', [policy('a', '*'), policy('b', 'x', 'team')], 'b'],
    ['is the first by name of several', [policy('c', 'team'), policy('b', 'team'), policy('a', '*')], 'b'],
    ['is none where none selects it', [policy('a', 'other')], undefined],
  ])('%s', (_title, policies, name) => {
    expect(limitingPolicy('team', policies)?.metadata.name).toBe(name);
    expect(limitingPolicy('team', policies.toReversed())?.metadata.name).toBe(name);
  });
});

type Ceiling = Omit<VirtualClusterPolicySpec, 'namespaces'>;

function decide(
  requested: Pick<VirtualClusterSpec, 'policy' | 'nodes' | 'weight' | 'quota'>,
  ceiling?: Ceiling,
  isPublishedRuntimeClass = false,
): { policy: EffectivePolicy; restrictions: string[] } {
  return effectivePolicy({
    requested,
    ceiling: ceiling && { metadata: { name: 'gold' }, spec: { namespaces: ['team'], ...ceiling } },
    isPublishedRuntimeClass,
  });
}

const nothing: EffectivePolicy = {
  podSecurity: 'baseline',
  daemonSets: 'deny',
  volumeTypes: [],
  schedulerNames: [],
  externalIPs: false,
  loadBalancerOptions: false,
  endpointCIDRs: [],
  ingressHosts: [],
  nodeSelector: {},
  hideNodes: false,
  weight: 1,
  quota: defaultQuota,
};

const everything: RequestedPolicy = {
  podSecurity: 'privileged',
  daemonSets: 'allow',
  volumeTypes: ['hostPath', 'nfs'],
  schedulerNames: ['batch'],
  externalIPs: true,
  loadBalancerOptions: true,
  endpointCIDRs: ['192.0.2.0/24'],
  ingressHosts: ['shop.example.com'],
};

const generous: Ceiling = {
  podSecurity: 'privileged',
  daemonSets: 'allow',
  volumeTypes: ['*'],
  schedulerNames: ['*'],
  externalIPs: true,
  loadBalancerOptions: true,
  endpointCIDRs: ['0.0.0.0/0'],
  ingressHosts: ['*'],
};

describe('what a tenant may', () => {
  it('is the defaults where nobody says anything', () => {
    expect(decide({})).toEqual({ policy: nothing, restrictions: [] });
  });

  it('is the defaults where no policy allows what is asked for, and every cut is named', () => {
    const { policy, restrictions } = decide({ policy: everything });
    expect(policy).toEqual(nothing);
    expect(restrictions).toHaveLength(Object.keys(everything).length);
    for (const field of Object.keys(everything)) expect(restrictions.join('; ')).toContain(field);
  });

  it('is nothing that was not asked for, however generous the policy', () => {
    expect(decide({}, generous)).toEqual({ policy: { ...nothing, ceiling: 'gold' }, restrictions: [] });
  });

  it('is all that is asked for within the policy', () => {
    const { policy, restrictions } = decide({ policy: everything }, generous);
    expect(policy).toEqual({ ...nothing, ...everything, ceiling: 'gold' });
    expect(restrictions).toEqual([]);
  });

  it('is that part of a list that the policy allows', () => {
    const { policy, restrictions } = decide(
      {
        policy: {
          volumeTypes: ['hostPath', 'nfs', 'csi'],
          endpointCIDRs: ['192.0.2.7/32', '10.0.0.0/8'],
          ingressHosts: ['shop.example.com', 'example.org'],
          schedulerNames: ['a', 'b'],
        },
      },
      {
        volumeTypes: ['nfs'],
        endpointCIDRs: ['192.0.2.0/24'],
        ingressHosts: ['*.example.com'],
        schedulerNames: ['b'],
      },
    );
    expect(policy).toMatchObject({
      volumeTypes: ['nfs'],
      endpointCIDRs: ['192.0.2.7/32'],
      ingressHosts: ['shop.example.com'],
      schedulerNames: ['b'],
    });
    expect(restrictions).toEqual([
      'volumeTypes is without hostPath, csi',
      'schedulerNames is without a',
      'endpointCIDRs is without 10.0.0.0/8',
      'ingressHosts is without example.org',
    ]);
  });

  it.each([
    ['privileged', 'restricted', 'restricted', 1],
    ['privileged', 'baseline', 'baseline', 1],
    ['restricted', 'privileged', 'restricted', 0],
    ['baseline', undefined, 'baseline', 0],
    [undefined, 'restricted', 'restricted', 0],
    [undefined, 'privileged', 'baseline', 0],
  ] as const)('Pod Security %s under %s is %s', (asked, ceiling, effective, cut) => {
    const answer = decide(
      { policy: asked && { podSecurity: asked } },
      ceiling === undefined ? {} : { podSecurity: ceiling },
    );
    expect([answer.policy.podSecurity, answer.restrictions.length]).toEqual([effective, cut]);
  });

  it('includes a runtime class that every tenant may use, or one that the policy forces', () => {
    const asked = { policy: { runtimeClassName: 'gvisor' } };
    expect(decide(asked, {}, true)).toMatchObject({
      policy: { runtimeClassName: 'gvisor' },
      restrictions: [],
    });
    const refused = decide(asked, {});
    expect(refused.policy).not.toHaveProperty('runtimeClassName');
    expect(refused.restrictions).toEqual([expect.stringContaining('skerry.dev/public=true')]);
    expect(decide({}, { runtimeClassName: 'kata' }).policy.runtimeClassName).toBe('kata');
    expect(decide(asked, { runtimeClassName: 'kata' }, true)).toMatchObject({
      policy: { runtimeClassName: 'kata' },
      restrictions: ['runtimeClassName is kata, not gvisor'],
    });
  });

  it.each([
    [5, undefined, 5, []],
    [5, 10, 5, []],
    [50, 10, 10, ['weight is 10, not 50']],
    [undefined, 10, 1, []],
  ] as const)('a weight of %s under a greatest of %s is %s', (asked, most, weight, restrictions) => {
    const answer = decide(
      asked === undefined ? {} : { weight: asked },
      most === undefined ? {} : { maxWeight: most },
    );
    expect([answer.policy.weight, answer.restrictions]).toEqual([weight, restrictions]);
  });

  it.each([
    ['imageRegistries', ['a.example/team', 'b.example'], ['a.example'], ['a.example/team'], 'b.example'],
    ['capabilities', ['NET_ADMIN', 'CHOWN'], ['CHOWN'], ['CHOWN'], 'NET_ADMIN'],
    ['hostPorts', ['80', '9100-9110'], ['9000-9999'], ['9100-9110'], '80'],
    ['priorityClasses', ['gold', 'low'], ['low'], ['low'], 'gold'],
    ['storageClasses', ['fast', 'slow'], ['slow'], ['slow'], 'fast'],
    ['runtimeClasses', ['kata'], [], [], 'kata'],
    ['ingressClasses', ['shared', 'own'], ['shared'], ['shared'], 'own'],
  ] as const)('%s is what both the tenant and the policy list', (field, asked, most, both, cut) => {
    const ask = { policy: { [field]: [...asked] } };
    expect(decide({}).policy).not.toHaveProperty(field);
    expect(decide(ask)).toMatchObject({ policy: { [field]: asked }, restrictions: [] });
    expect(decide({}, { [field]: [...most] })).toMatchObject({ policy: { [field]: most }, restrictions: [] });
    expect(decide(ask, { [field]: [...most] })).toMatchObject({
      policy: { [field]: both },
      restrictions: [`${field} is without ${cut}`],
    });
  });

  it('tolerates what is asked for within the policy, control planes only by name', () => {
    const asked = ['gpu', 'example.com/pool', 'node-role.kubernetes.io/control-plane', '*'];
    const tolerations = (...most: string[]) =>
      decide({ policy: { tolerations: asked } }, { tolerations: most }).policy.tolerations;
    expect(tolerations()).toEqual([]);
    expect(tolerations('example.com/')).toEqual(['example.com/pool']);
    expect(tolerations('*')).toEqual(['gpu', 'example.com/pool', '*']);
    expect(tolerations('node-role.kubernetes.io/')).toEqual(['node-role.kubernetes.io/control-plane']);
    expect(decide({}, { tolerations: ['*'] }).policy).not.toHaveProperty('tolerations');
  });

  it('pulls images always when either side wants it', () => {
    const always = (asked?: boolean, most?: boolean) => {
      const request = asked === undefined ? {} : { policy: { alwaysPullImages: asked } };
      const answer = decide(request, most === undefined ? {} : { alwaysPullImages: most });
      return [answer.policy.alwaysPullImages ?? false, ...answer.restrictions];
    };
    expect(always()).toEqual([false]);
    expect(always(true)).toEqual([true]);
    expect(always(true, false)).toEqual([true]);
    expect(always(undefined, true)).toEqual([true]);
    expect(always(false, true)).toEqual([true, 'alwaysPullImages is true']);
  });

  it('narrows the nodes as either side wants, and the policy has the last word', () => {
    const nodes = { hidden: false, selector: { disk: 'ssd', pool: 'mine' } };
    expect(decide({ nodes }, { nodeSelector: { pool: 'gold' }, hideNodes: true })).toMatchObject({
      policy: { nodeSelector: { disk: 'ssd', pool: 'gold' }, hideNodes: true },
      restrictions: ['nodeSelector has pool=gold, not mine'],
    });
    expect(decide({ nodes: { hidden: true } }, { hideNodes: false }).policy.hideNodes).toBe(true);
  });
});

describe('coversHost', () => {
  it.each([
    ['shop.example.com', 'shop.example.com'],
    ['*.example.com', 'shop.example.com'],
    ['*.example.com', 'a.b.example.com'],
    ['*.example.com', '*.example.com'],
    ['*.example.com', '*.shop.example.com'],
    ['*', 'anything.org'],
    ['*', '*.org'],
  ])('%s covers %s', (allowed, host) => {
    expect(isHostAllowed(['x.org', allowed], host)).toBe(true);
  });

  it.each([
    ['shop.example.com', 'a.shop.example.com'],
    ['shop.example.com', '*.shop.example.com'],
    ['*.example.com', 'example.com'],
    ['*.example.com', 'evilexample.com'],
    ['*.shop.example.com', '*.example.com'],
    ['*.example.com', '*.com'],
  ])('%s does not cover %s', (allowed, host) => {
    expect(isHostAllowed([allowed], host)).toBe(false);
  });
});

describe('coversRange', () => {
  it.each([
    ['192.0.2.0/24', '192.0.2.0/24'],
    ['192.0.2.0/24', '192.0.2.128/25'],
    ['192.0.2.0/24', '192.0.2.7/32'],
    ['0.0.0.0/0', '10.0.0.0/8'],
    ['2001:db8::/32', '2001:db8:1::/48'],
  ])('%s covers %s', (allowed, range) => {
    expect(isRangeAllowed(['198.51.100.0/24', allowed], range)).toBe(true);
  });

  it.each([
    ['192.0.2.0/24', '192.0.2.0/23'],
    ['192.0.2.0/25', '192.0.2.128/25'],
    ['192.0.2.0/24', '0.0.0.0/0'],
    ['0.0.0.0/0', '2001:db8::/32'],
    ['0.0.0.0/0', '999.0.0.1/32'],
    ['0.0.0.0/0', '10.0.0.0/33'],
    ['0.0.0.0/0', '10.0.0.0'],
    ['nonsense', '10.0.0.0/8'],
  ])('%s does not cover %s', (allowed, range) => {
    expect(isRangeAllowed([allowed], range)).toBe(false);
  });
});

describe('the quota of a tenant', () => {
  it('is the default where nothing is asked for and no policy limits it', () => {
    expect(effectiveQuota()).toEqual({ quota: defaultQuota, restrictions: [] });
  });

  it('is no more than the default without a policy, and as little as is asked for', () => {
    const { quota, restrictions } = effectiveQuota({ pods: '1000000', services: '3', 'limits.cpu': '8' });
    expect(quota).toMatchObject({ pods: defaultQuota['pods'], services: '3', 'limits.cpu': '8' });
    expect(restrictions).toEqual([`quota of pods is ${defaultQuota['pods']}, not 1000000`]);
  });

  it('goes up to the policy when it is asked for, and down to the policy without asking', () => {
    const ceiling = { pods: '100000', services: '5', 'limits.memory': '1Gi' };
    expect(effectiveQuota({}, ceiling).quota).toMatchObject({
      pods: defaultQuota['pods'],
      services: '5',
      'limits.memory': '1Gi',
    });
    expect(effectiveQuota({ pods: '90000' }, ceiling)).toMatchObject({
      quota: { pods: '90000' },
      restrictions: [],
    });
  });

  it('has no limit only where the policy has none', () => {
    expect(effectiveQuota({ pods: '*' }, { pods: '*' }).quota['pods']).toBeUndefined();
    expect(effectiveQuota({}, { pods: '*' }).quota['pods']).toBe(defaultQuota['pods']);
    expect(effectiveQuota({ pods: '*' }).restrictions).toHaveLength(1);
    expect(effectiveQuota({ 'limits.cpu': '*' })).toMatchObject({ restrictions: [] });
  });

  it('compares quantities, not texts', () => {
    expect(effectiveQuota({ 'requests.memory': '2000Mi' }, { 'requests.memory': '2Gi' }).quota).toMatchObject(
      {
        'requests.memory': '2000Mi',
      },
    );
    expect(effectiveQuota({ 'requests.cpu': '1500m' }, { 'requests.cpu': '1' }).quota).toMatchObject({
      'requests.cpu': '1',
    });
  });

  it('has none of what is no resource', () => {
    const asked = JSON.parse('{"__proto__": "1", "Pods": "2", "count/": "3"}') as Record<string, string>;
    const { quota, restrictions } = effectiveQuota({ ...asked, ['a'.repeat(1_000_000)]: '1' });
    expect(quota).toEqual(defaultQuota);
    expect(restrictions).toHaveLength(4);
    expect(restrictions.join().length).toBeLessThan(500);
  });
});
