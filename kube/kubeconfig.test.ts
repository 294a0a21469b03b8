import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parse, parseDocument, stringify } from 'yaml';
import {
  connectionFromSecret,
  leaveContext,
  loadKubeconfig,
  mergeKubeconfig,
  parseKubeconfig,
  rememberContext,
  renderKubeconfig,
} from './kubeconfig.ts';

const options = {
  clusterName: 'blue',
  server: 'https://127.0.0.1:6443',
  ca: 'the ca',
  user: 'admin',
  cert: 'the cert',
  key: 'the key',
};

type Content = Record<string, unknown>;

/** A rendered kubeconfig with something put into its cluster or user. */
function withFields(cluster: Content, user: Content): string {
  const config = parse(renderKubeconfig(options));
  Object.assign(config.clusters[0].cluster, cluster);
  Object.assign(config.users[0].user, user);
  return stringify(config);
}

describe('connectionFromSecret', () => {
  const connection = { server: options.server, ca: options.ca, cert: options.cert, key: options.key };

  it('reads the name that the server goes by, too', () => {
    const yaml = renderKubeconfig({ ...options, tlsServerName: 'abc.example.com' });
    expect(connectionFromSecret(yaml)).toMatchObject({
      server: options.server,
      tlsServerName: 'abc.example.com',
    });
  });

  it('reads what renderKubeconfig writes, plain or as Secret data', () => {
    const yaml = renderKubeconfig(options);
    expect(connectionFromSecret(yaml)).toEqual(connection);
    expect(connectionFromSecret(Buffer.from(yaml).toString('base64'))).toEqual(connection);
  });

  it('repeats nothing of a text that it cannot read, neither in a warning nor in an error', () => {
    const warn = vi.spyOn(process, 'emitWarning').mockReturnValue();
    try {
      for (const text of [
        'key: !!planted planted-secret',
        'a: [planted-secret: b',
        '%planted-secret\n---\n:',
      ]) {
        expect(inspect(parseDocument(text))).toContain('planted-secret');
        let thrown: unknown;
        try {
          connectionFromSecret(text);
        } catch (error) {
          thrown = error;
        }
        expect(inspect(thrown)).toMatch(/kubeconfig/);
        expect(inspect(thrown)).not.toContain('planted-secret');
      }
      expect(warn).not.toHaveBeenCalled();
    } finally {
      warn.mockRestore();
    }
  });

  it.each([
    ['exec', {}, { exec: { command: '/bin/sh', args: ['-c', 'id'] } }],
    ['auth-provider', {}, { 'auth-provider': { name: 'gcp' } }],
    ['client-certificate', {}, { 'client-certificate': '/etc/passwd' }],
    ['client-key', {}, { 'client-key': '/etc/passwd' }],
    ['token', {}, { token: 'x' }],
    ['tokenFile', {}, { tokenFile: '/var/run/token' }],
    ['username', {}, { username: 'x' }],
    ['as', {}, { as: 'system:admin' }],
    ['certificate-authority', { 'certificate-authority': '/etc/ca' }, {}],
    ['insecure-skip-tls-verify', { 'insecure-skip-tls-verify': true }, {}],
    ['proxy-url', { 'proxy-url': 'http://evil' }, {}],
    ['made-up-later', {}, { 'made-up-later': 1 }],
  ])('refuses %s', (field, cluster, user) => {
    expect(() => connectionFromSecret(withFields(cluster, user))).toThrow(
      expect.objectContaining({ code: 'ForbiddenField', message: expect.stringContaining(`"${field}"`) }),
    );
  });

  it('refuses a server that is not https', () => {
    expect(() => connectionFromSecret(withFields({ server: 'http://127.0.0.1:1' }, {}))).toThrow('https');
  });

  it.each(['', 'not: [yaml', 'just text: no', 'clusters: 7', 'clusters: [{}]', '- a: b'])(
    'refuses %j',
    (yaml) => {
      expect(() => connectionFromSecret(yaml)).toThrow(expect.objectContaining({ name: 'KubeconfigError' }));
    },
  );

  it('is not parsed when it is larger than any that is written', () => {
    const yaml = renderKubeconfig({ ...options, ca: 'a'.repeat(20_000) });
    expect(connectionFromSecret(yaml).ca).toHaveLength(20_000);
    const larger = `${yaml}${'#'.repeat(32 * 1024)}`;
    expect(parseKubeconfig(larger)['current-context']).toBe('blue');
    for (const text of [larger, Buffer.from(larger).toString('base64')])
      expect(() => connectionFromSecret(text)).toThrow('must not be larger than 32 KiB');
  });

  it('is parsed without comparing each of its keys with all others', () => {
    const yaml = `${renderKubeconfig(options)}same: 1\nsame: 2\n`;
    expect(() => parseKubeconfig(yaml)).toThrow('not YAML');
    expect(connectionFromSecret(yaml)).toEqual(connection);
  });

  it('says which part is missing', () => {
    const config = parse(renderKubeconfig(options));
    config.contexts[0].context.user = 'nobody';
    expect(() => connectionFromSecret(stringify(config))).toThrow('user "nobody"');
    config['current-context'] = 'green';
    expect(() => connectionFromSecret(stringify(config))).toThrow('there are: blue');
  });
});

