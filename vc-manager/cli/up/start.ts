import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import type { DnsChoice, VirtualCluster } from '../../../api/virtual-cluster.ts';
import { isNotFound, type KubeClient, loadKubeconfig, resources } from '../../../kube/index.ts';
import { packageVersion } from '../../../program/package-root.ts';
import {
  type Binaries,
  type BinaryLocation,
  type BinaryName,
  type BinaryRequest,
  defaultRequests,
  defaultVersions,
} from '../../binaries/index.ts';
import { LocalStack, type LocalStackParts } from '../../local-stack/local-stack.ts';
import { freePort } from '../../os/network.ts';
import { defaultAdvertiseAddress } from '../arguments.ts';
import type { Cli } from '../context.ts';
import { CliError, describeFailure } from '../errors.ts';
import { binariesWithProgress } from '../fetch-binaries.ts';
import { type Progress, type Step, withStep } from '../progress.ts';
import { readSettings, type StateSettings, writeSettings } from '../state-directory.ts';
import { withConnection } from '../super-cluster.ts';
import { componentUsers, grantComponentRights, managerComponent, skerryComponents } from './components.ts';
import { awaitSamples, awaitTenants, createSampleTenants, hasSamples, keptTenants } from './samples.ts';
import type { UpSummary } from './summary.ts';

/** Validated options of `up`. */
export interface UpOptions {
  stateDir: string;
  /** Undefined: a local super cluster, or the one that this state belongs to. */
  superCluster: { kubeconfig: string; context?: string } | undefined;
  /** Sample tenants; absent: two when the state is new, otherwise none are added. */
  tenants?: number;
  /** Whether sample tenants get sample workloads. */
  samples: boolean;
  nodes: number;
  bindAddress: string;
  /** How pods reach tenants' API servers; absent: an address of this machine. */
  advertiseAddress?: string;
  /** What on this machine tenants' API servers may dial beyond what they need. */
  tenantEgress?: readonly string[];
  /** Of the local super cluster's API server. */
  superBindAddress: string;
  /** Default DNS server of tenants; absent: none where nodes are simulated, otherwise coredns. */
  dns?: DnsChoice;
  /** How many control planes wait for an owner. */
  warm: number;
  /** What they may take, as a quantity. */
  warmMemory?: string;
  /** Whether something in the super cluster acts on NetworkPolicies: `auto`, `enforced` or `unenforced`. */
  networkPolicies: string;
  /** Whether tenants are reached through the gateway. */
  gateway: boolean;
  /** Whether this process serves the dashboard. */
  dashboard: boolean;
  /** Whether the local super cluster writes an audit log of manager and syncer. */
  audit?: boolean;
  /** Service addresses of the local super cluster; absent: 10.96.0.0/16. */
  superServiceCidr?: string;
  /** Pod Security level of its namespaces that name none; absent: none is enforced. */
  superPodSecurity?: 'baseline' | 'restricted';
  unsafeNoFsync?: boolean;
}

const ofTheSuperCluster: readonly BinaryName[] = ['kube-scheduler', 'kwok'];
const ownPortRange = { first: 22_000, last: 22_999 };
const managerTimeoutMs = 180_000;
/** Other templates may be in the place of the package's: then there is nothing to wait for. */
const templatesTimeoutMs = 10_000;
const defaultTenants = 2;

interface Started {
  summary: UpSummary;
  dashboardPort: number;
  superCluster: Parameters<typeof withConnection>[0];
}

