import { describe, expect, it } from 'vitest';
import { Backoff } from './backoff.ts';
import { FakeClock } from './testing/index.ts';

describe('Backoff', () => {
  it('doubles from 0.8 s to 30 s', () => {
    const backoff = new Backoff({ clock: new FakeClock(), random: () => 0 });
    const delays = Array.from({ length: 8 }, () => backoff.next());
    expect(delays).toEqual([800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
  });

  it('stretches each delay by up to as much again', () => {
    const backoff = new Backoff({ clock: new FakeClock(), random: () => 0.5 });
    expect([backoff.next(), backoff.next()]).toEqual([1_200, 2_400]);
  });

  it('starts over when told to', () => {
    const backoff = new Backoff({ clock: new FakeClock(), random: () => 0 });
    backoff.next();
    backoff.next();
    backoff.reset();
    expect(backoff.next()).toBe(800);
  });

  it('starts over after two minutes without a failure', async () => {
    const clock = new FakeClock();
    const backoff = new Backoff({ clock, random: () => 0 });
    backoff.next();
    await clock.advance(119_000);
    expect(backoff.next()).toBe(1_600);
    await clock.advance(121_000);
    expect(backoff.next()).toBe(800);
  });
});
