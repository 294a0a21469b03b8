import { Argument, type Command } from 'commander';
import { completionScript, type Shell, shells } from '../completion/scripts.ts';
import type { Cli } from '../context.ts';

const help = `
Completes commands, options and the names of tenants.

Examples:
  source <(vc-manager completion bash)           now; put it into ~/.bashrc for always
  vc-manager completion zsh > "\${fpath[1]}/_vc-manager"
  vc-manager completion fish > ~/.config/fish/completions/vc-manager.fish`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(new Argument('<shell>').choices(shells))
    .addHelpText('after', help)
    .action((shell: Shell) => {
      cli.stdout.write(completionScript(shell));
    });
}
