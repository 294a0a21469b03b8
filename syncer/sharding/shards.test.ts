import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { ReplicaReplaced } from './own-lease.ts';
import { Replica } from './testing/replica.ts';
import { SharedRecords } from './testing/shared-records.ts';

const all = 64;

/** No bucket is served twice, and what is served is what the map says. */
function expectApart(records: SharedRecords, ...replicas: Replica[]): void {
  for (const replica of replicas) {
    const owned = Object.entries(records.owners).filter(([, owner]) => owner === replica.name);
    expect([...replica.serving].toSorted((a, b) => a - b)).toEqual(owned.map(([bucket]) => Number(bucket)));
  }
}

async function alone(): Promise<{ records: SharedRecords; clock: FakeClock; first: Replica }> {
  const records = new SharedRecords();
  const clock = new FakeClock();
  const first = new Replica(records, 'first', clock);
  await clock.advance(100);
  return { records, clock, first };
}

async function two(): Promise<{ records: SharedRecords; clock: FakeClock; first: Replica; second: Replica }> {
  const { records, clock, first } = await alone();
  const second = new Replica(records, 'second', clock);
  await clock.advance(5_000);
  return { records, clock, first, second };
}

describe('a replica by itself', () => {
  it('has every bucket at once', async () => {
    const { records, first } = await alone();
    expect(first.serving.size).toBe(all);
    expect(first.fence.isOpen).toBe(true);
    expectApart(records, first);
  });

  it('that is killed and started under its name waits for nothing, and writes its Lease only', async () => {
    const { records, clock, first } = await alone();
    first.kill();
    await clock.advance(500);
    records.calls.length = 0;
    const again = new Replica(records, 'first', clock, { identity: 'first_2' });
    await clock.advance(0);
    await clock.advance(0);
    expect(again.told).toEqual(['expect 64', 'take 64']);
    expect(again.fence.isOpen).toBe(true);
    expect(records.calls.filter((call) => !/^(get|list)/.test(call))).toEqual([
      'update leases/vc-syncer-first',
    ]);
  });

  it('that ends and has a name to come back under leaves the map as it is, and its Lease goes', async () => {
    const { records, first } = await alone();
    await first.end();
    expect(records.shares).toEqual({ first: all });
    expect(records.objects.has('leases/vc-syncer-first')).toBe(false);
  });

  it('that ends and will never come back leaves every bucket to whoever comes', async () => {
    const records = new SharedRecords();
    const clock = new FakeClock();
    const first = new Replica(records, 'first-x1', clock, { isNamed: false });
    await clock.advance(100);
    await first.end();
    expect(records.shares).toEqual({});
    const next = new Replica(records, 'next', clock);
    await clock.advance(100);
    expect(next.serving.size).toBe(all);
  });

  it('that ends before it hears that it has its Lease leaves none', async () => {
    const records = new SharedRecords();
    const act = records.act.bind(records);
    records.act = (verb, resource, ...rest) => {
      const answer = act(verb, resource, ...rest);
      if (verb === 'create' && resource.plural === 'leases') throw new Error('no answer');
      return answer;
    };
    const clock = new FakeClock();
    const first = new Replica(records, 'first', clock);
    await clock.advance(100);
    expect(records.objects.has('leases/vc-syncer-first')).toBe(true);
    await first.end();
    expect(records.objects.has('leases/vc-syncer-first')).toBe(false);
  });

  it('lets go of nothing while the super cluster is away, and writes nothing until it is back', async () => {
    const { records, clock, first } = await alone();
    first.isCut = true;
    await clock.advance(60_000);
    expect(first.fence.isOpen).toBe(false);
    expect(() => first.fence.check()).toThrow('was not renewed in time');
    first.isCut = false;
    await clock.advance(3_000);
    expect(first.fence.isOpen).toBe(true);
    expect(first.told).toEqual(['expect 64', 'take 64', 'resumed']);
    expectApart(records, first);
  });
});

