import { describe, expect, it } from 'vitest';
import { asAnswer, asObject, asObjectNamed } from './object-shape.ts';

const whole = {
  metadata: {
    name: 'a',
    namespace: 'ns',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: null,
    labels: { app: 'a' },
    annotations: null,
    ownerReferences: [{ kind: 'Job' }],
    finalizers: ['x'],
  },
  spec: { anything: [1, null] },
};

describe('an object from a server', () => {
  it('is taken as it is, with fields that nobody knows', () => {
    expect(asObject(whole)).toBe(whole);
    expect(asObject({ metadata: { name: 'a' } })).toEqual({ metadata: { name: 'a' } });
  });

  it.each([
    ['no object', null],
    ['no object', [whole]],
    ['no object', 'text'],
    ['no metadata', {}],
    ['no metadata', { metadata: [] }],
    ['no name', { metadata: {} }],
    ['no name', { metadata: { name: '' } }],
    ['no name', { metadata: { name: 7 } }],
    ['metadata.namespace is no text', { metadata: { name: 'a', namespace: 1 } }],
    ['metadata.uid is no text', { metadata: { name: 'a', uid: {} } }],
    ['metadata.resourceVersion is no text', { metadata: { name: 'a', resourceVersion: 5 } }],
    ['metadata.deletionTimestamp is no text', { metadata: { name: 'a', deletionTimestamp: true } }],
    ['metadata.name is too long', { metadata: { name: 'a'.repeat(254) } }],
    ['metadata.namespace is too long', { metadata: { name: 'a', namespace: 'n'.repeat(64) } }],
    ['metadata.uid is too long', { metadata: { name: 'a', uid: 'u'.repeat(129) } }],
    ['metadata.resourceVersion is too long', { metadata: { name: 'a', resourceVersion: '1'.repeat(129) } }],
    [
      'metadata.creationTimestamp is too long',
      { metadata: { name: 'a', creationTimestamp: '2'.repeat(65) } },
    ],
    ['metadata.labels is no map of texts', { metadata: { name: 'a', labels: { app: 1 } } }],
    ['metadata.labels is no map of texts', { metadata: { name: 'a', labels: ['app'] } }],
    ['metadata.annotations is no map of texts', { metadata: { name: 'a', annotations: { app: null } } }],
    ['metadata.ownerReferences is no list of references', { metadata: { name: 'a', ownerReferences: {} } }],
    [
      'metadata.ownerReferences is no list of references',
      { metadata: { name: 'a', ownerReferences: [null] } },
    ],
    ['metadata.finalizers is no list of texts', { metadata: { name: 'a', finalizers: [1] } }],
  ])('is refused with the reason: %s', (why, value) => {
    expect(() => asObject(value)).toThrow(TypeError);
    expect(() => asObject(value)).toThrow(why);
  });

  it('may have a longer name where Kubernetes bounds none', () => {
    const longest = { metadata: { name: 'a'.repeat(253), namespace: 'n'.repeat(63) } };
    expect(asObject(longest)).toBe(longest);
    for (const resource of [
      { group: '', plural: 'events' },
      { group: 'rbac.authorization.k8s.io', plural: 'roles' },
    ]) {
      const long = { metadata: { name: 'a'.repeat(1_024) } };
      expect(asObject(long, resource)).toBe(long);
      expect(() => asObject({ metadata: { name: 'a'.repeat(1_025) } }, resource)).toThrow('metadata.name');
    }
    expect(() => asObject({ metadata: { name: 'a'.repeat(254) } }, { group: '', plural: 'pods' })).toThrow(
      'metadata.name',
    );
  });

  it('that answers a write may have no name, and nothing that is too long to be kept', () => {
    for (const answer of [{}, { metadata: {} }, whole, { metadata: null }])
      expect(asAnswer(answer)).toBe(answer);
    for (const metadata of [{ uid: 'u'.repeat(129) }, { resourceVersion: {} }, { name: 'a'.repeat(254) }])
      expect(() => asAnswer({ metadata })).toThrow(TypeError);
  });

  it('that answers a write is an object', () => {
    for (const answer of [null, undefined, 'ok', 7, [whole]])
      expect(() => asAnswer(answer)).toThrow('it is no object');
  });

  it('is the one that was asked for, or none', () => {
    expect(asObjectNamed(whole, { namespace: 'ns', name: 'a' })).toBe(whole);
    const clusterScoped = { metadata: { name: 'a', namespace: null } };
    expect(asObjectNamed(clusterScoped, { name: 'a' })).toBe(clusterScoped);
    for (const ref of [{ namespace: 'ns', name: 'b' }, { namespace: 'other', name: 'a' }, { name: 'a' }])
      expect(() => asObjectNamed(whole, ref)).toThrow('another object than was asked for');
  });
});
