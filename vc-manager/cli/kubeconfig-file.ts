import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { replaceFile } from '../os/files.ts';
import type { Cli } from './context.ts';
import { CliError } from './errors.ts';
import { messageOf } from '../../kube/index.ts';

/**
 * Changes the file that kubectl itself would write to, in one step: the first of $KUBECONFIG, or ~/.kube/config. Returns
 * its path. `change` gets the text, empty when there is no file; what it throws leaves the file as it is.
 */
export async function changeKubeconfigFile(
  env: Cli['env'],
  change: (existing: string) => string,
): Promise<string> {
  const named = (env['KUBECONFIG'] ?? '').split(delimiter).find((each) => each !== '');
  const file = named ?? join(env['HOME'] ?? homedir(), '.kube', 'config');
  try {
    const existing = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '';
      throw error;
    });
    await replaceFile(file, change(existing));
    return file;
  } catch (cause) {
    if (cause instanceof CliError) throw cause;
    throw new CliError('StateUnusable', `${file} could not be changed (${messageOf(cause)})`, { cause });
  }
}
