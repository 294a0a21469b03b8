import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fuzzed } from '../kube/testing/fuzz.ts';
import { readClientHello, readProxyHeader } from './client-hello.ts';

const bytes = fc.uint8Array({ maxLength: 600 });
/** As far as the extensions a hello, then anything. */
const likeHello = fc
  .tuple(fc.uint8Array({ minLength: 34, maxLength: 34 }), fc.uint8Array({ maxLength: 300 }), fc.nat(3))
  .map(([start, rest, slack]) => {
    const body = Buffer.concat([start, Buffer.from([0, 0, 2, 1, 1, 1, 0]), rest]);
    const length = body.length + slack;
    const message = Buffer.concat([Buffer.from([1, 0, length >> 8, length & 255]), body]);
    return Buffer.concat([Buffer.from([22, 3, 1, message.length >> 8, message.length & 255]), message]);
  });

describe('what a client sends first', () => {
  it('never makes the reader throw, and names are DNS names', () => {
    fc.assert(
      fc.property(fc.oneof(bytes, likeHello), (input) => {
        const found = readClientHello(Buffer.from(input));
        if (found.kind === 'incomplete') expect(found.needed).toBeGreaterThan(input.length);
        if (found.kind === 'named') expect(found.name).toMatch(/^[a-z0-9.-]{1,253}$/);
      }),
      fuzzed(90_000),
    );
  });

  it('is judged the same however much follows', () => {
    fc.assert(
      fc.property(fc.oneof(bytes, likeHello), bytes, (input, more) => {
        const found = readClientHello(Buffer.from(input));
        if (found.kind !== 'incomplete') expect(readClientHello(Buffer.concat([input, more]))).toEqual(found);
      }),
      fuzzed(60_000),
    );
  });

  it('never makes the reader of PROXY headers throw', () => {
    const start = fc.constantFrom('', 'PROXY TCP4 ', '\r\n\r\n\0\r\nQUIT\n!', '\r\n\r\n\0\r\nQUIT\n');
    fc.assert(
      fc.property(start, bytes, (prefix, rest) => {
        const input = Buffer.concat([Buffer.from(prefix, 'latin1'), rest]);
        const found = readProxyHeader(input);
        if (found.kind === 'header') expect(found.length).toBeLessThanOrEqual(input.length);
      }),
      fuzzed(150_000),
    );
  });
});