describe('several replicas', () => {
  it('share the buckets: who joins is given its share by who has it', async () => {
    const { records, first, second } = await two();
    expect(first.serving.size + second.serving.size).toBe(all);
    expect(second.serving.size).toBeGreaterThan(16);
    expect(first.serving.size).toBeGreaterThan(16);
    expectApart(records, first, second);
  });

  it('give nothing to one that is not ready to serve', async () => {
    const { records, clock, first } = await alone();
    const ready = Promise.withResolvers<void>();
    const second = new Replica(records, 'second', clock, { ready: ready.promise });
    await clock.advance(20_000);
    expect(first.serving.size).toBe(all);
    expect(second.told).toEqual(['expect 0']);
    ready.resolve();
    await clock.advance(5_000);
    expect(second.serving.size).toBeGreaterThan(16);
    expectApart(records, first, second);
  });

  it('take over at once from one that ends', async () => {
    const { records, clock, first, second } = await two();
    await first.end();
    await clock.advance(0);
    await clock.advance(0);
    expect(second.serving.size).toBe(all);
    expect(records.shares).toEqual({ second: all });
  });

  it('take over from one that was killed when its Lease is over, and not before', async () => {
    const { records, clock, first, second } = await two();
    first.kill();
    await clock.advance(7_900);
    expect(second.serving.size).toBeLessThan(all);
    await clock.advance(2_300);
    expect(second.serving.size).toBe(all);
    expectApart(records, second);
  });

  it('do not give anything to a dead one whose Lease they find', async () => {
    const { records, clock, first, second } = await two();
    second.kill();
    await clock.advance(30_000);
    expect(first.serving.size).toBe(all);
    first.kill();
    const again = new Replica(records, 'first', clock, { identity: 'first_2' });
    for (let ms = 0; ms < 30_000; ms += 1_000) {
      await clock.advance(1_000);
      expect(again.serving.size).toBe(all);
    }
  });

  it('that stood still past its Lease writes nothing before it knows what is its own', async () => {
    const { records, clock, first, second } = await two();
    first.pause();
    await clock.advance(20_000);
    expect(second.serving.size).toBe(all);
    expect(first.fence.isOpen).toBe(false);
    first.resume();
    for (let ms = 0; ms < 10_000; ms += 50) {
      await clock.advance(50);
      for (let bucket = 0; bucket < all; bucket++)
        expect(first.mayWrite(bucket) && second.mayWrite(bucket)).toBe(false);
    }
    expect(first.fence.isOpen).toBe(true);
    expect(first.told).toContain('resumed');
    expect(first.serving.size + second.serving.size).toBe(all);
    expectApart(records, first, second);
  });

  it('that comes back just in time keeps what another one was about to take', async () => {
    const { records, clock, first, second } = await two();
    const before = [...first.serving];
    first.pause();
    await clock.advance(9_900);
    first.resume();
    await clock.advance(3_000);
    expect([...first.serving]).toEqual(before);
    expectApart(records, first, second);
  });

  it('that comes back while another one is about to take over is not taken from', async () => {
    const { records, clock, first, second } = await two();
    first.pause();
    await clock.advance(7_000);
    second.delayMs = () => [1_500, 0];
    records.calls.length = 0;
    while (!records.calls.includes('get leases/vc-syncer-first')) await clock.advance(100);
    // The Lease has been found dead just now, and the write that follows from it is on its way.
    await clock.advance(500);
    second.delayMs = () => [0, 0];
    second.isDeaf = true;
    first.delayMs = () => [200, 0];
    first.resume();
    for (let ms = 0; ms < 20_000; ms += 100) {
      await clock.advance(100);
      const both = [...first.serving].filter((bucket) => first.mayWrite(bucket) && second.mayWrite(bucket));
      expect(both).toEqual([]);
    }
    expectApart(records, first, second);
  });

  it('that cannot watch takes nothing from those who are alive', async () => {
    const { clock, first, second } = await two();
    const before = first.serving.size;
    second.isDeaf = true;
    await clock.advance(40_000);
    expect(first.serving.size).toBe(before);
    expect(first.told.filter((told) => told.startsWith('drop'))).toHaveLength(1);
  });

  it('one stops when another process takes its name', async () => {
    const { records, clock, first } = await alone();
    const other = new Replica(records, 'first', clock, { identity: 'first_2' });
    await clock.advance(3_000);
    expect(first.failure).toBeInstanceOf(ReplicaReplaced);
    expect(String(first.failure)).toContain('give each that runs at the same time a --replica of its own');
    expect(first.fence.isOpen).toBe(false);
    await first.end();
    expect(other.serving.size).toBe(all);
    expect(records.shares).toEqual({ first: all });
    expect(records.objects.has('leases/vc-syncer-first')).toBe(true);
  });

  it('remove what the dead have left, in time', async () => {
    const { records, clock, first, second } = await two();
    second.kill();
    await clock.advance(120_000);
    expect(first.serving.size).toBe(all);
    expect([...records.objects.keys()].toSorted()).toEqual([
      'configmaps/vc-syncer-shards',
      'leases/vc-syncer-first',
    ]);
  });

  it('serve on when somebody removes the map or a Lease', async () => {
    const { records, clock, first, second } = await two();
    records.objects.delete('configmaps/vc-syncer-shards');
    records.objects.delete('leases/vc-syncer-first');
    await clock.advance(40_000);
    expect(first.serving.size + second.serving.size).toBe(all);
    expectApart(records, first, second);
  });
});
