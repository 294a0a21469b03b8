import { BlockList, isIP } from 'node:net';

/** A test for whether an address is an IP inside one of the CIDRs; for many addresses, as it is made once. */
export function insideOf(cidrs: Iterable<string>): (address: string) => boolean {
  const inside = new BlockList();
  for (const cidr of cidrs) {
    const [base = '', prefix = ''] = cidr.split('/');
    inside.addSubnet(base, Number(prefix), familyOf(base));
  }
  return (address) => isIP(address) !== 0 && inside.check(address, familyOf(address));
}

/** Whether every address is an IP inside one of the CIDRs. */
export function allInside(addresses: readonly string[], cidrs: readonly string[]): boolean {
  return addresses.every(insideOf(cidrs));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}
