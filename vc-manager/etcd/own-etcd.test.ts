import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Entry } from './keyspace.ts';
import { OwnEtcd } from './own-etcd.ts';
import { RealEtcd } from './testing/real-etcd.ts';

let etcd: RealEtcd;
let own: OwnEtcd;

beforeAll(async () => {
  etcd = await RealEtcd.start();
  const { etcdCa, etcdManager } = etcd.pki;
  const { certPem: cert, keyPem: key } = etcdManager;
  own = new OwnEtcd({ endpoint: etcd.endpoint, ca: etcdCa.certPem, cert, key, prefix: '/registry' });
});

afterAll(async () => {
  await own?.close();
  await etcd?.stop();
});

const entries = (...keys: string[]): Readable =>
  Readable.from(keys.map((key): Entry => ({ key, value: Buffer.from(key) })));
const keys = async (): Promise<string[]> => {
  const found: string[] = [];
  for await (const { key } of (await own.view()).entries) found.push(key);
  return found;
};

it('is read and replaced without users, below the prefix of its API servers and nowhere else', async () => {
  const many = Array.from({ length: 150 }, (_, index) => `pods/shop/web-${String(index).padStart(3, '0')}`);
  expect(await own.replace(entries(...many), { attempt: '1' })).toBe(150);
  expect(await own.count()).toBe(150);
  expect(await keys()).toEqual(many);
  await own.replace(entries('pods/shop/other'), { attempt: '2' });
  expect(await keys()).toEqual(['pods/shop/other']);
  await own.replace(entries('secrets/shop/more'), { attempt: '3', keepOthers: true });
  expect(await keys()).toEqual(['pods/shop/other', 'secrets/shop/more']);
});

it('has nothing of what was written left where the entries end with an error, unless others are kept', async () => {
  await own.replace(entries('pods/shop/other', 'secrets/shop/more'), { attempt: '4' });
  async function* failing(): AsyncGenerator<Entry> {
    for (let index = 0; index < 150; index++)
      yield { key: `pods/shop/web-${String(index).padStart(3, '0')}`, value: Buffer.from('x') };
    throw new Error('too much');
  }
  await expect(own.replace(failing(), { attempt: '5', keepOthers: true })).rejects.toThrow('too much');
  expect(await keys()).toContain('pods/shop/other');
  await expect(own.replace(failing(), { attempt: '6' })).rejects.toThrow('too much');
  expect(await keys()).toEqual([]);
  await own.replace(entries('pods/shop/other', 'secrets/shop/more'), { attempt: '7' });
});

it('counts on to a revision that its clients know from another etcd, and not beyond', async () => {
  const { revision } = await own.view();
  const target = revision + 1_000;
  expect(await own.raise(target)).toBe(target);
  expect((await own.view()).revision).toBe(target);
  expect(await own.raise(5)).toBe(target);
  let looks = 0;
  const partly = await own.raise(target + 10_000, { isEnough: () => ++looks > 3 });
  expect(partly).toBe(target + 3 * 64);
  expect(await keys()).toEqual(['pods/shop/other', 'secrets/shop/more']);
});
