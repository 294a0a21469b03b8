import { once } from 'node:events';
import { createServer } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';
import { CodedError, messageOf } from '../../kube/index.ts';

export type NetworkErrorCode =
  | 'InvalidAddress'
  | 'InvalidRange'
  | 'FamilyNotSupported'
  | 'AddressOutOfRange'
  | 'SliceLargerThanPool'
  | 'InvalidPortRange'
  | 'NoFreePort'
  | 'CannotListen';

/** Retryable only where the machine may change: a port that is given back, an address that appears. */
export class NetworkError extends CodedError<NetworkErrorCode> {
  override readonly name = 'NetworkError';
  /** The text, number or host that the error is about. */
  readonly subject: string;

  constructor(code: NetworkErrorCode, subject: string, message: string, options?: ErrorOptions) {
    super(code, message, code === 'NoFreePort' || code === 'CannotListen', options);
    this.subject = subject;
  }
}

/** An IPv4 range. Addresses are whole numbers from 0 to 2^32 - 1. */
interface AddressRange {
  /** The first address; all of its bits behind the prefix are 0. */
  readonly first: number;
  readonly prefixLength: number;
  /** The address behind the last one. */
  readonly end: number;
}

/** The n-th address of a range, counted from 0: `addressAt('10.112.4.0/22', 10)` is `10.112.4.10`. */
export function addressAt(range: string, index: number): string {
  const { first, end } = parseRange(range);
  if (!Number.isSafeInteger(index) || index < 0 || index >= end - first) {
    throw new NetworkError(
      'AddressOutOfRange',
      String(index),
      `${range} has ${end - first} addresses, counted from 0: there is no address ${index}. Use a larger range.`,
    );
  }
  return formatAddress(first + index);
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
  const { first, prefixLength: poolPrefixLength, end } = parseRange(pool);
  if (!Number.isInteger(prefixLength) || prefixLength < 0 || prefixLength > 32) {
    throw invalidRange(`/${prefixLength}`, 'a prefix length is a number from 0 to 32', 'For example 22.');
  }
  if (prefixLength < poolPrefixLength) {
    throw new NetworkError(
      'SliceLargerThanPool',
      `/${prefixLength}`,
      `The pool ${pool} is smaller than one slice of /${prefixLength}. Use a larger pool, or slices of /${poolPrefixLength} or smaller.`,
    );
  }
  const size = sizeOf(prefixLength);
  const used = taken.map(parseRange).sort((left, right) => left.first - right.first);
  // Invariant: the candidate is aligned, and nothing below it is free for a whole slice.
  let candidate = first;
  for (const range of used) {
    if (range.first >= candidate + size) break;
    if (range.end > candidate) candidate = Math.ceil(range.end / size) * size;
  }
  return candidate + size <= end ? `${formatAddress(candidate)}/${prefixLength}` : undefined;
}

/** API servers accept no larger range of service addresses. */
const shortestServicePrefix = 12;

/** The largest range of service addresses that can have this as its first usable one. */
export function widestServiceRange(firstAddress: string): string {
  const { first } = parseRange(`${firstAddress}/32`);
  const base = first - 1;
  let prefixLength = shortestServicePrefix;
  while (base % sizeOf(prefixLength) !== 0) prefixLength += 1;
  return `${formatAddress(base)}/${prefixLength}`;
}

/** Reads `10.112.0.0/12`. An address that is not the range's first is refused as a slip of the pen. */
function parseRange(text: string): AddressRange {
  const [address, length, ...rest] = text.split('/');
  if (address === undefined || length === undefined || rest.length > 0) {
    throw invalidRange(
      text,
      'it has to be an address, a "/" and a prefix length',
      'For example 10.112.0.0/12.',
    );
  }
  if (ipaddr.IPv6.isValid(address)) {
    throw new NetworkError(
      'FamilyNotSupported',
      address,
      `"${address}" is IPv6, which is not supported yet. Use an IPv4 range or address, for example 10.112.0.0/12.`,
    );
  }
  if (!ipaddr.IPv4.isValidFourPartDecimal(address)) {
    throw new NetworkError(
      'InvalidAddress',
      address,
      `"${address}" is not an IPv4 address. Write four numbers from 0 to 255 without leading zeros, for example 10.112.0.1.`,
    );
  }
  const prefixLength = Number(length);
  if (!/^(0|[1-9][0-9]?)$/.test(length) || prefixLength > 32) {
    throw invalidRange(text, 'its prefix length is not a number from 0 to 32', 'For example 10.112.0.0/12.');
  }
  const meant = ipaddr.IPv4.networkAddressFromCIDR(text).toString();
  if (meant !== address) {
    throw invalidRange(text, 'it does not begin with its first address', `Write ${meant}/${prefixLength}.`);
  }
  const first = Buffer.from(ipaddr.IPv4.parse(address).toByteArray()).readUInt32BE();
  return { first, prefixLength, end: first + sizeOf(prefixLength) };
}

function formatAddress(address: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(address);
  return ipaddr.fromByteArray([...bytes]).toString();
}

function sizeOf(prefixLength: number): number {
  return 2 ** (32 - prefixLength);
}

function invalidRange(text: string, why: string, remedy: string): NetworkError {
  return new NetworkError('InvalidRange', text, `"${text}" is not an address range: ${why}. ${remedy}`);
}

interface FreePortOptions {
  /** Address to listen on later, for example 127.0.0.1. */
  readonly host: string;
  /** First and last port to try. */
  readonly range: readonly [first: number, last: number];
  /** Ports that are assigned already, although their servers may not be listening yet. */
  readonly taken?: Iterable<number>;
}

/**
 * The lowest port of the range that is not in `taken` and on which one can listen right now. Nothing reserves it
 * afterwards: a caller that needs two ports has to put the first answer into `taken`.
 * Throws NetworkError `InvalidPortRange`, `NoFreePort`, or `CannotListen` when the host is not this machine's.
 */
export async function freePort(options: FreePortOptions): Promise<number> {
  const [first, last] = options.range;
  const isPort = (port: number) => Number.isInteger(port) && port >= 1 && port <= 65_535;
  if (!isPort(first) || !isPort(last) || first > last) {
    throw new NetworkError(
      'InvalidPortRange',
      `${first}-${last}`,
      `${first}-${last} is not a range of ports: use two whole numbers from 1 to 65535, the smaller one first.`,
    );
  }
  const taken = new Set(options.taken ?? []);
  for (let port = first; port <= last; port++) {
    if (!taken.has(port) && (await canListen(options.host, port))) return port;
  }
  throw new NetworkError(
    'NoFreePort',
    `${first}-${last}`,
    `No port from ${first} to ${last} is free on ${options.host}. Stop what uses them, delete tenants, or choose a larger range.`,
  );
}

async function canListen(host: string, port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, 'listening');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EADDRINUSE' || code === 'EACCES') return false;
    throw new NetworkError(
      'CannotListen',
      host,
      `Cannot listen on ${host} (${messageOf(error)}). Use an address of this machine, for example 127.0.0.1.`,
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

/** What a machine assigns itself where no DHCP server answers: usable on one link only. */
function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.');
}

/** Whether the address lies in the range; false for what is no address. */
export function isInRange(address: string, range: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  const [network, bits] = ipaddr.parseCIDR(range);
  return parsed.kind() === network.kind() && parsed.match(network, bits);
}
