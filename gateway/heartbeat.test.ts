import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { gatewayAnnotation, runningGateways } from '../api/program-versions.ts';
import { Connection, KubeClient, resources } from '../kube/index.ts';
import { FakeApiServer, FakeClock } from '../kube/testing/index.ts';
import { GatewayHeartbeat, heartbeatIdentity } from './heartbeat.ts';

const ref = { namespace: 'skerry-system', name: 'vc-gateway' };
let server: FakeApiServer;
let connection: Connection;
let clock: FakeClock;
beforeEach(async () => {
  server = await FakeApiServer.start();
  connection = new Connection(server.connectionOptions);
  clock = new FakeClock();
});
afterEach(async () => {
  await connection.close();
  await server.stop();
});

const said = () => runningGateways(server.get(resources.leases, ref)?.metadata.annotations);
const names = () => said().map(({ identity }) => identity);

function running(identity: string) {
  const end = new AbortController();
  const { namespace } = ref;
  const heartbeat = new GatewayHeartbeat({
    ...{ client: new KubeClient(connection), namespace, identity, version: '0.9.9', clock },
    logger: pino({ level: 'silent' }),
  });
  const ended = heartbeat.run(end.signal);
  return async () => {
    end.abort();
    await ended;
  };
}

it('gateways say in one Lease which of them run, since when, and no more when they end', async () => {
  const endA = running('a-1');
  await server.until(() => names().length === 1);
  const endB = running('b-1');
  await server.until(() => names().length === 2);
  await clock.untilSleeping(2);
  expect(said()[0]).toEqual({ identity: 'a-1', version: '0.9.9', seen: new Date(clock.now()).toISOString() });
  await clock.advance(60_000);
  await server.until(() => said().every(({ seen }) => seen === new Date(clock.now()).toISOString()));
  await endA();
  expect(names()).toEqual(['b-1']);
  await endB();
  expect(names()).toEqual([]);
});

it('what a dead one has left goes, and nothing else', async () => {
  const ago = (ms: number) => new Date(clock.now() - ms).toISOString();
  const annotations = {
    ...gatewayAnnotation({ identity: 'dead', version: '1', seen: ago(11 * 60_000) }),
    ...gatewayAnnotation({ identity: 'slow', version: '1', seen: ago(9 * 60_000) }),
    other: '1 2020-01-01T00:00:00Z',
  };
  server.put(resources.leases, { metadata: { ...ref, annotations } });
  const end = running('a-1');
  await server.until(() => !names().includes('dead') && names().includes('a-1'));
  expect(names()).toEqual(['a-1', 'slow']);
  expect(server.get(resources.leases, ref)?.metadata.annotations).toHaveProperty('other');
  await end();
});

it('goes on when the super cluster refuses, and says it later', async () => {
  server.inject({ verb: 'patch', fault: { kind: 'status', code: 403, reason: 'Forbidden' } });
  const end = running('a-1');
  await clock.untilSleeping();
  await clock.advance(60_000);
  await server.until(() => names().length === 1);
  await end();
});

it.each([
  ['edge-1.example.com', /^edge-1\.example\.com-[0-9a-f]{8}$/],
  ['-Ünder_score', /^nder-score-[0-9a-f]{8}$/],
  ['_', /^gateway-[0-9a-f]{8}$/],
  ['x'.repeat(100), /^x{50}-[0-9a-f]{8}$/],
])('makes a name for an annotation of the host %s', (host, name) => {
  expect(heartbeatIdentity(host)).toMatch(name);
});
