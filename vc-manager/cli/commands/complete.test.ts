import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import type { Cli } from '../context.ts';
import { buildProgram } from '../program.ts';
import { Captured, runCaptured } from '../testing/captured.ts';
import { complete } from './complete.ts';
import { completionScript, shells } from './completion.ts';

const cli = { stdout: new Captured(), stderr: new Captured() } as unknown as Cli;

async function words(...line: string[]): Promise<string[]> {
  const program = await buildProgram(['__complete', '--', ...line], cli);
  const tenants = async (_: object, namespace?: string) =>
    namespace === 'teams' ? ['blue'] : ['tenant-1', 'tenant-2'];
  return (await complete(program, line, tenants)).map(({ word }) => word);
}

describe('complete', () => {
  it('offers commands, and none that are hidden', async () => {
    expect(await words('')).toEqual(expect.arrayContaining(['up', 'down', 'create', 'list', 'help']));
    expect(await words('')).not.toContain('__complete');
    expect(await words('de')).toEqual(['describe', 'delete']);
  });

  it('offers the options of the command', async () => {
    expect(await words('up', '--det')).toEqual(['--detach']);
    expect(await words('up', '--unsafe')).toEqual([]);
    expect(await words('ls', '--all')).toEqual(['--all-namespaces']);
    expect(await words('create', '--kube')).toEqual(['--kubeconfig']);
  });

  it('offers what an option takes', async () => {
    expect(await words('list', '-o', '')).toEqual(['table', 'wide', 'json', 'yaml', 'name']);
    expect(await words('list', '-o', 'j')).toEqual(['json']);
  });

  it('offers tenants where a command takes one, of the namespace that was named', async () => {
    expect(await words('describe', '')).toEqual(['tenant-1', 'tenant-2']);
    expect(await words('describe', '-n', 'teams', '')).toEqual(['blue']);
    expect(await words('describe', 'tenant-1', '')).toEqual([]);
    expect(await words('create', '')).toEqual([]);
  });

  it('offers tenants, and what can be done with their jobs', async () => {
    expect(await words('jobs', '')).toEqual(['cancel', 'retry', 'tenant-1', 'tenant-2']);
    expect(await words('jobs', 'cancel', '')).toEqual(['tenant-1', 'tenant-2']);
    expect(await words('jobs', 'tenant-1', '')).toEqual([]);
    expect(await words('certificates', '')).toEqual(['renew', 'show']);
    expect(await words('certificates', 'show', '')).toEqual(['tenant-1', 'tenant-2']);
    expect(await words('certificates', 'renew', '')).toEqual(['tenant-1', 'tenant-2']);
  });

  it('offers tenants where an option takes one, whatever namespace a pod is in', async () => {
    expect(await words('trace', 'web', '-n', 'teams', '-t', '')).toEqual(['tenant-1', 'tenant-2']);
    expect(await words('trace', '')).toEqual([]);
  });

  it('offers each tenant once where several are taken', async () => {
    expect(await words('delete', 'tenant-1', '')).toEqual(['tenant-2']);
  });

  it('offers components after the tenant', async () => {
    expect(await words('logs', 'tenant-1', 'kube-a')).toEqual(['kube-apiserver']);
    expect(await words('logs', 'tenant-1', 'e')).toEqual(['etcd']);
  });

  it('leaves file names to the shell', async () => {
    expect(await words('list', '--kubeconfig', '')).toEqual([]);
  });
});

describe('completion', () => {
  it.each(shells)('prints a script for %s', async (shell) => {
    const { stdout, exitCode } = await runCaptured(['completion', shell]);
    expect(exitCode).toBe(0);
    expect(stdout).toBe(completionScript(shell));
    expect(stdout).toContain('__complete');
  });

  it('knows no other shell', async () => {
    expect(await runCaptured(['completion', 'cmd'])).toMatchObject({ exitCode: 2, stdout: '' });
  });

  it('is understood by bash, and hands on the words that were typed', () => {
    const script = `vc-manager() { printf '%s\\n' "tenant-1" "$*"; }
${completionScript('bash')}
COMP_WORDS=(vc-manager describe "") COMP_CWORD=2
_vc_manager
printf '%s|' "\${COMPREPLY[@]}"`;
    const { stdout, status } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
    expect({ stdout, status }).toEqual({ stdout: 'tenant-1|__complete -- describe |', status: 0 });
  });
});
