import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { parse, stringify } from 'yaml';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { renderKubeconfig, resources, systemClock } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import { buildProgram, runCli } from './program.ts';
import { Captured, ClosedPipe, runCaptured } from './testing/captured.ts';

let server: FakeApiServer;
let home: string;
let kubeconfig: string;

beforeEach(async () => {
  server = await FakeApiServer.start();
  home = await mkdtemp(join(tmpdir(), 'skerry-cli-'));
  kubeconfig = join(home, 'super.kubeconfig');
  await writeFile(kubeconfig, kubeconfigFor(server.url));
});

afterEach(async () => {
  await server.stop();
  await rm(home, { recursive: true, force: true });
});

function kubeconfigFor(url: string): string {
  return stringify({
    'current-context': 'c',
    clusters: [{ name: 'c', cluster: { server: url } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
  });
}

function run(...args: string[]): ReturnType<typeof runCaptured> {
  return runCaptured([...args, '--kubeconfig', kubeconfig], { HOME: home, KUBECONFIG: join(home, 'mine') });
}

function put(name: string, status: VirtualCluster['status'] = {}): void {
  const metadata = { name, namespace: 'default', creationTimestamp: '2030-01-01T00:00:00Z' };
  server.put(resources.virtualClusters, { metadata, spec: {}, status });
}

describe('list', () => {
  it('prints a Kubernetes List of VirtualClusters', async () => {
    put('blue');
    const { exitCode, stdout, stderr } = await run('list', '-o', 'json');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({
      apiVersion: 'v1',
      kind: 'List',
      items: [{ apiVersion: 'skerry.dev/v1alpha1', kind: 'VirtualCluster', metadata: { name: 'blue' } }],
    });
    expect(parse((await run('ls', '-o', 'yaml')).stdout)).toMatchObject({ kind: 'List' });
  });

  it('prints names that kubectl takes', async () => {
    put('blue');
    expect((await run('list', '-o', 'name')).stdout).toBe('virtualcluster.skerry.dev/blue\n');
  });

  it('says on stderr that there is none, and prints an empty list where a program reads it', async () => {
    expect(await run('list')).toMatchObject({
      exitCode: 0,
      stdout: '',
      stderr: expect.stringContaining('No tenants'),
    });
    expect(JSON.parse((await run('list', '-o', 'json')).stdout)).toMatchObject({ items: [] });
  });

  it('says that a namespace is not there, and that no labels match', async () => {
    put('blue');
    server.put(resources.namespaces, { metadata: { name: 'empty' } });
    expect(await run('list', '-n', 'nosuch')).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('no namespace "nosuch"'),
    });
    expect(await run('list', '-n', 'empty')).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining('No tenants in namespace empty'),
    });
    expect(await run('list', '-l', 'team=none')).toMatchObject({
      exitCode: 0,
      stdout: '',
      stderr: 'No tenants have labels that match "team=none".\n',
    });
  });
});

