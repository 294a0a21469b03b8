import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { renderKubeconfig } from './kubeconfig.ts';
import { loadKubeconfig } from './kubeconfig-files.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'kubeconfig-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function file(name: string, content: string): Promise<string> {
  const full = path.join(directory, name);
  await mkdir(path.dirname(full), { recursive: true });
  await writeFile(full, content);
  return full;
}

function rendered(name: string): string {
  return renderKubeconfig({
    clusterName: name,
    server: `https://${name}`,
    ca: 'ca',
    user: name,
    cert: 'c',
    key: 'k',
  });
}

function config(user: Record<string, unknown>, cluster: Record<string, unknown> = {}): string {
  return stringify({
    clusters: [{ name: 'c', cluster: { server: 'https://c', ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  });
}

describe('loadKubeconfig', () => {
  it('reads a file, by its current context or the one asked for', async () => {
    const yaml = await file('config', rendered('blue'));
    expect(await loadKubeconfig(yaml)).toEqual({ server: 'https://blue', ca: 'ca', cert: 'c', key: 'k' });
    await expect(loadKubeconfig(yaml, 'green')).rejects.toThrow('no context "green"; there are: blue');
  });

  it('joins the files of KUBECONFIG, the first mention winning, missing ones left out', async () => {
    const one = await file('one', rendered('one'));
    const two = await file('two', rendered('two'));
    const env = { KUBECONFIG: [one, path.join(directory, 'missing'), two].join(path.delimiter) };
    expect((await loadKubeconfig(undefined, undefined, env)).server).toBe('https://one');
    expect((await loadKubeconfig(undefined, 'two', env)).server).toBe('https://two');
  });

  it('looks at ~/.kube/config, and says where it has looked', async () => {
    const env = { HOME: directory };
    await expect(loadKubeconfig(undefined, undefined, env)).rejects.toThrow(
      path.join(directory, '.kube', 'config'),
    );
    await file('.kube/config', rendered('home'));
    expect((await loadKubeconfig(undefined, undefined, env)).server).toBe('https://home');
  });

  it('finds files relative to the kubeconfig', async () => {
    await file('pki/ca.crt', 'ca from file');
    await file('token', 'secret\n');
    const yaml = await file(
      'config',
      config({ tokenFile: 'token' }, { 'certificate-authority': 'pki/ca.crt' }),
    );
    const connection = await loadKubeconfig(yaml);
    expect(connection.ca).toBe('ca from file');
    expect(await connection.authorization?.()).toBe('Bearer secret');
  });

  it('takes tokens, and what there is to say about TLS', async () => {
    const tls = { 'insecure-skip-tls-verify': true, 'tls-server-name': 'other' };
    expect(await loadKubeconfig(await file('config', config({ token: 't' }, tls)))).toEqual({
      server: 'https://c',
      token: 't',
      insecureSkipTlsVerify: true,
      tlsServerName: 'other',
    });
  });

  it('runs exec plugins', async () => {
    const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential' };
    const output = JSON.stringify({ ...credential, status: { token: 'from plugin' } });
    const plugin = await file('bin/plugin', `#!/bin/sh\necho '${output}'\n`);
    await chmod(plugin, 0o755);
    const exec = { apiVersion: credential.apiVersion, command: './bin/plugin', interactiveMode: 'Never' };
    const connection = await loadKubeconfig(await file('config', config({ exec })));
    expect(await connection.authorization?.()).toBe('Bearer from plugin');
  });

  it('names what it does not support, and files that are missing', async () => {
    const proxy = await file('config', config({}, { 'proxy-url': 'http://proxy' }));
    await expect(loadKubeconfig(proxy)).rejects.toThrow('"proxy-url"');
    const missing = await file('config', config({}, { 'certificate-authority': 'nowhere' }));
    await expect(loadKubeconfig(missing)).rejects.toThrow('nowhere');
    await expect(loadKubeconfig(path.join(directory, 'none'))).rejects.toThrow('cannot read');
  });
});
