import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { Quota } from '../../api/quota.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { TemplateChoice } from '../control-plane/template.ts';
import type { DatastoreLocation } from '../drivers/driver.ts';
import type { Entry } from '../etcd/keyspace.ts';
import type { OwnEtcdOptions } from '../etcd/own-etcd.ts';
import { decrypted, type PlainEntry } from '../snapshot/secretbox.ts';
import type { OwnDatastore } from './services.ts';
import type { Tenant } from './tenant.ts';
import { checkDatastoreQuota, encryptedEntries, ownKeys } from './tenant-keys.ts';

const entry = (key: string, value: string, isSecret = false): PlainEntry => ({
  ...{ key, value: Buffer.from(value), isSecret },
});

describe('the datastore quota of what is written at once', () => {
  // Each is 15 bytes of prefix (/tenants/blue1/), 6 of key and 2 of value, as etcd stores it.
  const entries = [entry('pods/a', 'xx'), entry('pods/b', 'xx')];
  const check = (quota: Quota): Promise<void> =>
    checkDatastoreQuota(
      { id: 'blue1', vc: { status: { policy: { quota } } } as VirtualCluster },
      Readable.from(entries),
    );

  it.each([
    [{ 'datastore.bytes': '46' }, { 'datastore.bytes': '45' }],
    [{ 'datastore.keys': '2' }, { 'datastore.keys': '1' }],
  ])('is kept to exactly: %o, not %o', async (enough, tooLittle) => {
    await check({});
    await check(enough);
    await expect(check(tooLittle)).rejects.toMatchObject({ code: 'DatastoreQuotaExceeded' });
  });
});

it('the entries of a snapshot are written with the Secrets encrypted, and read to the end whichever are wanted', async () => {
  const key = { name: 'key1', secret: Buffer.alloc(32, 1).toString('base64') };
  const tenant = { required: (value: unknown) => value, encryption: { current: key } } as unknown as Tenant;
  const read: string[] = [];
  async function* all(): AsyncGenerator<PlainEntry> {
    for (const each of [entry('secrets/a', 'token', true), entry('pods/a', 'x'), entry('nodes/a', 'x')]) {
      read.push(each.key);
      yield each;
    }
  }
  const written: Entry[] = [];
  for await (const each of encryptedEntries(tenant, all(), (name) => name !== 'nodes/a')) written.push(each);
  expect(read).toEqual(['secrets/a', 'pods/a', 'nodes/a']);
  expect(written.map((each) => each.key)).toEqual(['secrets/a', 'pods/a']);
  expect(Buffer.from(written[0]?.value ?? []).toString('latin1')).toMatch(/^k8s:enc:secretbox:v1:key1:/);
  const plain = written.map((each) => decrypted(each, [key]));
  expect(plain.map(({ value, isSecret }) => [Buffer.from(value).toString(), isSecret])).toEqual([
    ['token', true],
    ['x', false],
  ]);
});

it('an etcd of its own is asked at its address, as its API server has its keys', () => {
  const leaf = { certPem: 'cert', keyPem: 'key' };
  const pki = { etcdCa: { certPem: 'ca' }, leafs: { etcdManager: leaf } };
  const tenant = { required: (value: unknown) => value, pki } as unknown as Tenant;
  const asked: OwnEtcdOptions[] = [];
  const ask = (args?: object): void => {
    const template = { spec: { components: [{ name: 'etcd' }, { name: 'kube-apiserver', args }] } };
    const ownDatastore = (options: OwnEtcdOptions): OwnDatastore => {
      asked.push(options);
      return {} as OwnDatastore;
    };
    const choice = { template } as unknown as TemplateChoice;
    ownKeys(tenant, { ownDatastore }, { host: 'fd00::9', port: 2379 } as DatastoreLocation, choice);
  };
  ask();
  ask({ 'etcd-prefix': '/another' });
  const options = { endpoint: 'https://[fd00::9]:2379', ca: 'ca', cert: 'cert', key: 'key' };
  expect(asked).toEqual([
    { ...options, prefix: '/registry' },
    { ...options, prefix: '/another' },
  ]);
});
