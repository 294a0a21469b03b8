import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, resources } from '../../kube/index.ts';
import { FakeApiServer, FakeClock } from '../../kube/testing/index.ts';
import { readyCondition } from './virtual-clusters.ts';
import { waitFor } from './wait-for.ts';

const ref = { namespace: 'default', name: 'blue' };
const { signal } = new AbortController();

describe('waiting for a tenant', () => {
  let server: FakeApiServer;
  let client: KubeClient;
  let clock: FakeClock;
  /** The latest message that was seen. */
  let seen: string;
  let onSeen: () => void;

  beforeEach(async () => {
    server = await FakeApiServer.start();
    client = new KubeClient(new Connection(server.connectionOptions));
    clock = new FakeClock();
    seen = '';
    onSeen = () => undefined;
  });
  afterEach(async () => {
    await client.connection.close();
    await server.stop();
  });

  const put = (reason: string, message: string): void => {
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const condition = { type: 'Ready', status: 'False', reason, message, lastTransitionTime };
    server.put(resources.virtualClusters, { metadata: ref, status: { conditions: [condition] } });
  };
  const saw = async (message: string): Promise<void> => {
    while (seen !== message) await new Promise<void>((resolve) => (onSeen = resolve));
  };
  const wait = () =>
    waitFor({
      ...{ client, ref, clock, signal, timeoutMs: 100_000, what: 'become Ready' },
      isSlow: (vc) => readyCondition(vc)?.reason === 'FetchingPrograms',
      until: (vc) => vc !== undefined && readyCondition(vc)?.reason === 'Ready',
      onChange: (vc) => {
        seen = readyCondition(vc)?.message ?? '';
        onSeen();
      },
    });

  it('goes on for as long as its programs are being built, and then has all of its time', async () => {
    put('FetchingPrograms', '1 %');
    const waiting = wait();
    await saw('1 %');
    await clock.advance(90_000);
    put('FetchingPrograms', '2 %');
    await saw('2 %');
    await clock.advance(90_000);
    put('Provisioning', 'starting');
    await saw('starting');
    put('Ready', 'done');
    await waiting;
  });

  it('ends when the super cluster keeps refusing to say how it is', async () => {
    server.inject({
      ...{ plural: 'virtualclusters', times: 1_000 },
      fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'you may not watch' },
    });
    const refused = expect(wait()).rejects.toThrow('you may not watch');
    for (let asked = 1; asked <= 3; asked += 1) {
      while (server.requests.length < asked) await setImmediate();
      await clock.advance(5_000);
    }
    await refused;
  });

  it('ends when its time is up, and says why it knows nothing', async () => {
    server.inject({
      ...{ plural: 'virtualclusters', times: 1_000 },
      fault: { kind: 'status', code: 500, reason: 'InternalError', message: 'no leader' },
    });
    const late = expect(wait()).rejects.toThrow(/has not answered, and it cannot be watched: .*no leader/);
    while (server.requests.length === 0) await setImmediate();
    await clock.advance(100_000);
    await late;
  });

  it('ends when its time is up, and says how far it is', async () => {
    put('FetchingPrograms', '1 %');
    const waiting = wait();
    await saw('1 %');
    put('Provisioning', 'starting');
    await saw('starting');
    const late = expect(waiting).rejects.toThrow(
      'did not become Ready within 100 s; it is Pending (starting)',
    );
    await clock.advance(100_000);
    await late;
  });
});
