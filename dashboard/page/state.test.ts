import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { load, state } from './state.ts';

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

/** Statuses of the next answers; 200 after them. */
let statuses: number[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('EventSource', Source);
  vi.stubGlobal('fetch', async (path: string) => {
    const status = statuses.shift() ?? 200;
    if (status !== 200) return Response.json({ message: 'not now' }, { status });
    if (path === '/api/session') return Response.json({ oidc: false, user: 'ann', csrf: 'x' });
    return Response.json({ version: 7, rows: [], gone: [], isWhole: true });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it('goes on by itself once the API server answers again', async () => {
  await load();
  const before = Source.last;
  statuses = [502, 502];
  const data = JSON.stringify({ status: 502, message: 'the API server is away' });
  before?.dispatchEvent(new MessageEvent('ended', { data }));
  expect(state.problem).toBe('the API server is away');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(Source.last).toBe(before);
  expect(state.problem).toBe('not now');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(Source.last).not.toBe(before);
  expect(state).toMatchObject({ problem: '', isLoaded: true });
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
