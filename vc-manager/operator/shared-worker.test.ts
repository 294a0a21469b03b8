import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { Connection, KubeClient, resources } from '../../kube/index.ts';
import { isBroad } from '../../kube/testing/broad.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { SharedReadTime } from '../../program/read-time.ts';
import { RedisServer, whyNoRedis } from '../jobs/testing/redis-server.ts';
import { Caches } from './caches.ts';
import type { OperatorOptions } from './services.ts';
import { SharedWorker } from './shared-worker.ts';
import { FakeDriver, jobRequests, World } from './testing/world.ts';
import { UsageMeter } from './usage-meter.ts';

const without = whyNoRedis();

class SharedDriver extends FakeDriver {
  readonly isShared = true;
}

describe.skipIf(without !== undefined)(
  `managers with Redis${without === undefined ? '' : ` (${without})`}`,
  () => {
    let world: World;
    let redis: RedisServer;
    let driver: SharedDriver;
    beforeAll(async () => {
      redis = await RedisServer.start();
    });
    afterAll(() => redis?.stop());
    beforeEach(async () => {
      world = await World.start();
      driver = new SharedDriver();
    });
    afterEach(() => world.end());

    // So patient that a busy machine is not taken for a manager that died or a Redis that is lost.
    const patient = { lockMs: 30_000, patienceMs: 30_000 };
    const options = (
      more: Partial<OperatorOptions> = {},
      redisOptions = patient,
    ): Partial<OperatorOptions> => ({
      driver,
      redis: { url: redis.url, ...redisOptions },
      settings: { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379', parallel: 2 },
      ...more,
    });
    const leaderOf = (): string | undefined => {
      const lease = world.superCluster.get(resources.leases, {
        namespace: 'skerry-system',
        name: 'skerry-vc-manager',
      });
      return (lease?.['spec'] as { holderIdentity?: string } | undefined)?.holderIdentity;
    };
    const leases = (): string[] =>
      world.superCluster
        .list(resources.leases)
        .map(({ metadata }) => metadata.name ?? '')
        .filter((name) => name.startsWith('skerry-job-'));

    it('make control planes side by side, each with addresses of its own, and remove them', async () => {
      const gate = Promise.withResolvers<void>();
      driver.beforeEnsure = () => gate.promise;
      for (let count = 0; count < 3; count++) world.run(options());
      const names = ['a', 'b', 'c', 'd', 'e', 'f'];
      for (const name of names) world.create(name);
      await world.superCluster.until(() =>
        names.every((name) => world.get(name)?.status?.jobs?.current?.step === 'control-plane'),
      );
      const holders = names.map((name) => world.get(name)?.status?.jobs?.current?.holder);
      expect(new Set(holders).size).toBe(3);
      gate.resolve();
      const all = await Promise.all(names.map((name) => world.untilReady(name)));
      for (const field of ['id', 'serviceCIDR', 'advertisedPort'] as const)
        expect(new Set(all.map(({ status }) => status?.[field])).size).toBe(names.length);
      expect(all.map(({ status }) => status?.jobs?.history)).toEqual(
        names.map(() => [expect.objectContaining({ result: 'Succeeded', attempts: 1 })]),
      );
      await Promise.all(names.map((name) => world.delete(name)));
      await Promise.all(names.map((name) => world.untilGone(name)));
      expect(await world.leftovers()).toMatchObject({ secrets: [], addresses: [] });
      await world.superCluster.until(() => leases().length === 0);
    });

    it('give each tenant a port of the gateway that no other has, though two choose at the same time', async () => {
      const names = ['a', 'b'];
      // It works on each of them under no Lease but its own.
      const { redis: _, ...alone } = options();
      const first = world.run(alone);
      for (const name of names) world.create(name);
      await Promise.all(names.map((name) => world.untilReady(name)));
      await first.stop();
      // What the leader does not do by itself.
      for (const name of names)
        jobRequests(() => world).annotate(name, annotationKeys.renewCertificates, 'now');
      const chosen = new Map<string, unknown>();
      const both = Promise.withResolvers<void>();
      world.beforeUpdate = ({ metadata: { name = '' }, status }) => {
        const { gateway } = (status ?? {}) as { gateway?: { port?: number } };
        if (gateway?.port === undefined) return undefined;
        if (!chosen.has(name)) chosen.set(name, gateway.port);
        if (chosen.size === names.length) both.resolve();
        return both.promise;
      };
      const gateway = { domain: 'tenants.example.com', port: 443, ports: { first: 23_000, last: 23_999 } };
      const one = { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379', parallel: 1 };
      for (let count = 0; count < 2; count++) world.run(options({ settings: { ...one, gateway } }));
      const isRenewed = ({ status }: VirtualCluster): boolean =>
        status?.jobs?.history?.[0]?.kind === 'renewal';
      const all = await Promise.all(names.map((name) => world.until(name, isRenewed)));
      expect(new Set(chosen.values()).size).toBe(1);
      expect(new Set(all.map(({ status }) => status?.gateway?.port)).size).toBe(names.length);
      const servers = all.map(({ status }) => status?.gateway?.server);
      expect(servers).toEqual(all.map(({ status }) => expect.stringContaining(`:${status?.gateway?.port}`)));
    });

    it('have tenants accept what the super cluster assigns, whichever of them does the job', async () => {
      const cidr = '10.43.0.0/16';
      world.superCluster.put(resources.serviceCidrs, {
        metadata: { name: 'kubernetes' },
        spec: { cidrs: [cidr] },
      });
      const fault = { kind: 'status', code: 403, message: 'webhook "w" denied the request' } as const;
      world.superCluster.inject({ verb: 'create', plural: 'servicecidrs', times: 1000, fault });
      const leading = world.run(options());
      await world.superCluster.until(() => leaderOf() === 'manager-1');
      world.run(options());
      driver.beforeEnsure = (_plan, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      world.create('a');
      await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'control-plane');
      driver.beforeEnsure = () => {};
      await leading.stop();
      expect((await world.untilReady('a')).status?.serviceIPMode).toBe('assigned');
      const accepted = world.tenant.list(resources.serviceCidrs);
      expect(accepted.map(({ spec }) => spec)).toEqual([{ cidrs: [cidr] }]);
    });

    it('finish what one of them was at when it went away', async () => {
      driver.beforeEnsure = (_plan, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      const first = world.run(options());
      world.create('a');
      await world.until('a', (vc) => vc.status?.jobs?.current?.step === 'control-plane');
      const id = world.get('a')?.status?.jobs?.current?.id;
      driver.beforeEnsure = () => {};
      world.run(options());
      await first.stop();
      await world.untilReady('a');
      expect(world.get('a')?.status?.jobs?.history).toMatchObject([{ id, result: 'Succeeded', attempts: 2 }]);
    });

    it('give up what another one has begun when the spec changes', async () => {
      let aborted = 0;
      driver.beforeEnsure = (_plan, { signal }) =>
        new Promise((_, reject) =>
          signal.addEventListener('abort', () => {
            aborted += 1;
            reject(signal.reason);
          }),
        );
      world.run(options());
      world.run(options());
      world.create('a');
      await world.superCluster.until(() => driver.active === 1);
      driver.beforeEnsure = () => {};
      world.edit('a', { weight: 5 });
      const { status } = await world.untilReady('a');
      expect(aborted).toBe(1);
      expect(status?.observedGeneration).toBe(2);
    });

    it('are never two at one tenant, though Redis is lost while they work', async () => {
      const gate = Promise.withResolvers<void>();
      driver.beforeEnsure = () => gate.promise;
      const one = { advertiseAddress: '192.0.2.1', etcdEndpoint: 'https://127.0.0.1:2379', parallel: 1 };
      for (let count = 0; count < 2; count++)
        world.run(options({ settings: one }, { lockMs: 10_000, patienceMs: 5_000 }));
      for (const name of ['a', 'b']) world.create(name);
      await world.superCluster.until(() => driver.active === 2);
      const leader = leaderOf();
      const helped =
        ['a', 'b'].find((name) => world.get(name)?.status?.jobs?.current?.holder !== leader) ?? '';
      const lease = `skerry-job-${world.get(helped)?.metadata.uid}`;
      await redis.kill();
      const asked = (wanted: string): number =>
        world.superCluster.requests.filter(({ method, name }) => method === wanted && name === lease).length;
      // The leader tries to do it itself, over and over; the other one renews its lease meanwhile.
      const [reads, renewals] = [asked('GET'), asked('PUT')];
      const isTried = (): boolean => asked('GET') - reads > asked('PUT') - renewals + 2;
      // Longer than the lease lasts without that, where there is time for it.
      const enough = isBroad ? 15 : 3;
      await world.superCluster.until(() => isTried() && asked('PUT') > renewals + enough);
      expect(driver.ensured.length).toBe(2);
      gate.resolve();
      await Promise.all(['a', 'b'].map((name) => world.untilReady(name)));
      await redis.start();
    });

    it('leave all to the one that leads where control planes belong to one manager', async () => {
      world.run(options({ driver: world.driver }));
      world.create('a');
      await world.untilReady('a');
      world.run(options({ driver: world.driver }));
      const names = ['b', 'c', 'd', 'e'];
      for (const name of names) world.create(name);
      const all = await Promise.all(names.map((name) => world.untilReady(name)));
      expect(world.driver.ensured.length).toBe(5);
      expect(leases()).toEqual([]);
      expect(all.map(({ status }) => status?.phase)).toEqual(names.map(() => 'Ready'));
    });

    it('forget a VirtualCluster that is gone, whichever of them leads', async () => {
      const clock = new FakeClock();
      const client = new KubeClient(new Connection(world.superCluster.connectionOptions));
      const logger = pino({ level: 'silent' });
      const namespace = 'skerry-system';
      const caches = new Caches({ client, clock, namespace, logger });
      const remembered = {
        leavingSinceMs: new Map([['uid-a', 0]]),
        activeJobs: new Map([['uid-a', 'job']]),
        sleepPauses: new Map([['uid-a', { attempt: '', untilMs: 0, why: '' }]]),
        readTimes: new Map([['uid-a', new SharedReadTime(clock).tenant()]]),
      };
      const usage = new UsageMeter();
      usage.countCalls('uid-a', undefined, 0);
      const worker = await SharedWorker.create({
        operator: { client, logger, identity: 'follower', redis: { url: redis.url } } as OperatorOptions,
        services: () => Promise.reject(new Error('no job is done here')),
        ...{
          caches,
          remembered: { ...remembered, usage },
          namespace,
          queueName: 'skerry-forgotten',
          parallel: 1,
        },
      });
      try {
        const vc = { metadata: { namespace: 'team', name: 'a', uid: 'uid-a' } };
        caches.virtualClusters.apply('ADDED', vc);
        caches.virtualClusters.apply('DELETED', vc);
        expect(Object.values(remembered).map(({ size }) => size)).toEqual([0, 0, 0, 0]);
        expect(usage.isCallCountDue('uid-a', 0)).toBe(true);
      } finally {
        await worker.close();
        await client.connection.close();
      }
    });

    it('do without Redis when it is not there, and share again when it is', async () => {
      await redis.kill();
      world.run(options({}, { ...patient, patienceMs: 1_000 }));
      world.create('a');
      await world.untilReady('a');
      await redis.start();
      world.create('b');
      await world.untilReady('b');
      await world.delete('a');
      await world.untilGone('a');
    });
  },
);
