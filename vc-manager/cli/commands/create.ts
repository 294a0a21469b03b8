import { type Command, Option } from 'commander';
import { isFetching } from '../../../api/conditions.ts';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { apiVersion } from '../../../api/names.ts';
import { daemonSetPolicies, type PodSecurityLevel, podSecurityLevels } from '../../../api/policy.ts';
import {
  type DnsChoice,
  dnsChoices,
  type VirtualCluster,
  type VirtualClusterSpec,
  virtualClusterProblems,
} from '../../../api/virtual-cluster.ts';
import {
  isAlreadyExists,
  isNotFound,
  type KubeClient,
  messageOf,
  resources,
  withoutUndefined,
} from '../../../kube/index.ts';
import { selectTemplate } from '../../control-plane/template.ts';
import { kubernetesVersion, labelPairs, wholeNumber } from '../arguments.ts';
import { waitTimeoutOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { resourceName, serialize, withKind } from '../output.ts';
import { progressFor, withStep } from '../progress.ts';
import { snapshotFileName, snapshotStoreFlag } from '../snapshot-store.ts';
import { withSuperCluster } from '../super-cluster.ts';
import {
  getVirtualCluster,
  limitations,
  namespaceFlag,
  readyCondition,
  type VirtualClusterRef,
  validRef,
} from '../virtual-clusters.ts';
import { waitUntilUsable } from '../wait-for.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  version?: string;
  template?: string;
  weight?: number;
  podSecurity?: PodSecurityLevel;
  daemonSets?: 'deny' | 'allow';
  dns?: DnsChoice;
  nodes?: 'all' | 'used';
  hideNodes?: boolean;
  deletionProtection?: boolean;
  from?: string;
  withCertificates?: boolean;
  snapshotStore?: string;
  nodeSelector?: Record<string, string>;
  wait?: boolean;
  timeout: number;
  /** --timeout was not given: what is built for it is waited for. */
  isPatient: boolean;
  output?: 'json' | 'yaml' | 'name';
}

const help = `
Examples:
  vc-manager create team-blue --wait
  vc-manager create team-blue -n teams --version 1.35
  vc-manager create batch --weight 1             weights share the syncer out when there is more to do than it can
  vc-manager create ci --pod-security privileged --daemon-sets allow
                                                 more than the defaults; a VirtualClusterPolicy has to allow it
  vc-manager create copy --from default/team-blue/2026-03-01T06-00-00Z-1a2b.snapshot --wait
  vc-manager create gpu --node-selector pool=gpu --hide-nodes
  kubectl apply -f virtualcluster.yaml           does the same, in the super cluster`;

export function configure(command: Command, cli: Cli): void {
  command
    .argument('<name>', 'of the tenant; a DNS label')
    .option('-n, --namespace <namespace>', 'namespace of the super cluster for the VirtualCluster', 'default')
    .option(
      '--version <version>',
      'Kubernetes version, as 1.36 or 1.36.3 (default: the newest known)',
      kubernetesVersion,
    )
    .option('--template <name>', 'ControlPlaneTemplate to build it from (default: that of the version)')
    .option(
      '--weight <n>',
      'share of syncer, scheduler and processors compared with other tenants, 1 to 1000',
      wholeNumber(1, 1000),
    )
    .addOption(
      new Option(
        '--pod-security <level>',
        'Pod Security level to ask for (default: baseline, or less if the policy has it so)',
      ).choices([...podSecurityLevels]),
    )
    .addOption(
      new Option('--daemon-sets <policy>', 'whether pods of DaemonSets run (default: deny)').choices([
        ...daemonSetPolicies,
      ]),
    )
    .addOption(
      new Option(
        '--dns <server>',
        "DNS server in the tenant's kube-system (default: that of the manager)",
      ).choices([...dnsChoices]),
    )
    .addOption(
      new Option(
        '--nodes <which>',
        'nodes that the tenant sees: all that it may use, or those it uses (default: all)',
      ).choices(['all', 'used']),
    )
    .option('--hide-nodes', 'show nodes under names that are not theirs')
    .option(
      '--node-selector <labels>',
      'nodes that the tenant may use, as key=value,key=value; repeatable',
      labelPairs,
    )
    .option('--deletion-protection', 'refuse to delete it until spec.deletionProtection is false')
    .option(
      '--from <snapshot>',
      'begin with what is in a snapshot: a name that "vc-manager snapshot --list" shows, or a file; volumes, nodes and addresses do not come along',
    )
    .option(
      '--with-certificates',
      'with --from: take over the authorities and the token key that the snapshot holds, so that kubeconfigs of that tenant are valid',
    )
    .option(snapshotStoreFlag, "the manager's store, for a file (default: that of the local stack)")
    .option('--wait', 'return when its API server can be used')
    .addOption(waitTimeoutOption())
    .addOption(new Option('-o, --output <format>', 'print the object').choices(['json', 'yaml', 'name']))
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) =>
      create(cli, name, {
        ...chosen.optsWithGlobals<Flags>(),
        isPatient: chosen.getOptionValueSource('timeout') === 'default',
      }),
    );
}

async function create(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  if (flags.withCertificates && flags.from === undefined)
    throw invalidArgument('--with-certificates needs --from: it is about what is in a snapshot');
  const from =
    flags.from === undefined ? undefined : await snapshotFileName(cli, { ...flags, from: flags.from }, ref);
  const wanted = virtualCluster(ref, flags, from);
  await withSuperCluster(cli, flags, async (client) => {
    await createVirtualCluster(client, wanted, cli.signal);
    if (flags.output === undefined) cli.stdout.write(`${resourceName(name)} created\n`);
    if (flags.wait) await waitUntilReady(cli, client, ref, flags);
    if (flags.output !== undefined) await print(cli, client, ref, flags.output);
  });
}

