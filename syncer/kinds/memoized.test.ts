import { describe, expect, it, vi } from 'vitest';
import { type KubeObject, type Resource, resources } from '../../kube/index.ts';
import { Caches } from '../reconcile/caches.ts';
import { excessiveVariables } from './pods/service-variables.ts';
import { defaultStorageClass } from './published-kind.ts';
import { allKinds } from './registry.ts';
import { testContext } from './testing.ts';

describe('what is asked for at each look and made of all objects of a kind', () => {
  const looks = 10;

  function world() {
    const caches = new Caches(allKinds, 'tenant');
    let version = 0;
    return {
      context: { ...testContext(), tenantObjects: caches },
      reads: vi.spyOn(caches, 'byIndex'),
      have: (resource: Resource, { metadata, ...rest }: KubeObject) =>
        caches.store(resource).apply('MODIFIED', {
          ...rest,
          metadata: { uid: metadata.name ?? '', ...metadata, resourceVersion: String(++version) },
        }),
      gone: (resource: Resource, metadata: KubeObject['metadata']) =>
        caches.store(resource).apply('DELETED', {
          metadata: { ...metadata, uid: metadata.name ?? '', resourceVersion: String(++version) },
        }),
    };
  }

  it('is the default class: made once until a class changes', () => {
    const { context, reads, have, gone } = world();
    const annotations = { 'storageclass.kubernetes.io/is-default-class': 'true' };
    const standard = (name: string, creationTimestamp: string): void =>
      have(resources.storageClasses, { metadata: { name, creationTimestamp, annotations } });
    standard('old', '2026-01-01T00:00:00Z');
    for (let look = 0; look < looks; look++) expect(defaultStorageClass(context)).toBe('old');
    expect(reads).toHaveBeenCalledTimes(1);
    standard('young', '2026-01-02T00:00:00Z');
    for (let look = 0; look < looks; look++) expect(defaultStorageClass(context)).toBe('young');
    standard('young', '2025-01-02T00:00:00Z');
    expect(defaultStorageClass(context)).toBe('old');
    gone(resources.storageClasses, { name: 'old' });
    expect(defaultStorageClass(context)).toBe('young');
    gone(resources.storageClasses, { name: 'young' });
    for (let look = 0; look < looks; look++) expect(defaultStorageClass(context)).toBeUndefined();
    expect(reads).toHaveBeenCalledTimes(5);
  });

  it('are the Services of a namespace: sorted once until one changes', () => {
    const { context, reads, have } = world();
    const ports = Array.from({ length: 1_000 }, (_, at) => ({ name: `p${at}`, port: at + 1 }));
    const service = (name: string, namespace: string): void =>
      have(resources.services, { metadata: { name, namespace }, spec: { ports } });
    const excess = (namespace: string): string | undefined =>
      excessiveVariables({ metadata: { name: 'web', namespace } }, { containers: 5, sources: [] }, context);
    service('a', 'shop');
    for (let look = 0; look < looks; look++) {
      expect(excess('shop')).toBeDefined();
      expect(excess('office')).toBeUndefined();
    }
    expect(reads).toHaveBeenCalledTimes(2);
    service('a', 'office');
    expect(excess('office')).toBeDefined();
  });
});
