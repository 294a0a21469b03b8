import { Argument, type Command, Option } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import { secretNames } from '../../../api/names.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { confirm, tenantArgument, waitTimeoutOption, withCompletion, yesOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { followsRequest, hasEnded, requestAndWait, sendRequest } from '../manager-request.ts';
import { serialize, table } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, namespaceFlag, validRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  ca?: boolean;
  overlap?: string;
  now?: boolean;
  dryRun?: boolean;
  yes?: boolean;
  output?: 'json' | 'yaml';
  wait?: boolean;
  timeout: number;
}

const help = `
The manager renews certificates by itself, when two thirds of their life are over. "certificates renew" has it do so now:
every certificate and kubeconfig of the control plane is issued anew by the same authorities, as a job. The API server
is started anew for that. Kubeconfigs and service account tokens that were handed out stay valid until their own end.

With --ca the authorities themselves and the key that signs service account tokens are renewed: in the end every kubeconfig,
certificate and token from before gets 401. Nothing that follows the kubeconfig Secret notices. There are two stages, each as
long as --overlap: everything learns to trust the new authorities, then these sign and the old ones are still trusted.
To revoke access at once, --now leaves that out: whatever does not read the Secret anew fails until it does. It asks
before, and --yes answers.

"certificates show" prints what expires when.

Examples:
  vc-manager certificates renew team-blue --wait
  vc-manager certificates renew team-blue -n teams
  vc-manager certificates renew team-blue --ca --overlap 2h
  vc-manager certificates renew team-blue --ca --now --dry-run
  vc-manager certificates renew team-blue --ca --now --wait --yes
  vc-manager certificates show team-blue`;

export function configure(command: Command, cli: Cli): void {
  command
    .usage('renew|show NAME [options]')
    .addArgument(
      withCompletion(new Argument('<verb>', 'renew or show'), () => [
        { word: 'renew', about: 'issue all of a control plane anew' },
        { word: 'show', about: 'what expires when' },
      ]),
    )
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--ca', 'new authorities and a new key for tokens, so that all from before ends')
    .option(
      '--overlap <duration>',
      'with --ca: how long each of the two stages lasts, such as 30m or 2d (default: 10m)',
    )
    .option('--now', 'with --ca: no overlap, what is there ends at once')
    .option('--dry-run', 'change nothing; say what would be issued anew, and what ends by it')
    .option(yesOption.flags, yesOption.description)
    .addOption(new Option('-o, --output <format>', 'of "show"').choices(['json', 'yaml']))
    .option('--wait', 'return when the control plane has taken them up')
    .addOption(waitTimeoutOption())
    .addHelpText('after', help)
    .action(async (verb: string, name: string, _, chosen: Command) => {
      const flags = chosen.optsWithGlobals<Flags>();
      if (verb === 'show') return showCertificates(cli, name, flags);
      if (verb !== 'renew')
        throw invalidArgument(
          `there is no "certificates ${verb}": use "certificates renew NAME" or "certificates show NAME"`,
        );
      await renewCertificates(cli, name, flags);
    });
}

const endsByCa = 'every kubeconfig, client certificate and token from before gets 401';

/** Ends with a newline. */
function describeRenewal({ metadata, status }: VirtualCluster, { ca, overlap = '10m', now }: Flags): string {
  const { name } = metadata;
  const { phase, authorities } = status ?? {};
  const notes =
    (authorities === undefined ? '' : `A renewal is under way. ${stageText(authorities)}\n`) +
    (phase === 'Asleep' ? 'It sleeps, and is woken for that.\n' : '');
  if (!ca)
    return (
      `${name} would get new certificates (dry run): all of its control plane and its kubeconfigs are issued anew, and the API ` +
      `server is replaced. What was handed out stays valid until its own end.\n${notes}`
    );
  const how = now
    ? `at once ${endsByCa}, also in pods until kubelets bring them new tokens`
    : `in two stages of ${overlap} each. Then ${endsByCa}`;
  return (
    `${name} would get new authorities and a new key for tokens (dry run): ${how}. What reads the Secret ` +
    `${secretNames(name ?? '').kubeconfig} anew goes on. There is no way back.\n${notes}`
  );
}

