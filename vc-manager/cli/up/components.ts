import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { labelKeys } from '../../../api/labels.ts';
import type { DnsChoice } from '../../../api/virtual-cluster.ts';
import type { KubeClient } from '../../../kube/index.ts';
import type { ComponentPlan } from '../../control-plane/plan.ts';
import { localAddress } from '../../control-plane/render-plan.ts';
import type { LocalStackParts } from '../../local-stack/local-stack.ts';
import { grantRights, programs, userOf } from '../../rights.ts';
import type { Cli } from '../context.ts';
import { chartDirectory, packageRoot, packageVersion } from '../package-root.ts';
import type { StateSettings } from '../state-directory.ts';

export const managerComponent = 'vc-manager';
export const syncerComponent = 'vc-syncer';

interface ComponentOptions {
  stateDir: string;
  env: Cli['env'];
  superCluster: StateSettings['superCluster'];
  ports: { metrics: number; kubelet: number };
  bindAddress: string;
  advertiseAddress: string;
  dns: DnsChoice;
}

/** Manager and syncer as components of the local stack: processes of their own that can die and be replaced alone. */
export function skerryComponents(options: ComponentOptions, parts: LocalStackParts): ComponentPlan[] {
  return [manager(options, parts), syncer(options, parts)];
}

function manager(options: ComponentOptions, parts: LocalStackParts): ComponentPlan {
  const { stateDir, bindAddress, advertiseAddress, dns } = options;
  return program(managerComponent, options, parts.superCluster?.managerKubeconfig, {
    args: [
      join(packageRoot(), 'bin', 'vc-manager.js'),
      'operator',
      ...superClusterArguments(options),
      `--etcd-endpoint=${parts.datastore.endpoint}`,
      `--state-dir=${stateDir}`,
      `--bind-address=${bindAddress}`,
      `--advertise-address=${advertiseAddress}`,
      `--dns=${dns}`,
      `--endpoint-host=${localAddress(bindAddress)}`,
      // The same after a restart: it goes on at once and does not wait for its own lease to expire.
      `--identity=${identity(stateDir)}`,
    ],
    dependsOn: ['datastore'],
    ports: [],
  });
}

/** Left alone, V8 lets the heap grow to four times of what is in use; this costs no CPU that could be measured. */
const smallHeap = ['--max-semi-space-size=4', '--heap-growing-percent=50'];

function syncer(options: ComponentOptions, parts: LocalStackParts): ComponentPlan {
  const { metrics, kubelet } = options.ports;
  const host = '127.0.0.1';
  // Not on loopback where it can be helped: tenants' API servers find the metrics API there too, by a Service,
  // whose endpoints may not be there.
  const kubeletHost = isLocalAddress(options.advertiseAddress) ? options.advertiseAddress : host;
  return program(syncerComponent, options, parts.superCluster?.syncerKubeconfig, {
    args: [
      ...smallHeap,
      join(packageRoot(), 'bin', 'vc-syncer.js'),
      ...superClusterArguments(options),
      // As above.
      `--replica=${identity(options.stateDir)}`,
      `--metrics-address=${host}:${metrics}`,
      `--kubelet-address=${isIPv6(kubeletHost) ? `[${kubeletHost}]` : kubeletHost}:${kubelet}`,
      `--kubelet-advertise=${kubeletHost}`,
    ],
    dependsOn: [],
    ports: [
      { name: 'metrics', port: metrics, host },
      { name: 'kubelet', port: kubelet, host: kubeletHost },
    ],
  });
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
    // Restarts it when there is a new one: the path of the program stays.
    env: { ...inheritedVariables(env), SKERRY_VERSION: packageVersion() },
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

/** Also part of an object's name. */
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

/** What the manager needs in order to find binaries as we do; the driver hands on PATH and HOME by itself. */
function inheritedVariables(env: Cli['env']): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of inheritedNames) {
    const value = env[name];
    if (value) found[name] = value;
  }
  return found;
}

/** Where manager and syncer keep what is their own, unless they are told otherwise. */
const systemNamespace = 'skerry-system';

/** Manager and syncer by their own certificates, and as what else runs in Skerry's namespace. */
export const componentUsers = {
  users: programs.map(userOf),
  groups: [`system:serviceaccounts:${systemNamespace}`],
};

/** Grants the components of a local stack in its super cluster what the chart grants where it is installed. */
export function grantComponentRights(client: KubeClient, signal: AbortSignal): Promise<void> {
  return grantRights(client, {
    chartDirectory: chartDirectory(),
    namespace: systemNamespace,
    labels: { [labelKeys.managedBy]: 'skerry' },
    signal,
  });
}
