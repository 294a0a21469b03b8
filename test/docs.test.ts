import { mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { itInTestAll } from '../kube/testing/broad.ts';
import { freePort } from '../kube/testing/free-port.ts';
import { codeBlocks, scriptOf, scriptRunBy } from '../scripts/docs-commands.ts';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../vc-manager/binaries/index.ts';
import { provideEtcdTool } from './harness/etcdctl.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { World } from './harness/world.ts';

const root = join(import.meta.dirname, '..');

/** One after the other, about the tenant team-blue; the last one takes its admins' rights away. */
const operators = ['docs/cli.md', 'docs/usage.md', 'docs/warm-pool.md', 'docs/jobs.md', 'docs/operating.md'];

/** Commands of which each starts a control plane anew, and has a suite. */
const restarts = ['docs/snapshots.md', 'docs/sleep.md', 'docs/certificates.md'];

/** Blocks of the documentation that follow `<!-- run -->`, one after the other, as a reader would paste them. */
describe('the documentation', () => {
  let world: World;
  let reader: Reader;

  beforeAll(() => {
    world = new World(inject('stack'));
    reader = Reader.of(world);
  });

  afterAll(() => world?.close());

  const runPage = (page: string, by = reader) => by.run(page, scriptOf(codeBlocks(pageOf(page))));

  // Beside the next one, and with a kubeconfig that "connect" does not change meanwhile.
  it.concurrent('docs/tenants.md says what works', async () => {
    await runPage('docs/tenants.md', Reader.of(world, 'tenant'));
  });

  it.concurrent('docs/quickstart.md, and the pages for those who run it, say what works', async () => {
    const quickstart = codeBlocks(pageOf('docs/quickstart.md'));
    const end = quickstart.filter(({ isRun, text }) => isRun && text.includes('vc-manager delete'));
    expect(end).toHaveLength(1);
    await reader.run('docs/quickstart.md', scriptOf(quickstart.filter((block) => !end.includes(block))));
    // About the tenant that the reader has made, before it is deleted.
    for (const page of operators) await runPage(page);
    const { ports } = JSON.parse(await readFile(join(world.stateDir, 'skerry.json'), 'utf8')) as {
      ports: { gatewayMetrics: number };
    };
    const words = { NAME: 'team-blue', '10454': String(ports.gatewayMetrics) };
    const gateway = scriptRunBy(pageOf('docs/gateway.md'), 'test/docs.test.ts', 'kubectl get vc NAME', words);
    const { stdout } = await reader.run('docs/gateway.md', gateway);
    expect(stdout).toMatch(/"serverName":.*refused_total/s);
    await reader.run('docs/quickstart.md', scriptOf(end));
  });

  it('docs/cli.md has shells complete commands', async () => {
    const script = scriptRunBy(pageOf('docs/cli.md'), 'test/docs.test.ts', 'vc-manager completion zsh');
    // As zsh sets it, which counts from 1, and what fish has there.
    const shells = 'fpath=(bash-counts-from-0 ~); mkdir -p ~/.config/fish/completions';
    await reader.run('docs/cli.md', `${shells}\n${script}`);
    const written = (path: string): Promise<string> => readFile(join(reader.home, path), 'utf8');
    expect(await written('_vc-manager')).toMatch(/^#compdef vc-manager/);
    expect(await written('.config/fish/completions/vc-manager.fish')).toContain('complete -c vc-manager');
  });

  it('docs/dashboard.md binds a role to a group', async () => {
    const script = scriptRunBy(
      pageOf('docs/dashboard.md'),
      'test/docs.test.ts',
      'kubectl create clusterrolebinding skerry-viewers',
      { GROUP: 'x' },
    );
    const binding = ['clusterrolebinding', 'skerry-viewers'];
    // Of an earlier run, on a stack that outlived it.
    await world.superCluster.kubectl('delete', ...binding, '--ignore-not-found');
    await reader.run('docs/dashboard.md', script);
    const subject = await world.superCluster.kubectl('get', ...binding, '-o', 'jsonpath={.subjects[*].name}');
    expect(subject).toBe('oidc:x');
    await world.superCluster.kubectl('delete', ...binding);
  });

  itInTestAll('docs/snapshots.md, docs/sleep.md and docs/certificates.md say what works', async () => {
    await reader.run('a tenant for them', 'vc-manager create team-blue --wait');
    for (const page of restarts) await runPage(page);
    await reader.run('its end', 'vc-manager delete team-blue --yes --wait');
  });

  it('docs/operating.md backs the datastore up, and says how it is put back', async () => {
    const page = pageOf('docs/operating.md');
    const [backup, restored] = [world.file('datastore.db'), world.file('restored')];
    await mkdir(join(reader.home, '.local', 'state'), { recursive: true });
    await symlink(world.stateDir, join(reader.home, '.local', 'state', 'skerry'));
    for (const name of ['etcdctl', 'etcdutl'] as const)
      await symlink(await provideEtcdTool(name), join(reader.programs, name));
    const datastore = join(world.stateDir, 'datastore');
    const ports = JSON.parse(await readFile(join(datastore, 'ports.json'), 'utf8')) as Record<string, number>;
    const words = { PORT: String(ports['datastore-client']), FILE: backup };
    await reader.run('the backup', scriptRunBy(page, 'test/docs.test.ts', 'cd ~/.local/state/skerry', words));
    const put = { FILE: backup, DIRECTORY: restored };
    await reader.run('the restore', scriptRunBy(page, 'test/docs.test.ts', 'etcdutl', put));

    const [client, peer] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
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
      const asked = ['--endpoints', client, '--user', `root:${password.trim()}`, '--command-timeout=180s'];
      // There is a user for each tenant, but not always a tenant.
      const { stdout } = await execa(join(reader.programs, 'etcdctl'), [...asked, 'user', 'list']);
      expect(stdout.split('\n')).toContain('root');
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
