import { type Command, Option } from 'commander';
import type { Cli, GlobalFlags } from '../context.ts';
import type { Finding } from '../doctor/check.ts';
import { runChecks } from '../doctor/run-checks.ts';
import { exitCodes } from '../exit-codes.ts';
import { json, yaml } from '../output/format.ts';
import { styler } from '../output/style.ts';
import { table } from '../output/table.ts';
import { stateChoice } from '../state/state-directory.ts';

interface Flags extends GlobalFlags {
  output: 'table' | 'json' | 'yaml';
}

const help = `
Changes nothing. The exit code is 1 when something is missing without which "vc-manager up" fails; warnings are none.`;

export function configure(command: Command, cli: Cli): void {
  command
    .addOption(
      new Option('-o, --output <format>', 'how to print it')
        .choices(['table', 'json', 'yaml'])
        .default('table'),
    )
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => doctor(cli, chosen.optsWithGlobals<Flags>()));
}

async function doctor(cli: Cli, flags: Flags): Promise<void> {
  const findings = await runChecks(cli, stateChoice(cli.env, flags).directory);
  cli.stdout.write(render(findings, flags.output, cli));
  if (findings.some(({ state }) => state === 'missing')) cli.setExitCode(exitCodes.failure);
}

function render(findings: readonly Finding[], output: Flags['output'], { stdout }: Cli): string {
  if (output === 'json') return json(findings);
  if (output === 'yaml') return yaml(findings);
  const style = styler(stdout);
  const marks = { ok: style('green', 'ok'), warn: style('yellow', 'warn'), missing: style('red', 'MISSING') };
  const rows = findings.flatMap(({ name, state, detail, remedy }) => [
    [marks[state], name, detail],
    ...(remedy === undefined ? [] : [['', '', `-> ${remedy}`]]),
  ]);
  return table(undefined, rows);
}
