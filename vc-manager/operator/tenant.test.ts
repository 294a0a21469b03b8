import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { systemClock } from '../../kube/index.ts';
import { type LyingHandler, startLyingServer } from '../../kube/testing/index.ts';
import { loadTemplates } from '../control-plane/template.ts';
import { apiCalls } from './steps/api-calls.ts';
import { bootstrap } from './steps/bootstrap.ts';
import { dns } from './steps/dns.ts';
import { Tenant } from './tenant.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Every object that is asked for is there, or none; each answer takes so long. */
function slow(answerMs: number, asked: string[], isThere: boolean): LyingHandler {
  return (request, response) => {
    const path = decodeURIComponent((request.url ?? '').replace(/\?.*/, ''));
    asked.push(path);
    vi.advanceTimersByTime(answerMs);
    const parts = path.split('/');
    const at = parts.indexOf('namespaces');
    const metadata = {
      name: parts.at(-1) ?? '',
      ...(at > 0 && parts.length > at + 2 && { namespace: parts[at + 1] }),
      labels: { 'skerry.dev/addon': 'coredns' },
      uid: 'u',
      resourceVersion: '1',
    };
    response.statusCode = isThere ? 200 : 404;
    response.end(JSON.stringify({ metadata }));
  };
}

describe('the steps that ask the API server of a tenant each time', () => {
  async function run(answerMs: number, isThere = true) {
    const asked: string[] = [];
    await using server = await startLyingServer(slow(answerMs, asked, isThere));
    const [template] = (await loadTemplates()).filter(({ spec }) => spec.addons?.['coredns'] !== undefined);
    const virtualCluster: VirtualCluster = {
      metadata: { namespace: 'teams', name: 'blue', uid: 'u' },
      spec: { dns: 'coredns' },
      status: {
        identities: { tenant: 'u', superCluster: 's' },
        serviceCIDR: '10.0.0.0/24',
        advertisedAddress: '192.0.2.1',
        advertisedPort: 6443,
        kubeconfigSecret: { name: 'k', key: 'k' },
      },
    };
    const conditions: string[] = [];
    const status = {
      current: virtualCluster,
      condition: (...[type, , reason]: string[]) => conditions.push(`${type} ${reason}`),
      set: () => undefined,
      flush: async () => undefined,
    };
    const { signal } = new AbortController();
    const clock = { ...systemClock, sleep: async () => undefined };
    const tenant = new Tenant({
      ...{ virtualCluster, signal, clock, connect: () => server.client },
      status: status as never,
    });
    tenant.choice = { template, version: '1.36.0' } as never;
    const counted: unknown[] = [];
    const services = {
      settings: { bootstrapTimeoutMs: 60_000, dns: 'coredns' },
      clock: systemClock,
      logger: { debug: () => undefined },
      usage: { isCallCountDue: () => true, countCalls: (_: string, count: unknown) => counted.push(count) },
    } as never;
    const failures: unknown[] = [];
    for (const step of [bootstrap, dns, apiCalls])
      await step.run(tenant, services).catch((error: unknown) => failures.push(error));
    return { asked, conditions, failures };
  }

  it('wait for half a minute of slow answers, all together', async () => {
    const { asked, conditions, failures } = await run(4_000);
    expect(failures).toEqual([]);
    expect(conditions).toEqual(['DNSReady TenantTooSlow']);
    // The first one is that for which it waits until its API server is there.
    expect(asked.length).toBeLessThanOrEqual(1 + 30 / 4 + 2);
  });

  it('end where the first of them takes all the time', async () => {
    const { failures } = await run(9_000);
    expect(failures).toMatchObject([{ code: 'TenantTooSlow', retryable: true, retryAfterMs: 60_000 }]);
  });

  it('wait no longer than ten seconds for a namespace that was there once', async () => {
    const { asked, failures } = await run(4_000, false);
    expect(failures[0]).toMatchObject({ code: 'TenantNotBootstrapped' });
    expect(asked.filter((path) => path === '/api/v1/namespaces/default')).toHaveLength(3);
  });

  it('ask for everything where answers come in time', async () => {
    const { asked, conditions, failures } = await run(10);
    expect(failures).toEqual([]);
    expect(conditions).toEqual(['DNSReady Starting']);
    expect(asked.length).toBeGreaterThan(12);
    expect(asked.at(-1)).toBe('/metrics');
  });
});
