import { describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { connectionFromSecret, mergeKubeconfig, parseKubeconfig, renderKubeconfig } from './kubeconfig.ts';

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

  it('reads what renderKubeconfig writes, plain or as Secret data', () => {
    const yaml = renderKubeconfig(options);
    expect(connectionFromSecret(yaml)).toEqual(connection);
    expect(connectionFromSecret(Buffer.from(yaml).toString('base64'))).toEqual(connection);
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
    ['tls-server-name', { 'tls-server-name': 'x' }, {}],
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
