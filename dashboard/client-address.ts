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
