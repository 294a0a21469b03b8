import { mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { extract } from 'tar';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { itInTestAll } from '../kube/testing/broad.ts';

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

  it('runs where it is unpacked', async () => {
    await extract({ file: tarball, cwd: directory });
    // What it depends on, and no more of it, is in the image that test/docker starts.
    await symlink(join(root, 'node_modules'), join(directory, 'package', 'node_modules'));
    const run = async (...args: string[]): Promise<string> =>
      (await execa(process.execPath, [join(directory, 'package', 'bin', 'vc-manager.js'), ...args])).stdout;
    expect(await run('version')).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+$/);
    const list = await run('list', '-o', 'json', '--state-dir', inject('stack').stateDir);
    expect(JSON.parse(list)).toMatchObject({ kind: 'List' });
  });

  describe('by npx in an empty directory', () => {
    let empty: string;

    beforeAll(async () => {
      empty = await mkdtemp(join(tmpdir(), 'skerry-npx-'));
    });
    afterAll(() => rm(empty, { recursive: true, force: true }));

    const npx = async (...args: string[]): Promise<string> => {
      // A registry is asked only for what nobody on this machine has asked it for.
      const command = ['--yes', '--prefer-offline', '--package', `file:${tarball}`, 'vc-manager', ...args];
      const { exitCode, stdout, stderr } = await execa('npx', command, { cwd: empty, reject: false });
      expect(exitCode, `${args.join(' ')}: ${stderr}`).toBe(0);
      return stdout;
    };

    it('runs, and leaves the directory empty', async () => {
      expect(await npx('version')).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+$/);
      const list = await npx('list', '-o', 'json', '--state-dir', inject('stack').stateDir);
      expect(JSON.parse(list)).toMatchObject({ kind: 'List' });
      expect(await readdir(empty)).toEqual([]);
    });

    itInTestAll('starts a stack with a tenant, and all of it is gone again', async () => {
      const at = ['--state-dir', join(directory, 'state')];
      try {
        await npx('up', '--detach', '--tenants', '1', ...at);
        expect(await npx('list', ...at)).toMatch(/^default +tenant-1 +Ready/m);
      } finally {
        await npx('down', '--purge', ...at);
      }
      expect(await readdir(empty)).toEqual([]);
    });
  });
});
