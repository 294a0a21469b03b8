import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resources } from '../../../kube/index.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import { componentLog } from './logs.ts';
import type { Pod } from './types.ts';

const id = 'abc123';
const namespace = `skerry-tenant-${id}`;
const component = 'kube-apiserver';
const pauseMs = 1_000;

let cluster: FakeCluster;
let clock: FakeClock;
let ending: AbortController;

beforeEach(async () => {
  cluster = await startFakeCluster();
  clock = new FakeClock();
  ending = new AbortController();
});

afterEach(async () => {
  ending.abort();
  await cluster[Symbol.asyncDispose]();
});

function runs(ordinal: number, run: number, { isBack = false } = {}): void {
  const finishedAt = '2030-01-01T00:00:30Z';
  const pod: Pod = {
    metadata: {
      name: `${component}-${ordinal}`,
      namespace,
      uid: `pod-${ordinal}`,
      labels: { 'skerry.dev/component': component },
    },
    status: {
      containerStatuses: [
        {
          name: component,
          restartCount: run,
          state: { running: { startedAt: `2030-01-01T00:0${run}:00Z` } },
          ...(isBack ? { lastState: { terminated: { exitCode: 7, finishedAt } } } : {}),
        },
      ],
    },
  };
  cluster.server.put(resources.pods, pod);
}

/** The next answer with a log; it ends at once. */
function says(...lines: string[]): void {
  const text = lines.map((line) => `${line}\n`).join('');
  cluster.server.inject({ fault: { kind: 'status', code: 200, text }, plural: 'pods', verb: 'get' });
}

/** The next answers have no line, and do not end. */
function saysNoMore(times = 1): void {
  cluster.server.inject({ fault: { kind: 'hang' }, plural: 'pods', verb: 'get', times });
}

const at = (second: string, text: string): string => `2030-01-01T00:00:${second}Z ${text}`;

function log(follow: boolean, tail: { tailLines?: number } = {}): AsyncGenerator<string> {
  const options = { follow, ...tail, signal: ending.signal };
  return componentLog({ client: cluster.client, clock, id, component, onProblem: () => undefined }, options);
}

const asked = (): (string | null)[][] =>
  cluster.server.requests
    .filter(({ subresource }) => subresource === 'log')
    .map(({ name, query }) => [name ?? '', query.get('follow'), query.get('sinceTime')]);

const tails = (): (string | null)[] =>
  cluster.server.requests
    .filter(({ subresource }) => subresource === 'log')
    .map(({ query }) => query.get('tailLines'));

const untilAsked = (count: number): Promise<void> => cluster.server.until(() => asked().length >= count);

async function next(lines: AsyncGenerator<string>): Promise<string | undefined> {
  const { value, done } = await lines.next();
  return done === true ? undefined : value;
}

describe('the log of a component', () => {
  it('begins with what was said before a restart', async () => {
    runs(0, 1, { isBack: true });
    says('before');
    says(at('31.000000000', 'after'));
    const lines: string[] = [];
    for await (const line of log(false)) lines.push(line);
    expect(lines).toEqual([
      'before',
      expect.stringContaining(`${component}-0 was started again: it had ended`),
      'after',
    ]);
  });

  it('goes on where it was when a connection has ended and the container has not', async () => {
    runs(0, 0);
    says(at('01.000000001', 'one'));
    says(at('01.000000001', 'one'), at('01.000000002', 'two'));
    saysNoMore();
    const lines = log(true);
    expect(await next(lines)).toBe('one');
    expect(await next(lines)).toBe('two');
    says(at('01.000000002', 'two'), at('05.000000000', 'three'));
    await clock.untilSleeping(2);
    await clock.advance(pauseMs);
    await untilAsked(3);
    expect(asked()).toEqual([
      [`${component}-0`, null, null],
      [`${component}-0`, 'true', '2030-01-01T00:00:01Z'],
      [`${component}-0`, 'true', '2030-01-01T00:00:01Z'],
    ]);
  });

  it('goes on with the container that is started again, and with the pod that comes next', async () => {
    runs(0, 0);
    says(at('01.000000000', 'one'));
    says();
    says(at('02.000000000', 'of the second run'));
    const lines = log(true);
    expect(await next(lines)).toBe('one');
    const second = next(lines);
    await untilAsked(2);
    runs(0, 1);
    expect(await second).toBe('of the second run');
    cluster.server.remove(resources.pods, { namespace, name: `${component}-0` });
    says(at('03.000000000', 'of another pod'));
    saysNoMore();
    const third = next(lines);
    runs(1, 2);
    expect(await third).toBe('of another pod');
  });

  it('says nothing twice when a kubelet tells of a restart later than it shows the new log', async () => {
    runs(0, 0);
    says(at('01.000000000', 'one'));
    says();
    const lines = log(true);
    expect(await next(lines)).toBe('one');
    const second = next(lines);
    await untilAsked(2);
    says(at('05.000000000', 'of the second run'));
    await clock.untilSleeping(2);
    await clock.advance(pauseMs);
    expect(await second).toBe('of the second run');
    says(at('05.000000000', 'of the second run'), at('06.000000000', 'more of it'));
    saysNoMore();
    const third = next(lines);
    runs(0, 1);
    expect(await third).toBe('more of it');
  });

  it('has no line of before when none is wanted, and every line from then on', async () => {
    runs(0, 0);
    says(at('01.000000000', 'before'));
    says(at('01.000000000', 'before'), at('01.500000000', 'meanwhile'));
    const lines = log(true, { tailLines: 0 });
    expect(await next(lines)).toBe('meanwhile');
    // With none the place to go on from would not be known.
    expect(tails()).toEqual(['1', null]);
  });

  it('has every line from when it was asked for where nothing was said before', async () => {
    runs(0, 0);
    says();
    says();
    const lines = log(true, { tailLines: 0 });
    const first = next(lines);
    await untilAsked(2);
    says(at('05.000000000', 'first'));
    saysNoMore();
    await clock.untilSleeping(2);
    await clock.advance(pauseMs);
    expect(await first).toBe('first');
    expect(tails()).toEqual(['1', null, null]);
  });

  it('ends when it is told to', async () => {
    runs(0, 0);
    says();
    saysNoMore();
    const last = next(log(true));
    await untilAsked(2);
    ending.abort();
    expect(await last).toBeUndefined();
  });
});
