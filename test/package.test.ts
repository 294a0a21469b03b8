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

  const npx = async (...args: string[]): Promise<string> => {
    const command = ['--yes', '--package', `file:${tarball}`, 'vc-manager', ...args];
    const { exitCode, stdout, stderr } = await execa('npx', command, { cwd: directory, reject: false });
    expect(exitCode, `${args.join(' ')}: ${stderr}`).toBe(0);
    return stdout;
  };

  it('runs by npx in an empty directory, with what it depends on and nothing else', async () => {
    const { stateDir } = inject('stack');
    expect(await npx('version')).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+$/);
    const list = JSON.parse(await npx('list', '-o', 'json', '--state-dir', stateDir)) as { kind: string };
    expect(list.kind).toBe('List');
  });

  itBroadly('starts a stack with a tenant by npx, and takes all of it away again', async () => {
    const state = ['--state-dir', join(directory, 'state')];
    try {
      await npx('up', '--detach', '--tenants', '1', ...state);
      expect(await npx('list', ...state)).toMatch(/^default +tenant-1 +Ready/m);
    } finally {
      await npx('down', '--purge', ...state);
    }
  });
});
