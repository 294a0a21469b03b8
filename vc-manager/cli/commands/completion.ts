import { Argument, type Command } from 'commander';
import type { Cli } from '../context.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

/** A script for the shell, which runs `vc-manager __complete` for every completion. */
export function completionScript(shell: Shell): string {
  return scripts[shell];
}

// Each passes the words after the command, the last one being the word that is typed. Candidates come as
// `word<TAB>explanation`; without any, the shell completes file names.
const scripts: Record<Shell, string> = {
  bash: `# vc-manager completion for bash
_vc_manager() {
  local cur=\${COMP_WORDS[COMP_CWORD]} word
  COMPREPLY=()
  while IFS=$'\\t' read -r word _; do
    [[ -n $word ]] && COMPREPLY+=("$word")
  done < <("\${COMP_WORDS[0]}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ \${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _vc_manager vc-manager
`,
  zsh: `#compdef vc-manager
# vc-manager completion for zsh
_vc_manager() {
  local -a answers
  local word about
  while IFS=$'\\t' read -r word about; do
    [[ -n $word ]] && answers+=("\${word//:/\\\\:}\${about:+:$about}")
  done < <("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#answers} )); then
    _describe -V 'vc-manager' answers
  else
    _files
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _vc_manager "$@"
else
  compdef _vc_manager vc-manager
fi
`,
  fish: `# vc-manager completion for fish
function __vc_manager_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete -- $words[2..-1] 2>/dev/null
end
function __vc_manager_has_answers
    test -n "$(__vc_manager_complete)"
end
complete -c vc-manager -n __vc_manager_has_answers -f -a '(__vc_manager_complete)'
`,
};

const help = `
Completes commands, options and the names of tenants.

Examples:
  source <(vc-manager completion bash)           now; put it into ~/.bashrc for always
  vc-manager completion zsh > "\${fpath[1]}/_vc-manager"
  vc-manager completion fish > ~/.config/fish/completions/vc-manager.fish`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(new Argument('<shell>', 'that reads the script').choices(shells))
    .addHelpText('after', help)
    .action((shell: Shell) => {
      cli.stdout.write(completionScript(shell));
    });
}