describe('create', () => {
  it('sends what was asked for', async () => {
    const { exitCode, stdout } = await run(
      'create',
      'blue',
      '--version',
      '1.35',
      '--weight',
      '3',
      '--template',
      'own',
    );
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'virtualcluster.skerry.dev/blue created\n' });
    const created = server.get(resources.virtualClusters, {
      namespace: 'default',
      name: 'blue',
    }) as VirtualCluster;
    expect(created.spec).toEqual({ version: '1.35', weight: 3, template: 'own' });
  });

  it('asks for nodes, DNS and what pods may do', async () => {
    const { exitCode } = await run(
      ...['create', 'blue', '--pod-security', 'privileged', '--daemon-sets', 'allow', '--dns', 'none'],
      ...[
        '--nodes',
        'used',
        '--hide-nodes',
        '--node-selector',
        'pool=gpu,disk=ssd',
        '--node-selector',
        'a=b',
      ],
    );
    expect(exitCode).toBe(0);
    const created = server.get(resources.virtualClusters, { namespace: 'default', name: 'blue' });
    expect((created as VirtualCluster).spec).toEqual({
      dns: 'none',
      nodes: { mode: 'used', hidden: true, selector: { pool: 'gpu', disk: 'ssd', a: 'b' } },
      policy: { podSecurity: 'privileged', daemonSets: 'allow' },
    });
  });

  it.each([
    [['--pod-security', 'most'], 'privileged, baseline, restricted'],
    [['--node-selector', 'pool'], 'key=value'],
    [['--node-selector', 'pool=a b'], 'spec.nodes.selector.pool: has to be the value of a label'],
  ])('refuses %j and says what can be given', async (args, message) => {
    expect(await run('create', 'blue', ...args)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining(message),
    });
    expect(server.requests).toEqual([]);
  });

  it('refuses a name with the reason, without a request', async () => {
    const { exitCode, stderr } = await run('create', 'Team_Blue');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('lowercase RFC 1123 label');
    expect(server.requests).toEqual([]);
  });

  it('says that there is one already', async () => {
    put('blue');
    expect(await run('create', 'blue')).toMatchObject({
      exitCode: 6,
      stdout: '',
      stderr: expect.stringContaining('exists already in namespace default'),
    });
  });

  it('ends the wait when it has failed for good', async () => {
    const created = run('create', 'blue', '--wait');
    await server.until(
      () => server.get(resources.virtualClusters, { namespace: 'default', name: 'blue' }) !== undefined,
    );
    put('blue', {
      phase: 'Failed',
      conditions: [{ type: 'Ready', status: 'False', message: 'no template' }],
    });
    expect(await created).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('blue has failed: no template'),
    });
  });

  it('refuses an unknown version at once, with those on offer', async () => {
    for (const [name, kubernetesVersion] of [
      ['v1-35', '1.35.4'],
      ['v1-36', '1.36.3'],
    ] as const)
      server.put(resources.controlPlaneTemplates, { metadata: { name }, spec: { kubernetesVersion } });
    const { exitCode, stderr } = await run('create', 'blue', '--version', '1.99', '--wait');
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/1\.99.*1\.35\.4.*1\.36\.3/s);
    expect(server.list(resources.virtualClusters)).toEqual([]);
    expect((await run('create', 'blue', '--version', '1.35')).exitCode).toBe(0);
  });

  it('says that it goes on when the wait is interrupted', async () => {
    const created = run('create', 'blue', '--wait');
    await server.until(() => server.watches('virtualclusters').length > 0);
    process.emit('SIGINT');
    expect(await created).toMatchObject({
      exitCode: 130,
      stderr: expect.stringMatching(
        /Waiting for blue: interrupted .*\nblue goes on being made: see "vc-manager describe blue"/,
      ),
    });
  });

  it('ends the wait at once where there may be no more', async () => {
    const created = run('create', 'blue', '--wait');
    await server.until(() => server.list(resources.virtualClusters).length > 0);
    const message = 'allows no more than 1';
    const reason = 'TooManyVirtualClusters';
    put('blue', { phase: 'Pending', conditions: [{ type: 'Ready', status: 'False', reason, message }] });
    expect(await created).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(message) });
  });

  it('says what the state is when time is up', async () => {
    const { exitCode, stderr } = await run('create', 'blue', '--wait', '--timeout', '2s');
    expect(exitCode).toBe(4);
    expect(stderr).toContain('it is Pending');
  });
});

describe('delete', () => {
  it('deletes the very object, and waits until it is gone', async () => {
    put('blue');
    expect(await run('delete', 'blue', '--wait', '--yes')).toMatchObject({
      exitCode: 0,
      stdout: 'virtualcluster.skerry.dev "blue" deleted\n',
    });
    expect(server.get(resources.virtualClusters, { namespace: 'default', name: 'blue' })).toBeUndefined();
  });

  it('deletes none when one of several does not exist', async () => {
    put('blue');
    expect(await run('delete', 'blue', 'bleu', '--yes')).toMatchObject({ exitCode: 3, stdout: '' });
    expect(server.get(resources.virtualClusters, { namespace: 'default', name: 'blue' })).toBeDefined();
  });

  it('can put up with what is not there', async () => {
    put('other');
    expect(await run('delete', 'blue', '--ignore-not-found', '--yes')).toMatchObject({ exitCode: 0 });
  });
});

