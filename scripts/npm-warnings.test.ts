import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');

/** What npm says of an install on a Node that no package supports. */
async function install(settings: boolean): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'skerry-npm-'));
  try {
    for (const name of ['package.json', 'package-lock.json']) {
      const text = await readFile(join(root, name), 'utf8');
      await writeFile(join(directory, name), text.replaceAll('">=22.18"', '">=999"'));
    }
    if (settings) await cp(join(root, '.npmrc'), join(directory, '.npmrc'));
    // Whoever runs the tests by npm has these settings in the environment.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
    const args = ['ci', '--dry-run', '--offline'];
    const { all } = await execa('npm', args, {
      cwd: directory,
      env,
      extendEnv: false,
      all: true,
      reject: false,
    });
    return all;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

it('npm ci says nothing of engines, whatever Node it runs on', async () => {
  expect(await install(false)).toContain('EBADENGINE');
  expect(await install(true)).not.toMatch(/npm warn|EBADENGINE/i);
});

it('the image is built with the settings that keep npm silent', async () => {
  const dockerfile = await readFile(join(root, 'deploy', 'Dockerfile'), 'utf8');
  const before = dockerfile.slice(0, dockerfile.indexOf('RUN npm ci'));
  expect(before).toMatch(/^COPY .*\.npmrc/m);
  expect((await readFile(join(root, '.dockerignore'), 'utf8')).split('\n')).toContain('!.npmrc');
});
