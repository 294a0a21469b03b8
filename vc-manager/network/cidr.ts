import { isIPv4, isIPv6 } from 'node:net';
import { familyNotSupported, invalidAddress, invalidRange, NetworkError } from './errors.ts';

/** Addresses are numbers wide enough for both families; only IPv4 is read so far. */
export interface Address {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** All addresses that share the first `prefixLength` bits. Invariant: `first` has no bit set behind them. */
export interface Cidr {
  readonly family: 4 | 6;
  readonly first: bigint;
  readonly prefixLength: number;
}

const bits = { 4: 32, 6: 128 } as const;

/** Throws `invalid-address` or `family-not-supported`. */
export function parseAddress(text: string): Address {
  if (isIPv6(text)) throw familyNotSupported(text);
  if (!isIPv4(text)) throw invalidAddress(text);
  return { family: 4, value: text.split('.').reduce((value, part) => value * 256n + BigInt(part), 0n) };
}

export function formatAddress(address: Address): string {
  if (address.family === 6) throw familyNotSupported(address.value.toString(16));
  return [24n, 16n, 8n, 0n].map((shift) => (address.value >> shift) & 255n).join('.');
}

/** Reads `10.112.0.0/12`. The address has to be the range's first: anything else is a slip of the pen. Throws `invalid-range`. */
export function parseCidr(text: string): Cidr {
  const [addressText, lengthText, ...rest] = text.split('/');
  if (addressText === undefined || lengthText === undefined || rest.length > 0) {
    throw invalidRange(
      text,
      'it has to be an address, a "/" and a prefix length',
      'For example 10.112.0.0/12.',
    );
  }
  const { family, value } = parseAddress(addressText);
  const prefixLength = Number(lengthText);
  if (!/^(0|[1-9][0-9]{0,2})$/.test(lengthText) || prefixLength > bits[family]) {
    throw invalidRange(
      text,
      `its prefix length is not a number from 0 to ${bits[family]}`,
      'For example 10.112.0.0/12.',
    );
  }
  const first = value - (value % sizeOf(family, prefixLength));
  if (first !== value) {
    const meant = `${formatAddress({ family, value: first })}/${prefixLength}`;
    throw invalidRange(text, 'it does not begin with its first address', `Write ${meant}.`);
  }
  return { family, first, prefixLength };
}

export function formatCidr(cidr: Cidr): string {
  return `${formatAddress({ family: cidr.family, value: cidr.first })}/${cidr.prefixLength}`;
}

/** How many addresses a range has. */
export function cidrSize(cidr: Cidr): bigint {
  return sizeOf(cidr.family, cidr.prefixLength);
}

/** The address behind the last one. */
export function cidrEnd(cidr: Cidr): bigint {
  return cidr.first + cidrSize(cidr);
}

/** The n-th address of a range, counted from 0: `addressAt('10.112.4.0/22', 10)` is `10.112.4.10`. */
export function addressAt(range: string, index: number): string {
  const cidr = parseCidr(range);
  if (!Number.isSafeInteger(index) || index < 0 || BigInt(index) >= cidrSize(cidr)) {
    throw new NetworkError(
      'address-out-of-range',
      String(index),
      `${range} has ${cidrSize(cidr)} addresses, counted from 0: there is no address ${index}. Use a larger range.`,
    );
  }
  return formatAddress({ family: cidr.family, value: cidr.first + BigInt(index) });
}

/** Whether an address or a whole range lies within a range. */
export function cidrContains(range: string, part: string): boolean {
  const outer = parseCidr(range);
  if (part.includes('/')) {
    const inner = parseCidr(part);
    return inner.family === outer.family && outer.first <= inner.first && cidrEnd(inner) <= cidrEnd(outer);
  }
  const { family, value } = parseAddress(part);
  return family === outer.family && outer.first <= value && value < cidrEnd(outer);
}

/** Whether two ranges have an address in common. */
export function cidrsOverlap(left: string, right: string): boolean {
  const a = parseCidr(left);
  const b = parseCidr(right);
  return a.family === b.family && a.first < cidrEnd(b) && b.first < cidrEnd(a);
}

function sizeOf(family: 4 | 6, prefixLength: number): bigint {
  return 1n << BigInt(bits[family] - prefixLength);
}
