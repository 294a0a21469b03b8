import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Refused } from './api.ts';
import { load, reload, restartLoading, state } from './state.ts';

class Source extends EventTarget {
  static readonly CLOSED = 2;
  static last: Source | undefined;
  readyState = 1;
  onopen?: () => void;
  onerror?: () => void;

  constructor() {
    super();
    Source.last = this;
  }

  close(): void {
    this.readyState = Source.CLOSED;
  }
}

/** Statuses of the next answers; 200 after them. 1: an answer that breaks off. */
let statuses: number[] = [];
/** Whose token has expired. */
let isExpired = false;
let isSignedOut = false;
let tenant: string | undefined;
/** What the next request waits for. */
let held: Promise<void> | undefined;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('EventSource', Source);
  vi.stubGlobal('fetch', async (path: string, { signal }: RequestInit = {}) => {
    const wait = held;
    held = undefined;
    await wait;
    signal?.throwIfAborted();
    const status = statuses.shift() ?? 200;
    if (status === 0) throw new TypeError('Failed to fetch');
    if (status === 1) return new Response('{"user":');
    if (status !== 200) return Response.json({ message: 'not now' }, { status });
    if (path === '/api/sign-out') {
      isSignedOut = true;
      return Response.json({});
    }
    if (path === '/api/session')
      return Response.json(isSignedOut ? { oidc: false } : { oidc: false, user: 'ann', csrf: 'x', tenant });
    if (isExpired) return Response.json({ message: 'it has expired: sign in again' }, { status: 401 });
    return Response.json({ version: 7, rows: [], gone: [], isWhole: true });
  });
});
afterEach(() => {
  tenant = undefined;
  isExpired = false;
  isSignedOut = false;
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it('goes on by itself once the API server answers again', async () => {
  await load();
  const before = Source.last;
  statuses = [502, 502];
  const data = JSON.stringify({ status: 502, message: 'the API server is away' });
  before?.dispatchEvent(new MessageEvent('ended', { data }));
  expect(state.problem).toBe('the API server is away (the page tries again after 5 s)');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(state.problem).toBe('not now (the page tries again after 10 s)');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(state.problem).toBe('not now (the page tries again after 20 s)');
  await vi.advanceTimersByTimeAsync(19_999);
  expect(Source.last).toBe(before);
  await vi.advanceTimersByTimeAsync(1);
  expect(Source.last).not.toBe(before);
  expect(state).toMatchObject({ problem: '', isLoaded: true });
});

it('tries to load again from the first time on, less and less often, and then does what is left to do', async () => {
  const before = Source.last;
  statuses = [502, 429, 0, 503, 1, 502];
  let done = 0;
  await reload(false, async () => {
    done += 1;
  });
  for (const seconds of [5, 10, 20, 40, 60, 60]) {
    expect(state.problem).toContain(`(the page tries again after ${seconds} s)`);
    await vi.advanceTimersByTimeAsync(seconds * 1_000 - 1);
    expect([done, Source.last]).toEqual([0, before]);
    await vi.advanceTimersByTimeAsync(1);
  }
  expect(Source.last).not.toBe(before);
  expect([done, state.problem]).toEqual([1, '']);
  statuses = [502];
  await reload(true, async () => {
    done += 1;
    if (done < 3) throw new Refused(502, 'not yet');
  });
  await vi.advanceTimersByTimeAsync(2 * 60_000);
  expect([done, state.problem]).toEqual([3, '']);
  statuses = [403];
  await reload();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([statuses, state.problem]).toEqual([[], 'not now']);
});

describe('when somebody else signs in', () => {
  it('does not go on with a try that is under way, and makes no other one', async () => {
    const { promise: answer, reject } = Promise.withResolvers<void>();
    const tries: AbortSignal[] = [];
    const first = reload(false, (signal) => {
      tries.push(signal);
      return answer;
    });
    await vi.advanceTimersByTimeAsync(0);
    await restartLoading();
    expect(tries.map(({ aborted }) => aborted)).toEqual([true]);
    reject(new Refused(502, 'not now'));
    await first;
    await vi.advanceTimersByTimeAsync(60_000);
    expect([tries.length, state.problem]).toEqual([1, '']);
  });

  it('does nothing after a load that was begun before, and shows nothing of it', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held = promise;
    let done = 0;
    const first = reload(false, async () => {
      done += 1;
    });
    await restartLoading();
    isSignedOut = true;
    resolve();
    await first;
    expect([done, state.session?.user, state.problem]).toEqual([0, 'ann', '']);
  });
});

it('begins with short pauses again once changes arrive', async () => {
  statuses = [502, 502];
  await reload();
  await vi.advanceTimersByTimeAsync(15_000);
  Source.last?.onopen?.();
  const data = JSON.stringify({ status: 502, message: 'away' });
  Source.last?.dispatchEvent(new MessageEvent('ended', { data }));
  expect(state.problem).toBe('away (the page tries again after 5 s)');
});

it("makes longer pauses on a tenant's page too, as long as it is let in and told nothing", async () => {
  tenant = 'blue';
  await load();
  const ended = new MessageEvent('ended', { data: JSON.stringify({ status: 502, message: 'away' }) });
  const changed = new MessageEvent('tenants', { data: JSON.stringify({ version: 8 }) });
  for (const seconds of [5, 10, 20]) {
    Source.last?.onopen?.();
    Source.last?.dispatchEvent(ended);
    expect(state.problem).toBe(`away (the page tries again after ${seconds} s)`);
    await vi.advanceTimersByTimeAsync(seconds * 1_000);
  }
  Source.last?.onopen?.();
  Source.last?.dispatchEvent(changed);
  Source.last?.dispatchEvent(ended);
  expect(state.problem).toBe('away (the page tries again after 5 s)');
});

it('does what is left to do once, when the stream ends while that waits for the next try', async () => {
  let done = 0;
  await reload(false, async () => {
    done += 1;
    if (done === 1) throw new Refused(502, 'not yet');
    await reload();
  });
  const data = JSON.stringify({ status: 502, message: 'away' });
  Source.last?.dispatchEvent(new MessageEvent('ended', { data }));
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  expect([done, state.problem]).toEqual([2, '']);
});

it('asks again at once when it is refused, and not without a pause while it is refused again', async () => {
  await load();
  const refuse = (): void => {
    Source.last?.close();
    Source.last?.onerror?.();
  };
  const first = Source.last;
  first?.onopen?.();
  refuse();
  await vi.advanceTimersByTimeAsync(0);
  const second = Source.last;
  expect(second).not.toBe(first);
  refuse();
  await vi.advanceTimersByTimeAsync(4_999);
  expect(Source.last).toBe(second);
  await vi.advanceTimersByTimeAsync(1);
  expect(Source.last).not.toBe(second);
});

it('does not ask again where somebody may not look', async () => {
  await load();
  const before = Source.last;
  const data = JSON.stringify({ status: 403, message: 'not any more' });
  before?.dispatchEvent(new MessageEvent('ended', { data }));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(Source.last).toBe(before);
  expect(state.problem).toBe('not any more');
});

describe('when the token of a tenant has expired', () => {
  const refuse = (): void => {
    Source.last?.close();
    Source.last?.onerror?.();
  };
  const expectForm = (problem: string): void =>
    expect([state.session, state.problem]).toEqual([{ oidc: false }, problem]);

  beforeEach(async () => {
    tenant = 'blue';
    await load();
    isExpired = true;
  });

  it('shows the form to sign in, and why, when the stream is refused', async () => {
    refuse();
    await vi.advanceTimersByTimeAsync(0);
    expectForm('it has expired: sign in again');
  });

  it('shows it when the stream ends', async () => {
    Source.last?.onopen?.();
    const data = JSON.stringify({ status: 401, message: 'it has expired: sign in again' });
    Source.last?.dispatchEvent(new MessageEvent('ended', { data }));
    await vi.advanceTimersByTimeAsync(0);
    refuse();
    await vi.advanceTimersByTimeAsync(0);
    expectForm('it has expired: sign in again');
  });

  it('shows it also when another page has signed out, and later when nobody answers', async () => {
    // What is asked to know why, and to sign out.
    statuses = [401, 503];
    refuse();
    await vi.advanceTimersByTimeAsync(0);
    expect(state.problem).toBe('not now (the page tries again after 5 s)');
    await vi.advanceTimersByTimeAsync(5_000);
    statuses = [401, 401];
    isSignedOut = true;
    refuse();
    await vi.advanceTimersByTimeAsync(0);
    expectForm('not now');
  });

  it('leaves a form alone that is there already', async () => {
    refuse();
    isSignedOut = true;
    await load();
    await vi.advanceTimersByTimeAsync(60_000);
    expectForm('');
  });
});

it('asks again whether an operator is signed in whose token has expired, and follows a used link once', async () => {
  statuses = [200, 401];
  await reload();
  expect(state.problem).toBe('not now (the page tries again after 5 s)');
  isSignedOut = true;
  await vi.advanceTimersByTimeAsync(5_000);
  expect([state.session, state.problem]).toEqual([{ oidc: false }, '']);
  let done = 0;
  await reload(false, async () => {
    done += 1;
    throw new Refused(401, 'it was used');
  });
  await vi.advanceTimersByTimeAsync(60_000);
  expect([done, state.problem]).toEqual([1, 'it was used']);
});
