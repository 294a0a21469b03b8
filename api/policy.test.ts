import { describe, expect, it } from 'vitest';
import { checkedText, requestedPolicySchema, virtualClusterPolicySpecSchema } from './policy.ts';

/** What the schema says of one value of a field; undefined: nothing. */
function problem(schema: typeof requestedPolicySchema, field: string, value: unknown): string | undefined {
  const { error } = schema.safeParse({ [field]: value });
  return error?.issues[0]?.message;
}

describe('what a policy may hold', () => {
  it.each([
    ['schedulerNames', ['default-scheduler', 'my.scheduler'], ['My', 'a_b', '-a', 'a.', '*', '']],
    [
      'endpointCIDRs',
      ['192.0.2.0/24', '2001:db8::/32', '192.0.2.7/32'],
      ['192.0.2.7', 'host/24', '192.0.2.0/1234', ' 192.0.2.0/24'],
    ],
    [
      'ingressHosts',
      ['shop.example.com', '*.example.com', 'shop'],
      ['*', 'a.*.com', '*shop', 'Shop.com', ''],
    ],
    [
      'tolerations',
      ['*', 'example.com/', 'example.com/pool', 'dedicated', 'example.com/A_b'],
      ['/pool', 'Example.com/pool', 'example.com//', 'example.com/-', 'a b', `${'x'.repeat(64)}`],
    ],
    [
      'imageRegistries',
      [
        'docker.io/library',
        'registry.example.com:5000/team/a__b',
        'localhost',
        'mirror:5000',
        'localhost:5000/x',
      ],
      [
        'library/nginx',
        'https://docker.io',
        'docker.io/',
        'docker.io/Library',
        'docker.io/a:1',
        'docker.io/../x',
      ],
    ],
    ['capabilities', ['NET_ADMIN', 'SYS_TIME'], ['CAP NET', 'net_admin', 'ALL*', '']],
    ['hostPorts', ['80', '30100-30199'], ['0', '-1', '80-', '080', '100000', '80,81']],
    ['volumeTypes', ['hostPath', 'nfs'], ['emptyDir', 'ephemeral', '*']],
  ])('%s: %j, and none of %j', (field, good, bad) => {
    expect(problem(requestedPolicySchema, field, good)).toBeUndefined();
    for (const each of bad)
      expect([each, problem(requestedPolicySchema, field, [each])]).not.toContain(undefined);
  });

  it('of the operator may say that anything may be asked for', () => {
    const spec = { namespaces: ['*'], volumeTypes: ['*'], schedulerNames: ['*'], ingressHosts: ['*'] };
    expect(virtualClusterPolicySpecSchema.safeParse(spec).error).toBeUndefined();
    expect(virtualClusterPolicySpecSchema.safeParse({ namespaces: [] }).success).toBe(false);
    expect(virtualClusterPolicySpecSchema.safeParse({ namespaces: ['Team'] }).success).toBe(false);
  });

  it('selects nodes by labels as Kubernetes knows them', () => {
    const selects = (nodeSelector: Record<string, string>): boolean =>
      virtualClusterPolicySpecSchema.safeParse({ namespaces: ['a'], nodeSelector }).success;
    expect(selects({ 'example.com/pool': 'Blue_1.2', zone: '' })).toBe(true);
    expect(selects({ 'example.com/': 'blue' })).toBe(false);
    expect(selects({ pool: 'blue green' })).toBe(false);
  });
});

it('a text is checked by one pattern on both roads, and what cannot stand in a rule of the API server is refused', () => {
  const schema = checkedText(/^a+$/, 3, 'has to be a few a');
  expect(schema.safeParse('ab').error?.issues[0]?.message).toBe('has to be a few a');
  expect(schema.safeParse('aaaa').success).toBe(false);
  expect(schema.meta()).toEqual({
    'x-kubernetes-validations': [{ rule: "self.matches(r'^a+$')", message: 'has to be a few a' }],
  });
  expect(() => checkedText(/'/, 3, '')).toThrow(TypeError);
});
