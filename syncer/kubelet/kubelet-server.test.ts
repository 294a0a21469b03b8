import { once } from 'node:events';
import { Agent, type RequestOptions, request } from 'node:https';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { createTestCertificates, type TestCertificates } from '../../kube/testing/index.ts';
import { KubeletServer } from './kubelet-server.ts';

let certificates: TestCertificates;
beforeAll(async () => {
  certificates = await createTestCertificates();
});

async function listening(
  simulated = true,
): Promise<{ server: KubeletServer; port: number } & AsyncDisposable> {
  const server = new KubeletServer({ ...certificates.server, nodesAreSimulated: () => simulated });
  const port = await server.listen('127.0.0.1', 0);
  return { server, port, [Symbol.asyncDispose]: () => server.close() };
}

async function ask(
  port: number,
  path: string,
  options: RequestOptions = {},
): Promise<{ status: number | undefined; body: string }> {
  const asked = request({
    host: '127.0.0.1',
    port,
    path,
    ca: certificates.ca,
    agent: new Agent({ maxCachedSessions: 0 }),
    ...options,
  });
  asked.end();
  const [response] = await once(asked, 'response');
  return { status: response.statusCode, body: await text(response) };
}

describe('what stands where tenants expect a kubelet', () => {
  it('answers over TLS, in one sentence that says why not', async () => {
    await using kubelet = await listening();
    expect(await ask(kubelet.port, '/containerLogs/shop/web-1/main?follow=true')).toEqual({
      status: 500,
      body: 'logs is not available for pod web-1: its node is simulated and runs no containers',
    });
    await using real = await listening(false);
    expect((await ask(real.port, '/containerLogs/shop/web-1/main')).body).toMatch(/this version of Skerry/);
  });

  it('answers a request to upgrade, as exec and port-forward make, in the same way', async () => {
    await using kubelet = await listening();
    const headers = { connection: 'Upgrade', upgrade: 'SPDY/3.1' };
    expect(await ask(kubelet.port, '/exec/shop/web-1/main?command=sh', { method: 'POST', headers })).toEqual({
      status: 500,
      body: 'exec is not available for pod web-1: its node is simulated and runs no containers',
    });
  });

  it('survives whatever is asked', async () => {
    await using kubelet = await listening();
    for (const path of [
      '/exec/shop/%E0%A4%A/main',
      '/%',
      '/constructor/shop/web',
      '/__proto__/shop/web',
      '//',
      '/exec',
    ]) {
      expect((await ask(kubelet.port, path)).body).toMatch(/^this request is not available/);
      const headers = { connection: 'Upgrade', upgrade: 'SPDY/3.1' };
      expect((await ask(kubelet.port, path, { headers })).status).toBe(500);
    }
  });

  it('survives clients that speak no TLS, or go away', async () => {
    await using kubelet = await listening();
    const plain = connect(kubelet.port, '127.0.0.1');
    plain.on('error', () => undefined).end('GET / HTTP/1.0\r\n\r\n');
    await once(plain, 'close');
    const asked = request({ host: '127.0.0.1', port: kubelet.port, path: '/', ca: certificates.ca });
    asked.on('error', () => undefined).flushHeaders();
    await once(asked, 'socket');
    asked.destroy();
    expect((await ask(kubelet.port, '/')).status).toBe(500);
  });

  it('closes although somebody holds a connection without a word', async () => {
    const kubelet = await listening();
    const silent = connect(kubelet.port, '127.0.0.1');
    silent.on('error', () => undefined);
    await once(silent, 'connect');
    // The server has it when it answers one that came later.
    await ask(kubelet.port, '/');
    const gone = once(silent, 'close');
    await kubelet.server.close();
    await gone;
  });

  it('says when its port is taken', async () => {
    await using kubelet = await listening();
    const second = new KubeletServer({ ...certificates.server, nodesAreSimulated: () => true });
    await expect(second.listen('127.0.0.1', kubelet.port)).rejects.toThrow('EADDRINUSE');
    await second.close();
  });
});
