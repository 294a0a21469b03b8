import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { issue } from '../pki/index.ts';
import { EtcdGateway, EtcdSession } from './gateway.ts';
import { tenantPrefix, tenantUser } from './grants.ts';
import { type FieldValue, grpcCall, message } from './testing/grpc-client.ts';
import { RealEtcd } from './testing/real-etcd.ts';

const ok = 0;
const notFound = 5;
const permissionDenied = 7;

/** What the etcd user of one tenant can do to others beside their keys (`admin.test.ts`), on a real etcd. */
describe('the etcd user of a tenant', () => {
  let etcd: RealEtcd;
  let gateway: EtcdGateway;
  let session: EtcdSession;

  beforeAll(async () => {
    etcd = await RealEtcd.start();
    const { certPem: cert, keyPem: key } = etcd.pki.etcdManager;
    gateway = new EtcdGateway({ endpoint: etcd.endpoint, ca: etcd.pki.etcdCa.certPem, cert, key });
    session = new EtcdSession(gateway, etcd.pki.etcdRootPassword);
    const admin = etcd.admin();
    await Promise.all(['blue', 'green'].map((id) => admin.ensureTenant(id)));
    await admin.close();
  });
  afterAll(async () => {
    await gateway?.close();
    await etcd?.stop();
  });

  async function identityOf(id: string): Promise<{ ca: string; cert: string; key: string }> {
    const leaf = await issue(etcd.pki.etcdCa, { commonName: tenantUser(id), usage: ['client'] });
    return { ca: etcd.pki.etcdCa.certPem, cert: leaf.certPem, key: leaf.keyPem };
  }

  async function as(id: string, method: string, fields: Record<number, FieldValue> = {}): Promise<number> {
    return (await grpcCall(etcd.endpoint, await identityOf(id), method, fields)).status;
  }

  /** The first answer in a stream of answers. */
  async function heard(id: string, method: string, fields: Record<number, FieldValue>): Promise<string> {
    const { body } = await grpcCall(etcd.endpoint, await identityOf(id), method, fields, { streams: true });
    return body.toString('latin1');
  }

  const leases = async (): Promise<string[]> => {
    const found = (await session.call('/v3/lease/leases', {})) as { leases?: { ID: string }[] };
    return (found.leases ?? []).map(({ ID }) => ID);
  };
  const alarms = async (): Promise<unknown[]> =>
    ((await session.call('/v3/maintenance/alarm', { action: 'GET' })) as { alarms?: unknown[] }).alarms ?? [];

  it('is refused what concerns the whole store', async () => {
    const refused = {
      compaction: await as('blue', 'KV/Compact', { 1: 1n }),
      defragmentation: await as('blue', 'Maintenance/Defragment'),
      snapshot: await as('blue', 'Maintenance/Snapshot'),
      'moving the leader': await as('blue', 'Maintenance/MoveLeader', { 1: 1n }),
      downgrade: await as('blue', 'Maintenance/Downgrade', { 1: 0n, 2: '3.5.0' }),
      'adding a user': await as('blue', 'Auth/UserAdd', { 1: 'mine' }),
      'granting itself root': await as('blue', 'Auth/UserGrantRole', { 1: 'tenant-blue', 2: 'root' }),
      'turning authentication off': await as('blue', 'Auth/AuthDisable'),
      'adding a member': await as('blue', 'Cluster/MemberAdd', { 1: 'http://192.0.2.1:1' }),
      'removing a member': await as('blue', 'Cluster/MemberRemove', { 1: 1n }),
    };
    expect(Object.entries(refused).filter(([, status]) => status !== permissionDenied)).toEqual([]);
    expect(await as('blue', 'KV/Range', { 1: '/tenants/blue/x' })).toBe(0);
  });

  it('neither watches keys of another, nor reaches them by a transaction', async () => {
    const [own, others] = ['blue', 'green'].map((id) => `${tenantPrefix(id)}secret`) as [string, string];
    const watch = (key: string | Uint8Array, end?: Uint8Array) =>
      heard('blue', 'Watch/Watch', { 1: message(end === undefined ? { 1: key } : { 1: key, 2: end }) });
    expect(await watch(own)).not.toContain('permission denied');
    expect(await watch(others)).toContain('permission denied');
    expect(await watch(Uint8Array.of(0), Uint8Array.of(0))).toContain('permission denied');
    const transaction = (operation: Record<number, FieldValue>) =>
      as('blue', 'KV/Txn', { 2: message(operation) });
    const get = (key: string) => transaction({ 1: message({ 1: key }) });
    const put = (key: string) => transaction({ 2: message({ 1: key, 2: 'x' }) });
    expect([await get(own), await put(own)]).toEqual([ok, ok]);
    expect([await get(others), await put(others)]).toEqual([permissionDenied, permissionDenied]);
  });

  it('is told what etcd tells anybody with a certificate: members, sizes and alarms, and no keys', async () => {
    const told = ['Cluster/MemberList', 'Maintenance/Status'];
    for (const method of told) expect([method, await as('blue', method)]).toEqual([method, ok]);
  });

  it("cannot end the lease that another tenant's keys are bound to, nor learn of it", async () => {
    const id = 4_711n;
    const key = `${tenantPrefix('green')}events/kept`;
    expect(await as('green', 'Lease/LeaseGrant', { 1: 600n, 2: id })).toBe(ok);
    expect(await as('green', 'KV/Put', { 1: key, 2: 'x', 3: id })).toBe(ok);
    expect(await as('blue', 'Lease/LeaseLeases')).toBe(permissionDenied);
    expect(await as('blue', 'Lease/LeaseTimeToLive', { 1: id, 2: 1n })).toBe(permissionDenied);
    expect(await as('blue', 'Lease/LeaseRevoke', { 1: id })).toBe(permissionDenied);
    // Nor bind it to keys of its own, so that these could not be written any more.
    expect(await as('blue', 'KV/Put', { 1: `${tenantPrefix('blue')}x`, 2: 'x', 3: id })).toBe(
      permissionDenied,
    );
    expect(await leases()).toContain(String(id));
    // Its own tenant may.
    expect(await as('green', 'Lease/LeaseRevoke', { 1: id })).toBe(ok);
    expect(await leases()).not.toContain(String(id));
  });

  it('can end a lease without keys by its number: the API server that asked for it asks for another', async () => {
    const id = 4_712n;
    expect(await as('green', 'Lease/LeaseGrant', { 1: 600n, 2: id })).toBe(ok);
    expect(await as('blue', 'Lease/LeaseRevoke', { 1: id })).toBe(ok);
    expect(await as('green', 'KV/Put', { 1: `${tenantPrefix('green')}late`, 2: 'x', 3: id })).toBe(notFound);
  });

  it("can have the lease of another go on by its number: what is bound to it ends later, and is nobody else's", async () => {
    const id = 4_713n;
    expect(await as('green', 'Lease/LeaseGrant', { 1: 600n, 2: id })).toBe(ok);
    expect(await heard('blue', 'Lease/LeaseKeepAlive', { 1: id })).not.toBe('');
    expect(await as('green', 'Lease/LeaseRevoke', { 1: id })).toBe(ok);
  });

  it('neither raises an alarm, which would stop all writes, nor takes one away', async () => {
    const noSpace = 1n;
    const member = 1n;
    expect(await as('blue', 'Maintenance/Alarm', { 1: 1n, 2: member, 3: noSpace })).toBe(permissionDenied);
    expect(await alarms()).toEqual([]);
    await session.call('/v3/maintenance/alarm', {
      action: 'ACTIVATE',
      memberID: String(member),
      alarm: 'NOSPACE',
    });
    expect(await as('blue', 'Maintenance/Alarm', { 1: 2n, 2: member, 3: noSpace })).toBe(permissionDenied);
    expect(await alarms()).toHaveLength(1);
    await session.call('/v3/maintenance/alarm', {
      action: 'DEACTIVATE',
      memberID: String(member),
      alarm: 'NOSPACE',
    });
  });
});
