import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type ConnectionOptions, connect } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { longestHello, readClientHello } from './client-hello.ts';

/** What Node's own TLS sends first. */
async function realHello(options: ConnectionOptions): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect({ ...options, port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
  client.on('error', () => undefined);
  const [socket] = (await once(server, 'connection')) as [Socket];
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

/** The same message in records of at most this many bytes. */
function recordsOf(hello: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 5; at < hello.length; at += size) {
    const part = hello.subarray(at, at + size);
    parts.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(parts);
}

const lengths = (...bytes: number[]): Buffer => Buffer.from(bytes);
const vector = (size: 1 | 2 | 3, content: Buffer): Buffer => {
  const length = Buffer.alloc(size);
  length.writeUIntBE(content.length, 0, size);
  return Buffer.concat([length, content]);
};
const extension = (type: number, content: Buffer): Buffer =>
  Buffer.concat([lengths(type >> 8, type & 255), vector(2, content)]);
const sni = (name: string, type = 0): Buffer =>
  extension(0, vector(2, Buffer.concat([lengths(type), vector(2, Buffer.from(name, 'latin1'))])));
function hello(extensions: Buffer | undefined): Buffer {
  const body = Buffer.concat([
    Buffer.alloc(34),
    vector(1, Buffer.alloc(32)),
    vector(2, Buffer.alloc(2)),
    vector(1, Buffer.alloc(1)),
    extensions === undefined ? Buffer.alloc(0) : vector(2, extensions),
  ]);
  const message = Buffer.concat([lengths(1), vector(3, body)]);
  return Buffer.concat([lengths(22, 3, 1), vector(2, message)]);
}

describe('readClientHello', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)('finds the name that a client of %s sends', async (version) => {
    const options = { servername: 'abc123.tenants.example.com', minVersion: version, maxVersion: version };
    expect(readClientHello(await realHello(options))).toEqual({ kind: 'named', name: options.servername });
  });

  it('knows a client that names no server', async () => {
    expect(readClientHello(await realHello({}))).toEqual({ kind: 'nameless' });
    expect(readClientHello(hello(undefined))).toEqual({ kind: 'nameless' });
  });

  it('says how many bytes it needs at least, at every cut, and never more than there are', async () => {
    const bytes = await realHello({ servername: 'abc.example.com' });
    for (let length = 0; length < bytes.length; length++) {
      const found = readClientHello(bytes.subarray(0, length));
      expect(found).toMatchObject({ kind: 'incomplete' });
      const { needed } = found as { needed: number };
      expect(needed).toBeGreaterThan(length);
      expect(needed).toBeLessThanOrEqual(bytes.length);
    }
    const more = Buffer.concat([bytes, Buffer.from('and what follows')]);
    expect(readClientHello(more)).toMatchObject({ kind: 'named' });
  });

  it('joins a hello of several records, but not of many', async () => {
    const bytes = await realHello({ servername: 'abc.example.com' });
    const inFour = recordsOf(bytes, Math.ceil(bytes.length / 4));
    expect(readClientHello(inFour)).toMatchObject({ kind: 'named', name: 'abc.example.com' });
    for (let length = 0; length < inFour.length; length++)
      expect(readClientHello(inFour.subarray(0, length))).toMatchObject({ kind: 'incomplete' });
    expect(readClientHello(recordsOf(bytes, 2))).toMatchObject({ kind: 'invalid' });
  });

  it('reads names in lower case, among other extensions', () => {
    const among = Buffer.concat([
      extension(16, Buffer.alloc(9)),
      sni('ABC.Example.com'),
      extension(43, Buffer.alloc(3)),
    ]);
    expect(readClientHello(hello(among))).toEqual({ kind: 'named', name: 'abc.example.com' });
  });

  it.each([
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['another record', lengths(23, 3, 3, 0, 1, 0)],
    ['another version', lengths(22, 2, 0, 0, 1)],
    ['an empty record', lengths(22, 3, 1, 0, 0)],
    ['another message', lengths(22, 3, 1, 0, 4, 2, 0, 0, 0)],
    ['a hello that is too long', lengths(22, 3, 1, 64, 0, 1, 0, 64, 1)],
    ['a session id past the end', lengths(22, 3, 1, 0, 39, 1, 0, 0, 35, ...Array<number>(34).fill(0), 9)],
    ['two names', hello(Buffer.concat([sni('a.example.com'), sni('b.example.com')]))],
    ['a name of another type', hello(sni('a.example.com', 1))],
    ['an empty name', hello(sni(''))],
    ['an address with a port', hello(sni('a.example.com:443'))],
    ['bytes that are no name', hello(sni('a\0.example.com'))],
    ['a name that is too long', hello(sni(`${'a'.repeat(60)}.`.repeat(5)))],
    ['extensions past the end', hello(Buffer.from([0, 0, 0, 9]))],
  ])('refuses %s', (_, bytes) => {
    expect(readClientHello(bytes)).toMatchObject({ kind: 'invalid', why: expect.any(String) });
  });

  it('knows what is no TLS by its first byte, and what is too long by its header', () => {
    expect(readClientHello(Buffer.from('G'))).toMatchObject({ kind: 'invalid' });
    expect(longestHello).toBe(16_384);
  });
});
