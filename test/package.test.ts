import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

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

  it('holds programs, templates and the chart, and no sources and tests', () => {
    expect(files).toEqual(
      expect.arrayContaining([
        ...['bin/vc-manager.js', 'bin/kubectl-vc.js', 'dist/vc-manager/main.js', 'deploy/chart/Chart.yaml'],
        ...['tenant-apiserver-templates/v1.36.yaml', 'LICENSE', 'README.md'],
      ]),
    );
    expect(files.filter((path) => /\.test\.|\/testing\/|^(test|scripts)\/|[^d]\.ts$/.test(path))).toEqual([]);
  });

  it('runs by npx in an empty directory: a stack with a tenant, and all of it gone again', async () => {
    const state = join(directory, 'state');
    const npx = async (...args: string[]): Promise<string> => {
      const command = ['--yes', '--package', `file:${tarball}`, 'vc-manager', ...args, '--state-dir', state];
      const { exitCode, stdout, stderr } = await execa('npx', command, { cwd: directory, reject: false });
      expect(exitCode, `${args.join(' ')}: ${stderr}`).toBe(0);
      return stdout;
    };
    try {
      await npx('up', '--detach', '--tenants', '1');
      expect(await npx('list')).toMatch(/^default +tenant-1 +Ready/m);
    } finally {
      await npx('down', '--purge');
    }
    expect(await npx('version')).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+$/);
  });
});