describe('renderKubeconfig', () => {
  it('names the context and its namespace', () => {
    const config = parseKubeconfig(renderKubeconfig({ ...options, context: 'ctx', namespace: 'team' }));
    expect(config['current-context']).toBe('ctx');
    expect(config.contexts).toEqual([
      { name: 'ctx', context: { cluster: 'blue', user: 'admin', namespace: 'team' } },
    ]);
  });
});

describe('mergeKubeconfig', () => {
  const existing = `# mine
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
  - name: work # do not touch
    cluster: {server: "https://work"}
users: []
contexts:
  - name: work
    context: {cluster: work, user: me}
current-context: work
`;

  it('adds, makes current, and leaves everything else as it was', () => {
    const merged = mergeKubeconfig(existing, renderKubeconfig(options));
    expect(merged).toContain('# mine');
    expect(merged).toContain('name: work # do not touch');
    const config = parseKubeconfig(merged);
    expect(config['preferences']).toEqual({ colors: true });
    expect(config.clusters.map(({ name }) => name)).toEqual(['work', 'blue']);
    expect(config.users.map(({ name }) => name)).toEqual(['admin']);
    expect(config['current-context']).toBe('blue');
  });

  it('can be taken back: by what was current, over several tenants, with nothing left of them', () => {
    const connect = (to: string, clusterName: string): string => {
      const added = renderKubeconfig({ ...options, clusterName, user: `${clusterName}/admin` });
      return mergeKubeconfig(to, rememberContext(added, to));
    };
    const green = connect(connect(existing, 'blue'), 'green');
    const left = leaveContext(green);
    expect(left).toMatchObject({ context: 'green', current: 'work' });
    expect(parseKubeconfig(left?.text ?? '').clusters.map(({ name }) => name)).toEqual(['work', 'blue']);
    // Blue is not the current one any more, so it is not for this command to take away.
    expect(leaveContext(left?.text ?? '')).toBeUndefined();
    const once = leaveContext(connect(existing, 'blue'))?.text ?? '';
    expect(parseKubeconfig(once)).toEqual(parseKubeconfig(existing));
    expect(once).toContain('# mine');
    // Where there was nothing, nothing is current afterwards.
    const alone = leaveContext(connect('', 'blue'));
    expect(alone).toMatchObject({ context: 'blue', current: undefined });
    expect(parseKubeconfig(alone?.text ?? '').clusters).toEqual([]);
    expect(leaveContext('')).toBeUndefined();
    expect(leaveContext(mergeKubeconfig(existing, renderKubeconfig(options)))).toBeUndefined();
  });

  it('replaces what has the same name', () => {
    const once = mergeKubeconfig(existing, renderKubeconfig(options));
    const twice = parseKubeconfig(
      mergeKubeconfig(once, renderKubeconfig({ ...options, server: 'https://127.0.0.1:7' })),
    );
    expect(twice.clusters.map(({ cluster }) => cluster['server'])).toEqual([
      'https://work',
      'https://127.0.0.1:7',
    ]);
  });

  it('starts an empty file', () => {
    expect(mergeKubeconfig('\n', renderKubeconfig(options))).toBe(renderKubeconfig(options));
  });

  it('does not touch a file that it does not understand', () => {
    expect(() => mergeKubeconfig('- no\n', renderKubeconfig(options))).toThrow('not a mapping');
  });
});

describe('kubeconfig files', () => {
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

    it('takes the context from before one of a tenant, which is no super cluster, unless that is asked for', async () => {
      const tenant = rendered('tenant');
      const connected = await file(
        'config',
        mergeKubeconfig(rendered('own'), rememberContext(tenant, rendered('own'))),
      );
      expect((await loadKubeconfig(connected)).server).toBe('https://own');
      expect((await loadKubeconfig(connected, 'tenant')).server).toBe('https://tenant');
      const alone = await file('alone', mergeKubeconfig('', rememberContext(tenant, '')));
      await expect(loadKubeconfig(alone)).rejects.toThrow(
        '"tenant" is a tenant\'s, and none was current before',
      );
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
      const none = path.join(directory, 'none');
      await expect(loadKubeconfig(none)).rejects.toThrow(`${none}: there is no such file`);
      await expect(loadKubeconfig(directory)).rejects.toThrow(`${directory}: it is a directory`);
    });

    it('names the file that is no kubeconfig, and does not take an empty one for one that is not there', async () => {
      const one = await file('one', rendered('one'));
      const broken = await file('broken', 'a: [b');
      const env = { KUBECONFIG: [one, broken].join(path.delimiter) };
      await expect(loadKubeconfig(undefined, undefined, env)).rejects.toThrow(`${broken}: the kubeconfig`);
      const empty = await file('empty', '\n');
      await expect(loadKubeconfig(empty)).rejects.toThrow(`${empty}: the kubeconfig is empty`);
    });
  });
});
