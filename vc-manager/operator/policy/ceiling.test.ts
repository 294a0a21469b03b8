import { describe, expect, it } from 'vitest';
import type { VirtualClusterPolicy } from '../../../api/policy.ts';
import { ceilingOf } from './ceiling.ts';

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
    expect(ceilingOf('team', policies)?.metadata.name).toBe(name);
    expect(ceilingOf('team', policies.toReversed())?.metadata.name).toBe(name);
  });
});