async function renewCertificates(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  const overlap = overlapOf(flags);
  await withSuperCluster(cli, flags, async (client) => {
    const before = await getVirtualCluster(client, ref, cli.signal);
    refuseIfNotRunning(before);
    if (flags.dryRun) {
      cli.stdout.write(describeRenewal(before, flags));
      return;
    }
    if (flags.now)
      await confirm(
        cli,
        flags,
        `Renew the authorities of ${name} with no overlap? At once ${endsByCa}, and there is no way back.`,
      );
    const asked = new Date(cli.clock.now()).toISOString();
    const what = flags.ca ? 'authorities' : 'certificates';
    const annotation = flags.ca ? annotationKeys.renewAuthorities : annotationKeys.renewCertificates;
    const request = { client, ref, annotation, value: `${asked}${overlap}` };
    if (!flags.wait) {
      await sendRequest(request, cli.signal);
      cli.stdout.write(
        `new ${what} for ${name} are asked for: see "vc-manager jobs ${name}${namespaceFlag(ref.namespace)}"\n`,
      );
      return;
    }
    const until = flags.ca ? areRenewed(name, request.value, before) : isRenewed(name, asked, before);
    await requestAndWait(cli, request, { timeoutMs: flags.timeout, what: `renew its ${what}`, until });
    cli.stdout.write(`${what} of ${name} renewed\n`);
  });
}

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };
const longestOverlapSeconds = 30 * 86_400;

/** The end of the request that says it; empty: as long as the manager thinks right. */
function overlapOf({ ca = false, overlap, now = false }: Flags): string {
  if (!ca && (overlap !== undefined || now))
    throw invalidArgument('--overlap and --now are about authorities: add --ca');
  if (now && overlap !== undefined) throw invalidArgument('--now is no overlap: leave one of the two out');
  if (now) return ' overlap=0';
  if (overlap === undefined) return '';
  const [, count, unit = ''] = /^([0-9]{1,7})([smhd])$/.exec(overlap) ?? [];
  const seconds = Number(count) * (unitSeconds[unit] ?? 0);
  if (!(seconds >= 1 && seconds <= longestOverlapSeconds))
    throw invalidArgument(`--overlap ${overlap}: a number with s, m, h or d, such as 30m; 30d at most`);
  return ` overlap=${seconds}`;
}

async function showCertificates(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    const { status } = await getVirtualCluster(client, ref, cli.signal);
    const { certificates = [], authorities } = status ?? {};
    if (flags.output !== undefined) {
      cli.stdout.write(serialize(flags.output, { certificates, ...(authorities && { authorities }) }));
      return;
    }
    if (certificates.length === 0) throw new CliError('NotReady', `${name} has no certificates yet`);
    const rows = certificates.map(({ name: which, kind, expires }) => [which, kind, expires]);
    cli.stdout.write(table(['NAME', 'KIND', 'EXPIRES'], rows));
    if (authorities !== undefined) cli.stdout.write(`\n${stageText(authorities)}\n`);
  });
}

/** What a renewal of the authorities is at. */
export function stageText({
  stage,
  until = 'the control plane has taken it up',
}: NonNullable<VirtualClusterStatus['authorities']>): string {
  return stage === 'distribute'
    ? `New authorities are made known, until ${until}.`
    : `New authorities sign; the old ones are trusted until ${until}.`;
}

/** For `requestAndWait`. `before`: as it was when it was asked. */
export function areRenewed(
  name: string,
  value: string,
  before: VirtualCluster,
): (found: VirtualCluster) => boolean {
  const request = { annotation: annotationKeys.renewAuthorities, value };
  const isFollowed = followsRequest(request, before, ({ jobs }) => jobs?.authorities);
  const cancelled = `the renewal of the authorities of ${name} was cancelled`;
  return hasEnded(isFollowed, 'authority-renewal', cancelled);
}

/** Throws `Conflict` for a tenant whose control plane the manager does not renew in its present state. */
export function refuseIfNotRunning({ metadata, status }: VirtualCluster): void {
  const { name, namespace = '' } = metadata;
  if (metadata.deletionTimestamp !== undefined) throw new CliError('Conflict', `${name} is being deleted`);
  if (status?.phase === 'Cancelled')
    throw new CliError(
      'Conflict',
      `the creation of ${name} was cancelled: "vc-manager jobs retry ${name}${namespaceFlag(namespace)}" begins it anew, with new certificates`,
    );
}

/**
 * For `requestAndWait`: true when the control plane uses certificates that were issued after the request, by the renewal, by
 * another job that was under way, or by a later request. `before`: as it was when it was asked. Throws `Conflict` when the renewal was cancelled.
 */
export function isRenewed(
  name: string,
  value: string,
  before: VirtualCluster,
): (found: VirtualCluster) => boolean {
  const request = { annotation: annotationKeys.renewCertificates, value };
  const isFollowed = followsRequest(request, before, ({ jobs }) => jobs?.renewed);
  let renewal: string | undefined;
  return (found) => {
    const { current, history: [last] = [] } = found.status?.jobs ?? {};
    if (current?.kind === 'renewal') renewal = current.id;
    if (!isFollowed(found) || current !== undefined) return false;
    // A renewal that was superseded by a change of version is Cancelled too, but is not the last job.
    if (last !== undefined && last.id === renewal && last.result === 'Cancelled')
      throw new CliError('Conflict', `the renewal of ${name} was cancelled`);
    return true;
  };
}
