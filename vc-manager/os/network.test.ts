import { createServer, type Server } from 'node:net';
import type { NetworkInterfaceInfo } from 'node:os';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort as unusedPort } from '../../kube/testing/free-port.ts';
import {
  addressAt,
  allocateSlice,
  freePort,
  isInRange,
  machineAddress,
  widestServiceRange,
} from './network.ts';

/** Whether two ranges have an address in common; the other way to compare them than by numbers. */
function overlap(left: string, right: string): boolean {
  const [a, b] = [ipaddr.parseCIDR(left), ipaddr.parseCIDR(right)];
  return a[0].match(b) || b[0].match(a);
}

describe('a range of addresses', () => {
  const parse = (text: string) => addressAt(text, 0);

  it('may be the largest and the smallest', () => {
    expect(parse('0.0.0.0/0')).toBe('0.0.0.0');
    expect(addressAt('0.0.0.0/0', 2 ** 32 - 1)).toBe('255.255.255.255');
    expect(parse('255.255.255.255/32')).toBe('255.255.255.255');
  });

  it.each(['', '10.0.0', '10.0.0.256', '010.0.0.1', '10.0.0.1 ', 'localhost'])(
    'of the address %j is refused, and the message shows how an address looks',
    (text) => {
      expect(() => parse(`${text}/8`)).toThrow(
        expect.objectContaining({ code: 'InvalidAddress', message: expect.stringContaining('10.112.0.1') }),
      );
    },
  );

  it('of IPv6 is not supported rather than wrong', () => {
    expect(() => parse('fd00::1/64')).toThrow(expect.objectContaining({ code: 'FamilyNotSupported' }));
  });

  it.each([
    '10.0.0.0',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0.0/08',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.0/8.0',
  ])('cannot be %j', (text) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code: 'InvalidRange' }));
  });

  it('has the message name the range that was probably meant when host bits are set', () => {
    expect(() => parse('10.112.4.1/22')).toThrow('Write 10.112.4.0/22.');
  });
});

describe('widestServiceRange', () => {
  it('begins before the first address, and is as large as an API server accepts', () => {
    expect(widestServiceRange('10.96.0.1')).toBe('10.96.0.0/12');
    expect(widestServiceRange('10.0.0.1')).toBe('10.0.0.0/12');
    expect(widestServiceRange('10.43.0.1')).toBe('10.43.0.0/16');
    expect(widestServiceRange('10.152.183.1')).toBe('10.152.183.0/24');
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
      expect.objectContaining({ code: 'AddressOutOfRange' }),
    );
  });
});

const pool = '10.112.0.0/12';

describe('allocateSlice', () => {
  it('hands out the lowest slice first and fills gaps', () => {
    expect(allocateSlice(pool, 22, [])).toBe('10.112.0.0/22');
    expect(allocateSlice(pool, 22, ['10.112.0.0/22'])).toBe('10.112.4.0/22');
    expect(allocateSlice(pool, 22, ['10.112.8.0/22', '10.112.0.0/22'])).toBe('10.112.4.0/22');
  });

  it('goes around ranges of other sizes, and ignores those outside the pool', () => {
    expect(allocateSlice(pool, 22, ['10.112.1.0/24'])).toBe('10.112.4.0/22');
    expect(allocateSlice(pool, 24, ['10.112.0.0/22'])).toBe('10.112.4.0/24');
    expect(allocateSlice(pool, 22, ['10.96.0.0/16', '10.128.0.0/9'])).toBe('10.112.0.0/22');
    expect(allocateSlice(pool, 22, ['10.0.0.0/8'])).toBeUndefined();
  });

  it('gives the whole pool as one slice', () => {
    expect(allocateSlice('10.112.0.0/22', 22, [])).toBe('10.112.0.0/22');
    expect(allocateSlice('0.0.0.0/0', 0, [])).toBe('0.0.0.0/0');
  });

  it('refuses a slice larger than the pool and a range that it cannot read', () => {
    expect(() => allocateSlice('10.112.0.0/24', 22, [])).toThrow(
      expect.objectContaining({ code: 'SliceLargerThanPool' }),
    );
    expect(() => allocateSlice(pool, 33, [])).toThrow(expect.objectContaining({ code: 'InvalidRange' }));
    expect(() => allocateSlice(pool, 22, ['10.112.0.0'])).toThrow(
      expect.objectContaining({ code: 'InvalidRange' }),
    );
  });

  it('never overlaps what is taken, runs full after exactly as many slices as fit, and reuses what is given back', () => {
    const taking = fc.record({
      prefixLength: fc.integer({ min: 20, max: 26 }),
      foreign: fc.array(fc.tuple(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 24, max: 26 })), {
        maxLength: 6,
      }),
      giveBack: fc.nat(),
    });
    fc.assert(
      fc.property(taking, ({ prefixLength, foreign, giveBack }) => {
        const smallPool = '10.112.0.0/20';
        const others = foreign.map(([third, length]) => `10.112.${third}.0/${length}`);
        const slices: string[] = [];
        for (;;) {
          const slice = allocateSlice(smallPool, prefixLength, [...others, ...slices]);
          if (slice === undefined) break;
          expect(ipaddr.parseCIDR(slice)[0].match(ipaddr.parseCIDR(smallPool))).toBe(true);
          expect([...others, ...slices].filter((other) => overlap(other, slice))).toEqual([]);
          slices.push(slice);
        }
        expect(slices).toHaveLength(countFree(prefixLength, others));
        const back = slices[giveBack % Math.max(1, slices.length)];
        if (back === undefined) return;
        const rest = slices.filter((slice) => slice !== back);
        expect(allocateSlice(smallPool, prefixLength, [...rest, ...others])).toBe(back);
      }),
    );
  });
});

