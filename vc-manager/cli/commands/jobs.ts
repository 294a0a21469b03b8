import { type Command, Option } from 'commander';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { resources } from '../../../kube/index.ts';
import { duration } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { invalidArgument } from '../errors.ts';
import { cancelJob, retryJob } from '../jobs/ask.ts';
import { json, yaml } from '../output/format.ts';
import { jobsOf, jobTable } from '../output/job-table.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { checkedRef, getVirtualCluster } from '../virtual-clusters.ts';

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

const asks = { cancel: cancelJob, retry: retryJob };

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
    return asks[first](cli, checkedRef(second, flags.namespace ?? 'default'), flags);
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