describe('a command whose output nobody reads any more', () => {
  let exit: MockInstance<typeof process.exit>;
  beforeEach(() => {
    exit = vi.spyOn(process, 'exit').mockReturnValue(undefined as never);
  });
  afterEach(() => exit.mockRestore());

  async function runUnread(...args: string[]): Promise<number> {
    const [stdout, stderr] = [new ClosedPipe(), new Captured()];
    const closed = new Promise((resolve) => stdout.once('close', resolve));
    const exitCode = await runCli([...args, '--kubeconfig', kubeconfig], {
      env: { HOME: home },
      stdout,
      stderr,
    });
    await closed;
    return exitCode;
  }

  it('ends without a complaint', async () => {
    put('blue');
    await runUnread('list');
    expect(exit.mock.calls).toEqual([[0]]);
  });

  it('goes on where it has begun to delete', async () => {
    for (const name of ['blue', 'green']) put(name);
    expect(await runUnread('delete', 'blue', 'green', '--yes')).toBe(0);
    expect(server.list(resources.virtualClusters)).toEqual([]);
    expect(exit).not.toHaveBeenCalled();
  });

  it('goes on where it watches over a stack', async () => {
    const [stdout, stderr] = [new Captured(), new Captured()];
    const asked = new Error('asked');
    const cli = {
      ...{ env: {}, stdout, stderr, clock: systemClock, signal: new AbortController().signal },
      ...{ onSignal: () => undefined, setExitCode: () => undefined },
      outlivesReader: () => {
        throw asked;
      },
    };
    // A directory that is no stack's would be refused next.
    const args = ['up', '--state-dir', home];
    const program = await buildProgram(args, cli);
    await expect(program.parseAsync(args, { from: 'user' })).rejects.toBe(asked);
  });
});

describe('what is printed for programs', () => {
  it.each([
    ['top'],
    ['quota', 'blue'],
    ['events', 'blue'],
    ['certificates', 'show', 'blue'],
    ['version', '--all'],
  ])('is YAML as well as JSON: %s', async (...command) => {
    const certificates = [{ name: 'ca', kind: 'authority', expires: '2030-01-01T00:00:00.000Z' } as const];
    put('blue', { phase: 'Ready', certificates, usage: { pods: 3 } });
    const [inJson, inYaml] = await Promise.all(
      ['json', 'yaml'].map(async (format) => (await run(...command, '-o', format)).stdout),
    );
    expect(inYaml).not.toMatch(/^[[{]\n/);
    expect(parse(inYaml ?? '')).toEqual(JSON.parse(inJson ?? ''));
  });

  it('is what gc has found, which is asked for as elsewhere', async () => {
    // There is no datastore here.
    expect(await run('gc', '-y', '-o', 'yaml')).toMatchObject({ exitCode: 3 });
  });
});

describe('version', () => {
  it('says which one of each program runs, as its Lease says', async () => {
    const metadata = { namespace: 'skerry-system', annotations: { 'skerry.dev/version': '0.9.9 host-1' } };
    const spec = { holderIdentity: 'host-1' };
    server.put(resources.leases, { metadata: { ...metadata, name: 'vc-manager' }, spec });
    // An older program has taken it over: the version is that of its predecessor.
    const taken = { holderIdentity: 'host-2' };
    server.put(resources.leases, { metadata: { ...metadata, name: 'vc-syncer-0' }, spec: taken });
    const gateways = { 'gateway.skerry.dev/edge-1': `0.9.8 ${new Date().toISOString()}` };
    server.put(resources.leases, {
      metadata: { namespace: 'skerry-system', name: 'vc-gateway', annotations: gateways },
    });
    const { stdout } = await run('version', '--all');
    expect(stdout).toMatch(/vc-manager: +0\.9\.9, host-1\n/);
    expect(stdout).toMatch(/vc-syncer: +host-2\n/);
    expect(stdout).toMatch(/vc-gateway: +0\.9\.8, edge-1, seen \d+s ago\n/);
    expect(JSON.parse((await run('version', '--all', '-o', 'json')).stdout)).toMatchObject({
      running: [
        { program: 'vc-gateway', version: '0.9.8', identity: 'edge-1' },
        { program: 'vc-manager', version: '0.9.9' },
        { program: 'vc-syncer', identity: 'host-2' },
      ],
    });
  });
});

describe('a word that is no command', () => {
  it.each([
    [['stop'], 'Did you mean down: stop the local stack'],
    [['get', 'pods', '-A'], 'Did you mean list'],
    [['rm', 'blue'], 'Did you mean delete'],
    [['craete', 'blue'], 'Did you mean create?'],
    [['describ', 'get'], 'Did you mean describe?'],
    [['frobnicate', 'stop'], "unknown command 'frobnicate'"],
    [['help', 'rm'], 'Did you mean delete'],
    [['help', 'craete'], 'Did you mean create?'],
    [['help', 'frobnicate'], "unknown command 'frobnicate'"],
  ])('is answered with what is meant: %j', async (command, said) => {
    expect(await run(...command)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(said) });
  });

  it('is none behind help where it names a command', async () => {
    expect(await run('help', 'ls')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('vc-manager list|ls [options]'),
    });
    expect((await runCaptured(['help'])).stdout).toContain('Examples:');
  });

  it('may be the name of a tenant', async () => {
    put('status');
    expect(await run('describe', 'status')).toMatchObject({ exitCode: 0 });
  });
});

