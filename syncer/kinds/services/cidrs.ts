import { BlockList, isIP } from 'node:net';

/** Whether every address is an IP inside one of the CIDRs. */
export function allInside(addresses: readonly string[], cidrs: readonly string[]): boolean {
  const inside = new BlockList();
  for (const cidr of cidrs) {
    const [base = '', prefix = ''] = cidr.split('/');
    inside.addSubnet(base, Number(prefix), familyOf(base));
  }
  return addresses.every((address) => isIP(address) !== 0 && inside.check(address, familyOf(address)));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}
