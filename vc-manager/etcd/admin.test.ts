import { once } from 'node:events';
import { connect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { issue, type KeyPair } from '../pki/index.ts';
import { EtcdAdmin } from './admin.ts';
import { EtcdGateway, EtcdSession } from './gateway.ts';
import { permissionsOf, rolesOf, tenantPrefix, tenantUser } from './grants.ts';
import { type Entry, type EtcdCaller, fillEmpty, prefixRange, removeKeys } from './keyspace.ts';
import { grpcCall } from './testing/grpc-client.ts';
import { RealEtcd } from './testing/real-etcd.ts';

const permissionDenied = 7;
let etcd: RealEtcd;
let admin: EtcdAdmin;
/** A way in that does not go through EtcdAdmin, to look at what it did. */
let session: EtcdSession;
let gateway: EtcdGateway;

beforeAll(async () => {
  etcd = await RealEtcd.start();
  admin = etcd.admin();
  const { certPem: cert, keyPem: key } = etcd.pki.etcdManager;
  gateway = new EtcdGateway({ endpoint: etcd.endpoint, ca: etcd.pki.etcdCa.certPem, cert, key });
  session = new EtcdSession(gateway, etcd.pki.etcdRootPassword);
});

afterAll(async () => {
  await admin?.close();
  await gateway?.close();
  await etcd?.stop();
});

async function certificateOf(id: string): Promise<KeyPair> {
  return await issue(etcd.pki.etcdCa, { commonName: tenantUser(id), usage: ['client'] });
}

async function asTenant(id: string, method: string, fields: Record<number, string | Uint8Array>) {
  const { certPem: cert, keyPem: key } = await certificateOf(id);
  return await grpcCall(etcd.endpoint, { ca: etcd.pki.etcdCa.certPem, cert, key }, method, fields);
}

async function put(key: string | Uint8Array): Promise<void> {
  const body = { key: Buffer.from(key as string).toString('base64'), value: 'dg==' };
  await session.call('/v3/kv/put', body);
}

describe('EtcdAdmin before authentication is on', () => {
  it('does nothing that needs a user, and says why', async () => {
    await expect(admin.countKeys('')).rejects.toMatchObject({ code: 'AuthDisabled' });
  });

  it('switches it on once, however many ask at the same time', async () => {
    const other = etcd.admin();
    await Promise.all([admin.enableAuth(), admin.enableAuth(), other.enableAuth()]);
    await other.close();
    await admin.enableAuth();
    expect(await session.call('/v3/auth/status', {})).toMatchObject({ enabled: true });
    expect(await rolesOf(session, 'root')).toEqual(['root']);
  });
});

describe('a request that names no user', () => {
  it('is nobody, and not the server whose certificate the gateway uses', async () => {
    const request = { key: 'YQ==' };
    await expect(gateway.post('/v3/kv/range', request)).rejects.toMatchObject({
      code: 'PermissionDenied',
      message: expect.stringContaining('user name is empty'),
    });
  });
});

describe('a tenant in the datastore', () => {
  it('may read and write its own prefix and nothing else', async () => {
    expect(await admin.ensureTenant('blue')).toEqual({ user: 'tenant-blue', prefix: '/tenants/blue/' });
    const { key, rangeEnd } = prefixRange('/tenants/blue/');
    expect(await permissionsOf(session, 'tenant-blue')).toEqual([
      {
        permType: 'READWRITE',
        key: Buffer.from(key).toString('base64'),
        range_end: Buffer.from(rangeEnd).toString('base64'),
      },
    ]);
    expect(await rolesOf(session, 'tenant-blue')).toEqual(['tenant-blue']);
  });

  it('is told by etcd from another tenant by its certificate', async () => {
    await Promise.all(['blue', 'blue-b', 'green'].map((id) => admin.ensureTenant(id)));
    const secret = `${tenantPrefix('green')}secret`;
    expect(await asTenant('green', 'KV/Put', { 1: secret, 2: 'value' })).toMatchObject({ status: 0 });
    expect(await asTenant('blue', 'KV/Range', { 1: `${tenantPrefix('blue')}mine` })).toMatchObject({
      status: 0,
    });

    const refused = {
      'reads a key of another': await asTenant('blue', 'KV/Range', { 1: secret }),
      'reads one whose id begins with its own': await asTenant('blue', 'KV/Range', {
        1: '/tenants/blue-b/x',
      }),
      'reads beyond its end': await asTenant('blue', 'KV/Range', {
        1: '/tenants/blue/',
        2: '/tenants/blue1',
      }),
      'reads everything': await asTenant('blue', 'KV/Range', { 1: Uint8Array.of(0), 2: Uint8Array.of(0) }),
      'writes a key of another': await asTenant('blue', 'KV/Put', { 1: secret, 2: 'x' }),
      'deletes a key of another': await asTenant('blue', 'KV/DeleteRange', { 1: secret }),
      compacts: await asTenant('blue', 'KV/Compact', {}),
      'lists users': await asTenant('blue', 'Auth/UserList', {}),
      'adds a role': await asTenant('blue', 'Auth/RoleAdd', { 1: 'mine' }),
      defragments: await asTenant('blue', 'Maintenance/Defragment', {}),
    };
    const statuses = Object.fromEntries(Object.entries(refused).map(([what, { status }]) => [what, status]));
    expect(statuses).toEqual(
      Object.fromEntries(Object.keys(refused).map((what) => [what, permissionDenied])),
    );
    expect(await admin.countKeys(secret)).toBe(1);
  });

  it('cannot use the JSON gateway at all, nor come as a peer', async () => {
    await admin.ensureTenant('blue');
    const { certPem: cert, keyPem: key } = await certificateOf('blue');
    const ca = etcd.pki.etcdCa.certPem;
    const intruder = new EtcdAdmin({ endpoint: etcd.endpoint, ca, cert, key, rootPassword: 'guess' });
    await expect(intruder.ensureTenant('blue')).rejects.toMatchObject({ code: 'CertificateRefused' });
    await intruder.close();

    const peer = connect({ host: '127.0.0.1', port: etcd.peerPort, ca, cert, key });
    const [error] = await once(
      peer.on('secureConnect', () => peer.resume()),
      'error',
    );
    expect(error).toMatchObject({ code: expect.stringContaining('ALERT') });
  });

  it('may be ensured many times at once, by several managers, without changing anything twice', async () => {
    const other = etcd.admin();
    const ids = Array.from({ length: 12 }, (_, index) => `many-${index}`);
    await Promise.all([...ids, ...ids].map((id, index) => (index % 2 ? admin : other).ensureTenant(id)));
    const { users, roles } = await admin.listTenants();
    expect(users).toEqual(expect.arrayContaining(ids));
    expect(roles).toEqual(users);

    const before = await session.call('/v3/auth/status', {});
    await Promise.all(ids.map((id) => other.ensureTenant(id)));
    const after = await session.call('/v3/auth/status', {});
    expect((after as { authRevision: string }).authRevision).toBe(
      (before as { authRevision: string }).authRevision,
    );
    await Promise.all(ids.map((id) => admin.removeTenant(id)));
    await other.close();
  });

  it('loses what it was granted beyond its own', async () => {
    await admin.ensureTenant('blue');
    await admin.ensureTenant('green');
    const all = { permType: 'READ', key: 'AA==', range_end: 'AA==' };
    await session.call('/v3/auth/role/grant', { name: 'tenant-blue', perm: all });
    await session.call('/v3/auth/user/grant', { user: 'tenant-blue', role: 'tenant-green' });
    expect((await asTenant('blue', 'KV/Range', { 1: '/tenants/green/secret' })).status).toBe(0);

    await admin.ensureTenant('blue');
    expect(await permissionsOf(session, 'tenant-blue')).toHaveLength(1);
    expect(await rolesOf(session, 'tenant-blue')).toEqual(['tenant-blue']);
    expect((await asTenant('blue', 'KV/Range', { 1: '/tenants/green/secret' })).status).toBe(
      permissionDenied,
    );
  });

  it('is completed when an earlier call was interrupted', async () => {
    await session.call('/v3/auth/role/add', { name: 'tenant-half' });
    await admin.ensureTenant('half');
    expect((await asTenant('half', 'KV/Put', { 1: '/tenants/half/x', 2: 'v' })).status).toBe(0);
  });
});

describe('measuring a tenant', () => {
  const value = Buffer.alloc(10_000, 7).toString('base64');
  const key = (id: string, index: number): Buffer =>
    Buffer.from(`/tenants/${id}/${String(index).padStart(4, '0')}`);
  const write = (id: string, index: number) =>
    session.call('/v3/kv/put', { key: key(id, index).toString('base64'), value });

  it('counts keys and bytes of keys and values over all pages, and nothing of its neighbours', async () => {
    for (let index = 0; index < 150; index++) await write('wide', index);
    await write('wide2', 1);
    const bytes = 150 * (key('wide', 0).length + 10_000);
    expect(await admin.measureTenant('wide', Number.POSITIVE_INFINITY)).toEqual({ keys: 150, bytes });
    expect(await admin.countTenantKeys('wide')).toBe(150);
    expect(await admin.measureTenant('none', 1)).toEqual({ keys: 0, bytes: 0 });
  });

  it('reads no further than it has to, and still knows the number of keys', async () => {
    const { keys, bytes } = await admin.measureTenant('wide', 100_000);
    expect(keys).toBe(150);
    expect(bytes).toBeGreaterThan(100_000);
    expect(bytes).toBeLessThan(800_000);
  });

  it('reads values of the largest size in small pages, one at a time for all tenants', async () => {
    const largest = Buffer.alloc(1_400_000, 7).toString('base64');
    const ids = ['heavy', 'heavy2'];
    for (const id of ids)
      for (let index = 0; index < 6; index++)
        await session.call('/v3/kv/put', { key: key(id, index).toString('base64'), value: largest });
    const { key: first, rangeEnd } = prefixRange('/tenants/heavy/');
    const all = {
      key: Buffer.from(first).toString('base64'),
      range_end: Buffer.from(rangeEnd).toString('base64'),
    };
    await expect(session.call('/v3/kv/range', all)).rejects.toMatchObject({
      code: 'AnswerTooLarge',
      retryable: false,
    });

    let reading = 0;
    let maxAtOnce = 0;
    const { call } = EtcdSession.prototype;
    const spy = vi.spyOn(EtcdSession.prototype, 'call').mockImplementation(async function (
      this: EtcdSession,
      ...args
    ) {
      reading += 1;
      maxAtOnce = Math.max(maxAtOnce, reading);
      try {
        return await call.apply(this, args);
      } finally {
        reading -= 1;
      }
    });
    const bytes = 6 * (key('heavy', 0).length + 1_400_000);
    const [measured, viewed] = await Promise.all([
      admin.measureTenant('heavy', Number.POSITIVE_INFINITY),
      admin.viewTenant('heavy2').then(async ({ entries }) => {
        const found: string[] = [];
        for await (const { key: name, value: stored } of entries) found.push(`${name} ${stored.length}`);
        return found;
      }),
    ]);
    spy.mockRestore();
    expect(measured).toEqual({ keys: 6, bytes });
    expect(viewed).toEqual(Array.from({ length: 6 }, (_, index) => `000${index} 1400000`));
    expect(maxAtOnce).toBe(1);
    for (const id of ids) await admin.removeTenant(id);
  });

  it('is not done with history, which it can have forgotten', async () => {
    const before = await admin.size();
    await write('wide', 0);
    const after = await admin.size();
    expect(after.revision).toBe(before.revision + 1);
    expect(after.bytesInUse).toBeGreaterThan(100_000);
    expect(after.quotaBytes).toBeGreaterThan(1024 ** 3);
    await admin.compact(after.revision);
    // Another manager was faster.
    await admin.compact(before.revision);
    await expect(
      session.call('/v3/kv/range', {
        key: key('wide', 0).toString('base64'),
        revision: String(before.revision),
      }),
    ).rejects.toMatchObject({ code: 'Compacted' });
  });
});

describe('removing a tenant', () => {
  it('leaves no key, user or role, and its neighbours as they were', async () => {
    await Promise.all(['red', 'red-a', 're'].map((id) => admin.ensureTenant(id)));
    const own = Array.from({ length: 40 }, (_, index) => `/tenants/red/registry/pods/p${index}`);
    const neighbours = [
      '/tenants/re/x',
      '/tenants/red-a/x',
      '/tenants/red',
      '/tenants/red0',
      '/tenants/redx/y',
    ];
    // Bytes that are no text: the last possible key of the prefix.
    const highest = Buffer.concat([Buffer.from('/tenants/red/'), Buffer.of(0xff, 0xff)]);
    await Promise.all([...own, ...neighbours, highest].map(put));

    await admin.removeTenant('red');
    expect(await admin.countKeys('/tenants/red/')).toBe(0);
    const counts = await Promise.all(
      neighbours.map((key) => admin.countKeys(key === '/tenants/red' ? '/tenants/red' : key)),
    );
    expect(counts).toEqual([1, 1, 4, 1, 1]);
    const { users, roles } = await admin.listTenants();
    expect(users).not.toContain('red');
    expect(roles).not.toContain('red');
    expect(users).toEqual(expect.arrayContaining(['re', 'red-a']));
    expect((await asTenant('red', 'KV/Put', { 1: '/tenants/red/x', 2: 'v' })).status).not.toBe(0);
  });

  it('deletes more keys than fit in one request', async () => {
    await admin.ensureTenant('large');
    const ops = (from: number) =>
      Array.from({ length: 125 }, (_, index) => ({
        requestPut: { key: Buffer.from(`/tenants/large/${from + index}`).toString('base64'), value: 'dg==' },
      }));
    for (let from = 0; from < 2500; from += 125) await session.call('/v3/kv/txn', { success: ops(from) });
    expect(await admin.countKeys('/tenants/large/')).toBe(2500);
    await admin.removeTenant('large');
    expect(await admin.countKeys('/tenants/large/')).toBe(0);
  });

  it('deletes no page of a tenant that was moved back since, by a manager that took over', async () => {
    const entries = (count: number) =>
      (async function* (): AsyncGenerator<Entry> {
        for (let i = 0; i < count; i++)
          yield { key: `pods/${String(i).padStart(4, '0')}`, value: Buffer.from('v') };
      })();
    await admin.ensureTenant('back');
    await admin.replaceTenant('back', entries(2_100), { attempt: 'first' });
    let pages = 0;
    // It stands still before its second page.
    const stalled: EtcdCaller = {
      call: async (path, body, signal) => {
        if (path === '/v3/kv/txn' && ++pages === 2) {
          const other = etcd.admin();
          await other.removeTenant('back');
          await other.ensureTenant('back');
          await other.replaceTenant('back', entries(2_100), { attempt: 'second' });
          await other.close();
        }
        return session.call(path, body, signal);
      },
    };
    const guard = '/skerry/replacing/back';
    await expect(removeKeys(stalled, tenantPrefix('back'), { guard })).rejects.toMatchObject({
      code: 'RemovalSuperseded',
      retryable: true,
    });
    expect(pages).toBe(2);
    expect(await admin.countKeys(tenantPrefix('back'))).toBe(2_100);
    await admin.removeTenant('back');
    expect(await admin.countKeys(tenantPrefix('back'))).toBe(0);
  });

  it('leaves the mark of a manager that replaces its keys at this moment', async () => {
    const guard = '/skerry/replacing/marked';
    const late: EtcdCaller = {
      call: async (path, body, signal) => {
        if (path === '/v3/kv/txn') await put(guard);
        return session.call(path, body, signal);
      },
    };
    await expect(removeKeys(late, tenantPrefix('marked'), { guard })).rejects.toMatchObject({
      code: 'RemovalSuperseded',
    });
    expect(await admin.countKeys(guard)).toBe(1);
    await admin.removeTenant('marked');
    expect(await admin.countKeys(guard)).toBe(0);
  });

  it('ends before the write that its manager may not do any more', async () => {
    await admin.ensureTenant('lapsed');
    for (const each of ['a', 'b']) await put(`/tenants/lapsed/${each}`);
    let writes = 0;
    const beforeWrite = (): void => {
      if (++writes === 2) throw new Error('another manager leads');
    };
    await expect(admin.removeTenant('lapsed', { beforeWrite })).rejects.toThrow('another manager leads');
    expect(await admin.countKeys('/tenants/lapsed/')).toBe(2);
    await admin.removeTenant('lapsed');
    expect(await admin.countKeys('/tenants/lapsed/')).toBe(0);
  });

  it('may be repeated, run twice at once, and meet a tenant that is not there', async () => {
    await admin.ensureTenant('twice');
    const other = etcd.admin();
    await Promise.all([
      admin.removeTenant('twice'),
      admin.removeTenant('twice'),
      other.removeTenant('twice'),
    ]);
    await admin.removeTenant('twice');
    await other.close();
    const { users, roles, prefixes } = await admin.listTenants();
    expect([...users, ...roles, ...prefixes]).not.toContain('twice');
  });

  it('and making it again at once ends as the last call says', async () => {
    await Promise.all([
      admin.ensureTenant('again'),
      admin.removeTenant('again'),
      admin.ensureTenant('again'),
      admin.removeTenant('again'),
      admin.ensureTenant('again'),
    ]);
    expect((await asTenant('again', 'KV/Put', { 1: '/tenants/again/x', 2: 'v' })).status).toBe(0);
  });

  it('is still to be seen while it is half done', async () => {
    await put('/tenants/orphan/x');
    await session.call('/v3/auth/role/add', { name: 'tenant-rest' });
    const { users, roles, prefixes } = await admin.listTenants();
    expect(users).not.toContain('rest');
    expect(roles).toContain('rest');
    expect(prefixes).toContain('orphan');
    await Promise.all(['orphan', 'rest'].map((id) => admin.removeTenant(id)));
    const left = await admin.listTenants();
    expect(left.roles).not.toContain('rest');
    expect(left.prefixes).not.toContain('orphan');
  });

  it('stops at once when it is aborted', async () => {
    const reason = new Error('stopping');
    await expect(admin.removeTenant('blue', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect((await admin.listTenants()).users).toContain('blue');
  });
});

describe('the keys of a tenant, seen and replaced', () => {
  const encoded = (text: string): string => Buffer.from(text).toString('base64');
  const entriesOf = async (id: string): Promise<Record<string, string>> => {
    const view = await admin.viewTenant(id);
    const found: Record<string, string> = {};
    for await (const { key, value } of view.entries) found[key] = Buffer.from(value).toString();
    return found;
  };
  async function* from(entries: Record<string, string>): AsyncGenerator<Entry> {
    for (const [key, value] of Object.entries(entries)) yield { key, value: Buffer.from(value) };
  }

  it('are those of one moment, without what ends by itself and what is of others', async () => {
    const prefix = tenantPrefix('viewed');
    for (let i = 100; i < 300; i++) await put(`${prefix}pods/${i}`);
    await put(`${tenantPrefix('viewed-too')}pods/1`);
    const { ID } = (await session.call('/v3/lease/grant', { TTL: '600' })) as { ID: string };
    await session.call('/v3/kv/put', { key: encoded(`${prefix}events/1`), value: 'dg==', lease: ID });
    const view = await admin.viewTenant('viewed');
    expect(view.count).toBe(201);
    await session.call('/v3/kv/deleterange', { key: encoded(`${prefix}pods/250`) });
    await put(`${prefix}pods/999`);
    const keys: string[] = [];
    for await (const { key } of view.entries) keys.push(key);
    expect(keys).toEqual(Array.from({ length: 200 }, (_, i) => `pods/${i + 100}`));
  });

  it('are replaced by others, large ones too, and nothing of another tenant', async () => {
    await put(`${tenantPrefix('replaced')}pods/old`);
    await put(`${tenantPrefix('replaced-too')}pods/old`);
    const large = 'x'.repeat(1_200_000);
    const entries = Object.fromEntries([
      ...Array.from({ length: 250 }, (_, i) => [`pods/${1000 + i}`, `v${i}`]),
      ['secrets/large-1', large],
      ['secrets/large-2', large],
    ]);
    const shown: number[] = [];
    const onProgress = (written: number): void => void shown.push(written);
    expect(await admin.replaceTenant('replaced', from(entries), { attempt: 'a', onProgress })).toBe(252);
    expect(await entriesOf('replaced')).toEqual(entries);
    expect(await entriesOf('replaced-too')).toEqual({ 'pods/old': 'v' });
    expect(shown).toEqual([100, 200, 250, 251, 252]);
  });

  it('are not touched any more by a call that another one has overtaken', async () => {
    const [begun, overtaken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    async function* slow(): AsyncGenerator<Entry> {
      begun.resolve();
      await overtaken.promise;
      yield { key: 'pods/slow', value: Buffer.from('v') };
    }
    const first = admin.replaceTenant('raced', slow(), { attempt: 'first' });
    await begun.promise;
    await admin.replaceTenant('raced', from({ 'pods/fast': 'v' }), { attempt: 'second' });
    overtaken.resolve();
    await expect(first).rejects.toMatchObject({ code: 'ReplaceSuperseded', retryable: true });
    expect(await entriesOf('raced')).toEqual({ 'pods/fast': 'v' });
    expect(await admin.countKeys('/skerry/')).toBe(0);
  });

  it('are filled in where there is nothing, and nowhere else', async () => {
    const defaults = Array.from({ length: 120 }, (_, i) => ({
      key: `clusterroles/${String(i).padStart(3, '0')}`,
      value: Buffer.from('v'),
    }));
    expect(await admin.fillTenant('filled', defaults)).toBe(true);
    expect(Object.keys(await entriesOf('filled'))).toHaveLength(120);
    await admin.replaceTenant('filled', from({ 'clusterroles/000': 'own' }), { attempt: 'a' });
    expect(await admin.fillTenant('filled', defaults)).toBe(false);
    expect(await entriesOf('filled')).toEqual({ 'clusterroles/000': 'own' });
  });

  it('are left alone from the first write of another on', async () => {
    const entries = Array.from({ length: 120 }, (_, i) => ({ key: `roles/${i}`, value: Buffer.from('v') }));
    let writes = 0;
    // It stands still before its second write.
    const stalled: EtcdCaller = {
      call: async (path, body, signal) => {
        if (++writes === 2) await put(`${tenantPrefix('overtaken')}pods/own`);
        return session.call(path, body, signal);
      },
    };
    expect(await fillEmpty(stalled, tenantPrefix('overtaken'), entries)).toBe(false);
    expect(Object.keys(await entriesOf('overtaken'))).toHaveLength(101);
  });
});
