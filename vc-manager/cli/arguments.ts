import { isIP } from 'node:net';
import { InvalidArgumentError } from 'commander';
import ipaddr from 'ipaddr.js';
import { parseQuantity } from '../../kube/index.ts';
import type { EgressTarget } from '../os/egress-filter.ts';
import { machineAddress } from '../os/network.ts';

/** A Go duration as kubectl takes it (`90s`, `2m30s`, `1h`) or plain seconds; in milliseconds. */
export function duration(text: string): number {
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text) {
    throw new InvalidArgumentError('Give a duration such as 90s, 5m or 1h.');
  }
  return parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (units[unit ?? ''] ?? 0), 0);
}

export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= least && number <= most) return number;
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`Give a whole number ${range}.`);
  };
}

/** As 512Mi or 2Gi; in bytes. */
export function memoryQuantity(text: string): number {
  const bytes = parseQuantity(text);
  if (bytes !== undefined && bytes >= 1024 ** 2) return bytes;
  throw new InvalidArgumentError('Give an amount of memory of at least 1Mi, such as 512Mi or 2Gi.');
}

export function kubernetesVersion(text: string): string {
  const version = text.replace(/^v/, '');
  if (/^1\.\d{1,3}(\.\d{1,3})?$/.test(version)) return version;
  throw new InvalidArgumentError('Give a Kubernetes version such as 1.36 or 1.36.3.');
}

export function ipAddress(text: string): string {
  if (isIP(text) === 0) throw new InvalidArgumentError('Give an IP address, for example 127.0.0.1.');
  return text;
}

export function hostAndPort(text: string): { host: string; port: number } {
  const [, bracketed, plain, digits] = /^(?:\[(.+)\]|([^:]+)):(\d+)$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host !== undefined && port <= 65_535) return { host, port };
  throw new InvalidArgumentError('Give it as HOST:PORT, for example 127.0.0.1:10452.');
}

/** Without a host: what is reached there is found by its own name. */
export function gatewayAddress(text: string): { host?: string; port: number } {
  const port = /^:(\d+)$/.exec(text)?.[1];
  if (port === undefined) return hostAndPort(text);
  return { port: hostAndPort(`any${text}`).port };
}

export function portRange(text: string): { first: number; last: number } {
  const [first = 0, last = 0] = /^(\d+)-(\d+)$/.exec(text)?.slice(1).map(Number) ?? [];
  if (first >= 1 && first <= last && last <= 65_535) return { first, last };
  throw new InvalidArgumentError('Give two ports, the smaller one first: 21000-21999.');
}

/** Servers, repeatable: an address or range, and perhaps a port or several. */
export function egressTarget(text: string, before: readonly EgressTarget[] = []): EgressTarget[] {
  const [, bracketed, plain = '', first, last = first] =
    /^(?:\[(.+)\]|([^:]+)):(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  const to = cidrOf(text) ?? cidrOf(bracketed ?? plain);
  if (to === undefined)
    throw new InvalidArgumentError(
      'Give an address or a range, and perhaps ports: 10.1.0.0/16, 10.1.0.9:443, [fd00::/8]:8000-8999.',
    );
  if (first === undefined) return [...before, { to }];
  const ports = portRange(`${first}-${last}`);
  return [...before, { to, ports: [ports.first, ports.last] }];
}

/** Addresses and ranges, repeatable, as CIDRs. */
export function addressRanges(text: string, before: readonly string[] = []): string[] {
  const cidr = cidrOf(text);
  if (cidr === undefined)
    throw new InvalidArgumentError('Give an address or a range: 10.1.0.9, 10.1.0.0/16, fd00::/8.');
  return [...before, cidr];
}

/** As a CIDR that begins with its first address; undefined for what is neither an address nor a range. */
function cidrOf(text: string): string | undefined {
  const [address = '', bits] = text.split('/', 2);
  const family = isIP(address);
  const cidr = bits === undefined ? `${address}/${family === 6 ? 128 : 32}` : text;
  const type = family === 6 ? ipaddr.IPv6 : ipaddr.IPv4;
  if (family === 0 || address.includes('%') || !type.isValidCIDR(cidr)) return undefined;
  return `${type.networkAddressFromCIDR(cidr)}/${cidr.split('/')[1]}`;
}

/** `key=value,key=value`, repeatable: a later value of a key replaces an earlier one. */
export function labelPairs(
  text: string,
  before: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const pairs = text.split(',').map((pair) => /^([^=]+)=([^=]*)$/.exec(pair)?.slice(1) ?? []);
  if (pairs.some(({ length }) => length !== 2)) {
    throw new InvalidArgumentError('Give labels as key=value, several with a comma between them.');
  }
  return { ...before, ...(Object.fromEntries(pairs) as Record<string, string>) };
}

// Reserved for documentation (RFC 5737). Simulated pods open no connections, and Kubernetes refuses loopback addresses.
const unroutableAddress = '192.0.2.1';

/** The address under which tenants' API servers are published: one of this machine, or an unreachable one without a network. */
export function defaultAdvertiseAddress(): string {
  return machineAddress() ?? unroutableAddress;
}