describe('a command for another program', () => {
  it.each([
    ['kubectl', 'get', 'pods'],
    ['kubectl', 'blue', 'get', 'pods', '-n', 'kube-system'],
    ['kubectl', 'blue', 'get', 'pods', '-A'],
    ['connect', 'blue', 'helm', 'list', '-A'],
    ['connect', 'helm', 'list'],
  ])('without a tenant or "--" is told where it stands: %s', async (...command) => {
    put('blue');
    const { exitCode, stderr } = await run(...command);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('What follows the tenant and "--" is for the other program');
  });

  it('hears no more than that there is no such tenant where that is all', async () => {
    const { stderr } = await runCaptured(
      ['kubectl', 'bleu', '--kubeconfig', kubeconfig, '--', 'get', 'pods'],
      { HOME: home },
    );
    expect(stderr).toMatch(/no VirtualCluster "bleu" .*: see "vc-manager list"\n$/);
  });
});

describe('kubeconfig', () => {
  const text = renderKubeconfig({
    clusterName: 'default/blue',
    server: 'https://127.0.0.1:21000',
    ca: 'CA',
    user: 'default/blue/admin',
    cert: 'CERT',
    key: 'KEY',
  });

  function putWithSecret(): void {
    put('blue', { phase: 'Ready', kubeconfigSecret: { name: 'blue-kubeconfig', key: 'kubeconfig' } });
    server.put(resources.secrets, {
      metadata: { name: 'blue-kubeconfig', namespace: 'default' },
      data: { kubeconfig: Buffer.from(text).toString('base64') },
    });
  }

  it('prints the kubeconfig and nothing else', async () => {
    putWithSecret();
    expect(await run('kubeconfig', 'blue')).toEqual({ exitCode: 0, stdout: text, stderr: '' });
  });

  it('merges it into the kubeconfig of the user, with mode 0600', async () => {
    putWithSecret();
    await writeFile(join(home, 'mine'), kubeconfigFor('https://mine'));
    expect(await run('kubeconfig', 'blue', '--merge')).toMatchObject({ exitCode: 0, stdout: '' });
    const merged = parse(await readFile(join(home, 'mine'), 'utf8'));
    expect(merged['current-context']).toBe('default/blue');
    expect(merged.contexts.map(({ name }: { name: string }) => name)).toEqual(['c', 'default/blue']);
    expect((await stat(join(home, 'mine'))).mode & 0o777).toBe(0o600);
  });

  it('takes no plugin from a Secret that the owner has changed, and no other names', async () => {
    put('blue', { phase: 'Ready', kubeconfigSecret: { name: 'blue-kubeconfig', key: 'kubeconfig' } });
    const keep = (kubeconfig: string): void =>
      void server.put(resources.secrets, {
        metadata: { name: 'blue-kubeconfig', namespace: 'default' },
        data: { kubeconfig: Buffer.from(kubeconfig).toString('base64') },
      });
    const mine = kubeconfigFor('https://mine');
    await writeFile(join(home, 'mine'), mine);
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'touch', args: ['x'] };
    const withPlugin = parse(text);
    withPlugin.users[0].user.exec = exec;
    keep(stringify(withPlugin));
    for (const command of [
      ['kubeconfig', 'blue'],
      ['kubeconfig', 'blue', '--merge'],
      ['connect', 'blue'],
    ]) {
      expect(await run(...command)).toMatchObject({
        exitCode: 1,
        stdout: '',
        stderr: expect.stringContaining('must not have "exec"'),
      });
    }
    expect(await readFile(join(home, 'mine'), 'utf8')).toBe(mine);

    keep(stringify(parse(text.replaceAll('default/blue', 'c'))));
    expect(await run('kubeconfig', 'blue')).toEqual({ exitCode: 0, stdout: text, stderr: '' });
  });

  it.each([
    ['connect', 'blue'],
    ['kubeconfig', 'blue', '--merge'],
  ])('leaves later commands with the super cluster: %s', async (...command) => {
    putWithSecret();
    const env = { HOME: home, KUBECONFIG: kubeconfig };
    expect(await runCaptured(command, env)).toMatchObject({ exitCode: 0 });
    const current = parse(await readFile(kubeconfig, 'utf8'))['current-context'];
    expect(current).toBe('default/blue');
    // At the address of the tenant nobody answers.
    expect(await runCaptured(['list', '-o', 'name'], env)).toMatchObject({
      exitCode: 0,
      stdout: 'virtualcluster.skerry.dev/blue\n',
    });
    expect(await runCaptured(['disconnect'], env)).toMatchObject({ exitCode: 0 });
    expect(parse(await readFile(kubeconfig, 'utf8'))['current-context']).toBe('c');
  });

  it('says how far a tenant is that has none yet', async () => {
    put('blue', {
      phase: 'Provisioning',
      conditions: [{ type: 'Ready', status: 'False', message: 'starting' }],
    });
    expect(await run('kubeconfig', 'blue')).toMatchObject({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringContaining('it is Provisioning (starting)'),
    });
  });

  it('wants to know whose', async () => {
    expect(await run('kubeconfig')).toMatchObject({ exitCode: 2, stdout: '' });
    expect(await run('kubeconfig', 'blue', '--super-cluster')).toMatchObject({ exitCode: 2 });
  });
});

