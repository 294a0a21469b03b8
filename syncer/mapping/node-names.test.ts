import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { allKinds } from '../kinds/registry.ts';
import { testContext, testTenant } from '../kinds/testing.ts';
import { realNodeName, shownHostIP, shownNodeName } from './node-names.ts';
import { scrub } from './scrub.ts';

const hidden = testTenant({ hideNodes: true });

function node(name: string, addresses: Record<string, string> = {}, hostname?: string): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, ...(hostname && { labels: { 'kubernetes.io/hostname': hostname } }) },
    status: { addresses: Object.entries(addresses).map(([type, address]) => ({ type, address })) },
  };
}

function context(superObjects: KubeObject[], tenant: Partial<TenantInfo> = { hideNodes: true }) {
  return testContext({ tenant, superObjects, kinds: allKinds });
}

describe('names of nodes', () => {
  it('are the real ones unless nodes are hidden', () => {
    const tenant = testTenant();
    expect(shownNodeName(tenant, 'ip-10-0-0-1.example')).toBe('ip-10-0-0-1.example');
    expect(realNodeName(context([], {}), 'ip-10-0-0-1.example')).toBe('ip-10-0-0-1.example');
    expect(shownHostIP(tenant, '198.51.100.4')).toBe('198.51.100.4');
  });

  it('that are hidden are stable, lead back, and say nothing', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?$/), (name) => {
        const shown = shownNodeName(hidden, name);
        expect(shown).toMatch(/^node-[a-z2-7]{8}$/);
        expect(shownNodeName(testTenant({ hideNodes: true }), name)).toBe(shown);
        expect(realNodeName(context([node(name), node('another')]), shown)).toBe(name);
      }),
      { numRuns: 200 },
    );
  });

  it('that are hidden differ from node to node and from tenant to tenant, without a pattern', () => {
    const names = Array.from({ length: 2_000 }, (_, index) => `node-${index}`);
    const other = testTenant({ hideNodes: true, id: 'another000' });
    expect(new Set(names.map((name) => shownNodeName(hidden, name))).size).toBe(names.length);
    const pairs = names.map((name) => [shownNodeName(hidden, name), shownNodeName(other, name)] as const);
    expect(pairs.filter(([a, b]) => a === b)).toEqual([]);
    // Were it one difference for all, a single known pair would tell the rest.
    const difference = (a: string, b: string) =>
      [...a].map((c, i) => c.charCodeAt(0) ^ b.charCodeAt(i)).join();
    expect(new Set(pairs.map(([a, b]) => difference(a, b))).size).toBeGreaterThan(1_900);
  });

  it('that nobody has shown lead nowhere', () => {
    const all = context([node('n1')]);
    for (const name of ['n1', 'node-aaaaaaaa', 'node-', 'node-AAAAAAAA', 'node-aaaaaaa1', 'x']) {
      expect(realNodeName(all, name)).toBeUndefined();
    }
  });

  it('go with the address that tenants know', () => {
    expect(shownHostIP(hidden, '198.51.100.4')).toBe('192.0.2.11');
  });
});

describe('text about hidden nodes', () => {
  const objects = [
    node('sim-0', { InternalIP: '198.51.100.4', ExternalIP: '2001:db8::4' }, 'Host-0'),
    node('ip-10-0-0-1.example', { InternalIP: '10.0.0.1', InternalDNS: 'ip-10-0-0-1.internal' }),
  ];
  const shown = (name: string) => shownNodeName(hidden, name);

  it.each([
    ['assigned shop/web to sim-0', `assigned shop/web to ${shown('sim-0')}`],
    [
      'on SIM-0: sim-0:10250/x, sim-0.',
      `on ${shown('sim-0')}: ${shown('sim-0')}:10250/x, ${shown('sim-0')}.`,
    ],
    ['host-0 and host-0.domain', `${shown('sim-0')} and host-0.domain`],
    ['sim-0.domain.example is down', `${shown('sim-0')} is down`],
    ['dial 198.51.100.4:10250', 'dial 192.0.2.11:10250'],
    ['dial [2001:db8::4]:10250, 2001:db8::4: refused', 'dial [192.0.2.11]:10250, 192.0.2.11: refused'],
    ['at ip-10-0-0-1.internal', `at ${shown('ip-10-0-0-1.example')}`],
  ])('%s', (text, expected) => {
    expect(scrub(text, context(objects))).toBe(expected);
  });

  it('is left alone otherwise, and wholly where nodes are not hidden', () => {
    const text = 'pod web-0 at 12:30:45 had sim-01, 198.51.100.40 and a::b';
    expect(scrub(text, context(objects))).toBe(text);
    expect(scrub('to sim-0', context(objects, {}))).toBe('to sim-0');
  });
});

it('text that looks like an address without end is searched in no time: a search anew from each place takes hours', () => {
  const text = `${':'.repeat(1_000_000)}!`;
  expect(scrub(text, context([node('n-1')]))).toBe(text);
});
