import { describe, expect, it } from 'vitest';
import type { EffectivePolicy, PolicyWish, VirtualClusterPolicySpec } from '../../../api/policy.ts';
import type { VirtualClusterSpec } from '../../../api/virtual-cluster.ts';
import { effectivePolicy } from './effective-policy.ts';

type Ceiling = Omit<VirtualClusterPolicySpec, 'namespaces'>;

function decide(
  wish: Pick<VirtualClusterSpec, 'policy' | 'nodes' | 'weight'>,
  ceiling?: Ceiling,
  isPublishedRuntimeClass = false,
): { policy: EffectivePolicy; cuts: string[] } {
  return effectivePolicy({
    wish,
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
};

const everything: PolicyWish = {
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
    expect(decide({})).toEqual({ policy: nothing, cuts: [] });
  });

  it('is the defaults where no policy allows what is asked for, and every cut is named', () => {
    const { policy, cuts } = decide({ policy: everything });
    expect(policy).toEqual(nothing);
    expect(cuts).toHaveLength(Object.keys(everything).length);
    for (const field of Object.keys(everything)) expect(cuts.join('; ')).toContain(field);
  });

  it('is nothing that was not asked for, however generous the policy', () => {
    expect(decide({}, generous)).toEqual({ policy: { ...nothing, ceiling: 'gold' }, cuts: [] });
  });

  it('is all that is asked for within the policy', () => {
    const { policy, cuts } = decide({ policy: everything }, generous);
    expect(policy).toEqual({ ...nothing, ...everything, ceiling: 'gold' });
    expect(cuts).toEqual([]);
  });

  it('is that part of a list that the policy allows', () => {
    const { policy, cuts } = decide(
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
    expect(cuts).toEqual([
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
    expect([answer.policy.podSecurity, answer.cuts.length]).toEqual([effective, cut]);
  });

  it('includes a runtime class that every tenant may use, or one that the policy forces', () => {
    const asked = { policy: { runtimeClassName: 'gvisor' } };
    expect(decide(asked, {}, true)).toMatchObject({ policy: { runtimeClassName: 'gvisor' }, cuts: [] });
    const refused = decide(asked, {});
    expect(refused.policy).not.toHaveProperty('runtimeClassName');
    expect(refused.cuts).toEqual([expect.stringContaining('skerry.dev/public=true')]);
    expect(decide({}, { runtimeClassName: 'kata' }).policy.runtimeClassName).toBe('kata');
    expect(decide(asked, { runtimeClassName: 'kata' }, true)).toMatchObject({
      policy: { runtimeClassName: 'kata' },
      cuts: ['runtimeClassName is kata, not gvisor'],
    });
  });

  it.each([
    [5, undefined, 5, []],
    [5, 10, 5, []],
    [50, 10, 10, ['weight is 10, not 50']],
    [undefined, 10, 1, []],
  ] as const)('a weight of %s under a greatest of %s is %s', (asked, most, weight, cuts) => {
    const answer = decide(
      asked === undefined ? {} : { weight: asked },
      most === undefined ? {} : { maxWeight: most },
    );
    expect([answer.policy.weight, answer.cuts]).toEqual([weight, cuts]);
  });

  it('narrows the nodes as either side wants, and the policy has the last word', () => {
    const nodes = { hidden: false, selector: { disk: 'ssd', pool: 'mine' } };
    expect(decide({ nodes }, { nodeSelector: { pool: 'gold' }, hideNodes: true })).toMatchObject({
      policy: { nodeSelector: { disk: 'ssd', pool: 'gold' }, hideNodes: true },
      cuts: ['nodeSelector has pool=gold, not mine'],
    });
    expect(decide({ nodes: { hidden: true } }, { hideNodes: false }).policy.hideNodes).toBe(true);
  });
});
