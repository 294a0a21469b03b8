import { type BlockList, isIP } from 'node:net';

/**
 * Whose request it is, by what the proxies say that are trusted: each adds to the right of X-Forwarded-For whom it was asked
 * by, so that the first one from the right that is no such proxy is the client. What stands further left anybody can write.
 */
export function clientAddress(
  remote: string,
  forwardedFor: string | undefined,
  trusted: BlockList | undefined,
): string {
  let address = bare(remote);
  const hops = (forwardedFor ?? '').split(',').map((hop) => bare(hop.trim()));
  while (trusted !== undefined && isTrusted(trusted, address)) {
    const next = hops.pop();
    if (next === undefined || isIP(next) === 0) break;
    address = next;
  }
  return address;
}

/** Whom an address counts as: whoever has one of IPv6 has all of its /64. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [whole = ''] = address.split('%', 1);
  const [left, right] = whole.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const groups = left ?? [];
  const missing = right === undefined ? 0 : 8 - groups.length - right.length;
  const all = [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0'), ...(right ?? [])];
  const prefix = all.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${prefix.join(':')}::/64`;
}

function isTrusted(trusted: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && trusted.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

/** Without a port, and IPv4 as such. */
function bare(address: string): string {
  const withoutPort =
    /^\[(.+)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address;
  return withoutPort.replace(/^::ffff:(?=[\d.]+$)/i, '');
}
