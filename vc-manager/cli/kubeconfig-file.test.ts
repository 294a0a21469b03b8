import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CliError } from './errors.ts';
import { changeKubeconfigFile } from './kubeconfig-file.ts';

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
