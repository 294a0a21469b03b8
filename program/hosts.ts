import { isIPv4, isIPv6 } from 'node:net';

/** As a URL names it: an IPv6 address in brackets. */
export function hostInUrl(host: string): string {
  return isIPv6(host) ? `[${host}]` : host;
}

/** Whether only the machine itself reaches this address or name; in brackets, as in a URL, or without. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'));
}
