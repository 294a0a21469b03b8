import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/fake-clock.ts';
import { RestorePauses } from './snapshots.ts';

describe('pauses between attempts at a restore', () => {
  const begin = (pauses: RestorePauses, uid: string, there: string[]): number =>
    pauses.begin(uid, { attempt: 'one', why: 'It is read-only.', there }).againAfterMs;

  it('become twice as long each time, up to half an hour', () => {
    const pauses = new RestorePauses(new FakeClock());
    const minutes = Array.from({ length: 10 }, () => begin(pauses, 'a', ['a']) / 60_000);
    expect(minutes.map((each) => Math.floor(each))).toEqual([0, 0, 0, 1, 2, 5, 10, 21, 30, 30]);
  });

  it('last for their own time, and for the same request only', async () => {
    const clock = new FakeClock({ now: Date.parse('2026-03-01T12:00:00Z') });
    const pauses = new RestorePauses(clock);
    begin(pauses, 'a', ['a']);
    expect(pauses.find('a', 'one')).toMatchObject({
      message: expect.stringMatching(/^It is read-only\. .* the next one is at 2026-03-01T12:00:10Z;/),
      againAfterMs: 10_000,
    });
    expect(pauses.find('a', 'two')).toBeUndefined();
    await clock.advance(10_000);
    expect(pauses.find('a', 'one')).toBeUndefined();
  });

  it('of VirtualClusters that are gone are forgotten', () => {
    const pauses = new RestorePauses(new FakeClock());
    begin(pauses, 'gone', ['gone', 'a']);
    begin(pauses, 'a', ['gone', 'a']);
    begin(pauses, 'b', ['a', 'b']);
    expect(pauses.find('gone', 'one')).toBeUndefined();
    expect(pauses.find('a', 'one')).toBeDefined();
    pauses.end('a');
    expect(pauses.find('a', 'one')).toBeUndefined();
  });
});