/** Counts the free slices of 10.112.0.0/20 one by one. */
function countFree(prefixLength: number, others: readonly string[]): number {
  const size = 2 ** (32 - prefixLength);
  let free = 0;
  for (let offset = 0; offset < 4096; offset += size) {
    const slice = `10.112.${offset >> 8}.${offset & 255}/${prefixLength}`;
    if (!others.some((other) => overlap(other, slice))) free++;
  }
  return free;
}

describe('free port', () => {
  const host = '127.0.0.1';
  const servers: Server[] = [];

  /** Listens on a port whose neighbour above is free, so that the tests have a small range of their own. */
  async function listenWithFreeNeighbour(): Promise<number> {
    for (;;) {
      const port = await listen(await unusedPort());
      const neighbour = createServer();
      const free = await new Promise<boolean>((resolve) => {
        neighbour.once('error', () => resolve(false));
        neighbour.listen(port + 1, host, () => neighbour.close(() => resolve(true)));
      });
      if (free) return port;
    }
  }

  async function listen(port: number): Promise<number> {
    const server = createServer();
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(port, host, resolve));
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
  });

  describe('freePort', () => {
    it('passes over a port that somebody listens on', async () => {
      const port = await listenWithFreeNeighbour();
      expect(await freePort({ host, range: [port, port + 1] })).toBe(port + 1);
    });

    it('passes over a port that is promised, and says so when none is left', async () => {
      const port = await listenWithFreeNeighbour();
      await expect(freePort({ host, range: [port, port + 1], taken: [port + 1] })).rejects.toMatchObject({
        code: 'NoFreePort',
        retryable: true,
      });
    });

    it('leaves the port free', async () => {
      const port = await listenWithFreeNeighbour();
      const found = await freePort({ host, range: [port, port + 1] });
      expect(await listen(found)).toBe(found);
    });

    it('tells an address of another machine from a port in use', async () => {
      await expect(freePort({ host: '203.0.113.1', range: [20_000, 20_001] })).rejects.toMatchObject({
        code: 'CannotListen',
        subject: '203.0.113.1',
      });
    });

    it.each([
      [0, 10],
      [10, 9],
      [1, 65_536],
      [1.5, 3],
    ] as const)('refuses the range %d-%d', async (first, last) => {
      await expect(freePort({ host, range: [first, last] })).rejects.toMatchObject({
        code: 'InvalidPortRange',
      });
    });
  });
});

function ipv4(address: string, internal = false): NetworkInterfaceInfo {
  return {
    address,
    internal,
    family: 'IPv4',
    netmask: '255.255.255.0',
    mac: '00:00:00:00:00:00',
    cidr: null,
  };
}

const ipv6: NetworkInterfaceInfo = {
  address: 'fd00::1',
  internal: false,
  family: 'IPv6',
  netmask: 'ffff::',
  mac: '00:00:00:00:00:00',
  cidr: null,
  scopeid: 0,
};

describe('machineAddress', () => {
  it('takes the first IPv4 address that is neither loopback nor link-local', () => {
    const interfaces = {
      lo: [ipv4('127.0.0.1', true)],
      usb0: [ipv4('169.254.3.4')],
      eth0: [ipv6, ipv4('192.0.2.7')],
      eth1: [ipv4('192.0.2.8')],
    };
    expect(machineAddress(interfaces)).toBe('192.0.2.7');
  });

  it('is undefined on a machine with loopback only', () => {
    expect(machineAddress({ lo: [ipv4('127.0.0.1', true)], down: undefined })).toBeUndefined();
  });
});

describe('isInRange', () => {
  it('knows which addresses are of a range, and that others are none', () => {
    expect(isInRange('10.112.3.255', '10.112.0.0/22')).toBe(true);
    expect(isInRange('fd00::5', 'fd00::/112')).toBe(true);
    for (const other of ['10.112.4.0', 'fd00::5', 'None', ''])
      expect(isInRange(other, '10.112.0.0/22'), other).toBe(false);
  });
});
