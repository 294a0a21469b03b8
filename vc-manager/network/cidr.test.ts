import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressAt, cidrContains, cidrsOverlap, formatAddress, parseAddress, parseCidr } from './cidr.ts';

const address = fc.ipV4();

describe('parseAddress', () => {
  it('reads what formatAddress writes', () => {
    fc.assert(
      fc.property(address, (text) => {
        expect(formatAddress(parseAddress(text))).toBe(text);
      }),
    );
  });

  it.each(['', '10.0.0', '10.0.0.256', '010.0.0.1', '10.0.0.1 ', 'localhost'])(
    'refuses %j and shows how an address looks',
    (text) => {
      expect(() => parseAddress(text)).toThrow(
        expect.objectContaining({ code: 'invalid-address', message: expect.stringContaining('10.112.0.1') }),
      );
    },
  );

  it('says that IPv6 is not supported rather than that it is wrong', () => {
    expect(() => parseAddress('fd00::1')).toThrow(expect.objectContaining({ code: 'family-not-supported' }));
  });
});

describe('parseCidr', () => {
  it('reads the largest and the smallest range', () => {
    expect(parseCidr('0.0.0.0/0')).toEqual({ family: 4, first: 0n, prefixLength: 0 });
    expect(parseCidr('255.255.255.255/32')).toEqual({ family: 4, first: 0xffff_ffffn, prefixLength: 32 });
  });

  it.each([
    '10.0.0.0',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0.0/08',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.0/8.0',
  ])('refuses %j', (text) => {
    expect(() => parseCidr(text)).toThrow(expect.objectContaining({ code: 'invalid-range' }));
  });

  it('names the range that was probably meant when host bits are set', () => {
    expect(() => parseCidr('10.112.4.1/22')).toThrow('Write 10.112.4.0/22.');
  });
});

describe('addressAt', () => {
  it('counts from zero and over the end of a byte', () => {
    expect(addressAt('10.112.4.0/22', 0)).toBe('10.112.4.0');
    expect(addressAt('10.112.4.0/22', 10)).toBe('10.112.4.10');
    expect(addressAt('10.112.4.0/22', 256)).toBe('10.112.5.0');
    expect(addressAt('10.112.4.0/22', 1023)).toBe('10.112.7.255');
  });

  it.each([-1, 1024, 0.5, Number.NaN])('refuses the address %d of a range of 1024', (index) => {
    expect(() => addressAt('10.112.4.0/22', index)).toThrow(
      expect.objectContaining({ code: 'address-out-of-range' }),
    );
  });
});

describe('cidrContains and cidrsOverlap', () => {
  it('knows the edges of a range', () => {
    expect(cidrContains('10.112.4.0/22', '10.112.4.0')).toBe(true);
    expect(cidrContains('10.112.4.0/22', '10.112.7.255')).toBe(true);
    expect(cidrContains('10.112.4.0/22', '10.112.8.0')).toBe(false);
    expect(cidrContains('10.112.4.0/22', '10.112.3.255')).toBe(false);
    expect(cidrContains('10.112.4.0/22', '10.112.4.0/22')).toBe(true);
    expect(cidrContains('10.112.4.0/22', '10.112.0.0/21')).toBe(false);
  });

  it('agrees with a comparison of bits', () => {
    const range = fc.tuple(address, fc.integer({ min: 0, max: 32 })).map(([text, prefixLength]) => {
      const value = Number(parseAddress(text).value);
      const kept = prefixLength === 0 ? 0 : (value & (-1 << (32 - prefixLength))) >>> 0;
      return {
        text: `${formatAddress({ family: 4, value: BigInt(kept) })}/${prefixLength}`,
        kept,
        prefixLength,
      };
    });
    fc.assert(
      fc.property(range, range, (left, right) => {
        const shared = Math.min(left.prefixLength, right.prefixLength);
        const overlap = shared === 0 || left.kept >>> (32 - shared) === right.kept >>> (32 - shared);
        expect(cidrsOverlap(left.text, right.text)).toBe(overlap);
        expect(cidrContains(left.text, right.text)).toBe(overlap && left.prefixLength <= right.prefixLength);
      }),
    );
  });
});
