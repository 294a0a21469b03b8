import { Argument, type Command, Option } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { duration } from '../arguments.ts';
import {
  type Candidate,
  type CompletionContext,
  confirm,
  offerTenants,
  outputOption,
  withCompletion,
  yesOption,
} from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { jobsOf, jobTable } from '../job-table.ts';
import { followsRequest, requestAndWait } from '../manager-request.ts';
import { serialize, type TableFormat } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import {
  getVirtualCluster,
  namespaceFlag,
  oneOrAllTenants,
  type VirtualClusterRef,
  validRef,
} from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace?: string;
  output: TableFormat;
  timeout: number;
  yes?: boolean;
  dryRun?: boolean;
}

const help = `
A job is a long operation on a control plane: provision, version-change, renewal (of certificates), authority-renewal,
key-rotation, snapshot, restore, move, sleep, wake or delete. It has steps, is tried again after failures, goes on with
another manager when one dies, and is remembered: the last ten of each tenant. Without a name, what is under way and the
latest end of every tenant; with one, all that is remembered.

"jobs cancel" stops what is under way:
  provision          stops, with what was started, and begins anew when the spec changes or "jobs retry" asks for it;
                     this asks before, and --yes answers
  version-change     stays with the version that runs, until the API server is being replaced: then it is refused
  renewal            waits an hour where certificates are due; refused once the new ones are issued
  authority-renewal  the old ones stay; refused once the new ones sign
  key-rotation       the key stays; refused once Secrets are written with the new one
  snapshot           nothing of it is kept
  restore            nothing is changed; refused once what the tenant has is being replaced
  move               it stays where it is; refused once its old control plane is stopped
  sleep, wake        refused: they take seconds
  delete             cannot be taken back, and is refused
"jobs retry" tries again at once: what was cancelled, or what waits after a failure.

Examples:
  vc-manager jobs
  vc-manager jobs team-blue -o json
  vc-manager jobs cancel team-blue --dry-run
  vc-manager jobs cancel team-blue
  vc-manager jobs retry team-blue -n teams`;

const verbs = {
  cancel: { about: 'stop what is under way', run: cancelJob },
  retry: { about: 'try again at once', run: retryJob },
};

export function configure(command: Command, cli: Cli): void {
  command
    .usage('[NAME] | cancel NAME | retry NAME [options]')
    .addArgument(
      withCompletion(
        new Argument('[words...]', 'NAME of a tenant, or cancel NAME, or retry NAME'),
        offerVerbsAndTenants,
      ),
    )
    .option('-n, --namespace <namespace>', 'of the VirtualCluster (default: all, or "default" with a name)')
    .addOption(outputOption())
    .addOption(
      new Option('--timeout <duration>', 'how long cancel and retry wait for a manager to answer')
        .argParser(duration)
        .default(60_000, '1m'),
    )
    .option('--dry-run', 'of cancel: change nothing, and say what would be cancelled')
    .option(yesOption.flags, yesOption.description)
    .addHelpText('after', help)
    .action(async (words: string[], _, chosen: Command) => jobs(cli, words, chosen.optsWithGlobals<Flags>()));
}

async function offerVerbsAndTenants(context: CompletionContext): Promise<Candidate[]> {
  const [first, second] = context.operands;
  if (second !== undefined || (first !== undefined && !(first in verbs))) return [];
  const offeredVerbs = Object.entries(verbs).map(([word, { about }]) => ({ word, about }));
  return [...(first === undefined ? offeredVerbs : []), ...(await offerTenants(context))];
}

async function jobs(cli: Cli, words: readonly string[], flags: Flags): Promise<void> {
  const [first, second, ...more] = words;
  const verb = first === 'cancel' || first === 'retry' ? verbs[first] : undefined;
  if (more.length > 0 || (second !== undefined && verb === undefined))
    throw invalidArgument(
      `"jobs ${words.join(' ')}" is not understood: give one name, or cancel NAME, or retry NAME`,
    );
  if (flags.dryRun && first !== 'cancel') throw invalidArgument('--dry-run is about "jobs cancel NAME"');
  if (verb !== undefined && second !== undefined)
    return verb.run(cli, validRef(second, flags.namespace ?? 'default'), flags);
  await show(cli, first, flags);
}

