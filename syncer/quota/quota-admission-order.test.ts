import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { resources } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { Caches } from '../reconcile/caches.ts';
import { keyId } from '../reconcile/keys.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import { type ChargedObjects, QuotaAdmission } from './quota-admission.ts';

const tenant = {
  info: { uid: 'u1', policy: { ...defaultPolicy, quota: { 'writes.bytes-per-minute': '64Mi' } } },
  customKinds: new Map(),
  expectations: { super: { createdUid: () => undefined, isBehind: () => false } },
} as unknown as TenantState;
const kindOf = (name: string): ChargedObjects =>
  ({ name, resource: resources.configMaps }) as unknown as ChargedObjects;

interface Size {
  /** Bytes that are read before. */
  readonly payload?: number;
  readonly copy?: 'equal' | 'unequal';
  /** That are written. */
  readonly bytes: number;
}

/** The keys of one tenant, run when they are due, in a time of its own. */
class Trial {
  now = 0;
  readonly dueMs = new Map<string, number>();
  readonly quota = new QuotaAdmission({
    kinds: [],
    superCaches: {} as Caches,
    monotonicMs: () => this.now,
    sleep: async () => undefined,
    wake: (_, key, afterMs = 0) => this.due(keyId(key), afterMs),
  });

  constructor() {
    this.quota.join(tenant);
  }

  /** `bytes` of payload are read first, where there is any; then the object is written. Answers whether it was. */
  run(key: KeyRef, size: Size): boolean {
    const id = keyId(key);
    this.dueMs.delete(id);
    this.quota.began('u1', key);
    let denial = size.payload === undefined ? undefined : this.quota.reads.denialOf(tenant, key, true);
    if (denial === undefined) {
      if (size.payload !== undefined) this.quota.reads.take(tenant, key, size.payload, size.copy ?? 'equal');
      const object = { metadata: { name: key.name }, data: { a: 'x'.repeat(size.bytes) } };
      const refused = this.quota.reserve(tenant, key, kindOf(key.kind), object);
      denial = refused && { ...refused, afterMs: refused.afterMs ?? 60_000 };
    }
    if (denial !== undefined) this.due(id, denial.afterMs);
    this.quota.ended(
      tenant,
      key,
      denial === undefined ? { is: 'done' } : { is: 'later', afterMs: denial.afterMs },
    );
    return denial === undefined;
  }

  due(id: string, afterMs: number): void {
    this.dueMs.set(id, Math.min(this.now + afterMs, this.dueMs.get(id) ?? Number.POSITIVE_INFINITY));
  }

  /** The key that is due next. */
  next(): string {
    const [id, atMs] = [...this.dueMs].reduce((first, each) => (each[1] < first[1] ? each : first));
    this.now = Math.max(this.now, atMs) + 0.1;
    return id;
  }
}

it('writes what was read although others write all the time, and there is more to read than may be read at once', () => {
  const trial = new Trial();
  const payloads = new Map(
    Array.from({ length: 60 }, (_, n) => {
      const key = { kind: 'configmaps', namespace: 'shop', name: `large-${n}` };
      return [keyId(key), key] as const;
    }),
  );
  const writers = new Map(
    Array.from({ length: 20 }, (_, n) => {
      const key = { kind: 'services', namespace: 'shop', name: `busy-${n}` };
      return [keyId(key), key] as const;
    }),
  );
  for (const id of [...payloads.keys(), ...writers.keys()]) trial.due(id, 0);
  const left = new Set(payloads.keys());
  while (left.size > 0 && trial.now < 600_000) {
    const id = trial.next();
    const payload = payloads.get(id);
    const writer = writers.get(id);
    if (payload !== undefined) {
      if (trial.run(payload, { payload: 600_000, bytes: 600_000 })) left.delete(id);
    } else if (writer !== undefined) {
      // It changes again as soon as it is written.
      if (trial.run(writer, { bytes: 100_000 })) trial.due(id, 20);
    }
  }
  expect(left.size).toBe(0);
});

