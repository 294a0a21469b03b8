import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EgressFilter, egressFilterProblem, groupOf } from './egress-filter.ts';
import { machineAddress } from './network.ts';

it('groups of different places and numbers differ, and no system hands them out', () => {
  const groups = [groupOf(0, 0), groupOf(0, 65_535), groupOf(1, 0), groupOf(4095, 65_535)];
  expect(groups).toEqual([0x7000_0000, 0x7000_ffff, 0x7001_0000, 0x7fff_ffff]);
});

const problem = egressFilterProblem();

/** The rules are this machine's, in a table of the test's own. */
describe.skipIf(problem !== undefined)('a filter of connections (only where root has nftables)', () => {
  const name = `skerry-test-${process.pid}`;
  // Of this run of the tests alone.
  const [group, second] = [0, 1].map((n) => groupOf(4095, (2 * process.pid + n) % 65_536)) as [
    number,
    number,
  ];
  const servers: Server[] = [];
  let now: number;
  let filter: EgressFilter;

  beforeEach(() => {
    now = 0;
    filter = new EgressFilter(name, () => now);
  });

  afterEach(async () => {
    for (const server of servers.splice(0)) server.close();
    for (const each of [group, second]) await filter.forget(each);
  });

  async function listen(host: string): Promise<number> {
    const server = createServer((socket) => socket.end()).listen(0, host);
    servers.push(server);
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  /** What comes of a connection that a process of this group opens. */
  async function dial(host: string, port: number, gid?: number): Promise<string> {
    const script = `require('node:net').connect(${port}, '${host}')
      .on('connect', () => { console.log('connected'); process.exit(); })
      .on('error', ({ code }) => { console.log(code); process.exit(); })`;
    const child = spawn(process.execPath, ['-e', script], gid === undefined ? {} : { gid });
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
    await once(child, 'close');
    return said.trim();
  }

  const tables = (): string => execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' });

  it('lets a group reach what is listed, and has all else of the machine look as if nobody listened', async () => {
    const [listed, other] = [await listen('127.0.0.1'), await listen('0.0.0.0')];
    await filter.allow(group, [{ to: '127.0.0.1/32', ports: [listed, listed] }]);
    expect(await dial('127.0.0.1', listed, group)).toBe('connected');
    const own = machineAddress();
    for (const address of ['127.0.0.1', '0.0.0.0', '127.0.0.9', ...(own === undefined ? [] : [own])])
      expect([address, await dial(address, other, group)]).toEqual([address, 'ECONNREFUSED']);
    expect(await dial('::1', listed, group)).toBe('ECONNREFUSED');
    // Nobody else is judged.
    expect(await dial('127.0.0.1', other)).toBe('connected');
    expect(await dial('127.0.0.1', other, second)).toBe('connected');
  });

  it('does not break the connections that others have opened to the group', async () => {
    await filter.allow(group, []);
    const script = `const server = require('node:net').createServer((s) => s.end('hello')).listen(0, '127.0.0.1', () => console.log(server.address().port))`;
    const child = spawn(process.execPath, ['-e', script], { gid: group });
    try {
      const [port] = (await once(child.stdout, 'data')) as [Buffer];
      expect(await dial('127.0.0.1', Number(port.toString()))).toBe('connected');
    } finally {
      child.kill();
    }
  });

  it('refuses link-local addresses, where machines of clouds find credentials', async () => {
    await filter.allow(group, []);
    for (const metadata of ['169.254.169.254', '100.100.100.200'])
      expect(await dial(metadata, 80, group), metadata).toBe('ECONNREFUSED');
  });

  it('takes what is set last, whoever has set it before', async () => {
    const port = await listen('127.0.0.1');
    await new EgressFilter(name).allow(group, [{ ports: [port, port] }]);
    await filter.allow(group, []);
    expect(await dial('127.0.0.1', port, group)).toBe('ECONNREFUSED');
    await filter.allow(group, [{ to: '127.0.0.0/8' }]);
    expect(await dial('127.0.0.1', port, group)).toBe('connected');
  });

  it('sets its rules anew when somebody has deleted them', async () => {
    const port = await listen('127.0.0.1');
    await filter.allow(group, []);
    execFileSync('nft', ['delete', 'table', 'inet', name]);
    expect(await dial('127.0.0.1', port, group)).toBe('connected');
    now += 60_000;
    await filter.allow(group, []);
    expect(await dial('127.0.0.1', port, group)).toBe('ECONNREFUSED');
  });

  it.each(['delete', 'flush'])(
    'sets its rules anew after nft %s table, also where another group has some by then',
    async (verb) => {
      const port = await listen('127.0.0.1');
      await filter.allow(group, []);
      execFileSync('nft', [verb, 'table', 'inet', name]);
      // After a deletion this makes a table without the first group; after a flush there is one all the time.
      if (verb === 'delete') await filter.allow(second, []);
      now += 60_000;
      await filter.allow(group, []);
      expect(await dial('127.0.0.1', port, group)).toBe('ECONNREFUSED');
    },
  );

  it('leaves nothing behind once the last group is forgotten', async () => {
    await filter.allow(group, []);
    await filter.allow(second, []);
    await filter.forget(group);
    expect(tables()).toContain(name);
    await filter.forget(second);
    expect(tables()).not.toContain(name);
  });

  it('knows the groups that have rules, whoever has set them', async () => {
    expect(await filter.groups()).toEqual([]);
    await new EgressFilter(name).allow(group, []);
    await new EgressFilter(name).allow(second, []);
    expect((await filter.groups()).sort()).toEqual([group, second].sort());
  });

  it('says what nft refuses', async () => {
    await expect(filter.allow(group, [{ to: 'nowhere' }])).rejects.toThrow(/nowhere|resolve/);
  });

  it('does not take for set what nft has refused', async () => {
    await filter.allow(second, []);
    // So that the table counts as looked at.
    await filter.allow(second, []);
    for (const _ of [1, 2])
      await expect(filter.allow(group, [{ to: 'nowhere' }])).rejects.toThrow(/nowhere|resolve/);
  });
});
