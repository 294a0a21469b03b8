import { describe, expect, it } from 'vitest';
import { CallHealth } from './call-health.ts';

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
