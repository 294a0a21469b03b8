import { describe, expect, it } from 'vitest';
import { readProxyHeader } from './client-hello.ts';

const signature = '\r\n\r\n\0\r\nQUIT\n';
const binary = (verCmd: number, length: number, body = length): Buffer => {
  const header = Buffer.alloc(16 + body);
  header.write(signature, 'latin1');
  header.writeUInt8(verCmd, 12);
  header.writeUInt16BE(length, 14);
  return header;
};
const text = (words: string): Buffer => Buffer.from(words);

describe('the header of the PROXY protocol', () => {
  it.each([
    ['version 1', text('PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r\n')],
    ['version 1 without addresses', text('PROXY UNKNOWN\r\n')],
    ['the longest of version 1', text(`PROXY ${'x'.repeat(99)}\r\n`)],
    ['version 2', binary(0x21, 12)],
    ['version 2 of a check by the load balancer', binary(0x20, 0)],
    ['the longest of version 2', binary(0x21, 1024)],
  ])('has its length, whatever follows: %s', (_what, header) => {
    const found = { kind: 'header', length: header.length };
    expect(readProxyHeader(header)).toEqual(found);
    expect(readProxyHeader(Buffer.concat([header, text('\x16\x03\x01')]))).toEqual(found);
    for (const cut of [0, 1, 5, 12, header.length - 1])
      expect(readProxyHeader(header.subarray(0, Math.min(cut, header.length - 1)))).toEqual({
        kind: 'incomplete',
      });
  });

  it.each([
    ['TLS', text('\x16\x03\x01')],
    ['another word', text('PROXI TCP4')],
    ['version 1 that has no end', text(`PROXY ${'x'.repeat(101)}`)],
    ['version 1 that ends too late', text(`PROXY ${'x'.repeat(100)}\r\n`)],
    ['version 2 with another version in it', binary(0x11, 12)],
    ['version 2 that is too long', binary(0x21, 1025, 0)],
    ['the beginning of version 2 and something else', text('\r\n\r\n\0\r\nQUIX')],
  ])('is not %s', (_what, bytes) => {
    expect(readProxyHeader(bytes)).toEqual({ kind: 'invalid' });
  });
});