describe('describe', () => {
  it('shows facts, conditions, its own events and what to do', async () => {
    put('blue', {
      phase: 'Ready',
      version: '1.36.3',
      conditions: [{ type: 'Synced', status: 'True', reason: 'Joined' }],
    });
    const { exitCode, stdout } = await run('describe', 'blue');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^Name: +blue$/m);
    expect(stdout).toMatch(/Synced +True +Joined/);
    expect(stdout).toContain('Use it: vc-manager kubeconfig blue > blue.kubeconfig');
  });

  it('shows what the tenant may, and what was cut', async () => {
    put('blue', {
      phase: 'Ready',
      conditions: [
        { type: 'PolicyLimited', status: 'True', reason: 'Limited', message: 'daemonSets is deny' },
      ],
      policy: {
        ceiling: 'gold',
        podSecurity: 'restricted',
        daemonSets: 'deny',
        volumeTypes: ['nfs'],
        schedulerNames: [],
        externalIPs: false,
        loadBalancerOptions: true,
        endpointCIDRs: [],
        ingressHosts: ['*.example.com'],
        alwaysPullImages: true,
        imageRegistries: ['registry.example.com/team'],
        storageClasses: [],
        nodeSelector: { pool: 'gold' },
        hideNodes: true,
        quota: { pods: '20', 'requests.cpu': '4' },
      },
      usage: { pods: 8, resources: { pods: '7' } },
    });
    const { stdout } = await run('describe', 'blue');
    expect(stdout).toMatch(/Limited by: +VirtualClusterPolicy gold\n +Pod Security: +restricted/);
    expect(stdout).toMatch(/Ingress hosts: +\*\.example\.com\n +Images: +always pulled\n/);
    expect(stdout).toMatch(
      /Registries: +registry\.example\.com\/team\n +Storage classes: +none\n +Nodes: +pool=gold, hidden/,
    );
    expect(stdout).toMatch(/RESOURCE +USED +ALLOWED\n +pods +7 +20\n +requests.cpu +- +4\n/);
    expect(stdout).toMatch(/Usage: +8 pods\n/);
    expect(stdout.split('What to do:')[1]).toContain('daemonSets is deny');
    expect(JSON.parse((await run('describe', 'blue', '-o', 'json')).stdout)).toMatchObject({
      kind: 'VirtualCluster',
      status: { policy: { podSecurity: 'restricted' } },
    });
  });

  it('takes namespace/name, as other commands do', async () => {
    put('blue', { phase: 'Ready' });
    expect((await run('describe', 'default/blue')).stdout).toMatch(/^Name: +blue$/m);
    expect(await run('describe', 'default/blue', '-n', 'teams')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('names another namespace'),
    });
  });

  it('names the namespace in which there is one of that name', async () => {
    put('blue');
    expect(await run('describe', 'blue', '-n', 'teams')).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('there is one in namespace default: add -n default'),
    });
  });
});

