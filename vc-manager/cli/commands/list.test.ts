import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { virtualClusterTable } from './list.ts';

const nowMs = Date.parse('2030-01-01T00:01:00Z');

const ready: VirtualCluster = {
  metadata: { namespace: 'teams', name: 'blue', creationTimestamp: '2030-01-01T00:00:00Z' },
  spec: { weight: 5 },
  status: {
    phase: 'Ready',
    version: '1.36.3',
    id: 'abcdefghij',
    endpoint: 'https://127.0.0.1:21000',
    serviceCIDR: '10.112.0.0/22',
    usage: { pods: 4 },
    conditions: [{ type: 'Ready', status: 'True', message: 'All is well.' }],
  },
};

describe('virtualClusterTable', () => {
  it('shows what there is, sorted by namespace and name', () => {
    const others = [
      { metadata: { namespace: 'default', name: 'z' } },
      { metadata: { namespace: 'default', name: 'a' }, spec: { version: '1.35' } },
    ];
    expect(virtualClusterTable([ready, ...others], { isWide: false, nowMs }).split('\n')).toEqual([
      'NAMESPACE   NAME   PHASE     VERSION   PODS   AGE         PROBLEM',
      'default     a      Pending   1.35      -      <unknown>   -',
      'default     z      Pending   -         -      <unknown>   -',
      'teams       blue   Ready     1.36.3    4      60s         -',
      '',
    ]);
  });

  it('adds where and what in wide output', () => {
    const [, row] = virtualClusterTable([ready], { isWide: true, nowMs }).split('\n');
    expect(row?.split(/ {3,}/).slice(7)).toEqual([
      'https://127.0.0.1:21000',
      'abcdefghij',
      '10.112.0.0/22',
      '5',
      'All is well.',
    ]);
  });

  it('calls one that is being deleted so, whatever its status says', () => {
    const deleted = { ...ready, metadata: { ...ready.metadata, deletionTimestamp: '2030-01-01T00:00:30Z' } };
    expect(virtualClusterTable([deleted], { isWide: false, nowMs })).toContain('Deleting');
  });

  it('says what is wrong by the reasons of conditions, the one of Ready first', () => {
    const of = (...conditions: { type: string; status: 'True' | 'False'; reason: string }[]) => {
      const all = conditions.map((each) => ({ ...each, message: '', lastTransitionTime: '' }));
      const vc = { ...ready, status: { ...ready.status, conditions: all } };
      return virtualClusterTable([vc], { isWide: false, nowMs }).trimEnd().split(/ {3,}/).at(-1);
    };
    expect(of({ type: 'Synced', status: 'False', reason: 'CacheLimitExceeded' })).toBe('CacheLimitExceeded');
    expect(
      of(
        { type: 'CertificatesReady', status: 'False', reason: 'PkiLost' },
        { type: 'IdentityMismatch', status: 'True', reason: 'SuperClusterRanBackwards' },
        { type: 'Ready', status: 'False', reason: 'PkiLost' },
      ),
    ).toBe('PkiLost,SuperClusterRanBackwards');
    expect(
      of(
        { type: 'Ready', status: 'False', reason: 'Provisioning' },
        { type: 'DeletionHeld', status: 'False', reason: 'NothingHeld' },
        { type: 'Synced', status: 'False', reason: 'Joining' },
      ),
    ).toBe('-');
  });

  it('is empty when there is none', () => {
    expect(virtualClusterTable([], { isWide: false, nowMs })).toBe('');
  });
});
