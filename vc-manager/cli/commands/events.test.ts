import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../../../kube/index.ts';
import { FakeApiServer } from '../../../kube/testing/index.ts';
import { CommandWorld } from '../testing/captured.ts';
import { SniRecorder } from '../testing/sni-recorder.ts';
import { latestTenantEvents } from './events.ts';

const { signal } = new AbortController();

describe('the events of a tenant', () => {
  let server: FakeApiServer;
  let tenant: KubeClient;
  beforeEach(async () => {
    server = await FakeApiServer.start();
    tenant = new KubeClient(new Connection(server.connectionOptions));
  });
  afterEach(async () => {
    await tenant.connection.close();
    await server.stop();
  });

  /** API servers list them by name: the later ones come first here. */
  function put(count: number): void {
    for (let each = 0; each < count; each++) {
      const name = `event-${String(count - each).padStart(5, '0')}`;
      const lastTimestamp = new Date(Date.UTC(2026, 0, 1) + each * 1_000).toISOString();
      const source = { component: 'skerry-syncer' };
      server.put(resources.events, { metadata: { namespace: 'a', name }, source, lastTimestamp });
    }
  }

  it('are the latest ones, wherever they are in the list, and it is said that there are more', async () => {
    put(1_200);
    const { events, isCut } = await latestTenantEvents(tenant, 600, signal);
    expect(events).toHaveLength(600);
    expect(events[0]?.metadata.name).toBe('event-00001');
    expect(events.at(-1)?.metadata.name).toBe('event-00600');
    expect(isCut).toBe(true);
  });

  it('are asked for by the name that neither wakes it nor counts as use', async () => {
    await using world = await CommandWorld.start();
    await using names = await SniRecorder.start();
    world.put('blue', { phase: 'Ready', gateway: names.gateway });
    world.server.put(resources.secrets, await names.secret());
    expect((await world.run('events', 'blue')).stderr).toContain('cannot be read');
    expect(new Set(names.heard)).toEqual(new Set([`background-${names.gateway.serverName}`]));
  });

  it('are all there are where those are few', async () => {
    put(3);
    const { events, isCut } = await latestTenantEvents(tenant, 600, signal);
    expect([events.length, isCut]).toEqual([3, false]);
  });

  it('are read up to a bound, and it is said that there are more', async () => {
    let pages = 0;
    const endless = {
      list: async () => {
        pages += 1;
        return { metadata: { continue: 'more' }, items: [] };
      },
    } as unknown as KubeClient;
    expect(await latestTenantEvents(endless, 600, signal)).toEqual({ events: [], isCut: true });
    expect(pages).toBe(20);
  });
});
