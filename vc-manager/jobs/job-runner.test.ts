import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { checkRedisUrl } from './job-runner.ts';
import { type Backend, Fleet, steps } from './testing/fleet.ts';
import { RedisServer, whyNoRedis } from './testing/redis-server.ts';

const without = whyNoRedis();
let redis: RedisServer | undefined;

beforeAll(async () => {
  if (without === undefined) redis = await RedisServer.start();
});
afterAll(() => redis?.stop());

const backends: [string, () => Backend][] = [['in-process', () => 'in-process']];
if (without === undefined) backends.push(['bullmq', () => ({ redis: redis?.url ?? '' })]);
else it.skip(`bullmq: ${without}`, () => {});

describe.each(backends)('jobs, %s', (name, backend) => {
  let fleet: Fleet;
  afterEach(async () => {
    await fleet.end();
    if (redis !== undefined) {
      await redis.kill();
      await redis.start();
    }
  });

  it('are done in the order in which they were asked for', async () => {
    fleet = new Fleet(backend());
    const manager = fleet.manager({ parallel: 1 });
    const keys = ['a', 'b', 'c', 'd'];
    manager.lead(...keys);
    await fleet.until(() => keys.every((key) => fleet.isDone(key)));
    expect(fleet.journal).toEqual(keys.flatMap((key) => steps.map((step) => `m1/${key}/${step}`)));
  });

  it('are done side by side, but on no more tenants than a manager may', async () => {
    fleet = new Fleet(backend());
    let active = 0;
    let most = 0;
    const gate = Promise.withResolvers<void>();
    fleet.inStep = async () => {
      active += 1;
      most = Math.max(most, active);
      await gate.promise;
      active -= 1;
    };
    const manager = fleet.manager({ parallel: 2 });
    const keys = ['a', 'b', 'c', 'd'];
    manager.lead(...keys);
    await fleet.until(() => fleet.journal.length === 2);
    gate.resolve();
    await fleet.until(() => keys.every((key) => fleet.isDone(key)));
    expect(most).toBe(2);
  });

  it('that fail are tried again after pauses that grow, and go on at the step that failed', async () => {
    fleet = new Fleet(backend());
    const clock = new FakeClock();
    let failures = 0;
    fleet.inStep = (_key, step) => {
      if (step !== 'start' || failures === 4) return;
      failures += 1;
      throw new Error('fails');
    };
    fleet.manager({ clock }).lead('a');
    for (const [times, pause] of [100, 200, 400, 800].entries()) {
      await fleet.until(() => failures === times + 1);
      while (clock.sleeps.at(-1) !== pause) await clock.advance(0);
      await clock.advance(pause - 1);
      expect(failures).toBe(times + 1);
      await clock.advance(1);
    }
    await fleet.until(() => fleet.isDone('a'));
    expect(fleet.journal).toEqual(['m1/a/choose', ...Array<string>(5).fill('m1/a/start'), 'm1/a/furnish']);
  });

  it('are given up in the middle of a step when something else is asked for, and done anew', async () => {
    fleet = new Fleet(backend());
    let aborted = 0;
    let isStuck = true;
    fleet.inStep = (_key, step, signal) => {
      if (step !== 'start' || !isStuck) return;
      isStuck = false;
      signal.addEventListener('abort', () => {
        aborted += 1;
      });
      return new Promise(() => {});
    };
    fleet.manager().lead('a');
    await fleet.until(() => fleet.journal.includes('m1/a/start'));
    fleet.change('a');
    await fleet.until(() => fleet.isDone('a'));
    expect(aborted).toBe(1);
    expect(fleet.journal).toEqual(['m1/a/choose', 'm1/a/start', ...steps.map((step) => `m1/a/${step}`)]);
  });

  for (const last of steps) {
    // Through Redis a manager counts as dead after seconds only.
    const define = name === 'in-process' || last === 'start' ? it : itInTestAll;
    define(`of a manager that is killed while it is to ${last} go on there, on another one`, async () => {
      fleet = new Fleet(backend());
      let isStuck = true;
      fleet.inStep = (_key, step) => {
        if (step !== last || !isStuck) return;
        isStuck = false;
        return new Promise(() => {});
      };
      const first = fleet.manager({ lockMs: 1_500 });
      first.lead('a');
      await fleet.until(() => fleet.journal.includes(`m1/a/${last}`));
      const second = fleet.manager({ lockMs: 1_500 });
      await first.kill();
      second.lead('a');
      await fleet.until(() => fleet.isDone('a'));
      const place = steps.indexOf(last);
      expect(fleet.journal).toEqual([
        ...steps.slice(0, place + 1).map((step) => `m1/a/${step}`),
        ...steps.slice(place).map((step) => `m2/a/${step}`),
      ]);
    });
  }

  it('that are asked for many times are done once', async () => {
    fleet = new Fleet(backend());
    const gate = Promise.withResolvers<void>();
    fleet.inStep = () => gate.promise;
    const manager = fleet.manager();
    manager.lead('a');
    await fleet.until(() => fleet.journal.length === 1);
    for (let times = 0; times < 20; times++) manager.queue?.add('a');
    gate.resolve();
    await fleet.until(() => fleet.isDone('a'));
    expect(fleet.journal).toEqual(steps.map((step) => `m1/a/${step}`));
  });
});

describe('the URL of a Redis server', () => {
  it.each(['redis://127.0.0.1:6379', 'rediss://user:secret@redis.example/3', 'redis://[::1]:6379/0'])(
    'may be %s',
    (url) => expect(checkRedisUrl(url)).toBe(url),
  );

  it.each([
    ['localhost:6379', 'begins with localhost:'],
    ['nonsense', 'redis://HOST:6379/0'],
    ['http://127.0.0.1', 'begins with http:'],
    ['redis://user:sec/ret@host', 'redis://user:***@host'],
    ['http://user:s%C3%A4@host', 'http://user:***@host'],
    ['redis://', 'names no host'],
    ['redis://host/queue', 'no database number'],
  ])('may not be %s', (url, why) => expect(() => checkRedisUrl(url)).toThrow(why));

  it('keeps its password to itself', () => {
    expect(() => checkRedisUrl('http://user:secret@host')).toThrow(/user:\*\*\*@host/);
  });
});
