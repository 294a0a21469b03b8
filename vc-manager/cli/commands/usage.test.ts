import { afterEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../../../kube/index.ts';
import { FakeApiServer } from '../../../kube/testing/index.ts';
import { CommandWorld } from '../testing/captured.ts';
import { readUsage, usageCsv, usageTable, usageTotals } from './usage.ts';

const day = {
  hours: 24,
  podHours: 48,
  cpuHours: 1.5,
  cpuRequestHours: 12,
  memoryGiBHours: 3,
  memoryRequestGiBHours: 24,
  storageGiBHours: 240,
  datastoreGiBHours: 0.1,
  apiCalls: 1_000,
};

/** Usage of tenants in the namespaces `teams` and `default`. */
function putUsage(server: FakeApiServer): void {
  const put = (id: string, month: string, tenant: string, data: Record<string, string>): void => {
    const labels = { 'skerry.dev/usage': month };
    const annotations = { 'skerry.dev/tenant-name': tenant };
    const metadata = { name: `usage-${id}-${month}`, namespace: 'skerry-system', labels, annotations };
    server.put(resources.configMaps, { metadata, data });
  };
  const row = JSON.stringify(day);
  put('b2', '2026-03', 'teams/blue', {
    '2026-03-02': row,
    '2026-03-01': row,
    README: row,
    '2026-03-03': '{}',
  });
  put('b2', '2026-04', 'teams/blue', { '2026-04-01': row });
  put('a1', '2026-03', 'default/green', { '2026-03-31': row });
  put('z9', '2026-01', 'default/gone', { '2026-01-01': row });
}

describe('usage', () => {
  let server: FakeApiServer;
  let connection: Connection;
  afterEach(async () => {
    await connection.close();
    await server.stop();
  });

  async function read(options: { since: string; until: string; isAsked?: (tenant: string) => boolean }) {
    server = await FakeApiServer.start();
    connection = new Connection(server.connectionOptions);
    putUsage(server);
    const signal = new AbortController().signal;
    return readUsage(new KubeClient(connection), { namespace: 'skerry-system', signal, ...options });
  }

  it('is read for the days that are asked for, over months, without what is no row', async () => {
    const rows = await read({ since: '2026-03-02', until: '2026-04-30' });
    expect(rows.map(({ tenant, id, day: of }) => [tenant, id, of])).toEqual([
      ['default/green', 'a1', '2026-03-31'],
      ['teams/blue', 'b2', '2026-03-02'],
      ['teams/blue', 'b2', '2026-04-01'],
    ]);
  });

  it('counts a tenant that is gone once, where its ConfigMap was added to another and is still there', async () => {
    await read({ since: '2026-03-01', until: '2026-03-31' });
    const one = server.get(resources.configMaps, { namespace: 'skerry-system', name: 'usage-b2-2026-03' });
    const annotations = {
      'skerry.dev/tenant-name': 'teams/*',
      'skerry.dev/usage-added': one?.metadata.uid ?? '',
    };
    const labels = { 'skerry.dev/usage': '2026-03' };
    server.put(resources.configMaps, {
      metadata: { name: 'usage-gone-0-2026-03', namespace: 'skerry-system', labels, annotations },
      data: { '2026-03-01': JSON.stringify(day) },
    });
    const options = { namespace: 'skerry-system', since: '2026-03-01', until: '2026-03-31' };
    const signal = new AbortController().signal;
    const rows = await readUsage(new KubeClient(connection), { ...options, signal });
    expect(rows.map(({ tenant }) => tenant)).toEqual(['default/green', 'teams/*']);
  });

  it('is added up by tenant', async () => {
    const totals = usageTotals(
      await read({ since: '2026-03-01', until: '2026-04-30', isAsked: (tenant) => tenant === 'teams/blue' }),
    );
    expect(totals).toMatchObject([{ tenant: 'teams/blue', podHours: 144, apiCalls: 3_000 }]);
    expect(usageTable(totals)).toMatch(/^teams\/blue +72 +144 +4.5 /m);
  });

  it('is a file for spreadsheets', async () => {
    const csv = usageCsv(await read({ since: '2026-03-31', until: '2026-03-31' }));
    expect(csv).toBe(
      'tenant,id,day,hours,podHours,cpuHours,cpuRequestHours,memoryGiBHours,memoryRequestGiBHours,storageGiBHours,datastoreGiBHours,apiCalls\r\n' +
        'default/green,a1,2026-03-31,24,48,1.5,12,3,24,240,0.1,1000\r\n',
    );
  });
});

describe('the command usage', () => {
  it.each([
    [[], ['default/green', 'teams/blue', 'teams/blue']],
    [
      ['-n', 'teams'],
      ['teams/blue', 'teams/blue'],
    ],
    [['-n', 'team'], []],
    [['green'], ['default/green']],
    [['blue'], []],
    [
      ['blue', '-n', 'teams'],
      ['teams/blue', 'teams/blue'],
    ],
  ])('is about all tenants, those of a namespace, or one: %j', async (args, tenants) => {
    await using world = await CommandWorld.start();
    putUsage(world.server);
    const { stdout } = await world.run(
      'usage',
      ...args,
      '--since',
      '2026-03',
      '--until',
      '2026-03',
      '-o',
      'json',
    );
    expect((JSON.parse(stdout) as { tenant: string }[]).map(({ tenant }) => tenant)).toEqual(tenants);
  });

  it.each([
    [[], 'usage from'],
    [['-n', 'teams'], 'usage in namespace teams from'],
    [['blue', '-n', 'teams'], 'usage of teams/blue from'],
    [['blue'], 'usage of default/blue from'],
  ])('says whose usage is not known: %j', async (args, said) => {
    await using world = await CommandWorld.start();
    const { stdout, stderr } = await world.run('usage', ...args, '--since', '2026-03', '--until', '2026-03');
    expect([stdout, stderr]).toEqual(['', `Nothing is known of ${said} 2026-03-01 to 2026-03-31.\n`]);
  });

  it('says when more is known, where there may be more', async () => {
    await using world = await CommandWorld.start();
    const { stderr } = await world.run('usage', 'blue');
    expect(stderr).toMatch(/^Nothing is known of usage of default\/blue from .* every ten minutes\.$/m);
  });

  it('refuses what is no name of a namespace', async () => {
    await using world = await CommandWorld.start();
    expect(await world.run('usage', '-n', 'Teams')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('"Teams" is not valid'),
    });
  });
});
