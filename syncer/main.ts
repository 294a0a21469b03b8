import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { Command, InvalidArgumentError, Option } from 'commander';
import { pino } from 'pino';
import { type ConnectionOptions, loadKubeconfig, systemClock } from '../kube/index.ts';
import { type Address, address, flagHelp, positive, repeatable } from '../program/flags.ts';
import { SyncerMetrics } from './observability/syncer-metrics.ts';
import {
  defaultOptions,
  localWorkers,
  type NetworkPolicyEnforcement,
  networkPolicyEnforcements,
} from './settings.ts';
import { isReplicaName } from './sharding/shard-map.ts';
import { Syncer } from './syncer.ts';

interface Flags {
  kubeconfig?: string;
  context?: string;
  replica?: string;
  namespace: string;
  workers: number;
  metricsAddress: Address;
  kubeletAddress: Address;
  kubeletFallbackPort?: number;
  kubeletAdvertise: string;
  kubeletName?: string;
  nodeLabel: string[];
  protectCidr: string[];
  allowAnnotation: string[];
  allowLabel: string[];
  denyKeyPrefix: string[];
  transparentKeyPrefix: string[];
  ingressAnnotation: string[];
  networkPolicies: NetworkPolicyEnforcement;
  tenantCacheMib: number;
  totalCacheMib: number;
  tenantStreamMib: number;
  isolateTenants: boolean;
  podCidr: string[];
  fair: boolean;
  logLevel: string;
}

function replicaName(text: string): string {
  if (!isReplicaName(text)) throw new InvalidArgumentError('give a DNS name, e.g. vc-syncer-0');
  return text;
}

function dnsName(text: string): string {
  if (!isReplicaName(text))
    throw new InvalidArgumentError('give a DNS name, e.g. vc-syncer-0.vc-syncer.skerry.svc');
  return text;
}

function workers(text: string): number {
  return text === 'local' ? localWorkers(availableParallelism()) : positive(text);
}

function collectRange(text: string, before: string[]): string[] {
  const [base = '', prefix = ''] = text.split('/');
  const longest = isIP(base) === 6 ? 128 : 32;
  if (isIP(base) === 0 || !/^\d+$/.test(prefix) || Number(prefix) > longest)
    throw new InvalidArgumentError('give a range as in 192.0.2.0/24, or 192.0.2.7/32 for one address');
  return [...before, text];
}

