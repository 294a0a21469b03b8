import { Queue } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type BullmqRunner, redisConnection } from './bullmq-runner.ts';
import { Fleet, type Manager, steps } from './testing/fleet.ts';
import { RedisServer, whyNoRedis } from './testing/redis-server.ts';
import { SlowProxy } from './testing/slow-proxy.ts';

const without = whyNoRedis();

describe.skipIf(without !== undefined)(
  `managers that share jobs${without === undefined ? '' : ` (${without})`}`,
  () => {
    let redis: RedisServer;
    let fleet: Fleet;
    beforeEach(async () => {
      redis = await RedisServer.start();
      fleet = new Fleet({ redis: redis.url });
    });
    afterEach(async () => {
      await fleet.end();
      await redis.stop();
    });

    const done = (...keys: string[]): boolean => keys.every((key) => fleet.isDone(key));
    const twice = (): string[] => {
      const begun = fleet.journal.map((entry) => entry.split('/').slice(1).join('/'));
      return begun.filter((entry, place) => begun.indexOf(entry) !== place);
    };

    it('all take their part', async () => {
      const gate = Promise.withResolvers<void>();
      fleet.inStep = () => gate.promise;
      const managers = [fleet.manager({ parallel: 1 }), fleet.manager({ parallel: 1 })];
      managers[0]?.lead('a', 'b', 'c');
      await fleet.until(() => fleet.journal.length === 2);
      expect(fleet.journal.map((entry) => entry.split('/')[0]).sort()).toEqual(['m1', 'm2']);
      gate.resolve();
      await fleet.until(() => done('a', 'b', 'c'));
      expect(twice()).toEqual([]);
    });

    it('do one job once when two believe that they lead, and then look for the second as well', async () => {
      const gate = Promise.withResolvers<void>();
      fleet.inStep = () => gate.promise;
      const takenOf = (key: string): number => fleet.taken.filter((each) => each === key).length;
      fleet.manager().lead('a');
      await fleet.until(() => takenOf('a') === 1);
      // One connection keeps the order: who offers the second one has offered the first.
      fleet.manager().lead('a', 'b');
      await fleet.until(() => takenOf('b') === 1);
      expect(takenOf('a')).toBe(1);
      gate.resolve();
      // It may know of more than the other one did when that offered the job.
      await fleet.until(() => takenOf('a') === 2);
      await fleet.until(() => done('a', 'b'));
      expect(twice()).toEqual([]);
    });

    it('finish what they do when Redis is killed meanwhile, and the leader does the rest', async () => {
      const gate = Promise.withResolvers<void>();
      fleet.inStep = () => gate.promise;
      const leader = fleet.manager({ parallel: 1, patienceMs: 1_000 });
      leader.lead('a', 'b', 'c');
      await fleet.until(() => fleet.journal.length === 1);
      await redis.kill();
      gate.resolve();
      await fleet.until(() => done('a', 'b', 'c'));
      expect(twice()).toEqual([]);
    });

    it('finish what they do when Redis stands still meanwhile, and the leader does the rest', async () => {
      const gate = Promise.withResolvers<void>();
      fleet.inStep = () => gate.promise;
      fleet.manager({ parallel: 1, patienceMs: 1_000 }).lead('a', 'b', 'c');
      await fleet.until(() => fleet.journal.length === 1);
      redis.pause();
      gate.resolve();
      await fleet.until(() => done('a', 'b', 'c'));
      redis.resume();
      expect(twice()).toEqual([]);
    });

    it('go on with all jobs when Redis comes back empty', async () => {
      const gate = Promise.withResolvers<void>();
      fleet.inStep = () => gate.promise;
      // So patient that it does not do the work itself.
      const leader = fleet.manager({ parallel: 1, patienceMs: 60_000 });
      leader.lead('a', 'b', 'c');
      await fleet.until(() => fleet.journal.length === 1);
      await redis.kill();
      await redis.start();
      gate.resolve();
      await fleet.until(() => done('a', 'b', 'c'));
      expect(twice()).toEqual([]);
    });

    describe('with jobs that took long', () => {
      const { signal } = new AbortController();
      /** Without a queue of what is wanted, which would find out after ten seconds only. */
      const offer = ({ runner }: Manager, key: string, isSlow = false): Promise<unknown> =>
        runner.run({ key, uid: `uid-${key}`, kind: 'provision', failures: 0, isSlow }, signal);
      const begun = (): Set<string | undefined> => new Set(fleet.journal.map((entry) => entry.split('/')[1]));

      it('have half of their room for others', async () => {
        const gate = Promise.withResolvers<void>();
        fleet.inStep = (key) => (key.startsWith('s') ? gate.promise : undefined);
        const manager = fleet.manager({ parallel: 4 });
        const slow = ['s1', 's2', 's3', 's4', 's5'].map((key) => offer(manager, key, true));
        await fleet.until(() => begun().size === 2);
        // Of four places the slow ones have two, whoever comes first.
        await Promise.all(['a', 'b', 'c'].map((key) => offer(manager, key)));
        expect([...begun()].filter((key) => key?.startsWith('s'))).toHaveLength(2);
        gate.resolve();
        await Promise.all(slow);
        expect(twice()).toEqual([]);
      });

      it('do one for which somebody waits by now, though it was put back', async () => {
        const gate = Promise.withResolvers<void>();
        fleet.inStep = (key) => (key === 'a' ? undefined : gate.promise);
        const manager = fleet.manager({ parallel: 2 });
        const held = offer(manager, 's1', true);
        await fleet.until(() => begun().size === 1);
        const first = offer(manager, 'a', true);
        const connection = redisConnection(redis.url, () => {});
        const queue = new Queue('skerry-test', { connection });
        await expect.poll(() => queue.getDelayedCount()).toBe(1);
        await offer(manager, 'a');
        expect(fleet.isDone('a')).toBe(true);
        gate.resolve();
        await Promise.all([held, first]);
        await queue.close();
        connection.disconnect();
      });

      it('have it for what the one that leads does itself, too', async () => {
        const gate = Promise.withResolvers<void>();
        fleet.inStep = (key) => (key.startsWith('s') ? gate.promise : undefined);
        const runner = fleet.manager({ parallel: 4 }).runner as BullmqRunner;
        const local = (key: string, isSlow: boolean): Promise<unknown> =>
          runner.runLocally({ key, uid: `uid-${key}`, kind: 'provision', failures: 0, isSlow }, signal);
        const slow = ['s1', 's2', 's3', 's4', 's5'].map((key) => local(key, true));
        await Promise.all(['a', 'b', 'c'].map((key) => local(key, false)));
        expect([...begun()].filter((key) => key?.startsWith('s'))).toHaveLength(2);
        gate.resolve();
        await Promise.all(slow);
      });
    });

    it('share the work again when Redis is back', async () => {
      await redis.kill();
      const leader = fleet.manager({ parallel: 1, patienceMs: 200 });
      leader.lead('a');
      await fleet.until(() => done('a'));
      await redis.start();
      const helper = fleet.manager({ parallel: 4 });
      const gate = Promise.withResolvers<void>();
      fleet.inStep = () => gate.promise;
      const isShared = (): boolean => fleet.journal.some((entry) => entry.startsWith(`${helper.name}/`));
      const timesBack = (): number =>
        fleet.log.filter((line) => line.includes('Redis is there again')).length;
      // So impatient that it may lose a slow Redis once more. Of the jobs of one offer it can do but one itself.
      for (let offers = 0; !isShared(); offers++) {
        await fleet.until(() => isShared() || timesBack() > offers);
        leader.queue?.add(`x${offers}`);
        leader.queue?.add(`y${offers}`);
      }
      gate.resolve();
    });

    it('lose nothing and do nothing twice when Redis is slow', async () => {
      const proxy = await SlowProxy.start({ to: redis.port, delayMs: 150 });
      try {
        const url = `redis://127.0.0.1:${proxy.port}/0`;
        const leader = fleet.manager({ url, patienceMs: 10_000 });
        fleet.manager({ url });
        const keys = ['a', 'b', 'c', 'd'];
        leader.lead(...keys);
        await fleet.until(() => done(...keys));
        expect(twice()).toEqual([]);
      } finally {
        await fleet.end();
        await proxy.stop();
      }
    });

    it('show steps and ends to whoever looks at the queue, and keep so many of them', async () => {
      const keys = Array.from({ length: 230 }, (_, index) => `t${index}`);
      const leader = fleet.manager({ parallel: 16 });
      leader.lead(...keys);
      await fleet.until(() => done(...keys));
      const connection = redisConnection(redis.url, () => {});
      const queue = new Queue('skerry-test', { connection });
      const [latest] = await queue.getCompleted(0, 0);
      expect(latest?.data).toMatchObject({ kind: 'provision', failures: 0 });
      expect(latest?.progress).toMatchObject({ step: steps.at(-1) });
      expect((await queue.getJobCounts('completed'))['completed']).toBeLessThanOrEqual(200);
      await queue.close();
      connection.disconnect();
    });
  },
);