/** Starts everything. `onStack` is called before the first process is started. */
export async function startAll(
  cli: Pick<Cli, 'env' | 'clock'>,
  options: UpOptions,
  {
    progress,
    signal,
    onStack,
  }: { progress: Progress; signal: AbortSignal; onStack: (stack: LocalStack) => void },
): Promise<Started> {
  const chosen = await chooseSuperCluster(options);
  // Before settings are written: a mistyped file name must not be stored in them.
  if (chosen !== 'local') await checkExternalCluster(chosen, progress, signal);
  const settings = await persistSettings(options.stateDir, chosen);
  const isLocal = settings.superCluster === 'local';
  const binaries = binariesWithProgress(cli, progress);
  const ending = new AbortController();
  const fetching = fetchBinaries(binaries, { isLocal, signal: AbortSignal.any([signal, ending.signal]) });
  const address = options.advertiseAddress ?? defaultAdvertiseAddress();
  const stack = new LocalStack({
    stateDir: options.stateDir,
    binaries: fetching,
    advertiseAddress: address,
    clock: cli.clock,
    unsafeNoFsync: options.unsafeNoFsync === true,
    packageVersion: packageVersion(),
    ...(isLocal
      ? {
          superCluster: {
            nodes: options.nodes,
            bindAddress: options.superBindAddress,
            ...(options.audit ? { audited: componentUsers } : {}),
            ...(options.superServiceCidr && { serviceCIDR: options.superServiceCidr }),
            ...(options.superPodSecurity && { podSecurity: options.superPodSecurity }),
          },
          prepare: grantComponentRights,
        }
      : {}),
    components: (parts) =>
      skerryComponents(
        {
          stateDir: options.stateDir,
          env: cli.env,
          superCluster: settings.superCluster,
          ports: settings.ports,
          gateway: options.gateway,
          bindAddress: options.bindAddress,
          advertiseAddress: address,
          tenantEgress: options.tenantEgress ?? [],
          // Simulated nodes cannot pull the image.
          networkPolicies: options.networkPolicies,
          dns: options.dns ?? (isLocal && options.nodes > 0 ? 'none' : 'coredns'),
          warm: options.warm,
          warmMemory: options.warmMemory,
        },
        parts,
      ),
  });
  onStack(stack);
  const title = isLocal
    ? 'Starting super cluster, manager, syncer and gateway'
    : 'Starting datastore, manager, syncer and gateway';
  const start = async (step: Step): Promise<LocalStackParts> => {
    const started = await stack.start({ signal, onProgress: (message) => step.update(message) });
    // What tenants are made of, where the super cluster is not: else they would not be ready in time.
    await fetching.toStart;
    return started;
  };
  const parts = await withStep(progress, title, start).catch((error: unknown) => {
    // What is still being built is not waited for.
    ending.abort(error);
    throw error;
  });
  const superCluster = await superClusterConnection(settings, parts);
  const tenants = await withConnection(superCluster, async (client) => {
    await withStep(progress, 'Waiting for the manager', () =>
      waitForManager(client, stack, cli.clock, signal),
    );
    const count = options.tenants ?? (settings.samplesMade === true ? 0 : defaultTenants);
    await createSampleTenants(client, { count, withSamples: options.samples, signal });
    await writeSettings(options.stateDir, { ...settings, samplesMade: true });
    const samples = {
      client,
      progress,
      clock: cli.clock,
      signal,
      withStorage: isLocal && options.nodes > 0,
    };
    await awaitSamples(await awaitTenants(samples), samples);
    return keptTenants(client, signal);
  });
  const kubectl = await kubectlOrNone(fetching.kubectl, progress, signal);
  const summary = {
    superCluster: superCluster.server,
    isLocal,
    tenants: tenants.map(summaryRow),
    metricsUrl: `http://127.0.0.1:${settings.ports.metrics}/metrics`,
    gatewayPort: options.gateway ? settings.ports.gateway : undefined,
    dashboard: undefined,
    stateDir: options.stateDir,
    kubectl,
    pid: process.pid,
  };
  return { summary, superCluster, dashboardPort: settings.ports.dashboard };
}

/** Nothing that was started needs it: where it cannot be had, that is told and the rest goes on. */
export async function kubectlOrNone(
  fetching: Promise<string>,
  progress: Pick<Progress, 'note'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    return await fetching;
  } catch (error) {
    signal.throwIfAborted();
    const { message } = describeFailure(error);
    progress.note(`kubectl is not there: ${message}. Everything else runs; install a kubectl of your own.`);
    return undefined;
  }
}

function summaryRow(vc: VirtualCluster): UpSummary['tenants'][number] {
  const { metadata, status } = vc;
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name ?? '',
    phase: status?.phase ?? 'Pending',
    version: status?.version ?? '',
    endpoint: status?.endpoint ?? '',
    hasSamples: hasSamples(vc),
  };
}

async function superClusterConnection(
  { superCluster }: StateSettings,
  parts: LocalStackParts,
): Promise<Started['superCluster']> {
  if (superCluster !== 'local') return loadKubeconfig(superCluster.kubeconfig, superCluster.context);
  return loadKubeconfig(parts.superCluster?.kubeconfigFile);
}

/** Throws before anything is started when the cluster does not answer; prints what Skerry creates in it. */
async function checkExternalCluster(
  { kubeconfig, context }: Exclude<StateSettings['superCluster'], 'local'>,
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  await withConnection(await loadKubeconfig(kubeconfig, context), async (client) => {
    await client.raw('GET', '/version', { signal, timeoutMs: 15_000 });
    progress.note(
      [
        `Using the super cluster ${client.connection.server}. In it will be created:`,
        '  - CustomResourceDefinitions of skerry.dev, a ServiceCIDR "skerry-tenants" and the namespace skerry-system',
        '  - per tenant: Secrets beside its VirtualCluster, IPAddress objects, and its namespaces, pods, services and volumes',
        "Deleting the VirtualClusters removes what is the tenants'; the rest stays.",
      ].join('\n'),
    );
  });
}

