import { type Command, Option } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { type KubeClient, resources } from '../../../kube/index.ts';
import { duration } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { jobsOf, jobTable } from '../job-table.ts';
import { json, yaml } from '../output.ts';
import { progressFor, withStep } from '../progress.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { checkedRef, getVirtualCluster, type VirtualClusterRef } from '../virtual-clusters.ts';
import { waitFor } from '../wait-for.ts';

export interface JobFlags extends GlobalFlags {
  namespace?: string;
  output?: 'table' | 'json' | 'yaml';
  timeout: number;
}

const help = `
A job is a long operation on a control plane: provision, version-change, renewal (of certificates) or delete. It has
steps, is tried again after failures, goes on with another manager when one dies, and is remembered: the last ten of
each tenant. Without a name, what is under way and the latest end of every tenant; with one, all that is remembered.

"jobs cancel" stops what is under way:
  provision       stops, and begins anew when the spec changes or "jobs retry" asks for it
  version-change  stays with the version that runs, until the API server is being replaced: then it is refused
  renewal         waits an hour where certificates are due; refused once the new ones are issued
  delete          cannot be taken back, and is refused
"jobs retry" tries again at once: what was cancelled, or what waits after a failure.

Examples:
  vc-manager jobs
  vc-manager jobs team-blue -o json
  vc-manager jobs cancel team-blue
  vc-manager jobs retry team-blue -n teams`;

const verbs = { cancel: cancelJob, retry: retryJob };

export function configure(command: Command, cli: Cli): void {
  command
    .usage('[NAME] | cancel NAME | retry NAME [options]')
    .argument('[words...]', 'NAME of a tenant, or cancel NAME, or retry NAME')
    .option('-n, --namespace <namespace>', 'of the VirtualCluster (default: all, or "default" with a name)')
    .addOption(
      new Option('-o, --output <format>', 'how to print them')
        .choices(['table', 'json', 'yaml'])
        .default('table'),
    )
    .addOption(
      new Option('--timeout <duration>', 'how long cancel and retry wait for a manager to answer')
        .argParser(duration)
        .default(60_000, '1m'),
    )
    .addHelpText('after', help)
    .action(async (words: string[], _, chosen: Command) =>
      jobs(cli, words, chosen.optsWithGlobals<JobFlags>()),
    );
}

async function jobs(cli: Cli, words: readonly string[], flags: JobFlags): Promise<void> {
  const [first, second, ...more] = words;
  const isAsking = (first === 'cancel' || first === 'retry') && words.length > 1;
  if (more.length > 0 || (second !== undefined && !isAsking))
    throw invalidArgument(
      `"jobs ${words.join(' ')}" is not understood: give one name, or cancel NAME, or retry NAME`,
    );
  if (isAsking && second !== undefined)
    return verbs[first](cli, checkedRef(second, flags.namespace ?? 'default'), flags);
  await show(cli, first, flags);
}

async function show(cli: Cli, name: string | undefined, flags: JobFlags): Promise<void> {
  const { signal } = cli;
  const items = await withSuperCluster(cli, flags, async (client) => {
    if (name !== undefined)
      return [await getVirtualCluster(client, checkedRef(name, flags.namespace ?? 'default'), signal)];
    const where = flags.namespace === undefined ? {} : { namespace: flags.namespace };
    return (await client.list<VirtualCluster>(resources.virtualClusters, { ...where, signal })).items;
  });
  const found = items.flatMap((vc) => jobsOf(vc, name === undefined));
  if (flags.output === 'json') cli.stdout.write(json(found));
  else if (flags.output === 'yaml') cli.stdout.write(yaml(found));
  else if (found.length > 0) cli.stdout.write(jobTable(found, cli.clock.now()));
  else
    cli.stderr.write(name === undefined ? 'No jobs.\n' : `No jobs of ${name}: no manager has begun any.\n`);
}

export interface RequestFlags extends GlobalFlags {
  timeout: number;
}

/** Asks for the end of what is under way, and waits for the manager's answer. Throws `Conflict` when it refuses. */
export async function cancelJob(cli: Cli, ref: VirtualClusterRef, flags: RequestFlags): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    const current = vc.status?.jobs?.current;
    if (current === undefined)
      throw new CliError(
        'Conflict',
        `nothing is under way for ${ref.name}: see "vc-manager jobs ${ref.name}"`,
      );
    const { id, kind } = current;
    await annotateVirtualCluster(client, ref, annotationKeys.cancelJob, id, cli.signal);
    await awaitManager(cli, client, { ref, flags, what: `cancel its ${kind}` }, (found) => {
      if (found === undefined) throw new CliError('Conflict', `${ref.name} is gone: its deletion has ended`);
      const { jobs } = found.status ?? {};
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
        `the ${kind} of ${ref.name} had ended before: ${ended?.result ?? 'it is forgotten'}`,
      );
    });
    cli.stdout.write(`${kind} of ${ref.name} cancelled\n`);
  });
}

/** Asks for another try, and waits until a manager has heard. */
export async function retryJob(cli: Cli, ref: VirtualClusterRef, flags: RequestFlags): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    await getVirtualCluster(client, ref, cli.signal);
    const asked = new Date(cli.clock.now()).toISOString();
    await annotateVirtualCluster(client, ref, annotationKeys.retryJob, asked, cli.signal);
    await awaitManager(cli, client, { ref, flags, what: 'try again' }, (found) => {
      if (found === undefined) throw new CliError('NotFound', `${ref.name} is gone`);
      return found.status?.jobs?.retried === asked;
    });
    cli.stdout.write(`${ref.name} is tried again: see "vc-manager jobs ${ref.name}"\n`);
  });
}

export async function annotateVirtualCluster(
  client: KubeClient,
  ref: VirtualClusterRef,
  key: string,
  value: string,
  signal: AbortSignal,
): Promise<void> {
  const patch = { metadata: { annotations: { [key]: value } } };
  await client.patch(resources.virtualClusters, ref, patch, { type: 'merge', signal });
}

export async function awaitManager(
  cli: Cli,
  client: KubeClient,
  { ref, flags, what }: { ref: VirtualClusterRef; flags: RequestFlags; what: string },
  until: (vc: VirtualCluster | undefined) => boolean,
): Promise<void> {
  const { clock, signal } = cli;
  const progress = progressFor(cli);
  try {
    await withStep(progress, `Asking the manager to ${what}`, (step) =>
      waitFor({
        client,
        ref,
        clock,
        signal,
        timeoutMs: flags.timeout,
        what,
        until,
        onChange: () => step.update('waiting for the manager'),
      }),
    );
  } finally {
    progress.close();
  }
}
