import { createHash } from 'node:crypto';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { labelKeys } from '../../../api/labels.ts';
import { defaultSystemNamespace } from '../../../api/names.ts';
import type { DnsChoice } from '../../../api/virtual-cluster.ts';
import type { KubeClient } from '../../../kube/index.ts';
import { hostInUrl } from '../../../program/addresses.ts';
import { chartDirectory, packageRoot, packageVersion } from '../../../program/package-root.ts';
import type { ComponentPlan } from '../../control-plane/plan.ts';
import { localAddress } from '../../control-plane/render-plan.ts';
import type { LocalStackParts } from '../../local-stack/local-stack.ts';
import { grantRights, programs, userOf } from '../../rights.ts';
import type { Cli } from '../context.ts';
import type { StateSettings } from '../state-directory.ts';

export const managerComponent = 'vc-manager';
export const syncerComponent = 'vc-syncer';
export const gatewayComponent = 'vc-gateway';

/** Tenants of the local stack are told apart by names below it. Nothing has to resolve them: kubeconfigs name the address beside. */
const gatewayDomain = 'tenants.skerry.internal';

/** Each tenant has a port of its own at the gateway: clients on this machine, and pods, need not name a server. */
const gatewayPorts = '23000-23999';

interface ComponentOptions {
  stateDir: string;
  env: Cli['env'];
  superCluster: StateSettings['superCluster'];
  ports: { metrics: number; kubelet: number; gateway: number; gatewayMetrics: number };
  /** Whether tenants are reached through the gateway. */
  gateway: boolean;
  bindAddress: string;
  advertiseAddress: string;
  /** What on this machine tenants' API servers may dial beyond what they need. */
  tenantEgress: readonly string[];
  /** Whether something in the super cluster acts on NetworkPolicies, as the syncer takes it. */
  networkPolicies: string;
  dns: DnsChoice;
  warm: number;
  warmMemory: string | undefined;
}

/** Manager, syncer and gateway as components of the local stack, each a process of its own. */
export function skerryComponents(options: ComponentOptions, parts: LocalStackParts): ComponentPlan[] {
  return [
    manager(options, parts),
    syncer(options, parts),
    ...(options.gateway ? [gateway(options, parts)] : []),
  ];
}

function manager(options: ComponentOptions, parts: LocalStackParts): ComponentPlan {
  const { stateDir, bindAddress, advertiseAddress, dns, ports, warm, warmMemory } = options;
  const kubelets = [kubeletPort, ports.kubelet].map((port) => hostPort(kubeletHost(options), port));
  return program(managerComponent, options, parts.superCluster?.managerKubeconfig, {
    args: [
      join(packageRoot(), 'bin', 'vc-manager.js'),
      'operator',
      ...superClusterArguments(options),
      `--etcd-endpoint=${parts.datastore.endpoint}`,
      `--etcd-http-endpoint=${parts.datastore.httpEndpoint}`,
      `--state-dir=${stateDir}`,
      `--bind-address=${bindAddress}`,
      `--advertise-address=${advertiseAddress}`,
      `--dns=${dns}`,
      `--warm=${warm}`,
      ...(warmMemory === undefined ? [] : [`--warm-memory=${warmMemory}`]),
      ...[...kubelets, ...options.tenantEgress].map((target) => `--tenant-egress=${target}`),
      `--endpoint-host=${localAddress(bindAddress)}`,
      ...(options.gateway
        ? [
            `--gateway=${hostPort(localAddress(bindAddress), options.ports.gateway)}`,
            `--gateway-domain=${gatewayDomain}`,
            `--gateway-ports=${gatewayPorts}`,
            `--gateway-pod-address=${advertiseAddress}`,
          ]
        : []),
      // Stable, so that a restarted process need not wait for its own lease to expire.
      `--identity=${identity(stateDir)}`,
    ],
    dependsOn: ['datastore'],
    ports: [],
  });
}

/** `nodes/NAME:10250/proxy` is what tools ask for; one stack of this machine can have it, others take a port of their own. */
const kubeletPort = 10_250;

/** By default V8 lets the heap grow to four times of what is in use; this limit costs no measurable CPU. */
const smallHeap = ['--max-semi-space-size=8', '--heap-growing-percent=50'];

function syncer(options: ComponentOptions, parts: LocalStackParts): ComponentPlan {
  const { metrics, kubelet } = options.ports;
  const host = '127.0.0.1';
  const kubeletAddress = kubeletHost(options);
  return program(syncerComponent, options, parts.superCluster?.syncerKubeconfig, {
    args: [
      ...smallHeap,
      join(packageRoot(), 'bin', 'vc-syncer.js'),
      ...superClusterArguments(options),
      `--replica=${identity(options.stateDir)}`,
      `--metrics-address=${host}:${metrics}`,
      `--kubelet-address=${hostPort(kubeletAddress, kubeletPort)}`,
      `--kubelet-fallback-port=${kubelet}`,
      `--kubelet-advertise=${kubeletAddress}`,
      `--network-policies=${options.networkPolicies}`,
      ...(options.superCluster === 'local'
        ? [
            '--workers=local',
            // What simulated pods are to do, and to use.
            '--allow-annotation=simulation.skerry.dev/',
          ]
        : []),
    ],
    dependsOn: [],
    ports: [
      { name: 'metrics', port: metrics, host },
      { name: 'kubelet', port: kubelet, host: kubeletAddress },
    ],
  });
}

