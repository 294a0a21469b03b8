/** Longer than any client sends: keys of key exchanges that withstand quantum computers take some 1,200 bytes each. */
export const longestHello = 16 * 1024;
/** A hello may come in several records. One of many small records is no client's. */
const maxRecords = 16;
const longestRecord = 16 * 1024;

const recordHeaderBytes = 5;
const handshakeHeaderBytes = 4;
const handshakeRecord = 22;
const clientHello = 1;
const serverNameExtension = 0;
const hostName = 0;

/**
 * What a client has said first. `incomplete`: the answer needs `needed` bytes at least. `named`: TLS for this server
 * name, in lower case. `nameless`: TLS, and the client names no server. `invalid`: no client of TLS, or a malformed one.
 */
export type ClientHello =
  | { kind: 'incomplete'; needed: number }
  | { kind: 'named'; name: string }
  | { kind: 'nameless' }
  | { kind: 'invalid'; why: string };

/**
 * The server name in the ClientHello with which a TLS connection begins (RFC 8446, section 4.1.2; RFC 6066, section 3).
 * Reads no more than it needs, and only as much as `longestHello`. Never throws.
 */
export function readClientHello(bytes: Buffer): ClientHello {
  try {
    return parse(bytes);
  } catch (error) {
    if (error instanceof Invalid) return { kind: 'invalid', why: error.message };
    if (error instanceof RangeError) return { kind: 'invalid', why: 'a length points past the end' };
    throw error;
  }
}

class Invalid extends Error {}

function parse(bytes: Buffer): ClientHello {
  const parts: Buffer[] = [];
  let length = 0;
  let at = 0;
  /** Of the message with its header, as soon as that is known. */
  let wanted = handshakeHeaderBytes;
  for (let records = 0; length < wanted; records++) {
    if (records === maxRecords) throw new Invalid('the hello is cut into too many records');
    // What is no TLS at all is known by its first byte.
    if (bytes.length > at && bytes[at] !== handshakeRecord) throw new Invalid('this is not TLS');
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) throw new Invalid('this is not TLS');
    if (bytes.length < at + recordHeaderBytes) return { kind: 'incomplete', needed: at + recordHeaderBytes };
    const size = bytes.readUInt16BE(at + 3);
    if (size === 0 || size > longestRecord) throw new Invalid('a record has no valid length');
    const end = at + recordHeaderBytes + size;
    if (bytes.length < end) {
      if (records === 0 && bytes.length >= at + recordHeaderBytes + handshakeHeaderBytes)
        helloLength(bytes.subarray(at + recordHeaderBytes));
      return { kind: 'incomplete', needed: end };
    }
    parts.push(bytes.subarray(at + recordHeaderBytes, end));
    length += size;
    at = end;
    if (length >= handshakeHeaderBytes) wanted = helloLength(joined(parts));
  }
  return serverName(new Reader(joined(parts).subarray(handshakeHeaderBytes, wanted)));
}

function joined(parts: readonly Buffer[]): Buffer {
  return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
}

function helloLength(message: Buffer): number {
  if (message[0] !== clientHello) throw new Invalid('the first message is no ClientHello');
  const length = message.readUIntBE(1, 3) + handshakeHeaderBytes;
  if (length > longestHello) throw new Invalid(`the hello is longer than ${longestHello} bytes`);
  return length;
}

function serverName(hello: Reader): ClientHello {
  // legacy_version and random.
  hello.skip(2 + 32);
  hello.vector(1);
  hello.vector(2);
  hello.vector(1);
  // Before TLS 1.3 a hello need not have extensions.
  if (hello.isEmpty) return { kind: 'nameless' };
  const extensions = hello.vector(2);
  let name: string | undefined;
  while (!extensions.isEmpty) {
    const type = extensions.uint(2);
    const content = extensions.vector(2);
    if (type !== serverNameExtension) continue;
    if (name !== undefined) throw new Invalid('the hello names a server twice');
    name = hostNameOf(content);
  }
  return name === undefined ? { kind: 'nameless' } : { kind: 'named', name };
}

const dnsName = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

function hostNameOf(extension: Reader): string {
  const names = extension.vector(2);
  const type = names.uint(1);
  const name = names.vector(2).text().toLowerCase();
  if (type !== hostName || !names.isEmpty || !extension.isEmpty)
    throw new Invalid('the server name is not one host name');
  if (name.length > 253 || !dnsName.test(name)) throw new Invalid('the server name is no DNS name');
  return name;
}

/** Throws RangeError where there are fewer bytes than are asked for. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isEmpty(): boolean {
    return this.#at === this.#bytes.length;
  }

  skip(count: number): void {
    if (this.#at + count > this.#bytes.length) throw new RangeError('past the end');
    this.#at += count;
  }

  uint(size: 1 | 2): number {
    const from = this.#at;
    this.skip(size);
    return this.#bytes.readUIntBE(from, size);
  }

  /** What follows its length, which takes `size` bytes. */
  vector(size: 1 | 2): Reader {
    const length = this.uint(size);
    const from = this.#at;
    this.skip(length);
    return new Reader(this.#bytes.subarray(from, this.#at));
  }

  text(): string {
    return this.#bytes.toString('latin1', this.#at);
  }
}

/** Version 1 takes 107 bytes at most; of version 2, addresses and a few extensions. */
const longestText = 107;
const longestBinary = 16 + 1024;
const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

export type ProxyHeader = { kind: 'incomplete' } | { kind: 'invalid' } | { kind: 'header'; length: number };

/**
 * The header of the PROXY protocol, version 1 or 2, with which a load balancer begins each connection. Only its length is
 * of interest here.
 */
export function readProxyHeader(bytes: Buffer): ProxyHeader {
  if (isPrefix(bytes, signature)) {
    if (bytes.length < 16) return { kind: 'incomplete' };
    const length = 16 + bytes.readUInt16BE(14);
    if ((bytes.readUInt8(12) & 0xf0) !== 0x20 || length > longestBinary) return { kind: 'invalid' };
    return bytes.length < length ? { kind: 'incomplete' } : { kind: 'header', length };
  }
  if (!isPrefix(bytes, Buffer.from('PROXY '))) return { kind: 'invalid' };
  const end = bytes.subarray(0, longestText).indexOf('\r\n');
  if (end !== -1) return { kind: 'header', length: end + 2 };
  return bytes.length < longestText ? { kind: 'incomplete' } : { kind: 'invalid' };
}

/** Whether one of both begins with the other. */
function isPrefix(bytes: Buffer, wanted: Buffer): boolean {
  const length = Math.min(bytes.length, wanted.length);
  return bytes.subarray(0, length).equals(wanted.subarray(0, length));
}
