import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { StreamBandwidth } from './stream-bandwidth.ts';

const rate = 1_000_000;
const piece = 10_000;
const { signal } = new AbortController();

function bandwidth(clock: FakeClock, totalRates = 4): StreamBandwidth {
  return new StreamBandwidth({
    clock,
    tenantBytesPerSecond: rate,
    totalBytesPerSecond: totalRates * rate,
  });
}

/** Carries as much as it may until so much time has passed; returns how much that was. */
async function carry(clock: FakeClock, shared: StreamBandwidth, tenant: string): Promise<number> {
  let bytes = 0;
  while (clock.monotonic() < 10_000) {
    await shared.take(tenant, piece, signal);
    bytes += piece;
  }
  return bytes;
}

/** Of ten seconds, and of what may pass at once at the beginning. */
const whole = 11 * rate;
/** One piece may pass more, and what the last sleep was too long for less. */
const about = (bytes: number) => ({
  asymmetricMatch: (sum: number) => Math.abs(sum - bytes) <= bytes / 50,
});

describe('the bandwidth of streams', () => {
  it('is whole for one stream alone', async () => {
    const clock = new FakeClock({ autoAdvance: true });
    expect(await carry(clock, bandwidth(clock), 'blue')).toEqual(about(whole));
  });

  it('of a tenant is shared by its streams', async () => {
    const clock = new FakeClock({ autoAdvance: true });
    const shared = bandwidth(clock);
    const carried = await Promise.all(Array.from({ length: 4 }, () => carry(clock, shared, 'blue')));
    expect(carried.reduce((sum, bytes) => sum + bytes, 0)).toEqual(about(whole));
    for (const bytes of carried) expect(bytes).toEqual(about(whole / 4));
  });

  it('of one tenant takes nothing from another', async () => {
    const clock = new FakeClock({ autoAdvance: true });
    const shared = bandwidth(clock);
    const blue = Array.from({ length: 8 }, () => carry(clock, shared, 'blue'));
    expect(await carry(clock, shared, 'green')).toEqual(about(whole));
    expect((await Promise.all(blue)).reduce((sum, bytes) => sum + bytes, 0)).toEqual(about(whole));
  });

  it('is divided equally where tenants want more than there is, however many streams each has', async () => {
    const clock = new FakeClock({ autoAdvance: true });
    const shared = bandwidth(clock, 2);
    // What may pass at once goes to whoever comes first.
    shared.charge('first', 2 * rate);
    const tenants = ['blue', 'green', 'red', 'white', 'black'];
    const carried = await Promise.all(
      tenants.map(async (tenant, index) => {
        const streams = Array.from({ length: 1 + index }, () => carry(clock, shared, tenant));
        return (await Promise.all(streams)).reduce((sum, bytes) => sum + bytes, 0);
      }),
    );
    for (const bytes of carried) expect(bytes).toEqual(about((2 * 10 * rate) / 5));
  });

  it('goes first to one that has used little', async () => {
    const clock = new FakeClock();
    const shared = bandwidth(clock, 1);
    const blue = Array.from({ length: 200 }, () => shared.take('blue', piece, signal));
    expect(blue.filter((turn) => turn === undefined)).toHaveLength(100);
    let hasPassed = false;
    void shared.take('green', piece, signal)?.then(() => {
      hasPassed = true;
    });
    await clock.advance(25);
    expect(hasPassed).toBe(true);
    await clock.advance(2_000);
    await Promise.all(blue);
  });

  it('goes to a newcomer in turn with others, when one that was idle has used some', async () => {
    const clock = new FakeClock();
    const shared = bandwidth(clock, 1);
    const passed = { blue: 0, green: 0 };
    const pass = (tenant: keyof typeof passed) => {
      void shared.take(tenant, piece, signal)?.then(() => {
        passed[tenant]++;
      });
    };
    shared.charge('red', 1);
    shared.charge('blue', rate);
    for (let n = 0; n < 20; n++) pass('blue');
    await clock.advance(100);
    expect(passed.blue).toBeGreaterThan(0);
    passed.blue = 0;
    shared.charge('red', 1);
    for (let n = 0; n < 20; n++) pass('green');
    await clock.advance(100);
    expect(passed.blue).toBeGreaterThan(2);
    expect(passed.green).toBeGreaterThan(2);
    await clock.advance(2_000);
  });

  it('is used by small pieces as by larger ones: each is work', async () => {
    const clock = new FakeClock();
    const shared = bandwidth(clock);
    const turns = Array.from({ length: 300 }, () => shared.take('blue', 1, signal));
    expect(turns.filter((turn) => turn === undefined)).toHaveLength(Math.ceil(rate / 4_096));
    expect(shared.take('green', 200, signal, 250)).toBeUndefined();
    expect(shared.take('green', 1, signal)).toBeInstanceOf(Promise);
    await clock.advance(1_000);
    await Promise.all(turns);
  });

  it('is not waited for any more when the stream ends', async () => {
    const clock = new FakeClock();
    const shared = bandwidth(clock);
    shared.charge('blue', 3 * rate);
    const ending = new AbortController();
    const turn = shared.take('blue', piece, ending.signal);
    ending.abort(new Error('ended'));
    await expect(turn).rejects.toThrow('ended');
    await clock.advance(20);
    expect(clock.sleeping).toBe(0);
  });

  it('is owed for what has passed already', async () => {
    const clock = new FakeClock();
    const shared = bandwidth(clock);
    shared.charge('blue', 3 * rate);
    let hasPassed = false;
    void shared.take('blue', 0, signal)?.then(() => {
      hasPassed = true;
    });
    await clock.advance(1_999);
    expect(hasPassed).toBe(false);
    await clock.advance(22);
    expect(hasPassed).toBe(true);
  });
});
