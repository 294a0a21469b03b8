import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type TLSSocket } from 'node:tls';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createAuthority } from './certificates.ts';
import { ensureTenantPki, type TenantPki } from './tenant.ts';

let blue: TenantPki;
let green: TenantPki;
let server: Server | undefined;

beforeAll(async () => {
  const now = new Date();
  const etcdCa = await createAuthority({ commonName: 'datastore' });
  const common = { clusterDomain: 'cluster.local', hosts: [], etcdCa, now };
  blue = (await ensureTenantPki(undefined, { ...common, id: 'blue' })).pki;
  green = (await ensureTenantPki(undefined, { ...common, id: 'green' })).pki;
});

afterEach(() => {
  server?.close();
});

/** An API server as far as TLS goes: tells a client which user its certificate makes it, or why it is none. */
async function serve(pki: TenantPki, clientCa: string): Promise<number> {
  const { certPem: cert, keyPem: key } = pki.leafs.apiserver;
  const listening = createServer({ cert, key, ca: clientCa, requestCert: true, rejectUnauthorized: false });
  listening.on('secureConnection', (socket) => {
    socket.on('error', () => socket.destroy());
    const { authorized, authorizationError } = socket;
    socket.end(
      authorized ? String(socket.getPeerCertificate().subject['CN']) : `refused: ${authorizationError}`,
    );
  });
  listening.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  server = listening;
  return (listening.address() as AddressInfo).port;
}

async function answerOf(
  port: number,
  ca: string,
  client: { certPem: string; keyPem: string },
): Promise<string> {
  const socket: TLSSocket = connect({
    host: '127.0.0.1',
    port,
    ca,
    cert: client.certPem,
    key: client.keyPem,
  });
  let text = '';
  for await (const chunk of socket.setEncoding('utf8')) text += chunk;
  return text;
}

describe('TLS between the parts of a tenant', () => {
  it('lets a client of the same tenant in under its name', async () => {
    const port = await serve(blue, blue.clientCa.certPem);
    expect(await answerOf(port, blue.servingCa.certPem, blue.leafs.admin)).toBe('skerry:admin');
  });

  it('refuses the admin of another tenant', async () => {
    const port = await serve(blue, blue.clientCa.certPem);
    expect(await answerOf(port, blue.servingCa.certPem, green.leafs.admin)).toBe(
      'refused: UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    );
  });

  it('does not take the API server of another tenant for its own', async () => {
    const port = await serve(blue, blue.clientCa.certPem);
    await expect(answerOf(port, green.servingCa.certPem, blue.leafs.admin)).rejects.toMatchObject({
      code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    });
  });

  it('does not take a client for a front proxy, although both belong to the tenant', async () => {
    const port = await serve(blue, blue.frontProxyCa.certPem);
    expect(await answerOf(port, blue.servingCa.certPem, blue.leafs.admin)).toBe(
      'refused: UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    );
    expect(await answerOf(port, blue.servingCa.certPem, blue.leafs.frontProxyClient)).toBe(
      'front-proxy-client',
    );
  });
});
