import { lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';
import { changeKubeconfigFile, runWithKubeconfig } from './kubeconfig-file.ts';

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'skerry-kubeconfig-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

describe('the kubeconfig that is changed', () => {
  it('is the first that $KUBECONFIG names, else the one in the home directory, for its owner alone', async () => {
    const mine = join(home, 'deep', 'mine');
    const KUBECONFIG = `${delimiter}${mine}${delimiter}${join(home, 'other')}`;
    expect(await changeKubeconfigFile({ HOME: home, KUBECONFIG }, (before) => `${before}a`)).toBe(mine);
    expect(await changeKubeconfigFile({ HOME: home, KUBECONFIG }, (before) => `${before}b`)).toBe(mine);
    expect(await readFile(mine, 'utf8')).toBe('ab');
    expect((await stat(mine)).mode & 0o777).toBe(0o600);
    for (const env of [{ HOME: home }, { HOME: home, KUBECONFIG: '' }])
      expect(await changeKubeconfigFile(env, () => '')).toBe(join(home, '.kube', 'config'));
  });

  it('is where a link leads, which stays a link', async () => {
    const [link, file] = [join(home, 'link'), join(home, 'dotfiles')];
    await writeFile(file, 'a');
    await symlink(file, link);
    expect(await changeKubeconfigFile({ KUBECONFIG: link }, (before) => `${before}b`)).toBe(link);
    expect(await readFile(file, 'utf8')).toBe('ab');
    expect((await lstat(link)).isSymbolicLink()).toBe(true);
  });

  it('is made where a link leads to that nothing is at yet', async () => {
    const [link, second, file] = [join(home, 'link'), join(home, 'second'), join(home, 'dotfiles', 'config')];
    await symlink('second', link);
    await symlink(join('dotfiles', 'config'), second);
    expect(await changeKubeconfigFile({ KUBECONFIG: link }, (before) => `${before}b`)).toBe(link);
    expect(await readFile(file, 'utf8')).toBe('b');
    for (const each of [link, second]) expect((await lstat(each)).isSymbolicLink()).toBe(true);
  });

  it('stays as it is, with nothing beside it, when the change fails or cannot be written', async () => {
    const mine = join(home, 'mine');
    await writeFile(mine, 'before');
    const refusal = new CliError('NotFound', 'nothing to leave');
    const refuse = () => {
      throw refusal;
    };
    await expect(changeKubeconfigFile({ KUBECONFIG: mine }, refuse)).rejects.toBe(refusal);
    expect([await readFile(mine, 'utf8'), await readdir(home)]).toEqual(['before', ['mine']]);
    const directory = join(home, 'directory');
    await mkdir(directory);
    await expect(changeKubeconfigFile({ KUBECONFIG: directory }, () => '')).rejects.toMatchObject({
      code: 'StateUnusable',
      message: expect.stringContaining(directory),
    });
    expect((await readdir(home)).sort()).toEqual(['directory', 'mine']);
  });
});

describe('a command with a kubeconfig', () => {
  it.each([
    ['exit 3', 3],
    ['kill -TERM $$', 143],
    ['kill -INT $$', 130],
  ])('that does "%s" ends with %i, as in a shell', async (script, wanted) => {
    const codes: number[] = [];
    const cli = {
      env: process.env,
      stdout: new PassThrough(),
      stderr: new PassThrough(),
      onSignal: () => undefined,
      setExitCode: (code: number) => codes.push(code),
    } as unknown as Cli;
    await runWithKubeconfig(cli, '', ['sh', '-c', script]);
    expect(codes).toEqual([wanted]);
  });
});
