import { execFileSync } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { findCondition, type KubeObject, parseKubeconfig, resources } from '../kube/index.ts';
import type { RunResult } from './harness/cluster.ts';
import { container, namespace, pod } from './harness/manifests.ts';
import { poll } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

const packageRoot = join(import.meta.dirname, '..');
const exitCodes = { ok: 0, notFound: 3, timedOut: 4, conflict: 6 };

describe('vc-manager', () => {
  let world: World;
  let tenant: Tenant;
  /** Of `create --wait`, whose time is up at once. */
  let late: RunResult;

  beforeAll(async () => {
    world = new World(inject('stack'));
    // Of an earlier run, on a stack that outlived it.
    await run('delete', 'cli-blue', '--yes', '--wait', '--ignore-not-found');
    const options = ['--weight', '7', '--version', '1.36'];
    late = await run('create', 'cli-blue', ...options, '--wait', '--timeout', '1ms');
    const ref = { namespace: 'default', name: 'cli-blue' };
    await world.superCluster.until<boolean, VirtualCluster>(
      { resource: resources.virtualClusters, ...ref, what: 'it to be Ready', timeoutMs: 300_000 },
      ([vc]) => vc?.status?.phase === 'Ready',
    );
    tenant = await world.openTenant('cli-blue');
  });

  afterAll(() => world?.close());

  const run = (...args: string[]) => world.cli(args);

  it('create makes what was asked for', () => {
    expect(tenant.virtualCluster).toMatchObject({
      spec: { weight: 7, version: '1.36' },
      status: { phase: 'Ready' },
    });
  });

  it('create --wait that takes too long says how far it is, and the tenant goes on', () => {
    expect(late.exitCode).toBe(exitCodes.timedOut);
    expect(late.stderr).toContain('vc-manager describe cli-blue');
  });

  it.each([
    [['create', 'cli-blue'], exitCodes.conflict, /exists already/],
    [['create', 'x', '-n', 'nowhere'], exitCodes.notFound, /nowhere/],
  ])('%j ends with %i and says why', async (args, wanted, message) => {
    const { exitCode, stderr, stdout } = await run(...args);
    expect(stderr).toMatch(message);
    expect({ exitCode, stdout }).toEqual({ exitCode: wanted, stdout: '' });
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  it('list: a table, and a Kubernetes List as JSON', async () => {
    const table = await run('list');
    expect(table.stdout).toMatch(/^NAME.* PHASE .*AGE/m);
    expect(table.stdout).toMatch(/cli-blue +Ready +1\.36\.\d+/);
    const list = JSON.parse((await run('list', '-o', 'json')).stdout) as {
      items: { metadata: { name: string } }[];
    };
    expect(list).toMatchObject({ apiVersion: 'v1', kind: 'List' });
    const found = list.items.find(({ metadata }) => metadata.name === 'cli-blue');
    expect(found).toMatchObject({
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'VirtualCluster',
      metadata: { namespace: 'default', uid: tenant.uid },
      status: { phase: 'Ready', id: tenant.id },
    });
  });

  it('describe shows state, conditions and what to do', async () => {
    // A tenant can be used before the syncer says that it serves it.
    await world.superCluster.until<boolean, VirtualCluster>(
      { resource: resources.virtualClusters, ...tenant.ref, what: 'the tenant to be synced' },
      ([vc]) => findCondition(vc?.status?.conditions, 'Synced')?.status === 'True',
    );
    const { stdout, exitCode } = await run('describe', 'cli-blue');
    expect(exitCode).toBe(exitCodes.ok);
    expect(stdout).toMatch(/Phase: +Ready/);
    expect(stdout).toContain(tenant.virtualCluster.status?.endpoint);
    expect(stdout).toContain(tenant.virtualCluster.status?.gateway?.server);
    for (const condition of ['APIServerReady', 'DatastoreReady', 'Synced']) {
      expect(stdout).toMatch(new RegExp(`${condition} +True`));
    }
    expect(stdout).toContain('vc-manager kubeconfig cli-blue');
  });

  it('a protected tenant cannot be deleted, not by kubectl either, and a dry run deletes nothing', async () => {
    const { client } = world.superCluster;
    const protect = (deletionProtection: boolean) =>
      client.patch(
        resources.virtualClusters,
        tenant.ref,
        { spec: { deletionProtection } },
        { type: 'merge' },
      );
    const dryRun = await run('delete', 'cli-blue', '--dry-run');
    expect(dryRun.exitCode, dryRun.stderr).toBe(exitCodes.ok);
    expect(dryRun.stdout).toContain('"cli-blue" would be deleted (dry run)');
    await protect(true);
    const refused = await run('delete', 'cli-blue', '--yes');
    expect(refused.exitCode).toBe(exitCodes.conflict);
    expect(refused.stderr).toContain('"deletionProtection":false');
    await expect(client.delete(resources.virtualClusters, tenant.ref)).rejects.toThrow(/deletionProtection/);
    await protect(false);
    const { metadata } = await world.virtualCluster('cli-blue');
    expect(metadata.uid).toBe(tenant.uid);
    expect(metadata.deletionTimestamp).toBeUndefined();
  });

  it('kubeconfig prints a kubeconfig that works, and nothing else', async () => {
    const { stdout, stderr, exitCode } = await run('kubeconfig', 'cli-blue');
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: exitCodes.ok });
    expect(parse(stdout)).toMatchObject({ apiVersion: 'v1', kind: 'Config' });
    const file = world.file('printed.kubeconfig');
    await writeFile(file, stdout);
    const who = await tenant.tryKubectl([
      '--kubeconfig',
      file,
      'get',
      'namespace',
      'kube-system',
      '-o',
      'name',
    ]);
    expect(who.stdout).toBe('namespace/kube-system');
    const personal = await run('kubeconfig', 'cli-blue', '--personal');
    expect({ stderr: personal.stderr, exitCode: personal.exitCode }).toEqual({
      stderr: '',
      exitCode: exitCodes.ok,
    });
    await writeFile(file, personal.stdout);
    const asked = ['auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}'];
    const operator = (await world.superCluster.kubectl(...asked)).trim();
    const inTenant = await tenant.tryKubectl(['--kubeconfig', file, ...asked]);
    expect(inTenant.stdout).toBe(`skerry:operator:${operator}`);
    expect((await run('describe', 'cli-blue')).stdout).toContain(`${operator} has a kubeconfig`);
    const superCluster = await run('kubeconfig', '--super-cluster');
    expect(superCluster.stderr).toBe('');
    expect(superCluster.stdout).toBe(
      (await readFile(join(world.stateDir, 'super-cluster', 'admin.kubeconfig'), 'utf8')).trimEnd(),
    );
  });

  it('connect makes a tenant the current context, disconnect goes back; a command can be run with one', async () => {
    const file = world.file('connected.kubeconfig');
    await writeFile(file, world.superCluster.kubeconfig);
    const env = { KUBECONFIG: file };
    const current = async (): Promise<string | undefined> =>
      parseKubeconfig(await readFile(file, 'utf8'))['current-context'];
    const before = await current();
    expect((await world.cli(['connect', 'cli-blue'], { env })).exitCode).toBe(0);
    expect(await current()).toBe('default/cli-blue');
    expect((await world.cli(['disconnect'], { env })).exitCode).toBe(0);
    expect(await current()).toBe(before);
    expect(await readFile(file, 'utf8')).not.toContain('cli-blue');
    const again = await world.cli(['disconnect'], { env });
    expect([again.exitCode, again.stderr]).toEqual([3, expect.stringContaining('nothing to disconnect')]);

    const shown = await world.cli([
      'connect',
      'cli-blue',
      '--',
      'sh',
      '-c',
      'grep current-context "$KUBECONFIG"; exit 9',
    ]);
    expect([shown.exitCode, shown.stdout.trim()]).toEqual([9, 'current-context: default/cli-blue']);
    const missing = await world.cli(['connect', 'cli-blue', '--', 'no-such-command']);
    expect([missing.exitCode, missing.stderr]).toEqual([
      3,
      expect.stringContaining('"no-such-command" cannot be run'),
    ]);
  });

  it('kubectl runs in a tenant, with its exit code', async () => {
    const listed = await world.cli([
      'kubectl',
      'cli-blue',
      '--',
      'get',
      'namespace',
      'kube-system',
      '-o',
      'name',
    ]);
    expect([listed.exitCode, listed.stdout.trim()]).toEqual([0, 'namespace/kube-system']);
    const missing = await world.cli(['kubectl', 'cli-blue', '--', 'get', 'pod', 'nobody']);
    expect([missing.exitCode, missing.stderr]).toEqual([1, expect.stringContaining('not found')]);
  });

  it('logs prints the log of a component, or of all of them with their names', async () => {
    const one = await run('logs', 'cli-blue', 'kube-apiserver', '--tail', '5');
    expect(one.stdout.split('\n')).toHaveLength(5);
    const all = await run('logs', 'cli-blue', '--tail', '1');
    expect(all.stdout).toMatch(/^kube-apiserver +\| /m);
    expect(all.stdout).toMatch(/^kube-controller-manager +\| /m);
    expect((await run('logs', '--stack', 'vc-syncer', '--tail', '1')).stdout).not.toBe('');
  });

  for (const [shell, flag] of [
    ['bash', '-n'],
    ['zsh', '-n'],
    ['fish', '--no-execute'],
  ] as const) {
    // .ci/run installs all three.
    const isMissing = !process.env['CI'] && !isInstalled(shell);
    const because = isMissing ? ` (skipped: ${shell} is not installed)` : '';
    it.skipIf(isMissing)(`completion ${shell} is a script that the shell can read${because}`, async () => {
      const { stdout, exitCode } = await run('completion', shell);
      expect(exitCode).toBe(exitCodes.ok);
      expect(stdout).toContain('vc-manager');
      const file = world.file(`completion.${shell}`);
      await writeFile(file, stdout);
      execFileSync(shell, [flag, file]);
    });
  }

  it('events shows what is refused in a tenant, and why', async () => {
    const ports = [{ containerPort: 80, hostPort: 80 }];
    await tenant.apply(
      namespace('refusals'),
      pod('refusals', 'host', { containers: [container({ ports })] }),
    );
    await tenant.until<true, KubeObject>(
      { resource: resources.events, namespace: 'refusals', what: 'the refusal as an event' },
      (events) => events.length > 0 || undefined,
    );
    const { stdout, exitCode } = await run('events', 'cli-blue');
    expect(exitCode).toBe(exitCodes.ok);
    expect(stdout).toMatch(/Warning +\S+ +Pod refusals\/host +1 +.*host/);
    const listed = JSON.parse((await run('events', 'cli-blue', '-o', 'json')).stdout) as unknown[];
    expect(listed).toContainEqual(expect.objectContaining({ object: 'Pod refusals/host', type: 'Warning' }));
  });

  it('version says what runs, as does the plugin of kubectl', async () => {
    const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
      version: string;
    };
    expect((await run('version')).stdout).toBe(version);
    const { stdout } = await run('version', '--all', '-o', 'json');
    expect(JSON.parse(stdout)).toMatchObject({
      skerry: version,
      superCluster: tenant.virtualCluster.status?.version,
      running: expect.arrayContaining([
        expect.objectContaining({ program: 'vc-manager' }),
        expect.objectContaining({ program: 'vc-syncer' }),
      ]),
      tenants: expect.arrayContaining([
        expect.objectContaining({ name: 'cli-blue', wanted: '1.36', driver: 'process' }),
      ]),
    });
    expect((await run('version', '--all')).stdout).toMatch(/^default +cli-blue +1\.36/m);
    // As npm links it when the package is installed.
    const bin = world.file('bin');
    await mkdir(bin);
    await symlink(join(packageRoot, 'bin', 'kubectl-vc.js'), join(bin, 'kubectl-vc'));
    const PATH = `${bin}:${process.env['PATH']}`;
    const env = { ...process.env, PATH };
    expect(execFileSync(tenant.kubectlPath, ['vc', 'version'], { env }).toString().trim()).toBe(version);
  });

  it('completes commands, options and tenants', async () => {
    const file = world.file('complete.bash');
    await writeFile(file, (await run('completion', 'bash')).stdout);
    expect((await run('__complete', '--', 'descr')).stdout).toContain('describe');
    // A server that does not answer at once is left alone: one presses the key again.
    const tenants = async (): Promise<string> => (await run('__complete', '--', 'describe', 'cli-')).stdout;
    await expect.poll(tenants).toContain('cli-blue');
  });

  it('up beside a stack that runs already is refused', async () => {
    const { exitCode, stderr } = await run('up', '--detach', '--state-dir', world.stateDir);
    expect(exitCode).toBe(exitCodes.conflict);
    expect(stderr).toMatch(/already looks after the stack/);
  });

  it('a directory that holds other things is not taken, and not purged', async () => {
    const directory = world.file('.');
    const up = await run('up', '--detach', '--state-dir', directory);
    expect(up.exitCode).not.toBe(exitCodes.ok);
    expect(up.stderr).toContain('was not made by Skerry');
    await run('down', '--purge', '--state-dir', directory);
    expect(await readFile(world.file('super-cluster.kubeconfig'), 'utf8')).not.toBe('');
  });

  it('gc finds nothing where all is in order, and what has lost its VirtualCluster', async () => {
    const { stdout, exitCode } = await run('gc');
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: exitCodes.ok });
    const orphan = {
      metadata: {
        name: 'cli-orphan',
        labels: { 'skerry.dev/tenant': 'nobody', 'skerry.dev/namespace': 'x' },
      },
    };
    await world.superCluster.client.create(resources.namespaces, orphan);
    const found = await run('gc');
    expect(found.stdout).toContain('cli-orphan');
    expect(await world.superCluster.find(resources.namespaces, { name: 'cli-orphan' })).toBeDefined();
    const removed = await run('gc', '--yes');
    expect(removed.exitCode).toBe(exitCodes.ok);
    await world.superCluster.untilGone(resources.namespaces, { name: 'cli-orphan' });
  });

  it('top and usage tell what it uses, and has used', async () => {
    // One that has been there for a while, unless this suite runs alone.
    const { name } = await world.sharedTenant('cli');
    const top = JSON.parse((await run('top', 'cli-blue', '-o', 'json')).stdout) as object[];
    expect(top).toMatchObject([{ tenant: 'default/cli-blue', pods: expect.any(Number) }]);
    const used = await poll('the first row, which the manager writes after a minute', async () => {
      const { stdout } = await run('usage', name, '-o', 'json');
      const [row] = JSON.parse(stdout) as { hours: number; podHours: number; apiCalls: number }[];
      return row;
    });
    expect(used.hours).toBeGreaterThan(0);
    const withMonth = await poll('its pod hours of this month', async () => {
      const { stdout } = await run('top', name, '-o', 'json');
      const [row] = JSON.parse(stdout) as { podHours?: number; apiCalls?: number }[];
      return row?.apiCalls === undefined ? undefined : row;
    });
    expect(withMonth).toMatchObject({ podHours: expect.any(Number), apiCalls: expect.any(Number) });
    expect((await run('usage', '-o', 'csv')).stdout).toMatch(new RegExp(`^default/${name},`, 'm'));
  });

  it('doctor and binaries tell that this machine has what it needs', async () => {
    const doctor = await run('doctor', '-o', 'json');
    expect(doctor.exitCode, doctor.stdout).toBe(exitCodes.ok);
    const binaries = JSON.parse((await run('binaries', '-o', 'json')).stdout) as {
      name: string;
      path?: string;
    }[];
    expect(binaries.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['kube-apiserver', 'etcd', 'kubectl']),
    );
    for (const { path } of binaries) expect(path).toBeDefined();
  });

  it('delete --wait comes back when nothing is left of it', async () => {
    expect((await run('delete', 'cli-blue', '--wait', '--yes')).exitCode).toBe(exitCodes.ok);
    expect((await run('describe', 'cli-blue')).exitCode).toBe(exitCodes.notFound);
  });
});

function isInstalled(shell: string): boolean {
  try {
    execFileSync(shell, ['-c', 'true']);
    return true;
  } catch {
    return false;
  }
}
