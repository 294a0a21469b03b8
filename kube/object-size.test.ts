import { describe, expect, it } from 'vitest';
import { estimateBytes, hasLongText } from './object-size.ts';

describe('estimateBytes', () => {
  it('is at least the length of the text, and of the keys', () => {
    expect(estimateBytes('x'.repeat(1_000))).toBeGreaterThanOrEqual(1_000);
    expect(estimateBytes({ ['k'.repeat(1_000)]: 1 })).toBeGreaterThanOrEqual(1_000);
  });

  it.each([
    ['empty objects', '{}'],
    ['empty lists', '[]'],
    ['numbers', '1'],
    ['nothing', 'null'],
  ])('of many %s is many times their text', (_name, value) => {
    const json = `[${Array.from({ length: 10_000 }, () => value).join()}]`;
    expect(estimateBytes(JSON.parse(json))).toBeGreaterThan(3 * json.length);
  });

  it('counts two bytes for a character where one of them needs it', () => {
    expect(estimateBytes(`й${'x'.repeat(999)}`)).toBeGreaterThanOrEqual(2_000);
    expect(estimateBytes('x'.repeat(1_000))).toBeLessThan(1_100);
  });

  it('of objects with keys of their own is what their dictionaries take', () => {
    // Measured: 50 KB for 200 objects of two fields, 37 KB for one object of 500.
    const few = Array.from({ length: 200 }, (_, index) => ({ [`a${index}aaaaa`]: 1, [`b${index}bbbbb`]: 1 }));
    expect(estimateBytes(few)).toBeGreaterThan(45_000);
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`k${index}kkk`, 'x']));
    expect(estimateBytes(many)).toBeGreaterThan(37_000);
  });

  it('of objects with numbers for keys is what the tables of these take', () => {
    // Measured.
    expect(estimateBytes({ 34: 0 })).toBeGreaterThan(352);
    const apart = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [index * 10 + 7, 0]));
    expect(estimateBytes(apart)).toBeGreaterThan(4_056);
    expect(estimateBytes({ a34: 0 })).toBeLessThan(200);
  });

  it('of a pod is some times its text, not more', () => {
    const container = {
      name: 'main',
      image: 'registry.example.com/app:1.2.3',
      ports: [{ containerPort: 80 }],
    };
    const pod = {
      metadata: { name: 'web-1', namespace: 'shop', uid: '1'.repeat(36), labels: { app: 'web' } },
      spec: { containers: [container, container] },
      status: { conditions: Array.from({ length: 5 }, () => ({ type: 'Ready', status: 'True' })) },
    };
    expect(estimateBytes(pod)).toBeLessThan(10 * JSON.stringify(pod).length);
  });
});

describe('hasLongText', () => {
  it('guesses no more than there is', () => {
    for (const value of [{ a: ['x', 1, null, { b: {} }] }, [], '', 'x'.repeat(99), { a: 'é' }, [[[true]]]]) {
      const { length } = JSON.stringify(value);
      expect(hasLongText(value, length)).toBe(false);
      expect(hasLongText(value, Math.floor(length / 2) - 1)).toBe(true);
    }
  });

  it('stops where it knows enough', () => {
    let looks = 0;
    const part = {
      get text() {
        looks += 1;
        return 'x'.repeat(100);
      },
    };
    expect(
      hasLongText(
        Array.from({ length: 100_000 }, () => part),
        1_000,
      ),
    ).toBe(true);
    expect(looks).toBeLessThan(11);
  });
});
