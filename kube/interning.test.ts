import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PartPool, StringPool } from './interning.ts';
import type { KubeObject } from './types.ts';

describe('a string pool', () => {
  it('changes nothing that can be seen', () => {
    const pool = new StringPool(4);
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(JSON.stringify(pool.share(JSON.parse(text)))).toBe(text);
      }),
    );
  });

  it('takes keys of any name', () => {
    const hostile = '{"__proto__":"twelve letters","constructor":{"__proto__":{"a":"twelve letters"}}}';
    const object = new StringPool().share(JSON.parse(hostile) as object);
    expect(JSON.stringify(object)).toBe(hostile);
    expect(Object.getPrototypeOf(object)).toBe(Object.prototype);
  });

  it('remembers no more than twice its capacity, and what was seen again for longer', () => {
    const pool = new StringPool(10);
    pool.text('seen twice and more');
    pool.text('seen twice and more');
    for (let n = 0; n < 1_000; n++) pool.text(`seen only once: ${n}`);
    expect(pool.size).toBeLessThanOrEqual(20);
    // Without it, the text would be the newest of those that were seen once.
    const before = pool.size;
    pool.text('seen twice and more');
    expect(pool.size).toBe(before);
    expect(pool.text('short')).toBe('short');
    pool.text('x'.repeat(1_000));
    expect(pool.size).toBe(before);
  });
});

describe('a pool of parts', () => {
  const object = (spec: unknown): KubeObject =>
    JSON.parse(
      JSON.stringify({ metadata: { name: 'x', labels: { app: 'web' } }, spec, status: { phase: 'Running' } }),
    );
  /** As it is kept; what is seen for the second time is shared. */
  const kept = (pool: PartPool, spec: unknown): Record<string, unknown> =>
    pool.share(object(spec))['spec'] as Record<string, unknown>;

  it('changes nothing that can be seen, whatever was there before', () => {
    const pool = new PartPool(2_000);
    fc.assert(
      fc.property(fc.array(fc.dictionary(fc.string(), fc.jsonValue())), (specs) => {
        for (const spec of [...specs, ...specs]) {
          const text = JSON.stringify(object(spec));
          expect(JSON.stringify(pool.share(JSON.parse(text)))).toBe(text);
        }
      }),
    );
  });

  it('has equal parts of any depth be one, and frozen, and leaves each object what is its own', () => {
    const pool = new PartPool();
    const containers = [{ name: 'main', resources: {}, ports: [{ containerPort: 80 }] }];
    const [one, two] = ['node-1', 'node-2'].map((nodeName) => kept(pool, { nodeName, containers }));
    expect(two?.['containers']).toBe(one?.['containers']);
    expect(two?.['nodeName']).toBe('node-2');
    expect(Object.isFrozen(two)).toBe(false);
    const [container] = (one?.['containers'] ?? []) as { ports: { containerPort: number }[] }[];
    expect(() => container?.ports.push({ containerPort: 81 })).toThrow(TypeError);
    const other = kept(pool, { containers: [{ ...containers[0], ports: [{ containerPort: 81 }] }] });
    expect(other['containers']).toEqual([{ ...containers[0], ports: [{ containerPort: 81 }] }]);
  });

  it('does not take for equal what differs in a key, a type, an order or a length', () => {
    const pool = new PartPool();
    const parts = [
      { a: 1 },
      { b: 1 },
      { a: '1' },
      { a: true },
      { a: null },
      { a: 1, b: 1 },
      [1],
      [1, 1],
      ['1'],
      {},
      [],
    ];
    for (const part of [...parts, ...parts, ...parts]) expect(kept(pool, { part })['part']).toEqual(part);
  });

  it('leaves alone what is large, keys that mean something to JavaScript, and what is frozen', () => {
    const pool = new PartPool();
    const large = { text: 'x'.repeat(2_000) };
    const long = { ['k'.repeat(2_000)]: 1 };
    for (const part of [large, long]) {
      const [one, other] = [kept(pool, { part }), kept(pool, { part })];
      expect(one['part']).not.toBe(other['part']);
    }
    const hostile = '{"metadata":{},"spec":{"__proto__":{"a":{}},"b":{"__proto__":{"c":{}}}}}';
    for (let n = 0; n < 3; n++) expect(JSON.stringify(pool.share(JSON.parse(hostile)))).toBe(hostile);
    const once = pool.share(object({ a: { b: {} } }));
    for (const again of [object({ a: { b: {} } }), once, once]) expect(pool.share(again)).toEqual(once);
    expect(new StringPool().share(once)).toBe(once);
  });

  it('goes on when it has forgotten what it had', () => {
    const pool = new PartPool(500);
    const shared = { key: 'seen twice' };
    for (let n = 0; n < 200; n++) {
      expect(kept(pool, { own: { n }, shared })).toEqual({ own: { n }, shared });
    }
    expect(pool.bytes).toBeLessThanOrEqual(1_000);
  });

  it('counts what JavaScript keeps for keys that no other part has', () => {
    const pool = new PartPool();
    const bytesOf = (labels: object): number => {
      const before = pool.bytes;
      kept(pool, { labels });
      return pool.bytes - before;
    };
    const [short, usual] = ['k', 'k'.repeat(60)].map((key) => bytesOf({ [`${key}-1`]: 1, [`${key}-2`]: 1 }));
    expect(short).toBeGreaterThan(2 * 64);
    expect((usual ?? 0) - (short ?? 0)).toBe(2 * 59);
  });
});