function command(): Command {
  const { metrics, kubelet } = defaultOptions;
  return new Command('vc-syncer')
    .description('Mirrors objects between tenant control planes and the super cluster.')
    .configureHelp(flagHelp)
    .option('--kubeconfig <file>', 'kubeconfig of the super cluster (default: $KUBECONFIG or ~/.kube/config)')
    .option('--context <name>', 'context of that kubeconfig')
    .option(
      '--replica <name>',
      'name of this replica, which no other has at the same time and which goes on where the last of that name ended (default: a new one at each start)',
      replicaName,
    )
    .option(
      '--namespace <namespace>',
      'of Skerry itself: where the manager keeps the credentials of tenants, and the replicas agree on who serves which',
      defaultOptions.namespace,
    )
    .option(
      '--workers <n>',
      'reconciles at once, over all tenants; "local": six for each processor, from 12 to 60, for one machine that runs super cluster and tenants, too',
      workers,
      defaultOptions.workers,
    )
    .option(
      '--metrics-address <host:port>',
      'where /metrics, /healthz and /readyz are served',
      address,
      metrics,
    )
    .option('--kubelet-address <host:port>', 'where it answers as the kubelet of tenants’ nodes', address, {
      host: kubelet.host,
      port: kubelet.port,
    })
    .option('--kubelet-fallback-port <port>', 'where it does when that port is taken', positive)
    .option('--kubelet-advertise <address>', 'how tenant API servers reach that', kubelet.advertise)
    .option(
      '--kubelet-name <name>',
      'by which DNS name they do, where the certificate of it names no address (as in a cluster, where addresses change)',
      dnsName,
    )
    .option(
      '--node-label <key>',
      'label of nodes that tenants see too; a key, or a prefix that ends in /; repeatable',
      repeatable,
      [],
    )
    .option(
      '--protect-cidr <range>',
      'where no EndpointSlice of a tenant may point, e.g. at etcd on machines that are no nodes; repeatable',
      collectRange,
      [],
    )
    .option(
      '--allow-annotation <key>',
      'annotation of pods and Services that goes down, or a prefix that ends in "/"; repeatable',
      repeatable,
      [],
    )
    .option(
      '--allow-label <key>',
      'label that goes down, of pods too where it is on the deny-list, or a prefix that ends in "/"; repeatable',
      repeatable,
      [],
    )
    .option(
      '--deny-key-prefix <prefix>',
      'labels and annotations that never go down; repeatable',
      repeatable,
      [],
    )
    .option(
      '--transparent-key-prefix <prefix>',
      'labels and annotations copied up; repeatable',
      repeatable,
      [],
    )
    .option(
      '--ingress-annotation <key>',
      'annotation of Ingresses that goes down, or a prefix that ends in "/"; repeatable',
      repeatable,
      [],
    )
    .addOption(
      new Option(
        '--network-policies <whether>',
        'whether something in the super cluster acts on NetworkPolicies',
      )
        .choices(networkPolicyEnforcements)
        .default(defaultOptions.networkPolicies),
    )
    .option(
      '--tenant-cache-mib <n>',
      'memory that the objects of one tenant may take here, in MiB, where its policy does not say it',
      positive,
      defaultOptions.tenantCacheMiB,
    )
    .option(
      '--total-cache-mib <n>',
      'memory that the objects of all tenants together may take here, in MiB; default: half of the heap (--max-old-space-size)',
      positive,
      defaultOptions.totalCacheMiB,
    )
    .option(
      '--tenant-stream-mib <n>',
      'what logs, exec, attach and port-forward of one tenant may carry, in MiB per second; of all tenants together, four times that',
      positive,
      defaultOptions.tenantStreamMiB,
    )
    .option(
      '--no-isolate-tenants',
      'let pods of different tenants reach each other where NetworkPolicies are enforced',
    )
    .option(
      '--pod-cidr <cidr>',
      'range that pods get their addresses from; repeatable; default: what nodes say in spec.podCIDRs',
      collectRange,
      [],
    )
    .option('--no-fair', 'serve first come, first served (only to measure what fairness is worth)')
    .option('--log-level <level>', 'trace, debug, info, warn or error', 'info');
}

async function main(): Promise<void> {
  const flags = command().parse().opts<Flags>();
  const logger = pino({ level: flags.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => stop.abort(new Error(`received ${signal}`)));
  }
  const metrics = new SyncerMetrics({ processMetrics: true });
  const superConnection: ConnectionOptions = {
    ...(await loadKubeconfig(flags.kubeconfig, flags.context)),
    userAgent: 'vc-syncer',
    onCall: (call) => metrics.apiCall('super', call),
  };
  const syncer = new Syncer(
    {
      replica: flags.replica,
      namespace: flags.namespace,
      workers: flags.workers,
      metrics: flags.metricsAddress,
      kubelet: {
        ...flags.kubeletAddress,
        fallbackPort: flags.kubeletFallbackPort,
        advertise: flags.kubeletAdvertise,
        name: flags.kubeletName,
      },
      nodeLabels: flags.nodeLabel,
      protectedCIDRs: flags.protectCidr,
      allowedAnnotations: flags.allowAnnotation,
      allowedLabels: flags.allowLabel,
      deniedKeyPrefixes: flags.denyKeyPrefix,
      transparentKeyPrefixes: flags.transparentKeyPrefix,
      ingressAnnotations: flags.ingressAnnotation,
      networkPolicies: flags.networkPolicies,
      tenantCacheMiB: flags.tenantCacheMib,
      totalCacheMiB: flags.totalCacheMib,
      tenantStreamMiB: flags.tenantStreamMib,
      isolateTenants: flags.isolateTenants,
      podCIDRs: flags.podCidr,
      fair: flags.fair,
    },
    {
      superConnection,
      watchdog: { kubeconfig: flags.kubeconfig, context: flags.context },
      metrics,
      clock: systemClock,
      logger,
    },
  );
  await syncer.run(stop.signal);
}

main().catch((error: unknown) => {
  console.error(`vc-syncer: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
});