it.each([
  ['equal', 1],
  ['unequal', 4],
] as const)(
  '64 payloads of a MiB whose copies are %s are read in %i minutes at 64 MiB a minute',
  (copy, minutes) => {
    const trial = new Trial();
    const keys = Array.from({ length: 64 }, (_, n) => ({
      kind: 'configmaps',
      namespace: 'shop',
      name: `${n}`,
    }));
    const byId = new Map(keys.map((key) => [keyId(key), key]));
    for (const id of byId.keys()) trial.due(id, 0);
    let read = 0;
    while (read < keys.length)
      if (trial.run(byId.get(trial.next()) as KeyRef, { payload: 1024 * 1024, copy, bytes: 1 })) read += 1;
    // Ten seconds' worth at once, and the last one may be paid for afterwards.
    expect(trial.now / 60_000).toBeGreaterThan(minutes * (63 / 64) - 1 / 6 - 0.01);
    expect(trial.now / 60_000).toBeLessThan(minutes);
  },
);

it('lets others go before one whose run has failed otherwise, which comes again at a time of its own', () => {
  const { quota } = new Trial();
  const key = (name: string): KeyRef => ({ kind: 'configmaps', namespace: 'shop', name });
  /** When to ask again; undefined: it is written. */
  const reserve = (name: string, bytes = 1_000): number | undefined => {
    quota.began('u1', key(name));
    const object = { metadata: { name }, data: { a: 'x'.repeat(bytes) } };
    return quota.reserve(tenant, key(name), kindOf('configmaps'), object)?.afterMs;
  };
  expect(reserve('large', 64 * 1024 * 1024)).toBeUndefined();
  quota.ended(tenant, key('large'), { is: 'done' });
  const turnMs = reserve('first');
  expect(turnMs).toBeGreaterThan(0);
  quota.ended(tenant, key('first'), { is: 'retry', code: 'ServiceUnavailable' });
  expect(quota.isWaiting(tenant, key('first'))).toBe(false);
  expect(reserve('second')).toBe(turnMs);
  quota.ended(tenant, key('second'), { is: 'later', afterMs: turnMs ?? 0 });
  expect(quota.isWaiting(tenant, key('second'))).toBe(true);
  // Behind it, as nothing else has failed.
  expect(reserve('third')).toBeGreaterThan(turnMs ?? 0);
});

it('takes a new namespace for 256 KiB, and a larger one for what it has', () => {
  const written = (bytes: number): number => {
    const trial = new Trial();
    let count = 0;
    while (trial.run({ kind: 'namespaces', name: `n${count}` }, { bytes })) count += 1;
    return count;
  };
  // A burst of two seconds is 2 MiB and some.
  expect(written(10)).toBe(9);
  expect(written(2 * 1024 * 1024)).toBe(2);
});

it('a write that takes more than was known does not stand in line a second time', () => {
  const { quota } = new Trial();
  const key = (name: string) => ({ kind: 'pods', namespace: 'shop', name });
  const object = (name: string, bytes: number) => ({ metadata: { name }, data: { a: 'x'.repeat(bytes) } });
  const ask = (name: string) => {
    quota.began('u1', key(name));
    return quota.reserve(tenant, key(name), kindOf('pods'), object(name, 10));
  };
  expect(ask('first')).toBeUndefined();
  // Takes all that there is, so that others wait.
  quota.began('u1', key('large'));
  expect(quota.reserve(tenant, key('large'), kindOf('pods'), object('large', 3_000_000))).toBeUndefined();
  expect(ask('next')).toBeDefined();
  const before = [...quota.usageOf('u1')][0]?.used ?? 0;
  expect(quota.enlarge(tenant, key('first'), kindOf('pods'), object('first', 5_000))).toBeUndefined();
  const after = [...quota.usageOf('u1')][0]?.used ?? 0;
  expect(after - before).toBeGreaterThan(4_500);
  expect(after - before).toBeLessThan(5_500);
});

