import { describe, expect, it } from 'vitest';
import { validateVirtualCluster } from './validate.ts';
import type { VirtualClusterSpec } from './virtual-cluster.ts';

function check(spec: VirtualClusterSpec, name = 'a'): () => void {
  return () => validateVirtualCluster({ metadata: { name, namespace: 'team' }, spec });
}

describe('validateVirtualCluster', () => {
  it.each<VirtualClusterSpec>([
    {},
    { version: '1.36' },
    { version: '1.36.3', weight: 1000, clusterDomain: 'example.org' },
    { extraNames: ['api.example.org', '*.example.org', '192.0.2.1', '2001:db8::1'] },
    { nodes: { mode: 'used' }, sync: { secrets: 'all' } },
  ])('accepts %j', (spec) => {
    expect(check(spec)).not.toThrow();
  });

  it.each([
    [{ version: '2.0' }, /spec\.version/],
    [{ version: 'v1.36' }, /spec\.version/],
    [{ weight: 0 }, /spec\.weight/],
    [{ weight: 1.5 }, /spec\.weight/],
    [{ extraNames: ['a b'] }, /spec\.extraNames\.0/],
    [{ nodes: { mode: 'some' } }, /spec\.nodes\.mode/],
    [{ colour: 'red' }, /"colour"/],
  ])('refuses %j and says where', (spec, message) => {
    expect(check(spec as VirtualClusterSpec)).toThrow(message);
  });

  it('names every mistake at once', () => {
    expect(check({ weight: 0, version: 'x' }, 'A')).toThrow(/metadata\.name.*spec\.version.*spec\.weight/);
  });
});