/** Waits until the manager has prepared the super cluster, so that tenants can be created. Throws `StartFailed`. */
export async function waitForManager(
  client: KubeClient,
  stack: LocalStack,
  clock: Cli['clock'],
  signal: AbortSignal,
): Promise<void> {
  const deadline = clock.monotonic() + managerTimeoutMs;
  let preparedAt: number | undefined;
  for (;;) {
    try {
      await client.list(resources.virtualClusters, { signal });
      preparedAt ??= clock.monotonic();
      // The manager makes one after the other: before the last, versions are refused that it will have.
      const { items } = await client.list<ControlPlaneTemplate>(resources.controlPlaneTemplates, { signal });
      const isThere = items.some(({ spec }) => spec.kubernetesVersion === defaultVersions.kubernetes);
      if (isThere || clock.monotonic() - preparedAt > templatesTimeoutMs) return;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    if (clock.monotonic() > deadline) {
      const { components } = await stack.observe();
      const state = components.find(({ name }) => name === managerComponent)?.state ?? 'missing';
      throw new CliError(
        'StartFailed',
        `the manager (${state}) did not prepare the super cluster within ${managerTimeoutMs / 1000} s: see "vc-manager logs --stack ${managerComponent}"`,
      );
    }
    await clock.sleep(200, signal);
  }
}

/** The super cluster that this state belongs to. Throws `StateUnusable` when the options name another one. */
async function chooseSuperCluster({
  stateDir,
  superCluster,
}: UpOptions): Promise<StateSettings['superCluster']> {
  const stored = await readSettings(stateDir);
  if (stored !== undefined && superCluster !== undefined)
    refuseOtherSuperCluster(stateDir, stored, superCluster);
  return stored?.superCluster ?? superCluster ?? 'local';
}

/** Writes and returns settings that must stay the same from start to start. */
async function persistSettings(
  stateDir: string,
  superCluster: StateSettings['superCluster'],
): Promise<StateSettings & { ports: OwnPorts }> {
  const stored = await readSettings(stateDir);
  const settings = { ...(stored ?? { superCluster }), ports: await chooseOwnPorts(stored?.ports) };
  await writeSettings(stateDir, settings);
  return settings;
}

/** Tenants of one super cluster would be orphans in the datastore of another. */
function refuseOtherSuperCluster(
  stateDir: string,
  { superCluster: stored }: StateSettings,
  wanted: NonNullable<UpOptions['superCluster']>,
): void {
  if (stored !== 'local' && stored.kubeconfig === wanted.kubeconfig && stored.context === wanted.context)
    return;
  const whose = stored === 'local' ? 'a local super cluster' : `the super cluster of ${stored.kubeconfig}`;
  throw new CliError(
    'StateUnusable',
    `the state in ${stateDir} belongs to ${whose}: give each super cluster a --state-dir of its own`,
  );
}

type OwnPorts = Record<keyof NonNullable<StateSettings['ports']>, number>;

/** Free ports for syncer and gateway, from a random start so that two stacks rarely choose the same. */
async function chooseOwnPorts(stored: StateSettings['ports']): Promise<OwnPorts> {
  const { first, last } = ownPortRange;
  const start = first + Math.floor((Math.random() * (last - first)) / 2);
  const taken = Object.values(stored ?? {}).filter((port) => port !== undefined);
  // Kubelet and gateway may listen on any address of this machine.
  const choose = async (host: string): Promise<number> => {
    const port = await freePort({ host, range: [start, last], taken });
    taken.push(port);
    return port;
  };
  return {
    metrics: stored?.metrics ?? (await choose('127.0.0.1')),
    kubelet: stored?.kubelet ?? (await choose('0.0.0.0')),
    gateway: stored?.gateway ?? (await choose('0.0.0.0')),
    gatewayMetrics: stored?.gatewayMetrics ?? (await choose('127.0.0.1')),
    dashboard: stored?.dashboard ?? (await choose('127.0.0.1')),
  };
}

/**
 * Begins to fetch all binaries that `up` runs, and kubectl, whose path `kubectl` resolves to. The stack starts each
 * component when its binary is there, while others are still being built. A binary that cannot be had is reported with
 * all others that cannot, when each has been tried.
 */
export function fetchBinaries(
  binaries: Pick<Binaries, 'ensure' | 'all'>,
  { isLocal, signal }: { isLocal: boolean; signal: AbortSignal },
): Pick<Binaries, 'ensure'> & { toStart: Promise<unknown>; kubectl: Promise<string> } {
  const requests = defaultRequests().filter(({ name }) => isLocal || !ofTheSuperCluster.includes(name));
  const begun = new Map(requests.map((request) => [idOf(request), binaries.ensure(request, { signal })]));
  const those = (isWanted: (name: BinaryName) => boolean): Promise<BinaryLocation>[] =>
    requests.filter(({ name }) => isWanted(name)).flatMap((request) => begun.get(idOf(request)) ?? []);
  const toStart = binaries.all(
    those((name) => name !== 'kubectl'),
    { signal },
  );
  const kubectl = binaries
    .all(
      those((name) => name === 'kubectl'),
      { signal },
    )
    .then(([found]) => found?.path ?? 'kubectl');
  // The callers that wait for them learn of it.
  for (const promise of [...begun.values(), toStart, kubectl]) promise.catch(() => undefined);
  return {
    ensure: async (request, options) => {
      const one = begun.get(idOf(request));
      if (one === undefined) return binaries.ensure(request, options);
      try {
        return await one;
      } catch (error) {
        await toStart;
        throw error;
      }
    },
    toStart,
    kubectl,
  };
}

function idOf({ name, version }: BinaryRequest): string {
  return `${name} ${version}`;
}
