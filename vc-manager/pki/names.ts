import { isIP, SocketAddress } from 'node:net';
import { invalidName } from './errors.ts';

/** The names a certificate is valid for; normalised, sorted, without doubles. */
export interface SubjectNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Sorts hosts into DNS names and addresses and brings them into the one form in which they are compared.
 * Throws `invalid-name` for what neither is.
 */
export function subjectNames(hosts: Iterable<string>): SubjectNames {
  const dnsNames = new Set<string>();
  const ipAddresses = new Set<string>();
  for (const host of hosts) {
    const family = isIP(host);
    if (family === 0) dnsNames.add(dnsName(host));
    else ipAddresses.add(ipAddress(host, family));
  }
  return { dnsNames: [...dnsNames].sort(), ipAddresses: [...ipAddresses].sort() };
}

function dnsName(host: string): string {
  const name = host.toLowerCase().replace(/\.$/, '');
  if (name === '') throw invalidName(host, 'it is empty');
  if (name.length > 253) throw invalidName(host, `it has ${name.length} characters`);
  const labels = name.split('.');
  if (labels[0] === '*' && labels.length > 2) labels.shift();
  const bad = labels.find((part) => !label.test(part));
  if (bad !== undefined) throw invalidName(host, `"${bad}" is not a DNS label`);
  // A resolver may read such a name as an address; no top-level domain is made of digits alone.
  if (/^[0-9]+$/.test(labels.at(-1) ?? '')) throw invalidName(host, 'it looks like an address but is none');
  return name;
}

function ipAddress(host: string, family: number): string {
  if (family === 4) return host;
  if (host.includes('%')) throw invalidName(host, 'an address with a zone means nothing on other machines');
  return new SocketAddress({ address: host, family: 'ipv6' }).address;
}
