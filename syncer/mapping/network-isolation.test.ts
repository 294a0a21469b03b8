import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { testTenant } from '../kinds/testing.ts';
import {
  type EgressRule,
  isolationPolicies,
  matchesSelector,
  openEgress,
  type Peer,
} from './network-isolation.ts';

const tenant = testTenant();
const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['192.0.2.1/32', '198.51.100.0/24'] };

/** Whether a rule leads to an address outside the cluster, as an engine reads it. */
function reaches(rules: readonly EgressRule[], address: string, port = 443): boolean {
  const inside = (cidr: string): boolean => {
    const [range, parsed] = [ipaddr.parseCIDR(cidr), ipaddr.parse(address)];
    return range[0].kind() === parsed.kind() && parsed.match(range as never);
  };
  const isPeer = ({ ipBlock }: Peer): boolean =>
    ipBlock !== undefined && inside(ipBlock.cidr) && !(ipBlock.except ?? []).some(inside);
  const isPort = ({ ports }: EgressRule): boolean =>
    ports === undefined ||
    ports.some((each) => port >= Number(each.port) && port <= (each.endPort ?? Number(each.port)));
  return rules.some((rule) => isPort(rule) && (rule.to === undefined || rule.to.some(isPeer)));
}

describe('the policies that keep tenants apart', () => {
  const { 'skerry-egress': egress, 'skerry-ingress': ingress } = isolationPolicies(tenant, isolation);

  it('hold for pods that no policy of the tenant selects', () => {
    const holds = (labels: Record<string, string>) => [
      matchesSelector(ingress?.podSelector ?? {}, labels),
      matchesSelector(egress?.podSelector ?? {}, labels),
    ];
    expect(holds({ app: 'web' })).toEqual([true, true]);
    expect(holds({ [labelKeys.ownIngress]: 'true' })).toEqual([false, true]);
    expect(holds({ [labelKeys.ownEgress]: 'true' })).toEqual([true, false]);
  });

  it("let in the tenant's own pods, the operator's, and the outside, but no other tenant's", () => {
    const from = ingress?.ingress?.[0]?.from ?? [];
    const namespace = (labels: Record<string, string>): boolean =>
      from.some(({ namespaceSelector }) => namespaceSelector && matchesSelector(namespaceSelector, labels));
    expect(namespace({ [labelKeys.tenant]: tenant.uid })).toBe(true);
    expect(namespace({ 'kubernetes.io/metadata.name': 'ingress-nginx' })).toBe(true);
    expect(namespace({ [labelKeys.tenant]: 'another' })).toBe(false);
    expect(reaches([{ to: from }], '203.0.113.9')).toBe(true);
    expect(reaches([{ to: from }], '10.244.3.4')).toBe(false);
  });

  it('let out to the outside, and not to nodes, API servers, pods of others and metadata servers', () => {
    const rules = egress?.egress ?? [];
    expect(reaches(rules, '203.0.113.9')).toBe(true);
    expect(reaches(rules, '2001:db8::9')).toBe(true);
    for (const address of ['192.0.2.1', '198.51.100.7', '10.244.3.4', '169.254.169.254', 'fd00:ec2::254'])
      expect(reaches(rules, address), address).toBe(false);
    // So do Services by the ports of nodes.
    expect(reaches(rules, '198.51.100.7', 30_080)).toBe(true);
    expect(reaches(rules, '198.51.100.7', 10_250)).toBe(false);
    // Name servers of some clouds have the same address.
    expect(reaches(rules, '169.254.169.254', 53)).toBe(true);
  });

  it('let out to no closed IPv4 address by way of NAT64', () => {
    const rules = egress?.egress ?? [];
    expect(reaches(rules, '64:ff9b::203.0.113.9')).toBe(true);
    for (const address of ['192.0.2.1', '198.51.100.7', '10.244.3.4', '169.254.169.254'])
      expect(reaches(rules, `64:ff9b::${address}`), address).toBe(false);
    const own = openEgress([{ to: [{ ipBlock: { cidr: '64:ff9b::/96' } }] }], tenant, isolation);
    expect(reaches(own, '64:ff9b::198.51.100.7')).toBe(false);
    const everything = { podCIDRs: [], closedCIDRs: ['0.0.0.0/8'] };
    const [world] = openEgress([{ to: [{ ipBlock: { cidr: '::/0' } }] }], tenant, everything);
    expect(world?.to?.[0]?.ipBlock?.except).toContain('64:ff9b::/104');
  });

  it("let out to the tenant's own API server, wherever it is", () => {
    const closed = { ...isolation, closedCIDRs: [`${tenant.apiServer.address}/32`] };
    const rules = isolationPolicies(tenant, closed)['skerry-egress']?.egress ?? [];
    expect(reaches(rules, tenant.apiServer.address, tenant.apiServer.port)).toBe(true);
    expect(reaches(rules, tenant.apiServer.address, 22)).toBe(false);
    const byService = testTenant({ apiServer: { ...tenant.apiServer, isService: true } });
    const peers = isolationPolicies(byService, isolation)['skerry-egress']?.egress?.flatMap(
      ({ to = [] }) => to,
    );
    expect(peers).toContainEqual({ namespaceSelector: { matchLabels: { 'skerry.dev/id': tenant.id } } });
  });

  it('leave ingress alone where it is not known which addresses are pods', () => {
    expect(Object.keys(isolationPolicies(tenant, { ...isolation, podCIDRs: [] }))).toEqual(['skerry-egress']);
  });
});

