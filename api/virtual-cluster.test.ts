import { describe, expect, it } from 'vitest';
import { newRequest, sleepAfterIdleMs } from './tenant-state.ts';
import { type VirtualClusterSpec, virtualClusterProblems } from './virtual-cluster.ts';

function problems(spec: VirtualClusterSpec, name = 'a'): string {
  return virtualClusterProblems({ metadata: { name, namespace: 'team' }, spec }).join('; ');
}

describe('virtualClusterProblems', () => {
  it.each<VirtualClusterSpec>([
    {},
    { version: '1.36' },
    { version: '1.36.3', weight: 1000, clusterDomain: 'example.org' },
    { extraNames: ['api.example.org', '*.example.org', '192.0.2.1', '2001:db8::1'] },
    { nodes: { mode: 'used' }, sync: { secrets: 'all' } },
    { nodes: { hidden: true, selector: { 'example.com/pool': 'gold', a: '' } }, dns: 'none' },
    { sync: { ingresses: true, networkPolicies: false, customResources: ['certificates.cert-manager.io'] } },
    { policy: { podSecurity: 'privileged', daemonSets: 'allow', volumeTypes: ['hostPath', 'csi'] } },
    {
      policy: {
        endpointCIDRs: ['192.0.2.0/24', '2001:db8::/32'],
        ingressHosts: ['a.example', '*.b.example'],
      },
    },
    { policy: { runtimeClassName: 'gvisor', schedulerNames: ['batch'], externalIPs: true } },
  ])('accepts %j', (spec) => {
    expect(problems(spec)).toBe('');
  });

  it.each([
    [{ version: '2.0' }, /spec\.version/],
    [{ version: 'v1.36' }, /spec\.version/],
    [{ weight: 0 }, /spec\.weight/],
    [{ weight: 1.5 }, /spec\.weight/],
    [{ extraNames: ['a b'] }, /spec\.extraNames\.0/],
    [{ nodes: { mode: 'some' } }, /spec\.nodes\.mode/],
    [{ colour: 'red' }, /"colour"/],
    [{ dns: 'bind' }, /spec\.dns: .*"coredns"\|"none"/],
    [{ nodes: { selector: { 'a b': 'c' } } }, /spec\.nodes\.selector\.a b: .*key of a label/],
    [{ nodes: { selector: { a: 'b c' } } }, /spec\.nodes\.selector\.a: .*value of a label/],
    [{ sync: { customResources: ['certificates'] } }, /certificates\.cert-manager\.io/],
    [{ policy: { podSecurity: 'most' } }, /"privileged"\|"baseline"\|"restricted"/],
    [{ policy: { volumeTypes: ['hostpath'] } }, /spec\.policy\.volumeTypes\.0: .*"hostPath"/],
    [{ policy: { volumeTypes: ['emptyDir'] } }, /spec\.policy\.volumeTypes\.0/],
    [{ policy: { endpointCIDRs: ['192.0.2.1'] } }, /192\.0\.2\.7\/32 for one address/],
    [{ policy: { ingressHosts: ['https://shop.example'] } }, /as in shop\.example\.com/],
    [{ policy: { ingressHosts: ['*'] } }, /\*\.example\.com for every name/],
  ])('refuses %j and says where', (spec, message) => {
    expect(problems(spec as VirtualClusterSpec)).toMatch(message);
  });

  it('names every mistake at once', () => {
    expect(problems({ weight: 0, version: 'x' }, 'A')).toMatch(/metadata\.name.*spec\.version.*spec\.weight/);
  });
});

describe('spec.sleep.afterIdle', () => {
  it.each([
    ['30m', 1_800_000],
    ['12h', 43_200_000],
    ['never', undefined],
  ])('%s is %s ms', (afterIdle, ms) => {
    const spec = { sleep: { afterIdle } };
    expect(virtualClusterProblems({ metadata: { name: 'blue', namespace: 'team' }, spec })).toEqual([]);
    expect(sleepAfterIdleMs({ spec })).toBe(ms);
  });

  it.each(['0m', 'nevermore', '5', 'm'])('refuses %s', (afterIdle) => {
    const spec = { sleep: { afterIdle } };
    expect(virtualClusterProblems({ metadata: { name: 'blue', namespace: 'team' }, spec })).not.toEqual([]);
  });
});

const asked = (value: string | undefined, followed: string | undefined) =>
  newRequest({ metadata: value === undefined ? {} : { annotations: { key: value } } }, 'key', followed);

it('a request is new until the status has it as an API server keeps it', () => {
  expect(asked(undefined, undefined)).toBeUndefined();
  expect(asked('now', undefined)).toBe('now');
  expect(asked('now', 'before')).toBe('now');
  expect(asked('now', 'now')).toBeUndefined();
  const long = 'x'.repeat(70);
  expect(asked(long, undefined)).toBe('x'.repeat(64));
  expect(asked(long, 'x'.repeat(64))).toBeUndefined();
  // What is cut in the middle of a character, and what never was one.
  expect(asked(`${'x'.repeat(63)}😀`, undefined)).toBe(`${'x'.repeat(63)}\ufffd`);
  expect(asked('\ud83d', '\ufffd')).toBeUndefined();
});