describe('logs', () => {
  const id = 'abc123';
  const namespace = `skerry-tenant-${id}`;
  const labels = { 'skerry.dev/id': id, 'skerry.dev/component': 'kube-apiserver' };

  it('come from the super cluster where its control plane runs there', async () => {
    put('blue', { id, driver: 'kubernetes' });
    server.put(resources.namespaces, { metadata: { name: namespace, labels: { 'skerry.dev/id': id } } });
    server.put(resources.statefulSets, { metadata: { name: 'kube-apiserver', namespace, labels } });
    server.put(resources.pods, { metadata: { name: 'kube-apiserver-0', namespace, labels } });
    const text = 'one\ntwo\n';
    server.inject({ fault: { kind: 'status', code: 200, text }, plural: 'pods', verb: 'get' });
    const { exitCode, stdout, stderr } = await run('logs', 'blue');
    expect({ exitCode, stdout, stderr }).toEqual({ exitCode: 0, stdout: 'one\ntwo\n', stderr: '' });
    const unknown = await run('logs', 'blue', 'etcd');
    expect(unknown.exitCode).toBe(3);
    expect(unknown.stderr).toContain('It has kube-apiserver.');
  });

  it('say so when nothing of it is there', async () => {
    put('blue', { id, driver: 'kubernetes' });
    const { exitCode, stderr } = await run('logs', 'blue');
    expect(exitCode).toBe(3);
    expect(stderr).toBe('error: the control plane of blue has no namespace in the super cluster\n');
  });
});

