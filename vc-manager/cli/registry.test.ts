import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../kube/index.ts';
import type { Cli } from './context.ts';
import { buildProgram } from './program.ts';
import { findCommand, registry } from './registry.ts';
import { Captured } from './testing/captured.ts';

const root = join(import.meta.dirname, '..', '..');

/** Command lines that messages and help tell people to type, with a word in the place of what is filled in. */
async function commandLines(): Promise<string[]> {
  const found = new Set<string>();
  for (const folder of ['api', 'dashboard', 'kube', 'syncer', 'vc-manager']) {
    for (const path of await readdir(join(root, folder), { recursive: true })) {
      if (!path.endsWith('.ts') || path.endsWith('.test.ts')) continue;
      const text = await readFile(join(root, folder, path), 'utf8');
      for (const [, line = ''] of text.matchAll(/"vc-manager ([a-z][^"\n]*)"/g))
        found.add(line.replaceAll(/\$\{namespaceFlag\([^}]*\}/g, '').replaceAll(/\$\{[^}]*\}/g, 'word'));
    }
  }
  return [...found].sort();
}

function cliTo(output: Captured): Cli {
  return {
    ...{ env: {}, stdout: output, stderr: output, clock: systemClock, signal: new AbortController().signal },
    onSignal: () => undefined,
    outlivesReader: () => undefined,
    setExitCode: () => undefined,
  };
}

/** Why the command does not understand these words; undefined: it does, or lacks an argument that is left out. */
async function problemOf(line: string): Promise<string | undefined> {
  const words = line.split(' ');
  if (findCommand(words[0] ?? '') === undefined) return 'unknown command';
  const program = await buildProgram(words, cliTo(new Captured()));
  const command = program.commands.find((each) => each.name() === findCommand(words[0] ?? '')?.name);
  command?.action(() => undefined);
  try {
    await program.parseAsync(words, { from: 'user' });
    return undefined;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    const isShort = ['commander.missingArgument', 'commander.missingMandatoryOptionValue'];
    // "create NAME --from" stands for the option itself.
    if (isShort.includes(error.code) || error.code === 'commander.optionMissingArgument') return undefined;
    return error.message;
  }
}

describe('commands', () => {
  it('each has a name and an alias that no other has', () => {
    const names = registry.flatMap(({ name, alias }) => [name, ...(alias === undefined ? [] : [alias])]);
    expect(new Set(names).size).toBe(names.length);
    for (const { name, alias } of registry) {
      expect(findCommand(name)?.name).toBe(name);
      if (alias !== undefined) expect(findCommand(alias)?.name).toBe(name);
    }
    expect(findCommand('nosuch')).toBeUndefined();
  });

  it('each explain their arguments', async () => {
    const output = new Captured();
    for (const { name } of registry.filter(({ hidden }) => hidden !== true)) {
      const command = (await buildProgram([name], cliTo(output))).commands.find(
        (each) => each.name() === name,
      );
      for (const argument of command?.registeredArguments ?? [])
        expect([name, argument.name(), argument.description]).not.toContain('');
    }
  });

  it('understand every command line that a message or a help text tells people to type', async () => {
    const lines = await commandLines();
    expect(lines).toContain('jobs retry');
    const problems: Record<string, string> = {};
    for (const line of lines) {
      const problem = await problemOf(line);
      if (problem !== undefined) problems[line] = problem;
    }
    expect(problems).toEqual({});
  });
});