async function show(cli: Cli, name: string | undefined, flags: Flags): Promise<void> {
  const of = { namespace: flags.namespace, signal: cli.signal };
  const items = await withSuperCluster(cli, flags, (client) => oneOrAllTenants(client, name, of));
  const found = items.flatMap((vc) => jobsOf(vc, name === undefined));
  if (flags.output !== 'table') cli.stdout.write(serialize(flags.output, found));
  else if (found.length > 0) cli.stdout.write(jobTable(found, cli.clock.now()));
  else
    cli.stderr.write(name === undefined ? 'No jobs.\n' : `No jobs of ${name}: no manager has begun any.\n`);
}

const stopsProvision =
  'What was started of it is stopped, and nobody can use it until "jobs retry" or a change of its spec begins it anew.';

/** Throws `Conflict` when there is no job, or when the manager refuses to cancel it. */
async function cancelJob(cli: Cli, ref: VirtualClusterRef, flags: Flags): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    const current = vc.status?.jobs?.current;
    if (current === undefined)
      throw new CliError(
        'Conflict',
        `nothing is under way for ${ref.name}: see "vc-manager jobs ${ref.name}${namespaceFlag(ref.namespace)}"`,
      );
    const { id, kind, step } = current;
    if (flags.dryRun) {
      const at = step === undefined ? '' : `, which is at the step ${step},`;
      cli.stdout.write(
        `The ${kind} of ${ref.name}${at} would be cancelled (dry run), unless the manager says that it is too late. ` +
          `${kind === 'provision' ? `${stopsProvision}\n` : 'The help of this command says what that means.\n'}`,
      );
      return;
    }
    if (kind === 'provision')
      await confirm(cli, flags, `Cancel the creation of ${ref.name}? ${stopsProvision}`);
    const until = ({ status }: VirtualCluster): boolean => {
      const { jobs } = status ?? {};
      if (jobs?.current?.id === id) {
        if (jobs.current.refusal === undefined) return false;
        throw new CliError(
          'Conflict',
          `the ${kind} of ${ref.name} is not cancelled: ${jobs.current.refusal}`,
        );
      }
      const ended = jobs?.history?.find((each) => each.id === id);
      if (ended?.result === 'Cancelled') return true;
      throw new CliError(
        'Conflict',
        `the ${kind} of ${ref.name} had ended before: ${ended?.result ?? 'its result is no longer in the history'}`,
      );
    };
    const request = { client, ref, annotation: annotationKeys.cancelJob, value: id };
    const timeoutMs = flags.timeout;
    const gone = new CliError('Conflict', `${ref.name} is gone: its deletion has ended`);
    await requestAndWait(cli, request, { timeoutMs, what: `cancel its ${kind}`, until, gone });
    cli.stdout.write(`${kind} of ${ref.name} cancelled\n`);
  });
}

/** Returns when a manager has acknowledged the request. */
async function retryJob(cli: Cli, ref: VirtualClusterRef, flags: Flags): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    const before = await getVirtualCluster(client, ref, cli.signal);
    const asked = new Date(cli.clock.now()).toISOString();
    const request = { client, ref, annotation: annotationKeys.retryJob, value: asked };
    const isFollowed = followsRequest(request, before, ({ jobs }) => jobs?.retried);
    await requestAndWait(cli, request, {
      timeoutMs: flags.timeout,
      what: 'try again',
      until: isFollowed,
    });
    cli.stdout.write(
      `${ref.name} is tried again: see "vc-manager jobs ${ref.name}${namespaceFlag(ref.namespace)}"\n`,
    );
  });
}
