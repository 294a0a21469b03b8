import { BlockList, isIP, isIPv4 } from 'node:net';

/** Whether a list of what is allowed, in which `*` stands for everything, holds an item. */
export function namesIt(allowed: readonly string[], item: string): boolean {
  return allowed.includes(item) || allowed.includes('*');
}

/** Whether a host name, or all names that one like `*.example.com` stands for, are among those allowed. */
export function coversHost(allowed: readonly string[], host: string): boolean {
  return allowed.some((each) => {
    if (each === '*' || each === host) return true;
    return each.startsWith('*.') && host.endsWith(each.slice(1));
  });
}

/** Whether a range lies within one of those allowed. Something that is no range does not. */
export function coversRange(allowed: readonly string[], range: string): boolean {
  const inner = parse(range);
  if (inner === undefined) return false;
  return allowed.some((each) => {
    const outer = parse(each);
    if (outer === undefined || outer.family !== inner.family || outer.prefix > inner.prefix) return false;
    const list = new BlockList();
    list.addSubnet(outer.address, outer.prefix, outer.family);
    return list.check(inner.address, inner.family);
  });
}

/** The bits of the address behind the prefix count as none. */
function parse(range: string): { address: string; prefix: number; family: 'ipv4' | 'ipv6' } | undefined {
  const [address = '', length = '', ...rest] = range.split('/');
  if (rest.length > 0 || isIP(address) === 0 || !/^[0-9]{1,3}$/.test(length)) return undefined;
  const family = isIPv4(address) ? 'ipv4' : 'ipv6';
  const prefix = Number(length);
  return prefix <= (family === 'ipv4' ? 32 : 128) ? { address, prefix, family } : undefined;
}
