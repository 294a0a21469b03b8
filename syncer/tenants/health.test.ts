import { describe, expect, it } from 'vitest';
import type { KubeClient } from '../../kube/index.ts';
import { FakeClock, startLyingServer } from '../../kube/testing/index.ts';
import { testTenant } from '../kinds/testing.ts';
import { CallHealth, Health } from './health.ts';

type Options = ConstructorParameters<typeof Health>[0];

const nothing = async (): Promise<void> => undefined;

/** A tenant in whose parts all is well, and the names of what was written about it. */
function health(usage: object | undefined) {
  const written: string[] = [];
  const note = (what: string) => async () => void written.push(what);
  const options = {
    state: {
      info: testTenant(),
      client: { raw: nothing } as Pick<KubeClient, 'raw'>,
      superCaches: { byIndex: () => [] },
      caches: { store: () => ({ size: 3 }), latestVersion: () => '7' },
    },
    engine: { retryNow: () => undefined, usedBy: () => ({}) },
    status: { condition: note('condition'), usage: note('usage'), observedVersion: note('version') },
    freeze: { answer: nothing, recheck: nothing, recordSuper: note('super cluster') },
    holds: { answer: nothing, recheck: nothing },
    custom: { reconcile: () => undefined, problems: [] },
    calls: { problem: () => undefined },
    latest: () => ({ metadata: {}, status: usage === undefined ? {} : { usage } }),
    isJoined: () => true,
    clock: new FakeClock(),
    logger: { warn: (fields: object): void => expect(fields).toBeUndefined() },
  };
  const checks = new Health(options as unknown as Options);
  return { checked: () => checks.check(new AbortController().signal), written, options };
}

it.each([
  [16, true],
  [17, false],
])('reads a probe of %i KiB: %s', async (kibibytes, isWell) => {
  await using server = await startLyingServer((_request, response) =>
    response.end('x'.repeat(kibibytes * 1024)),
  );
  const warned: unknown[] = [];
  const { options, checked } = health({ pods: 9 });
  options.state.client = server.client;
  options.logger.warn = (fields) => void warned.push(fields);
  expect(await checked()).toBe(isWell);
  expect(warned).toHaveLength(isWell ? 0 : 1);
});

const measured = ['version', 'super cluster', 'usage'];

it('measures a new tenant at the first look', async () => {
  const { checked, written } = health(undefined);
  expect(await checked()).toBe(true);
  expect(written).toEqual(expect.arrayContaining(measured));
});

it('measures one that an earlier syncer has measured at the second look: its pods come first', async () => {
  const { checked, written } = health({ pods: 9 });
  expect(await checked()).toBe(true);
  expect(written.filter((what) => what !== 'condition')).toEqual([]);
  expect(await checked()).toBe(true);
  expect(written).toEqual(expect.arrayContaining(measured));
});

it('measures one whose API server lets a check fail', async () => {
  const { checked, written, options } = health(undefined);
  const warned: unknown[] = [];
  options.logger.warn = (fields) => void warned.push(fields);
  options.freeze.recheck = () => Promise.reject(new Error('status 500'));
  expect(await checked()).toBe(false);
  expect(written).toContain('usage');
  expect(warned).toHaveLength(1);
  options.state.client.raw = () => Promise.reject(new Error('no answer'));
  written.length = 0;
  expect(await checked()).toBe(false);
  expect(written).toEqual(['usage']);
});

describe('calls to a tenant', () => {
  function health(): { calls: CallHealth; pass: (ms: number) => void } {
    let nowMs = 0;
    return { calls: new CallHealth(() => nowMs), pass: (ms) => (nowMs += ms) };
  }
  const fail = (calls: CallHealth, status = 500): void =>
    calls.called({ verb: 'patch', resource: 'pods', status });

  it('are in trouble when they have failed three times and for half a minute', () => {
    const { calls, pass } = health();
    for (const status of [500, 503, 0]) {
      expect(calls.problem()).toBeUndefined();
      pass(15_000);
      fail(calls, status);
    }
    expect(calls.problem()).toBe('patch pods (no answer)');
    calls.called({ verb: 'patch', resource: 'pods', status: 200 });
    expect(calls.problem()).toBeUndefined();
  });

  it('are judged by resource and verb: what works for some says nothing of others', () => {
    const { calls, pass } = health();
    for (let round = 0; round < 3; round++) {
      fail(calls);
      calls.called({ verb: 'patch', resource: 'services', status: 200 });
      calls.called({ verb: 'get', resource: 'pods', status: 200 });
      pass(20_000);
    }
    expect(calls.problem()).toBe('patch pods (status 500)');
  });

  it('may be refused by admission, found missing or in conflict, and be throttled', () => {
    const { calls, pass } = health();
    for (let round = 0; round < 5; round++) {
      for (const status of [403, 404, 409, 422, 429]) fail(calls, status);
      pass(20_000);
    }
    expect(calls.problem()).toBeUndefined();
  });

  it('that only read may not be refused: nothing but a hijacked server does that', () => {
    const { calls, pass } = health();
    for (let round = 0; round < 3; round++) {
      calls.called({ verb: 'get', resource: 'pods', status: 403 });
      pass(20_000);
    }
    expect(calls.problem()).toBe('get pods (status 403)');
  });

  it('say nothing of the time since when all failed in one moment', () => {
    const { calls, pass } = health();
    for (let round = 0; round < 3; round++) fail(calls);
    pass(60_000);
    expect(calls.problem()).toBeUndefined();
  });

  it.each(['list', 'watch'] as const)(
    'leave %s to what follows with it, which knows whether an answer was of use',
    (verb) => {
      const { calls, pass } = health();
      for (let round = 0; round < 3; round++) {
        calls.called({ verb, resource: 'pods', status: 0 });
        calls.failed('follow pods', 'no answer');
        pass(20_000);
      }
      expect(calls.problem()).toBe('follow pods (no answer)');
      calls.succeeded('follow pods');
      expect(calls.problem()).toBeUndefined();
    },
  );

  it('are not held against a tenant when nothing was tried for long', () => {
    const { calls, pass } = health();
    for (let round = 0; round < 3; round++) {
      fail(calls);
      pass(20_000);
    }
    pass(15 * 60_000);
    expect(calls.problem()).toBeUndefined();
  });
});