describe('the command line', () => {
  it('explains itself without being asked twice', async () => {
    expect(await run('--help')).toMatchObject({
      exitCode: 0,
      stderr: '',
      stdout: expect.stringContaining('Examples:'),
    });
    expect(await run('create', '--help')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('--weight'),
    });
  });

  it('suggests a command that is meant', async () => {
    expect(await run('craete')).toMatchObject({
      exitCode: 2,
      stdout: '',
      stderr: expect.stringContaining('create'),
    });
  });

  it.each([
    ['an option that does not exist', ['list', '--colour']],
    ['a format that does not exist', ['list', '-o', 'xml']],
    ['too many arguments', ['describe', 'a', 'b']],
    ['no argument where one is needed', ['describe']],
    ['a number that is none', ['up', '--nodes', 'many']],
    ['a number out of its range', ['create', 'x', '--weight', '0']],
    ['a version that is none', ['create', 'x', '--version', 'newest']],
    ['a shell that it does not know', ['completion', 'tcsh']],
    ['an address that is none', ['up', '--bind-address', 'here']],
    ['to check a cluster that is named as for other commands', ['doctor']],
    ['to delete where nobody can be asked', ['delete', 'blue']],
    ['to restore where nobody can be asked', ['restore', 'blue', '--from', 'a.snapshot']],
  ])('refuses %s', async (_, args) => {
    expect(await run(...args)).toMatchObject({ exitCode: 2, stdout: '' });
    expect(server.requests).toEqual([]);
  });

  it('refuses an amount of memory that is none before it starts anything', async () => {
    // In a directory that is no stack's, where nothing is ever started.
    const args = ['up', '--warm-memory', 'much', '--state-dir', import.meta.dirname];
    expect(await runCaptured(args, { HOME: home })).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('Give an amount of memory'),
    });
  });

  it.each([['describe'], ['kubeconfig'], ['logs'], ['delete', '--yes']])(
    '%s says that there is no such tenant',
    async (...of) => {
      expect(await run(...of, 'nobody')).toMatchObject({
        exitCode: 3,
        stdout: '',
        stderr: expect.stringContaining('no VirtualCluster "nobody" in namespace default'),
      });
    },
  );

  it('says where there is no super cluster, and what to do', async () => {
    await server.stop();
    expect(await run('list')).toMatchObject({
      exitCode: 5,
      stdout: '',
      stderr: expect.stringContaining('"vc-manager up"'),
    });
    await server.listen();
  });

  it('finds nothing where there is neither a local stack nor a kubeconfig', async () => {
    const { exitCode, stderr } = await runCaptured(['list'], { HOME: home });
    expect(exitCode).toBe(5);
    expect(stderr).toContain('no local stack runs, and there is no kubeconfig');
  });

  it('does not turn to another cluster when a state directory was named', async () => {
    const env = { HOME: home, KUBECONFIG: kubeconfig };
    expect(await runCaptured(['list'], env)).toMatchObject({ exitCode: 0 });
    expect(await runCaptured(['list', '--state-dir', join(home, 'state')], env)).toMatchObject({
      exitCode: 5,
    });
  });

  it('shows where an error comes from only when asked', async () => {
    expect((await run('describe', 'blue')).stderr.split('\n')).toHaveLength(2);
    expect((await run('describe', 'blue', '--verbose')).stderr).toContain('    at ');
  });

  it('has nothing to stop where nothing was started', async () => {
    const state = join(home, 'state');
    expect(await runCaptured(['down', '--purge', '--state-dir', state])).toMatchObject({
      exitCode: 0,
      stdout: '',
    });
  });
});

describe('binaries', () => {
  it("tells of those of a tenant's control plane in another version", async () => {
    const { exitCode, stdout } = await run('binaries', '--kubernetes-version', '1.36.1', '-o', 'json');
    expect(JSON.parse(stdout)).toEqual([
      { name: 'kube-apiserver', version: '1.36.1', source: 'missing' },
      { name: 'kube-controller-manager', version: '1.36.1', source: 'missing' },
    ]);
    expect(exitCode).toBe(1);
  });

  it('takes a short version for the one that tenants of it get, and names those on offer', async () => {
    const { stdout } = await run('binaries', '--kubernetes-version', '1.35', '-o', 'json');
    expect(JSON.parse(stdout)).toEqual([
      expect.objectContaining({ version: expect.stringMatching(/^1\.35\.\d+$/) }),
      expect.objectContaining({ name: 'kube-controller-manager' }),
    ]);
    const { exitCode, stderr } = await run('binaries', '--kubernetes-version', '1.99');
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/1\.99.*1\.36\.\d/s);
  });
});
