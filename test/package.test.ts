import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { itBroadly } from './harness/broad.ts';

const root = join(import.meta.dirname, '..');

describe('the package, as npm packs it', () => {
  let directory: string;
  let tarball: string;
  let files: string[];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'skerry-package-'));
    const pack = ['pack', '--json', '--pack-destination', directory];
    const { stdout } = await execa('npm', pack, { cwd: root });
    // What the build prints comes first.
    const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [
      { filename: string; files: { path: string }[] },
    ];
    tarball = join(directory, packed.filename);
    files = packed.files.map(({ path }) => path);
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('holds all programs, templates and the chart, and no sources and tests', async () => {
    expect(files).toEqual(
      expect.arrayContaining([
        ...['bin/vc-manager.js', 'bin/kubectl-vc.js', 'dist/vc-manager/main.js', 'deploy/chart/Chart.yaml'],
        ...['tenant-apiserver-templates/v1.36.yaml', 'LICENSE', 'README.md'],
      ]),
    );
    const { stdout } = await execa('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
      cwd: root,
    });
    const wanted = stdout.split('\n').flatMap((path) => {
      if (/^(bin|tenant-apiserver-templates|deploy\/chart)\//.test(path)) return [path];
      const [, source] =
        /^((?:api|dashboard|gateway|kube|program|syncer|vc-manager)\/(?!.*(?:\.test\.|testing\/)).*)\.ts$/.exec(
          path,
        ) ?? [];
      return source === undefined ? [] : [`dist/${source}.js`];
    });
    expect(wanted.filter((path) => !files.includes(path))).toEqual([]);
    expect(files.filter((path) => /\.test\.|\/testing\/|^(test|scripts)\/|[^d]\.ts$/.test(path))).toEqual([]);
  });

  /** Gives what a command line printed that has the programs of the package. */
  const npx = async (commands: string): Promise<string> => {
    const { exitCode, stdout, stderr } = await execa(
      'npx',
      ['--yes', '--package', `file:${tarball}`, '--call', commands],
      {
        cwd: directory,
        reject: false,
        // What it depends on was fetched before, as a rule.
        env: { npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' },
      },
    );
    expect(exitCode, `${commands}: ${stderr}`).toBe(0);
    return stdout;
  };

  it('runs by npx in an empty directory, with what it depends on and nothing else', async () => {
    const { stateDir } = inject('stack');
    const list = `vc-manager list -o json --state-dir '${stateDir}'`;
    const [version, ...listed] = (await npx(`vc-manager version && ${list}`)).split('\n');
    expect(version).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+$/);
    expect(JSON.parse(listed.join('\n'))).toMatchObject({ kind: 'List' });
  });

  itBroadly('starts a stack with a tenant by npx, and takes all of it away again', async () => {
    const state = `--state-dir '${join(directory, 'state')}'`;
    try {
      await npx(`vc-manager up --detach --tenants 1 ${state}`);
      expect(await npx(`vc-manager list ${state}`)).toMatch(/^default +tenant-1 +Ready/m);
    } finally {
      await npx(`vc-manager down --purge ${state}`);
    }
  });
});
