import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { ExpressAdapter } from '@bull-board/express';
import { Queue, QueueEvents } from 'bullmq';
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { redisConnection } from './bullmq-runner.ts';
import { Fleet } from './testing/fleet.ts';
import { RedisServer, whyNoRedis } from './testing/redis-server.ts';

const without = whyNoRedis();
const queueName = 'skerry-test';

/** What Bull Board answers its own page. */
interface Shown {
  readonly queues: readonly {
    readonly name: string;
    readonly counts: Readonly<Record<string, number>>;
    readonly jobs: readonly {
      readonly name: string;
      readonly progress: unknown;
      readonly data: { readonly key?: string };
      readonly isFailed: boolean;
      readonly failedReason?: string;
    }[];
  }[];
}

describe.skipIf(without !== undefined)(`Bull Board${without === undefined ? '' : ` (${without})`}`, () => {
  let redis: RedisServer;
  let connection: Redis;
  let queue: Queue;
  let events: QueueEvents;
  let server: Server;
  let fleet: Fleet;

  beforeEach(async () => {
    redis = await RedisServer.start();
    connection = redisConnection(redis.url, () => undefined);
    queue = new Queue(queueName, { connection });
    const serverAdapter = new ExpressAdapter();
    createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter });
    server = createServer({ keepAliveTimeout: 60_000 }, serverAdapter.getRouter() as RequestListener).listen(
      0,
      '127.0.0.1',
    );
    await new Promise((resolve) => server.once('listening', resolve));
    events = new QueueEvents(queueName, { connection, lastEventId: '0-0' });
    await events.waitUntilReady();
    fleet = new Fleet({ redis: redis.url });
  });

  afterEach(async () => {
    await fleet.end();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await events.close();
    await queue.close();
    connection.disconnect();
    await redis.stop();
  });

  const url = (path: string): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;

  const shown = async (): Promise<Shown['queues'][number]> => {
    const answer = await fetch(
      url(`/api/queues?activeQueue=${queueName}&status=latest&page=1&jobsPerPage=10`),
    );
    expect(answer.status).toBe(200);
    const { queues } = (await answer.json()) as Shown;
    expect(queues.map(({ name }) => name)).toEqual([queueName]);
    return queues[0] as Shown['queues'][number];
  };

  it('shows which jobs are under way, at which step, and how they have ended', async () => {
    const held = Promise.withResolvers<void>();
    fleet.inStep = async (key, step) => {
      if (key === 'bad') throw new Error('fails');
      if (step === 'start') await held.promise;
    };
    const failed = new Promise((resolve) => events.once('failed', resolve));
    const started = new Promise<void>((resolve) => {
      events.on('progress', ({ data }) => {
        if ((data as { step?: string }).step === 'start') resolve();
      });
    });
    const completed = new Promise((resolve) => events.once('completed', resolve));
    fleet.manager().lead('good', 'bad');

    await Promise.all([started, failed]);
    const { jobs } = await shown();
    expect(jobs.find(({ data }) => data.key === 'good')).toMatchObject({
      name: 'provision',
      data: { key: 'good' },
      progress: { step: 'start', doing: 'to start' },
    });
    expect(jobs.find(({ data, isFailed }) => data.key === 'bad' && isFailed)).toMatchObject({
      data: { key: 'bad' },
      failedReason: expect.stringContaining('see the VirtualCluster'),
    });

    held.resolve();
    await completed;
    expect((await shown()).counts).toMatchObject({ completed: 1 });
  });
});
