import { createAuthority, issue, type ManagerPki } from '../../pki/index.ts';

/** The manager's certificates, in memory. */
export async function testManagerPki(): Promise<ManagerPki> {
  const files = { certFile: '', keyFile: '' };
  const etcdCa = { ...(await createAuthority({ commonName: 'datastore' })), ...files };
  const kubeletProxyCa = { ...(await createAuthority({ commonName: 'kubelet-proxy' })), ...files };
  const request = { commonName: 'test', usage: ['client'] } as const;
  const leaf = { ...(await issue(etcdCa, request)), ...files };
  return {
    etcdCa,
    etcdServer: leaf,
    etcdManager: leaf,
    etcdRootPassword: 'test',
    kubeletProxyCa,
    kubeletProxy: leaf,
    renewals: [],
    renewAt: new Date(8.64e15),
  };
}
