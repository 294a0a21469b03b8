import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { resources } from '../../kube/index.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import type { Pod } from '../kinds/pods/types.ts';
import { allKinds } from '../kinds/registry.ts';
import { byTenantIndex, Caches } from './caches.ts';

describe('the caches of one side', () => {
  it('have a store for each kind, and say so of any other', () => {
    const caches = new Caches(allKinds, 'tenant');
    for (const { resource } of allKinds) expect(caches.store(resource).size).toBe(0);
    expect(() => caches.store(resources.leases)).toThrow('no cache for leases');
  });

  it('of the super cluster find what belongs to a tenant', () => {
    const caches = new Caches(allKinds, 'super');
    const metadata = { name: 'x', namespace: 'n', uid: 's1', labels: { [labelKeys.tenant]: 'blue' } };
    caches.store(resources.configMaps).apply('ADDED', { metadata });
    expect(caches.byIndex(resources.configMaps, byTenantIndex, 'blue')).toHaveLength(1);
    expect(caches.byIndex(resources.configMaps, byTenantIndex, 'green')).toEqual([]);
  });

  it('keep second copies apart from the first ones', () => {
    const late = allKinds.find(({ name }) => name === 'late-secrets') as SyncedKind;
    const there = new Caches(allKinds, 'super');
    const metadata = { name: 'x', namespace: 'n', uid: 's1' };
    there.of(late).apply('ADDED', { metadata });
    expect(there.get(resources.secrets, { namespace: 'n', name: 'x' })).toBeUndefined();
    expect(there.of(late).size).toBe(1);
    const own = new Caches(allKinds, 'tenant');
    expect(own.of(late)).toBe(own.store(resources.secrets));
  });

  it('keep neither managedFields nor what a kind never reads', () => {
    const caches = new Caches(allKinds, 'super');
    const metadata = { name: 'web', namespace: 'n', uid: 's1', managedFields: [{}] };
    caches.store(resources.pods).apply('ADDED', { metadata, spec: { volumes: [], nodeName: 'n1' } });
    const kept = caches.get(resources.pods, { namespace: 'n', name: 'web' });
    expect(kept?.metadata).not.toHaveProperty('managedFields');
    expect(kept?.['spec']).toEqual({ nodeName: 'n1' });
  });

  it('keep equal parts of pods once, on both sides, and frozen, so that no tenant sees what another one changes', () => {
    const there = new Caches(allKinds, 'super');
    const own = new Caches(allKinds, 'tenant');
    const pod = (name: string) => ({
      metadata: { name, namespace: 'n', uid: name, resourceVersion: '1', labels: { app: 'web' } },
      spec: { containers: [{ name: 'main', resources: { limits: { cpu: '1' } } }] },
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
    });
    own.store(resources.pods).apply('ADDED', pod('a'));
    there.store(resources.pods).apply('ADDED', pod('b'));
    const [first, second] = [
      own.get(resources.pods, { namespace: 'n', name: 'a' }),
      there.get(resources.pods, { namespace: 'n', name: 'b' }),
    ] as Pod[];
    expect(second?.spec?.containers).toBe(first?.spec?.containers);
    expect(second?.status?.conditions).toBe(first?.status?.conditions);
    expect(second?.metadata.labels).toBe(first?.metadata.labels);
    expect(second).toMatchObject(pod('b'));
    expect(() => (first?.spec?.containers ?? []).pop()).toThrow(TypeError);
  });
});
