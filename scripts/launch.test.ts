import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, it } from 'vitest';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skerry-launch-'));
  await mkdir(join(directory, 'bin'));
  await cp(join(import.meta.dirname, '..', 'bin', 'launch.js'), join(directory, 'bin', 'launch.js'));
  await writeFile(join(directory, 'package.json'), '{"type":"module"}');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** What a Node of that version says; it ends with the `expected` code. */
async function launched(version = '20.1.0', expected = 1): Promise<string> {
  const url = pathToFileURL(join(directory, 'bin', 'launch.js')).href;
  const script = `
    Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });
    const { launch } = await import(${JSON.stringify(url)});
    launch('vc-manager/main');`;
  const { exitCode, stderr } = await execa(process.execPath, ['--input-type=module', '-e', script], {
    reject: false,
  });
  expect(exitCode).toBe(expected);
  return stderr;
}

it('names npm ci to a Node that is too old where that helps: in a checkout', async () => {
  await writeFile(join(directory, 'package-lock.json'), '{}');
  expect(await launched()).toBe(
    `Skerry needs Node 22.18 or newer, and this is 20.1.0: install a current Node, or run "npm ci" in ${directory}, which brings one along.`,
  );
});

it('names the Node that is needed where a package has no lockfile', async () => {
  expect(await launched()).toBe(
    'Skerry needs Node 22.18 or newer, and this is 20.1.0: install a current Node.',
  );
});

it('names npm ci where a package is missing in a checkout, and shows any other error as it is', async () => {
  await mkdir(join(directory, 'vc-manager'));
  await writeFile(join(directory, 'vc-manager', 'main.ts'), "import 'a-package-that-is-missing';");
  const current = process.versions.node;
  expect(await launched(current)).toContain('ERR_MODULE_NOT_FOUND');
  await writeFile(join(directory, 'package-lock.json'), '{}');
  expect(await launched(current)).toBe(
    `A package that Skerry needs is not installed: run "npm ci" in ${directory} first.`,
  );
  await writeFile(join(directory, 'vc-manager', 'main.ts'), "import './missing.ts';");
  expect(await launched(current)).toContain('ERR_MODULE_NOT_FOUND');
});

it.each([
  ['INT', 130],
  ['TERM', 143],
  ['KILL', 137],
])('ends as the shell says of a pinned Node that SIG%s has ended', async (signal, exitCode) => {
  const bin = join(directory, 'node_modules', 'node', 'bin');
  await mkdir(bin, { recursive: true });
  await writeFile(join(bin, 'node'), `#!/bin/sh\nkill -${signal} $$\n`, { mode: 0o755 });
  await launched('20.1.0', exitCode);
});
