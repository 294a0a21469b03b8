import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fuzzed } from '../../kube/testing/fuzz.ts';
import { testContext, testTenant } from '../kinds/testing.ts';
import { superNamespaceName } from './names.ts';
import { scrub } from './scrub.ts';

const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const aLabel = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$/);

describe('names of super namespaces', () => {
  it('are names, and differ for any two namespaces of any two tenants', () => {
    const place = fc.record({
      id: fc.stringMatching(/^[a-z0-9]{10}$/),
      namespace: aLabel,
      name: aLabel,
      own: aLabel,
    });
    fc.assert(
      fc.property(place, place, (a, b) => {
        const [first, second] = [superNamespaceName(a, a.own), superNamespaceName(b, b.own)];
        expect(first).toMatch(dnsLabel);
        expect(first === second).toBe(a.id === b.id && a.own === b.own && first === second);
      }),
      fuzzed(40_000),
    );
  });

  it('of what is no name are no path', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (own) => {
        expect(superNamespaceName(testTenant(), own)).toMatch(/-[a-z2-7]{16}$/);
      }),
      fuzzed(40_000),
    );
  });
});

describe('text of the super cluster', () => {
  const context = testContext();
  const { id, uid } = context.tenant;
  const theirs = superNamespaceName({ id: 'z9z9z9z9z9', namespace: 'other', name: 'green' }, 'vault');
  const part = fc.oneof(
    fc.constantFrom(
      id,
      uid,
      superNamespaceName(context.tenant, 'shop'),
      ':',
      '-',
      '.',
      '/',
      ' ',
      '"',
      'é',
      '$&',
      '$1',
    ),
    fc.string({ unit: 'binary', maxLength: 20 }),
    aLabel,
  );

  it('of any kind loses the internal names of the tenant, and keeps its own namespace', () => {
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
        const text = scrub(
          `${parts.join('')} in ${superNamespaceName(context.tenant, 'shop')} of ${theirs}`,
          context,
        );
        expect(text).not.toContain(id);
        expect(text).not.toContain(uid);
        expect(text).toMatch(/ in shop of /);
      }),
      fuzzed(40_000),
    );
  });

  it('of any kind is read in the same way where nodes are hidden', () => {
    const hidden = testContext({ tenant: { hideNodes: true } });
    // Nodes are looked up by index; none is there.
    Object.assign(hidden.superObjects, { byIndex: () => [] });
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
        expect(scrub(parts.join(''), hidden)).not.toContain(uid);
      }),
      fuzzed(30_000),
    );
  });
});
