import { describe, expect, it } from 'vitest';
import { finalizer } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { Store } from '../../kube/index.ts';
import { Allocations } from './allocations.ts';

function stored(uid: string, status: VirtualCluster['status']): VirtualCluster {
  return { metadata: { namespace: 'team', name: uid, uid, resourceVersion: '1' }, status: status ?? {} };
}

describe('Claims', () => {
  it('knows what the store knows, and what was handed out since', () => {
    const store = new Store<VirtualCluster>();
    store.replace([stored('a', { id: 'aaaaaa', serviceCIDR: '10.112.0.0/22', advertisedPort: 21000 })]);
    const claims = new Allocations(store, 'skerry-system');
    claims.remember('b', { id: 'bbbbbb' });
    claims.remember('b', { slice: '10.112.4.0/22', port: 21001 });
    expect(claims.slices('c').sort()).toEqual(['10.112.0.0/22', '10.112.4.0/22']);
    expect([...claims.ports('c')].sort()).toEqual([21000, 21001]);
    expect(claims.ownerOfId('aaaaaa', 'c')).toBe('team/a');
    expect(claims.ownerOfId('bbbbbb', 'c')).toContain('b');
    expect(claims.ownerOfId('cccccc', 'c')).toBeUndefined();
  });

  it('counts who has an id in a namespace, or is about to have one', () => {
    const store = new Store<VirtualCluster>();
    const waiting = stored('b', {});
    const finalized = {
      ...stored('c', {}),
      metadata: { ...stored('c', {}).metadata, finalizers: [finalizer] },
    };
    const elsewhere = {
      ...stored('d', { id: 'dddddd' }),
      metadata: { ...stored('d', {}).metadata, namespace: 'x' },
    };
    store.replace([stored('a', { id: 'aaaaaa' }), waiting, finalized, elsewhere]);
    const claims = new Allocations(store, 'skerry-system');
    expect(claims.countOthersIn('team', 'a')).toBe(1);
    expect(claims.countOthersIn('team', 'z')).toBe(2);
    claims.remember('b', { id: 'bbbbbb' });
    expect(claims.countOthersIn('team', 'z')).toBe(3);
  });

  it('does not count what one holds itself', () => {
    const store = new Store<VirtualCluster>();
    store.replace([stored('a', { id: 'aaaaaa', serviceCIDR: '10.112.0.0/22' })]);
    const claims = new Allocations(store, 'skerry-system');
    claims.remember('a', { slice: '10.112.4.0/22' });
    expect(claims.slices('a')).toEqual([]);
    expect(claims.ownerOfId('aaaaaa', 'a')).toBeUndefined();
  });

  it('forgets those that are gone', () => {
    const claims = new Allocations(new Store<VirtualCluster>(), 'skerry-system');
    claims.remember('a', { port: 21000 });
    claims.forget('a');
    expect(claims.ports('b').size).toBe(0);
  });
});