/** Throws `InvalidArgument`. */
export function refuseInvalid(wanted: VirtualCluster): void {
  const problems = virtualClusterProblems(wanted);
  if (problems.length > 0) throw invalidArgument(`the VirtualCluster is not valid: ${problems.join('; ')}`);
}

/** Throws `InvalidArgument` for an unknown version, or what the API server says, with a remedy. */
export async function createVirtualCluster(
  client: KubeClient,
  wanted: VirtualCluster,
  signal: AbortSignal,
): Promise<void> {
  const { metadata, spec } = wanted;
  if (spec?.version !== undefined) await refuseUnknownVersion(client, spec.version, spec.template, signal);
  await client.create(resources.virtualClusters, wanted, { signal }).catch((error: unknown) => {
    throw withRemedy(error, { namespace: metadata.namespace ?? '', name: metadata.name ?? '' });
  });
}

/**
 * Throws `InvalidArgument`, with the versions on offer, for one that has no template: the manager would only say so later.
 * Who may not see the templates of the super cluster hears it from the manager.
 */
async function refuseUnknownVersion(
  client: KubeClient,
  version: string,
  template: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  let templates: ControlPlaneTemplate[];
  try {
    ({ items: templates } = await client.list<ControlPlaneTemplate>(resources.controlPlaneTemplates, {
      signal,
    }));
  } catch {
    return;
  }
  if (templates.length === 0) return;
  try {
    selectTemplate(templates, { template, version, defaultVersion: version });
  } catch (error) {
    throw invalidArgument(messageOf(error));
  }
}

/** Adds what the user can do to the API server's error. */
function withRemedy(error: unknown, { namespace, name }: VirtualClusterRef): unknown {
  if (isAlreadyExists(error)) {
    return new CliError(
      'AlreadyExists',
      `VirtualCluster "${name}" exists already in namespace ${namespace}: see "vc-manager describe ${name} -n ${namespace}"`,
      { cause: error },
    );
  }
  if (isNotFound(error) && error.status?.details?.name === namespace) {
    return new CliError(
      'NotFound',
      `the super cluster has no namespace "${namespace}": make it with "kubectl create namespace ${namespace}" there`,
      { cause: error },
    );
  }
  return error;
}

function virtualCluster(
  ref: VirtualClusterRef,
  flags: Flags,
  restoreFrom: string | undefined,
): VirtualCluster {
  const wanted: VirtualCluster = {
    apiVersion,
    kind: 'VirtualCluster',
    metadata: { ...ref },
    spec: {
      ...specOf(flags),
      ...(restoreFrom === undefined ? {} : { restoreFrom }),
      ...(flags.withCertificates && { restoreCertificates: true }),
    },
  };
  refuseInvalid(wanted);
  return wanted;
}

function specOf(flags: Flags): VirtualClusterSpec {
  const { version, template, weight, dns, podSecurity, daemonSets, nodes, hideNodes, nodeSelector } = flags;
  const { deletionProtection } = flags;
  const policy = withoutUndefined({ podSecurity, daemonSets });
  const shown = withoutUndefined({ mode: nodes, hidden: hideNodes, selector: nodeSelector });
  return withoutUndefined({
    version,
    template,
    weight,
    dns,
    deletionProtection,
    policy: isEmpty(policy) ? undefined : policy,
    nodes: isEmpty(shown) ? undefined : shown,
  });
}

function isEmpty(object: object): boolean {
  return Object.keys(object).length === 0;
}

async function waitUntilReady(
  cli: Cli,
  client: KubeClient,
  ref: VirtualClusterRef,
  { timeout: timeoutMs, isPatient }: Pick<Flags, 'timeout' | 'isPatient'>,
): Promise<void> {
  const { clock, signal } = cli;
  const progress = progressFor(cli);
  try {
    await withStep(progress, `Waiting for ${ref.name}`, (step) =>
      waitUntilUsable(client, ref, {
        clock,
        signal,
        timeoutMs,
        isSlow: (vc) => isPatient && isFetching(vc),
        onChange: (vc) =>
          step.update(readyCondition(vc)?.message ?? vc.status?.phase ?? 'waiting for the manager'),
      }),
    );
    for (const limit of limitations(await getVirtualCluster(client, ref, signal))) progress.note(limit);
    progress.note(
      `Next: vc-manager kubeconfig ${ref.name}${namespaceFlag(ref.namespace)} > ${ref.name}.kubeconfig`,
    );
  } catch (error) {
    if (signal.aborted)
      progress.note(
        `${ref.name} goes on being made: see "vc-manager describe ${ref.name}${namespaceFlag(ref.namespace)}"; "vc-manager delete" ends it.`,
      );
    throw error;
  } finally {
    progress.close();
  }
}

async function print(
  cli: Cli,
  client: KubeClient,
  ref: VirtualClusterRef,
  output: 'json' | 'yaml' | 'name',
): Promise<void> {
  if (output === 'name') {
    cli.stdout.write(`${resourceName(ref.name)}\n`);
    return;
  }
  const vc = withKind(await getVirtualCluster(client, ref, cli.signal));
  cli.stdout.write(serialize(output, vc));
}
