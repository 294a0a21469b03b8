import { createServer, isIPv4, isIPv6 } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

type NetworkErrorCode =
  | 'invalid-address'
  | 'invalid-range'
  | 'family-not-supported'
  | 'address-out-of-range'
  | 'slice-larger-than-pool'
  | 'invalid-port-range'
  | 'no-free-port'
  | 'cannot-listen';

/** Retryable only where the machine may change: a port that is given back, an address that appears. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError';
  readonly code: NetworkErrorCode;
  /** The text, number or host that the error is about. */
  readonly subject: string;
  readonly retryable: boolean;

  constructor(code: NetworkErrorCode, subject: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.subject = subject;
    this.retryable = code === 'no-free-port' || code === 'cannot-listen';
  }
}

function invalidAddress(text: string): NetworkError {
  return new NetworkError(
    'invalid-address',
    text,
    `"${text}" is not an IPv4 address. Write four numbers from 0 to 255 without leading zeros, for example 10.112.0.1.`,
  );
}

function invalidRange(text: string, why: string, remedy: string): NetworkError {
  return new NetworkError('invalid-range', text, `"${text}" is not an address range: ${why}. ${remedy}`);
}

function familyNotSupported(text: string): NetworkError {
  return new NetworkError(
    'family-not-supported',
    text,
    `"${text}" is IPv6, which is not supported yet. Use an IPv4 range or address, for example 10.112.0.0/12.`,
  );
}

/** Addresses are numbers wide enough for both families; only IPv4 is read so far. */
interface Address {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** All addresses that share the first `prefixLength` bits. Invariant: `first` has no bit set behind them. */
interface Cidr {
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

function formatCidr(cidr: Cidr): string {
  return `${formatAddress({ family: cidr.family, value: cidr.first })}/${cidr.prefixLength}`;
}

/** How many addresses a range has. */
function cidrSize(cidr: Cidr): bigint {
  return sizeOf(cidr.family, cidr.prefixLength);
}

/** The address behind the last one. */
function cidrEnd(cidr: Cidr): bigint {
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

/**
 * The lowest free slice of `pool` with the given prefix length, or undefined when none is left.
 * `taken` may hold ranges of any size, also ones outside the pool; none of them overlaps the answer.
 * Throws NetworkError for a range that cannot be read: to pass over it could hand out its addresses twice.
 */
export function allocateSlice(
  pool: string,
  prefixLength: number,
  taken: readonly string[],
): string | undefined {
  const { family, first, prefixLength: poolPrefixLength } = parseCidr(pool);
  const widest = family === 4 ? 32 : 128;
  if (!Number.isInteger(prefixLength) || prefixLength < 0 || prefixLength > widest) {
    throw invalidRange(
      `/${prefixLength}`,
      `a prefix length is a number from 0 to ${widest}`,
      'For example 22.',
    );
  }
  if (prefixLength < poolPrefixLength) {
    throw new NetworkError(
      'slice-larger-than-pool',
      `/${prefixLength}`,
      `The pool ${pool} is smaller than one slice of /${prefixLength}. Use a larger pool, or slices of /${poolPrefixLength} or smaller.`,
    );
  }
  const end = cidrEnd({ family, first, prefixLength: poolPrefixLength });
  const size = cidrSize({ family, first, prefixLength });
  const used = taken
    .map(parseCidr)
    .filter((cidr) => cidr.family === family)
    .sort((left, right) => Number(left.first - right.first));

  // Invariant: the candidate is aligned, and nothing below it is free for a whole slice.
  let candidate = first;
  for (const cidr of used) {
    if (cidr.first >= candidate + size) break;
    const behind = cidrEnd(cidr);
    if (behind > candidate) candidate = ((behind + size - 1n) / size) * size;
  }
  return candidate + size <= end ? formatCidr({ family, first: candidate, prefixLength }) : undefined;
}

interface FreePortOptions {
  /** Address to listen on later, for example 127.0.0.1. */
  readonly host: string;
  /** First and last port to try. */
  readonly range: readonly [first: number, last: number];
  /** Ports that are promised to somebody who may not be listening yet. */
  readonly taken?: Iterable<number>;
}

/**
 * The lowest port of the range that is not promised and on which one can listen right now. Nothing holds it afterwards:
 * whoever asks twice at the same time has to put the first answer into `taken`.
 * Throws NetworkError `invalid-port-range`, `no-free-port`, or `cannot-listen` when the host is not this machine's.
 */
export async function freePort(options: FreePortOptions): Promise<number> {
  const [first, last] = options.range;
  const isPort = (port: number) => Number.isInteger(port) && port >= 1 && port <= 65_535;
  if (!isPort(first) || !isPort(last) || first > last) {
    throw new NetworkError(
      'invalid-port-range',
      `${first}-${last}`,
      `${first}-${last} is not a range of ports: use two whole numbers from 1 to 65535, the smaller one first.`,
    );
  }
  const taken = new Set(options.taken ?? []);
  for (let port = first; port <= last; port++) {
    if (!taken.has(port) && (await canListen(options.host, port))) return port;
  }
  throw new NetworkError(
    'no-free-port',
    `${first}-${last}`,
    `No port from ${first} to ${last} is free on ${options.host}. Stop what uses them, delete tenants, or choose a larger range.`,
  );
}

async function canListen(host: string, port: number): Promise<boolean> {
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, exclusive: true }, resolve);
    });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EADDRINUSE' || code === 'EACCES') return false;
    throw new NetworkError(
      'cannot-listen',
      host,
      `Cannot listen on ${host} (${error instanceof Error ? error.message : String(error)}). Use an address of this machine, for example 127.0.0.1.`,
      { cause: error },
    );
  }
  await new Promise((resolve) => server.close(resolve));
  return true;
}

/** The first IPv4 address under which others can reach this machine; undefined when it has loopback only. */
export function machineAddress(
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): string | undefined {
  return Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal, address }) => family === 'IPv4' && !internal && !isLinkLocal(address))
    ?.address;
}

/** What a machine gives itself when nobody gave it an address: good for one cable only. */
function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.');
}
