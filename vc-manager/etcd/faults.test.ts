import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAuthority, issue } from '../pki/index.ts';
import { EtcdAdmin } from './admin.ts';
import { tenantUser } from './grants.ts';
import { grpcCall } from './testing/grpc-client.ts';
import { RealEtcd } from './testing/real-etcd.ts';

const permissionDenied = 7;
let etcd: RealEtcd;
let admin: EtcdAdmin;

beforeAll(async () => {
  etcd = await RealEtcd.start();
  admin = etcd.admin();
  await admin.enableAuth();
});

afterAll(async () => {
  await admin?.close();
  await etcd?.stop();
});

async function putAs(id: string, key: string): Promise<number> {
  const ca = etcd.pki.etcdCa;
  const { certPem: cert, keyPem } = await issue(ca, { commonName: tenantUser(id), usage: ['client'] });
  const { status } = await grpcCall(etcd.endpoint, { ca: ca.certPem, cert, key: keyPem }, 'KV/Put', {
    1: key,
    2: 'v',
  });
  return status;
}

describe('faults of the datastore', () => {
  it('names the file to restore when the root password is another', async () => {
    const stranger = etcd.admin({ rootPassword: 'another' });
    await expect(stranger.listTenants()).rejects.toMatchObject({
      code: 'PasswordRefused',
      retryable: false,
      message: expect.stringContaining('etcd-root.password'),
    });
    await stranger.close();
  });

  it('tells a datastore of another authority', async () => {
    const otherCa = await createAuthority({ commonName: 'other' });
    const { certPem: cert, keyPem: key } = etcd.pki.etcdManager;
    const options = { endpoint: etcd.endpoint, rootPassword: etcd.pki.etcdRootPassword };
    const distrusting = new EtcdAdmin({ ...options, ca: otherCa.certPem, cert, key });
    await expect(distrusting.listTenants()).rejects.toMatchObject({ code: 'TlsRefused' });
    await distrusting.close();

    const stranger = await issue(otherCa, { commonName: '', usage: ['client'] });
    const distrusted = new EtcdAdmin({
      ...options,
      ca: etcd.pki.etcdCa.certPem,
      cert: stranger.certPem,
      key: stranger.keyPem,
    });
    await expect(distrusted.listTenants()).rejects.toMatchObject({
      code: 'Unreachable',
      message: expect.stringContaining("does not accept the manager's certificate"),
    });
    await distrusted.close();
  });

  it('gives up on a datastore that takes connections and says nothing', async () => {
    const silent = createServer(() => {});
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { certPem: cert, keyPem: key } = etcd.pki.etcdManager;
    const waiting = new EtcdAdmin({
      endpoint: `https://127.0.0.1:${(silent.address() as AddressInfo).port}`,
      ca: etcd.pki.etcdCa.certPem,
      cert,
      key,
      rootPassword: 'x',
      timeoutMs: 200,
    });
    await expect(waiting.listTenants()).rejects.toMatchObject({ code: 'Timeout', retryable: true });
    expect(await waiting.health()).toMatchObject({ healthy: false });
    await waiting.close();
    silent.close();
  });

  it.each(['http://127.0.0.1:2379', '127.0.0.1:2379', ''])('refuses the endpoint %j', (endpoint) => {
    const options = { endpoint, ca: '', cert: '', key: '', rootPassword: 'x' };
    expect(() => new EtcdAdmin(options)).toThrow(expect.objectContaining({ code: 'InvalidOptions' }));
  });

  it('goes on after etcd was killed and started again, with a token of the new process', async () => {
    await admin.ensureTenant('blue');
    await etcd.kill();
    await expect(admin.listTenants()).rejects.toMatchObject({ code: 'Unreachable', retryable: true });
    expect(await admin.health()).toMatchObject({
      healthy: false,
      reason: expect.stringContaining('cannot be reached'),
    });
    await etcd.launch();
    expect(await admin.health()).toEqual({ healthy: true, reason: '' });
    const answers = await Promise.all([
      admin.listTenants(),
      admin.countKeys('/tenants/'),
      admin.listTenants(),
    ]);
    expect(answers[0].users).toContain('blue');
  });

  it('never lets a tenant into a datastore that lost its data without switching authentication on first', async () => {
    await admin.ensureTenant('blue');
    await etcd.kill();
    await etcd.forgetData();
    await etcd.launch();
    await admin.ensureTenant('blue');
    expect(await putAs('blue', '/tenants/blue/x')).toBe(0);
    expect(await putAs('blue', '/tenants/green/x')).toBe(permissionDenied);
  });
});