it('counts no bytes of a write that is not made after all, and knows who would lose its turn', () => {
  const { quota } = new Trial();
  const writesOf = (): number | undefined => [...quota.usageOf('u1')][0]?.used;
  const reserve = (name: string, bytes: number): boolean => {
    const key = { kind: 'pods', namespace: 'shop', name };
    quota.began('u1', key);
    const object = { metadata: { name }, data: { a: 'x'.repeat(bytes) } };
    return quota.reserve(tenant, key, kindOf('pods'), object) === undefined;
  };
  const key = { kind: 'pods', namespace: 'shop', name: 'large' };
  expect(reserve('large', 3_000_000)).toBe(true);
  expect(writesOf()).toBeGreaterThan(3_000_000);
  expect(reserve('next', 10)).toBe(false);
  expect(quota.hasTurn(tenant, key)).toBe(false);
  expect(quota.hasTurn(tenant, { ...key, name: 'next' })).toBe(true);
  quota.giveBack(tenant, key);
  expect(writesOf()).toBe(0);
  quota.giveBack(tenant, key);
  expect(writesOf()).toBe(0);
  expect(reserve('next', 10)).toBe(true);
  expect(quota.hasTurn(tenant, { ...key, name: 'next' })).toBe(false);
  // What was written in an earlier run stays counted.
  quota.ended(tenant, { ...key, name: 'next' }, { is: 'retry', code: '404' });
  quota.giveBack(tenant, { ...key, name: 'next' });
  expect(writesOf()).toBeGreaterThan(0);
});

describe('of many that wait for room', () => {
  const key = (name: string): KeyRef => ({ kind: 'configmaps', namespace: 'shop', name });

  /** Nothing fits. `endRest` ends the pause after a look at all that wait; each look takes 10 ms. */
  function startFull() {
    let now = 0;
    let endRest = (): void => undefined;
    const rests: number[] = [];
    const woken: string[] = [];
    const quota = new QuotaAdmission({
      kinds: [],
      superCaches: {} as Caches,
      monotonicMs: () => {
        now += 10;
        return now;
      },
      sleep: (ms) => {
        rests.push(ms);
        return new Promise((resolve) => {
          endRest = resolve;
        });
      },
      wake: (_, { name }) => woken.push(name),
    });
    const policy = { ...defaultPolicy, quota: { 'count/configmaps': '0' } };
    const full = { ...tenant, info: { ...tenant.info, policy } } as unknown as TenantState;
    quota.join(full);
    const run = (name: string, asks = true) => {
      quota.began('u1', key(name));
      const object = { metadata: { name } };
      const denial = asks ? quota.reserve(full, key(name), kindOf('configmaps'), object) : undefined;
      const { afterMs } = denial ?? {};
      quota.ended(full, key(name), afterMs === undefined ? { is: 'done' } : { is: 'later', afterMs });
      return denial;
    };
    return { quota, full, rests, woken, run, endRest: () => endRest() };
  }

  it('5,000 stand in line, and the others look again later or when there is a place', async () => {
    const { quota, full, woken, run } = startFull();
    const first = run('0');
    const inLine = Array.from({ length: 4_999 }, (_, n) => run(String(n + 1)));
    expect(inLine.filter((denial) => denial === undefined || denial.afterMs !== undefined)).toEqual([]);
    expect(run('next')).toEqual({ ...first, afterMs: 600_000 });
    expect(quota.isWaiting(full, key('next'))).toBe(true);
    expect(quota.hasTurn(full, key('next'))).toBe(false);
    run('17', false);
    await setImmediate();
    expect(woken).toEqual(['next']);
    expect(run('next')).toEqual(first);
    expect(quota.hasTurn(full, key('next'))).toBe(true);
  });

  it('those who wait are looked at once for all that changes until that look is made up for', async () => {
    const { rests, run, endRest } = startFull();
    for (let n = 0; n < 100; n += 1) run(String(n));
    for (let n = 0; n < 50; n += 1) {
      run(String(n), false);
      await setImmediate();
    }
    expect(rests).toEqual([200]);
    endRest();
    await setImmediate();
    expect(rests).toEqual([200, 200]);
    endRest();
    await setImmediate();
    expect(rests).toEqual([200, 200]);
    run('50', false);
    await setImmediate();
    expect(rests).toEqual([200, 200, 200]);
  });
});
