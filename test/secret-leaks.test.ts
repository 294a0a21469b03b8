import { randomBytes } from 'node:crypto';
import { appendFile, glob, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { extract } from 'tar';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { connectionFromSecret, type KubeObject, resources } from '../kube/index.ts';
import { freePort } from '../kube/testing/free-port.ts';
import { at } from './harness/checker/view.ts';
import { anotherManager, endManager, untilLeads } from './harness/managers.ts';
import { container, pod, secret } from './harness/manifests.ts';
import { metricsText } from './harness/metrics.ts';
import { patiently, poll } from './harness/poll.ts';
import { processesOf, send } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

const ns = 'vault';

describe('secrets, wherever they were planted', () => {
  let world: World;
  let tenant: Tenant;
  /** What it is: the texts that give it away. */
  const planted = new Map<string, string[]>();

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant(ns);
    const value = `canary-${randomBytes(18).toString('hex')}`;
    planted.set("a Secret of the tenant's", [value, Buffer.from(value).toString('base64').slice(0, 40)]);
    await tenant.apply(secret(ns, 'used', { value }), secret(ns, 'skerry-refused', { value }));
    const env = [{ name: 'VALUE', valueFrom: { secretKeyRef: { name: 'used', key: 'value' } } }];
    const volumes = [{ name: 'v', secret: { secretName: 'used' } }];
    const reserved = [{ secretRef: { name: 'skerry-refused' } }];
    await tenant.apply(
      pod(ns, 'reader', { containers: [container({ env })], volumes }),
      pod(ns, 'refused', { containers: [container({ envFrom: reserved })] }),
    );
    await tenant.kubectl('-n', ns, 'wait', '--for=condition=Ready', patiently, 'pod/reader');
    // The super cluster refuses this one, in words that come up as an event.
    const superNamespace = await superNamespaceOf();
    await world.superCluster.client.create(resources.secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: superNamespace, name: 'taken' },
    });
    await tenant.apply({
      ...secret(ns, 'taken', { value }),
      metadata: { namespace: ns, name: 'taken', labels: { 'skerry.dev/sync': 'true' } },
    });
    await tenant.until<true, KubeObject>(
      { resource: resources.events, namespace: ns, what: 'the event NameConflict' },
      (events) => events.some(({ reason }) => reason === 'NameConflict') || undefined,
    );
    await plantCredentials(superNamespace);
  });

  afterAll(() => world?.close());

  async function superNamespaceOf(): Promise<string> {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=${ns}`;
    const { items } = await world.superCluster.client.list(resources.namespaces, { labelSelector });
    return items[0]?.metadata.name ?? '';
  }

  /** Keys of people, of the syncer and of the control plane, and the token of the pod. */
  async function plantCredentials(superNamespace: string): Promise<void> {
    planted.set("the key of the tenant's admin", keyTexts(connectionFromSecret(tenant.kubeconfig).key));
    const { items: tokens } = await world.superCluster.client.list<
      KubeObject & { data?: Record<string, string> }
    >(resources.secrets, { namespace: superNamespace, labelSelector: 'skerry.dev/token' });
    const [token = ''] = tokens.flatMap(({ data }) => Object.values(data ?? {}));
    const signature = Buffer.from(token, 'base64').toString().split('.')[2] ?? '';
    planted.set('the token of a pod', [signature.slice(0, 60)]);
    const files = join(world.stateDir, 'control-planes', tenant.id, 'files');
    const encryption = await readFile(join(files, 'kube-apiserver', 'encryption.yaml'), 'utf8');
    planted.set('the key that encrypts Secrets', [/"secret":"([^"]+)"/.exec(encryption)?.[1] ?? '']);
    for await (const path of glob('**/*.key', { cwd: files }))
      planted.set(path, keyTexts(await readFile(join(files, path), 'utf8')));
  }

  /** Lines of a PEM's body, and what they are once more in base64. */
  function keyTexts(pem = ''): string[] {
    const [, ...body] = pem.split('\n').filter((line) => line !== '' && !line.startsWith('-----'));
    const line = (body[0] ?? '').slice(0, 48);
    return [line, Buffer.from(pem).toString('base64').slice(120, 180)];
  }

  /** Names of what is given away by a text. */
  const givenAway = (text: string): string[] =>
    [...planted].filter(([, texts]) => texts.some((each) => text.includes(each))).map(([what]) => what);

  it('are found by the search where they belong', async () => {
    for (const [what, texts] of planted)
      for (const text of texts) expect(text.length, what).toBeGreaterThan(24);
    expect(planted.size).toBeGreaterThan(4);
    const used = await tenant.kubectl('-n', ns, 'get', 'secret', 'used', '-o', 'json');
    expect(givenAway(used)).toEqual(["a Secret of the tenant's"]);
    expect(givenAway(await readFile(tenant.kubeconfigFile, 'utf8'))).toEqual([
      "the key of the tenant's admin",
    ]);
  });

  it('are in no log of any component', async () => {
    const logs: string[] = [];
    for await (const path of glob('**/logs/*', { cwd: world.stateDir })) logs.push(path);
    expect(logs.some((path) => path.includes(tenant.id))).toBe(true);
    expect(logs.some((path) => path.endsWith('vc-syncer.log'))).toBe(true);
    for (const path of logs) {
      const log = await readFile(join(world.stateDir, path), 'utf8').catch((error: NodeJS.ErrnoException) => {
        // Of a tenant of another suite that goes meanwhile.
        if (error.code === 'ENOENT' && !path.includes(tenant.id)) return '';
        throw error;
      });
      expect(givenAway(log), path).toEqual([]);
    }
  });

  it('are in no argument and no environment of any process', async () => {
    const processes = [...processesOf(world.stateDir).keys()];
    expect(processes.length).toBeGreaterThan(3);
    for (const pid of processes)
      for (const file of ['cmdline', 'environ']) {
        const text = await readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '');
        expect(givenAway(text), `${pid} ${file}`).toEqual([]);
      }
  });

  it('are in no event, no status, no trace, no metric and nothing that the CLI prints of a tenant', async () => {
    const outputs = {
      'events of the tenant': await tenant.kubectl('get', 'events', '-A', '-o', 'json'),
      'events of the super cluster': await world.superCluster.kubectl('get', 'events', '-A', '-o', 'json'),
      VirtualCluster: await world.superCluster.kubectl('get', 'virtualclusters', '-A', '-o', 'json'),
      jobs: await world.superCluster.kubectl('get', 'configmaps', '-A', '-o', 'json'),
      pods: await world.superCluster.kubectl('get', 'pods', '-A', '-o', 'json'),
      'metrics of the syncer': await metricsText(world.stateDir, 'vc-syncer'),
      'metrics of the gateway': await metricsText(world.stateDir, 'vc-gateway'),
      'metrics of the manager': await managerMetrics(),
      describe: (await world.cli(['describe', tenant.name])).stdout,
      'describe, json': (await world.cli(['describe', tenant.name, '-o', 'json'])).stdout,
      trace: (await world.cli(['trace', 'reader', '-n', ns, '-t', tenant.name])).stdout,
      logs: (await world.cli(['logs', tenant.name, '--tail', '2000'])).stdout,
    };
    for (const [what, text] of Object.entries(outputs)) {
      expect(text.length, what).toBeGreaterThan(0);
      expect(givenAway(text), what).toEqual([]);
    }
    const taken = await tenant.kubectl('-n', ns, 'get', 'events', '-o', 'json');
    expect(at<KubeObject[]>(JSON.parse(taken), 'items')?.length).toBeGreaterThan(0);
  });

  /** Of one that leads and has read the Secrets of tenants: that of the stack exposes none. */
  async function managerMetrics(): Promise<string> {
    const port = await freePort();
    const first = await world.process('vc-manager');
    const second = await anotherManager(world, 'measured', {
      options: [`--health-address=127.0.0.1:${port}`],
    });
    try {
      // Not killed: it would be started again, with the same name, and lead on.
      send(first, 'SIGSTOP');
      await untilLeads(world, 'measured');
      return await poll('it to read Secrets', async () => {
        const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
        return /^skerry_manager_api_calls_total\{verb="get",resource="secrets"/m.test(text) && text;
      });
    } finally {
      send(first, 'SIGCONT');
      await endManager(second, 'SIGTERM');
    }
  }

  it('are in no error of the CLI, of a kubeconfig that holds one included', async () => {
    const broken = world.file('broken.kubeconfig');
    const refused = world.file('refused.kubeconfig');
    await writeFile(broken, tenant.kubeconfig.replace('client-key-data: ', 'client-key-data: [}'), {
      mode: 0o600,
    });
    await writeFile(refused, tenant.kubeconfig.replace(/client-certificate-data: .*/, ''), { mode: 0o600 });
    for (const file of [broken, refused])
      expect(givenAway(await readFile(file, 'utf8'))).toEqual(["the key of the tenant's admin"]);
    const inTenant = ['-n', ns, '-t', tenant.name];
    const commands = [
      ['list', '--kubeconfig', broken],
      ['list', '--kubeconfig', refused],
      ['list', '--kubeconfig', tenant.kubeconfigFile],
      ['create', tenant.name],
      ['describe', 'nobody'],
      ['trace', 'nobody', ...inTenant],
      ['logs', tenant.name, 'nothing'],
      ['connect', tenant.name, '--', 'no-such-command'],
      ['kubectl', tenant.name, '--', '-n', ns, 'get', 'secret', 'used', 'nobody', '-o', 'name'],
      ['restore', tenant.name, '--from', refused, '--yes'],
    ];
    for (const command of commands) {
      const { exitCode, stdout, stderr } = await world.cli(command);
      expect([exitCode === 0, stderr === ''], `${command.join(' ')}: ${stdout}`).toEqual([false, false]);
      expect(givenAway(stdout + stderr), command.join(' ')).toEqual([]);
    }
  });

  it('are in no support bundle, although they stand in logs and objects that it holds', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'skerry-bundle-'));
    try {
      const key = await readFile(await firstKey(), 'utf8');
      const canary = randomBytes(24).toString('hex');
      planted.set('what somebody has applied', [canary]);
      await annotate(canary);
      const logs: string[] = [];
      for await (const path of glob('**/logs/vc-syncer.log', { cwd: world.stateDir })) logs.push(path);
      const said = [
        ...[key, `redis://:${canary}@redis:6379`, `authorization: Bearer ${canary}`],
        ...[`Authorization: Basic ${canary}`, `client_secret=${canary}`, `secret=${canary}`],
        ...[`--password ${canary}`, `--token ${canary}`, `password: two words ${canary}`],
        ...[`apiKey: ${canary}`, `passphrase: ${canary}`, `password='two words ${canary}'`],
        { clientSecret: canary, password: `two words ${canary}` },
        { msg: JSON.stringify({ password: `"two" words ${canary}` }), args: ['--token', canary] },
      ];
      await appendFile(
        join(world.stateDir, logs[0] ?? ''),
        `${said.map((each) => JSON.stringify(each)).join('\n')}\n`,
      );
      const file = join(directory, 'bundle.tar.gz');
      const { exitCode, stdout, stderr } = await world.cli(['support-bundle', '--file', file]);
      expect([exitCode, stdout.trim()], stderr).toEqual([0, file]);
      await extract({ file, cwd: directory });
      const held = new Map<string, string>();
      for await (const path of glob('skerry-support-*/**/*.*', { cwd: directory }))
        held.set(path.split('/').slice(1).join('/'), await readFile(join(directory, path), 'utf8'));
      for (const [path, text] of held) expect(givenAway(text), path).toEqual([]);
      expect([...held.keys()]).toEqual(
        expect.arrayContaining([
          ...['doctor.json', 'versions.json', 'virtualclusters.json', 'system/leases.json'],
          ...['logs/stack/vc-syncer.log', `logs/default_${tenant.name}/kube-apiserver.log`],
        ]),
      );
      expect(held.get('virtualclusters.json')).toContain(`"${tenant.name}"`);
      expect(held.get('logs/stack/vc-syncer.log')).toContain('redis://:[redacted]@redis');
      expect(held.get('errors.txt')).toBeUndefined();
    } finally {
      await annotate(null);
      await rm(directory, { recursive: true });
    }
  });

  async function annotate(value: string | null): Promise<void> {
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': value };
    await world.superCluster.client.patch(
      resources.virtualClusters,
      tenant.ref,
      { metadata: { annotations } },
      { type: 'merge' },
    );
  }

  async function firstKey(): Promise<string> {
    const files = join(world.stateDir, 'control-planes', tenant.id, 'files');
    for await (const path of glob('**/*.key', { cwd: files })) return join(files, path);
    throw new Error('there is no key');
  }
});
