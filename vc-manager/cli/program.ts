import { Argument, Command, CommanderError, Option } from 'commander';
import { systemClock } from '../../kube/index.ts';
import { packageVersion } from '../../program/package-root.ts';
import { withCompletion } from './command-line.ts';
import type { Cli } from './context.ts';
import { CliError, describeFailure, exitCodes } from './errors.ts';
import { CommandWithHelp } from './help-text.ts';
import { styler } from './output.ts';
import { findBySynonym, findCommand, registry } from './registry.ts';

const epilogue = `
Examples:
  vc-manager up                                    a super cluster, the manager, the syncer and two tenants
  vc-manager create team-blue --wait               one tenant more
  vc-manager kubeconfig team-blue > blue.kubeconfig
  kubectl --kubeconfig blue.kubeconfig get pods -A
  vc-manager delete team-blue --wait
  vc-manager down                                  stop everything; "up" resumes

"vc-manager COMMAND --help" explains a command.`;

/** Commander's event for a word that is no command. */
const noCommand = 'command:*';

/** The whole command line. Only commands that `args` names are loaded; the others have a name and a summary. */
export async function buildProgram(args: readonly string[], cli: Cli): Promise<Command> {
  const program = new CommandWithHelp('vc-manager')
    .description(
      'Gives every tenant a real Kubernetes control plane of its own, all served by one super cluster.',
    )
    .usage('COMMAND [options]')
    // Otherwise `create --version` would print the version of the CLI.
    .enablePositionalOptions()
    .addHelpText('after', epilogue)
    .addHelpCommand(helpCommand());
  applyDefaults(program, cli);
  program.version(packageVersion(), '--version', 'print the version');
  addGlobalOptions(program);
  // Commander proposes what is spelled alike, which for "stop" is "top".
  program.on(noCommand, ([word = '']: string[]) => {
    const meant = findBySynonym(word);
    program.args = [word];
    if (meant === undefined) (program as Command & { unknownCommand(): never }).unknownCommand();
    else program.error(`error: unknown command '${word}'\n(Did you mean ${meant.name}: ${meant.summary}?)`);
  });
  const named = new Set(args.map(findCommand));
  for (const entry of registry) {
    const command = program
      .command(entry.name, { hidden: entry.hidden === true })
      .description(`${entry.summary.charAt(0).toUpperCase()}${entry.summary.slice(1)}.`)
      .summary(entry.summary)
      .helpGroup(entry.group);
    if (entry.alias !== undefined) command.alias(entry.alias);
    applyDefaults(command, cli);
    if (named.has(entry)) (await entry.load()).configure(command, cli);
    else command.allowUnknownOption().allowExcessArguments();
    addGlobalOptions(command);
  }
  return program;
}

/** Settings of the program and of each command. */
function applyDefaults(command: Command, cli: Cli): void {
  const style = styler(cli.stderr);
  command
    .exitOverride()
    .showHelpAfterError(`See "${command.parent === null ? '' : 'vc-manager '}${command.name()} --help".`)
    .configureHelp({
      sortOptions: false,
      helpWidth: Math.min(cli.stdout.columns ?? 100, 120),
      subcommandTerm: (each) => [each.name(), ...each.aliases()].join(', '),
    })
    .helpOption('-h, --help', 'explain this')
    .configureOutput({
      writeOut: (text) => cli.stdout.write(text),
      writeErr: (text) => cli.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error:/, style('red', 'error:'))),
    });
}

function helpCommand(): Command {
  return new Command('help')
    .addArgument(
      withCompletion(new Argument('[command]'), () =>
        registry.filter(({ hidden }) => !hidden).map(({ name, summary }) => ({ word: name, about: summary })),
      ),
    )
    .summary('explain a command')
    .helpOption(false)
    .helpGroup('This machine:');
}

function addGlobalOptions(command: Command): void {
  const options = [
    new Option(
      '--kubeconfig <file>',
      'kubeconfig of the super cluster (default: the local stack, else yours)',
    ),
    new Option('--context <name>', 'context of that kubeconfig'),
    new Option('--state-dir <directory>', 'where the local stack keeps its state (or set SKERRY_STATE)'),
    new Option('--verbose', 'show where an error comes from (or set DEBUG)'),
  ];
  for (const option of options) command.addOption(option.helpGroup('Options of all commands:'));
}

const signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** Runs one command line (without node and script) and resolves to its exit code. */
export async function runCli(
  args: readonly string[],
  { env, stdin, stdout, stderr }: Pick<Cli, 'env' | 'stdin' | 'stdout' | 'stderr'>,
): Promise<number> {
  const interruption = new AbortController();
  let listener = (signal: NodeJS.Signals): void =>
    interruption.abort(new CliError('Interrupted', `interrupted by ${signal}`));
  const handle = (signal: NodeJS.Signals): void => listener(signal);
  for (const signal of signals) process.on(signal, handle);
  let exitCode: number = exitCodes.ok;
  let outlivesReader = false;
  // A reader that has seen enough (`| head`) is no failure of ours.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (!outlivesReader) process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failure);
  });
  const cli: Cli = {
    env,
    ...(stdin === undefined ? {} : { stdin }),
    stdout,
    stderr,
    clock: systemClock,
    signal: interruption.signal,
    onSignal: (next) => {
      listener = next;
    },
    setExitCode: (code) => {
      exitCode = code;
    },
    outlivesReader: () => {
      outlivesReader = true;
    },
  };
  const program = await buildProgram(args, cli);
  try {
    const [first, word = 'help'] = args;
    // Commander prints only the overview.
    if (first === 'help' && word !== 'help' && !word.startsWith('-') && findCommand(word) === undefined)
      (program as Command & NodeJS.EventEmitter).emit(noCommand, [word]);
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Help and version end like this too. Commander has printed its message already.
      exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    } else {
      const failure = describeFailure(error);
      exitCode = failure.exitCode;
      stderr.write(`${styler(stderr)('red', 'error:')} ${failure.message}\n`);
      if (args.includes('--verbose') || env['DEBUG']) {
        stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      }
    }
  } finally {
    for (const signal of signals) process.off(signal, handle);
  }
  return exitCode;
}
