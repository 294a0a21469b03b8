import { expect, it } from 'vitest';
import { networkPoliciesCondition } from './network-policies-condition.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

it('the condition says whether policies act, or why they do not', () => {
  const of = (syncNetworkPolicies: boolean, networkPoliciesEnforced: boolean) => {
    const { status, reason } = networkPoliciesCondition({ syncNetworkPolicies, networkPoliciesEnforced });
    return { status, reason };
  };
  expect(of(true, true)).toEqual({ status: 'True', reason: 'Enforced' });
  expect(of(true, false)).toEqual({ status: 'False', reason: 'NoEngine' });
  expect(of(false, true)).toEqual({ status: 'False', reason: 'NotSynced' });
});

it('a tenant that is served has the condition', async () => {
  await using world = await DirectoryWorld.start();
  await world.make('blue');
  await world.says('blue', 'NetworkPoliciesEnforced', 'True', 'Enforced');
});