describe("the egress rules of a tenant's own policy", () => {
  it('lead to nothing that is closed, and everywhere else that they did', () => {
    const everywhere: EgressRule[] = [{}, { to: [{ ipBlock: { cidr: '0.0.0.0/0' } }] }];
    for (const rule of everywhere) {
      const open = openEgress([rule], tenant, isolation);
      expect(reaches(open, '203.0.113.9')).toBe(true);
      expect(reaches(open, '10.244.3.4')).toBe(true);
      for (const address of ['192.0.2.1', '198.51.100.7', '169.254.169.254'])
        expect(reaches(open, address), address).toBe(false);
    }
    expect(openEgress([{ to: [{ ipBlock: { cidr: '198.51.100.128/25' } }] }], tenant, isolation)).toEqual([]);
    expect(openEgress([{ to: [{ ipBlock: { cidr: '198.51.100.0/24' } }] }], tenant, isolation)).toEqual([]);
    const other: EgressRule[] = [
      { to: [{ podSelector: {} }, { ipBlock: { cidr: '203.0.113.0/24', except: ['203.0.113.9/32'] } }] },
    ];
    expect(openEgress(other, tenant, isolation)).toEqual(other);
  });

  it('keep their ports', () => {
    const ports = [{ protocol: 'TCP', port: 8443 }];
    const open = openEgress([{ ports }], tenant, isolation);
    expect(reaches(open, '203.0.113.9', 8443)).toBe(true);
    expect(reaches(open, '203.0.113.9', 80)).toBe(false);
    expect(reaches(open, tenant.apiServer.address, tenant.apiServer.port)).toBe(false);
    expect(reaches(open, '198.51.100.7', 53)).toBe(false);
    const some = openEgress([{ ports: [{ protocol: 'TCP', port: 1, endPort: 100 }] }], tenant, isolation);
    expect(reaches(some, '198.51.100.7', 53)).toBe(true);
    expect(reaches(some, '198.51.100.7', 80)).toBe(false);
  });

  it('never lead to a closed address, whatever block they name', () => {
    const octet = fc.integer({ min: 0, max: 255 });
    const cidr = fc
      .tuple(octet, octet, octet, octet, fc.integer({ min: 0, max: 32 }))
      .map(
        ([a, b, c, d, length]) =>
          `${ipaddr.IPv4.networkAddressFromCIDR(`${a}.${b}.${c}.${d}/${length}`)}/${length}`,
      );
    fc.assert(
      fc.property(
        fc.array(cidr, { minLength: 1 }),
        fc.array(cidr, { minLength: 1 }),
        (blocks, closedCIDRs) => {
          const rules = [{ to: blocks.map((block) => ({ ipBlock: { cidr: block } })) }];
          const open = openEgress(rules, tenant, { podCIDRs: [], closedCIDRs });
          for (const closed of closedCIDRs) {
            const address = closed.split('/')[0] ?? '';
            expect(reaches(open, address)).toBe(false);
          }
          for (const { ipBlock } of open.flatMap(({ to = [] }) => to)) {
            // An API server takes only strict parts of the block.
            for (const except of ipBlock?.except ?? [])
              expect(ipaddr.parseCIDR(except)[1]).toBeGreaterThan(ipaddr.parseCIDR(ipBlock?.cidr ?? '')[1]);
          }
        },
      ),
    );
  });

  it('lead to nothing that is closed in whatever form an address is written', () => {
    const block = (cidr: string, except?: string[]) =>
      openEgress([{ to: [{ ipBlock: { cidr, ...(except && { except }) } }] }], tenant, isolation);
    const mapped = ['::ffff:198.51.100.7/128', '::ffff:c633:6407/128', '::ffff:198.51.100.0/120'];
    const withZeros = [
      '198.51.100.007/32',
      '0198.051.100.7/032',
      '198.051.100.0/24',
      '::ffff:198.051.100.7/128',
    ];
    for (const cidr of [...mapped, ...withZeros]) expect(block(cidr), cidr).toEqual([]);
    const everywhere = block('::ffff:0:0/96', ['::ffff:203.0.113.8/125']);
    expect(everywhere).toEqual(block('0.0.0.0/0', ['203.0.113.8/29']));
    expect(reaches(everywhere, '198.51.100.7')).toBe(false);
    expect(block('203.000.113.9/32')).toEqual(block('203.0.113.9/32'));
    for (const cidr of ['2001:db8::/32', '::/0']) expect(block(cidr)[0]?.to?.[0]?.ipBlock?.cidr).toBe(cidr);
  });

  it('name ranges by their first address, as API servers since 1.36 want it', () => {
    const closed = { podCIDRs: ['10.244.3.0/16'], closedCIDRs: ['198.51.100.7/24', '::ffff:192.0.2.0/120'] };
    const blocks = (rules: readonly EgressRule[] = []) =>
      rules.flatMap(({ to = [] }) => to.flatMap(({ ipBlock }) => ipBlock ?? []));
    const own = openEgress([{ to: [{ ipBlock: { cidr: '198.51.99.1/20' } }] }], tenant, closed);
    expect(blocks(own)).toEqual([{ cidr: '198.51.96.0/20', except: ['198.51.100.0/24'] }]);
    const [world] = blocks(isolationPolicies(tenant, closed)['skerry-egress']?.egress);
    expect(world?.except).toEqual(
      expect.arrayContaining(['10.244.0.0/16', '198.51.100.0/24', '192.0.2.0/24']),
    );
    expect(world?.except).toHaveLength(6);
  });

  it('that cannot be read are left to the API server of the super cluster', () => {
    const odd: EgressRule[] = [{ to: [{ ipBlock: { cidr: 'nonsense' } }] }];
    expect(openEgress(odd, tenant, isolation)).toEqual(odd);
  });
});
