import { describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { type Fault, startFakeCluster } from '../../kube/testing/index.ts';
import { SteadyClient } from '../../scripts/bench/steady-client.ts';
import { expectAllServed, expectAllWritten, SteadyWriter } from './steady-load.ts';

/** So long that each request is sent by the test. */
const never = 2 ** 31 - 1;
const cut: Fault = { kind: 'reset' };
const shuttingDown = { kind: 'status', code: 503, message: 'apiserver is shutting down' } as const;
const comeBack: Fault = { ...shuttingDown, retryAfterSeconds: 0 };

/** What a client recorded, one request after the other, after a first one; each entry has the faults of one request. */
async function record(...requests: (readonly Fault[])[]): Promise<SteadyClient> {
  await using cluster = await startFakeCluster();
  cluster.server.put(resources.namespaces, { metadata: { name: 'default' } });
  const client = new SteadyClient(cluster.server.connectionOptions, { everyMs: never });
  try {
    await client.ask();
    for (const faults of requests) {
      for (const fault of faults) cluster.server.inject({ plural: 'namespaces', fault });
      await client.ask();
    }
  } finally {
    await client.close();
  }
  expect(client).toMatchObject({ answers: { length: requests.length + 1 }, maxAtOnce: 1 });
  return client;
}

describe('a steady client', () => {
  it('is served without a repeat by a server that stays', async () => {
    const client = await record([], []);
    expectAllServed(client);
    expect(client.describe('all well')).toMatch(
      /^all well: 0 of 3 requests failed, within 0 ms; 0 asked again;/,
    );
  });

  it.each([
    ['is cut off', cut],
    ['is asked to come back', comeBack],
  ])('repeats and counts a request that %s, and passes only where a server ended', async (_, fault) => {
    const client = await record([fault]);
    expect([client.failures.length, client.repeats.length]).toEqual([0, 1]);
    expectAllServed(client, 1);
    expect(() => expectAllServed(client)).toThrow();
    expect(client.describe('one ended')).toContain('0 of 2 requests failed, within 0 ms; 1 asked again');
  });

  it('passes no more repeats than it had connections to the servers that ended', async () => {
    const client = await record([cut], [comeBack]);
    expectAllServed(client, 2);
    expect(() => expectAllServed(client, 1)).toThrow();
  });

  it('asks again on each of its connections, which may all have ended', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.put(resources.namespaces, { metadata: { name: 'default' } });
    const client = new SteadyClient(cluster.server.connectionOptions, { everyMs: never });
    await Promise.all([client.ask(), client.ask()]);
    for (let each = 0; each < 2; each++) cluster.server.inject({ plural: 'namespaces', fault: cut });
    await client.ask();
    await client.close();
    expect([client.failures.length, client.repeats.length, client.maxAtOnce]).toEqual([0, 2, 2]);
    expectAllServed(client, 1);
  });

  it.each<[string, readonly Fault[]]>([
    ['is refused and not asked to come back', [shuttingDown]],
    [
      'is asked to come back by a server that is only busy',
      [{ kind: 'status', code: 429, retryAfterSeconds: 0 }],
    ],
    ['is refused again', [comeBack, comeBack]],
    ['is cut off again', [cut, cut]],
  ])('has failed when it %s', async (_, faults) => {
    const client = await record(faults);
    expect(client.failures).toHaveLength(1);
    expect(() => expectAllServed(client, 9)).toThrow();
  });
});

describe('a steady writer', () => {
  /** What became of its writes, of which the first has these faults. */
  const written = async (...faults: readonly Fault[]) => {
    await using cluster = await startFakeCluster();
    for (const fault of faults) cluster.server.inject({ plural: 'configmaps', fault });
    return await new SteadyWriter(cluster.server.connectionOptions).stop();
  };

  it('repeats and counts a write that is cut off, and passes only where a server ended', async () => {
    const figures = await written(cut);
    expect(figures).toMatchObject({ failures: [], repeated: 1, lost: [] });
    expectAllWritten(figures, 1);
    expect(() => expectAllWritten(figures)).toThrow();
  });

  it('has failed when a write is refused', async () => {
    const figures = await written(shuttingDown);
    expect(figures.failures).toEqual([expect.stringContaining('shutting down')]);
    expect(() => expectAllWritten(figures, 9)).toThrow();
  });
});