/**
 * Where the syncer answers as kubelets: not on loopback where the machine has another address, as tenants reach the
 * metrics API through a Service, whose endpoints must not be loopback addresses.
 */
function kubeletHost({ advertiseAddress }: ComponentOptions): string {
  return isLocalAddress(advertiseAddress) ? advertiseAddress : '127.0.0.1';
}

/** It listens where tenants' API servers do. */
function gateway(options: ComponentOptions, parts: LocalStackParts): ComponentPlan {
  const { gateway: port, gatewayMetrics: metrics } = options.ports;
  const host = '127.0.0.1';
  return program(gatewayComponent, options, parts.superCluster?.gatewayKubeconfig, {
    args: [
      ...smallHeap,
      join(packageRoot(), 'bin', 'vc-gateway.js'),
      ...superClusterArguments(options),
      `--domain=${gatewayDomain}`,
      `--listen=${hostPort(options.bindAddress, port)}`,
      `--metrics-address=${host}:${metrics}`,
      '--drain-seconds=5',
    ],
    dependsOn: [],
    ports: [
      { name: 'gateway', port, host: options.bindAddress },
      { name: 'metrics', port: metrics, host },
    ],
  });
}

function hostPort(host: string, port: number): string {
  return `${hostInUrl(host)}:${port}`;
}

function isLocalAddress(address: string): boolean {
  return Object.values(networkInterfaces()).some((all) => all?.some((each) => each.address === address));
}

function program(
  name: string,
  { env, superCluster }: ComponentOptions,
  kubeconfig: string | undefined,
  { args, dependsOn, ports }: Pick<ComponentPlan, 'args' | 'dependsOn' | 'ports'>,
): ComponentPlan {
  return {
    name,
    binary: { command: process.execPath },
    args,
    // Changes the plan, and so restarts the component, when another version is installed at the same path.
    // glibc keeps an arena for each thread, and Node has many threads and little to allocate there.
    env: { ...inheritedVariables(env), SKERRY_VERSION: packageVersion(), MALLOC_ARENA_MAX: '2' },
    files:
      kubeconfig === undefined
        ? []
        : [{ path: 'super-cluster.kubeconfig', content: kubeconfig, mode: 0o600 }],
    ports,
    dependsOn: superCluster === 'local' ? ['kube-apiserver', ...dependsOn] : dependsOn,
    stopTimeoutMs: 15_000,
  };
}

function superClusterArguments({ superCluster }: ComponentOptions): string[] {
  if (superCluster === 'local') return ['--kubeconfig=${files}/super-cluster.kubeconfig'];
  const context = superCluster.context === undefined ? [] : [`--context=${superCluster.context}`];
  return [`--kubeconfig=${superCluster.kubeconfig}`, ...context];
}

/** Used in object names too. */
function identity(stateDir: string): string {
  const host = hostname()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  return `${host || 'skerry'}-${createHash('sha256').update(stateDir).digest('hex').slice(0, 8)}`;
}

const inheritedNames = [
  ...['SKERRY_BINARIES', 'SKERRY_CACHE', 'SKERRY_DOWNLOAD_BASE', 'KUBEBUILDER_ASSETS', 'XDG_CACHE_HOME'],
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...[
    'GOPROXY',
    'GOSUMDB',
    'GONOSUMDB',
    'GOPRIVATE',
    'GOFLAGS',
    'GOPATH',
    'GOCACHE',
    'GOMODCACHE',
    'GOTOOLCHAIN',
  ],
  ...['SSL_CERT_FILE', 'SSL_CERT_DIR', 'NODE_EXTRA_CA_CERTS'],
];

/** Variables by which the manager finds binaries as this process does; the driver passes PATH and HOME itself. */
function inheritedVariables(env: Cli['env']): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of inheritedNames) {
    const value = env[name];
    if (value) found[name] = value;
  }
  return found;
}

/** Users of Skerry's programs, and the group of all ServiceAccounts in their namespace. */
export const componentUsers = {
  users: programs.map(userOf),
  groups: [`system:serviceaccounts:${defaultSystemNamespace}`],
};

/** Grants Skerry's programs the same rights in a local super cluster as the Helm chart does. */
export function grantComponentRights(client: KubeClient, signal: AbortSignal): Promise<void> {
  return grantRights(client, {
    chartDirectory: chartDirectory(),
    namespace: defaultSystemNamespace,
    labels: { [labelKeys.managedBy]: 'skerry' },
    signal,
  });
}
