import { Command } from 'commander';
import { afterEach, describe, expect, it } from 'vitest';
import type { Cli } from '../context.ts';
import { configure, ManagerHealth, otherDrivers } from './operator.ts';

it('takes other drivers by name, one by one, and makes each that it has not got already', () => {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  configure(command, {} as Cli);
  command.parseOptions([
    '--other-driver',
    'compose',
    '--other-driver',
    'process',
    '--other-driver=kubernetes',
  ]);
  const flags = command.opts<Parameters<typeof otherDrivers>[0]>();
  expect(otherDrivers(flags, (name) => `made ${name}`)).toEqual({
    compose: 'made compose',
    kubernetes: 'made kubernetes',
  });
  expect(() => command.parseOptions(['--other-driver', 'docker'])).toThrow('process, compose, kubernetes');
});

describe('the health of the manager', () => {
  let close = async (): Promise<void> => undefined;
  afterEach(() => close());

  let nowMs = 0;
  const call = (status: number) =>
    ({ method: 'GET', verb: 'get', resource: 'leases', status, durationMs: 1 }) as const;

  async function started(): Promise<{ health: ManagerHealth; get: (path: string) => Promise<Response> }> {
    nowMs = 0;
    const health = new ManagerHealth(() => nowMs);
    const server = await health.listen({ host: '127.0.0.1', port: 0 });
    close = server.close;
    return { health, get: (path) => fetch(`http://127.0.0.1:${server.port}${path}`) };
  }

  it('lives before it is ready, and is ready once the super cluster has answered', async () => {
    const { health, get } = await started();
    expect((await get('/healthz')).status).toBe(200);
    expect((await get('/readyz')).status).toBe(503);
    health.onCall(call(0));
    health.onCall(call(503));
    expect(await (await get('/readyz')).text()).toBe(
      'manager: the super cluster has not answered yet\nnot ok\n',
    );
    health.onCall(call(404));
    expect((await get('/readyz')).status).toBe(200);
  });

  it('is not ready before its dashboard listens', async () => {
    const { health, get } = await started();
    const listens = health.waitFor('the dashboard does not listen yet');
    health.onCall(call(200));
    expect(await (await get('/readyz')).text()).toBe('manager: the dashboard does not listen yet\nnot ok\n');
    listens();
    expect((await get('/readyz')).status).toBe(200);
  });

  it('is not ready any more when nothing has answered for a minute', async () => {
    const { health, get } = await started();
    health.onCall(call(200));
    nowMs = 61_000;
    const answer = await get('/readyz');
    expect([answer.status, await answer.text()]).toEqual([
      503,
      'manager: the super cluster has not answered for 61 s\nnot ok\n',
    ]);
  });

  it('counts calls, and refuses what it does not know', async () => {
    const { health, get } = await started();
    health.onCall(call(200));
    health.onCall(call(0));
    const text = await (await get('/metrics')).text();
    expect(text).toContain('skerry_manager_api_calls_total{verb="get",resource="leases",code="200"} 1');
    expect(text).toContain('skerry_manager_api_calls_total{verb="get",resource="leases",code="none"} 1');
    expect((await get('/secrets')).status).toBe(404);
  });

  it('has series for 250 tenants that are there: those that are gone keep none from others', async () => {
    const { health, get } = await started();
    const last = async (): Promise<string[]> => {
      const text = await (await get('/metrics')).text();
      return text
        .split('\n')
        .filter((line) => /skerry_tenant_usage_total\{tenant="(team\/last|other)"/.test(line));
    };
    for (let n = 0; n < 250; n++) health.onUsage(`short/lived-${n}`, { podHours: 1, apiCalls: 2 });
    health.onUsage('team/last', { podHours: 3 });
    const other = 'skerry_tenant_usage_total{tenant="other",resource="podHours"} 3';
    expect(await last()).toEqual([other]);
    health.onUsage('short/lived-7', undefined);
    health.onUsage('team/last', { podHours: 4 });
    expect(await last()).toEqual([
      other,
      'skerry_tenant_usage_total{tenant="team/last",resource="podHours"} 4',
    ]);
    expect(await (await get('/metrics')).text()).not.toContain('short/lived-7"');
  });

  it('says which option to change when the port is taken', async () => {
    const { health } = await started();
    const other = await health.listen({ host: '127.0.0.1', port: 0 });
    await expect(health.listen({ host: '127.0.0.1', port: other.port })).rejects.toThrow('--health-address');
    await other.close();
  });
});
