import { chmod, copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { itBroadly } from '../kube/testing/broad.ts';
import { codeBlocks, scriptOf, scriptRunBy } from '../scripts/docs-commands.ts';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../vc-manager/binaries/index.ts';
import { freePort } from '../vc-manager/os/network.ts';
import { provideEtcdTool } from './harness/etcdctl.ts';
import { World } from './harness/world.ts';

const root = join(import.meta.dirname, '..');

/** One after the other, about the tenant team-blue; the last one takes its admins' rights away. */
const operators = ['docs/cli.md', 'docs/usage.md', 'docs/warm-pool.md', 'docs/jobs.md', 'docs/operating.md'];

/** Commands of which each starts a control plane anew, and has a suite. */
const restarts = ['docs/snapshots.md', 'docs/sleep.md', 'docs/certificates.md'];

/** Blocks of the documentation that follow `<!-- run -->`, one after the other, as a reader would paste them. */
describe('the documentation', () => {
  const stack = inject('stack');
  let world: World;
  let programs: string;
  let superKubeconfig: string;

  beforeAll(async () => {
    world = new World(stack);
    programs = world.file('bin');
    superKubeconfig = world.file('super-cluster.kubeconfig');
    await copyFile(join(world.stateDir, 'super-cluster', 'admin.kubeconfig'), superKubeconfig);
    await mkdir(programs);
    const program = async (name: string, command: string): Promise<void> => {
      const file = join(programs, name);
      await writeFile(file, `#!/bin/sh\n${command}\n`);
      await chmod(file, 0o755);
    };
    const manager = `exec '${process.execPath}' '${join(root, 'bin', 'vc-manager.js')}'`;
    await program('vc-manager', `${manager} "$@"`);
    await program('npx', `shift; ${manager} "$@"`);
    await program('kubectl', `exec '${stack.kubectl}' "$@"`);
  });

  afterAll(() => world?.close());

  /** As a reader would paste it. KUBECONFIG: kubectl without another one is the super cluster's. */
  async function run(what: string, script: string): Promise<void> {
    const { exitCode, all } = await execa('bash', ['-Eeuc', script], {
      cwd: world.file('.'),
      env: {
        PATH: [programs, process.env['PATH']].join(delimiter),
        HOME: world.file('.'),
        KUBECONFIG: superKubeconfig,
        SKERRY_STATE: world.stateDir,
      },
      extendEnv: false,
      all: true,
      reject: false,
    });
    expect(exitCode, `${what}\n${all}`).toBe(0);
  }

  const runPage = async (page: string) =>
    run(page, scriptOf(codeBlocks(await readFile(join(root, page), 'utf8'))));

  it.concurrent('docs/tenants.md says what works', () => runPage('docs/tenants.md'));

  it.concurrent('docs/quickstart.md, and the pages for those who run it, say what works', async () => {
    const quickstart = codeBlocks(await readFile(join(root, 'docs/quickstart.md'), 'utf8'));
    const end = quickstart.filter(({ isRun, text }) => isRun && text.includes('vc-manager delete'));
    expect(end).toHaveLength(1);
    await run('docs/quickstart.md', scriptOf(quickstart.filter((block) => !end.includes(block))));
    // About the tenant that the reader has made, before it is deleted.
    for (const page of operators) await runPage(page);
    await run('docs/quickstart.md', scriptOf(end));
  });

  itBroadly('docs/snapshots.md, docs/sleep.md and docs/certificates.md say what works', async () => {
    await run('a tenant for them', 'vc-manager create team-blue --wait');
    for (const page of restarts) await runPage(page);
    await run('its end', 'vc-manager delete team-blue --yes --wait');
  });

  it('docs/operating.md backs the datastore up, and says how it is put back', async () => {
    const page = await readFile(join(root, 'docs/operating.md'), 'utf8');
    const [backup, restored] = [world.file('datastore.db'), world.file('restored')];
    await mkdir(join(world.file('.'), '.local', 'state'), { recursive: true });
    await symlink(world.stateDir, join(world.file('.'), '.local', 'state', 'skerry'));
    for (const name of ['etcdctl', 'etcdutl'] as const)
      await symlink(await provideEtcdTool(name), join(programs, name));
    const datastore = join(world.stateDir, 'datastore');
    const ports = JSON.parse(await readFile(join(datastore, 'ports.json'), 'utf8')) as Record<string, number>;
    const words = { PORT: String(ports['datastore-client']), FILE: backup };
    await run('the backup', scriptRunBy(page, 'test/docs.test.ts', 'cd ~/.local/state/skerry', words));
    const put = { FILE: backup, DIRECTORY: restored };
    await run('the restore', scriptRunBy(page, 'test/docs.test.ts', 'etcdutl', put));

    const taken: number[] = [];
    for (let count = 0; count < 2; count++)
      taken.push(await freePort({ host: '127.0.0.1', range: [20_000, 20_999], taken }));
    const [client, peer] = taken.map((port) => `http://127.0.0.1:${port}`) as [string, string];
    const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
    const { signal } = new AbortController();
    const { path } = await binaries.ensure({ name: 'etcd', version: defaultVersions.etcd }, { signal });
    const etcd = execa(
      path,
      [
        ...[`--data-dir=${restored}`, `--listen-client-urls=${client}`, `--advertise-client-urls=${client}`],
        ...[`--listen-peer-urls=${peer}`, '--log-level=error'],
      ],
      { reject: false },
    );
    try {
      const password = await readFile(join(datastore, 'pki', 'etcd-root.password'), 'utf8');
      const asked = ['--endpoints', client, '--user', `root:${password.trim()}`, '--command-timeout=60s'];
      const keys = ['get', '/', '--prefix', '--keys-only', '--limit', '1'];
      const { stdout } = await execa(join(programs, 'etcdctl'), [...asked, ...keys]);
      expect(stdout.trim()).not.toBe('');
    } finally {
      etcd.kill('SIGTERM');
      await etcd;
    }
  });

  it('leaves out no page', async () => {
    const { stdout } = await execa(
      'git',
      ['grep', '-l', '--untracked', '-E', '^<!-- run( with .*)? -->$', '--', '*.md'],
      {
        cwd: root,
      },
    );
    const pages = ['docs/tenants.md', 'docs/quickstart.md', ...operators, ...restarts];
    expect(stdout.split('\n').toSorted()).toEqual(pages.toSorted());
  });
});
