import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { isNotFound, type KubeClient, loadKubeconfig, resources } from '../../../kube/index.ts';
import { LocalStack, type LocalStackParts } from '../../local-stack/index.ts';
import type { Cli } from '../context.ts';
import { CliError } from '../errors.ts';
import { packageVersion } from '../package-root.ts';
import { inStep, type Progress } from '../progress/index.ts';
import { type StateSettings, writeSettings } from '../state/state-directory.ts';
import { withConnection } from '../super-cluster.ts';
import { advertiseAddress } from './advertise-address.ts';
import { managerComponent, ownComponents } from './components.ts';
import { binariesWithProgress, fetchBinaries } from './fetch-binaries.ts';
import { awaitSamples, awaitTenants } from './furnish.ts';
import type { UpOptions } from './options.ts';
import { grantOwnRights, ownUsers } from './own-rights.ts';
import { sampleNamespace } from './samples.ts';
import { chooseSuperCluster, settle } from './settings.ts';
import type { UpSummary } from './summary.ts';
import { createSampleTenants, existingTenants } from './tenants.ts';

const managerTimeoutMs = 90_000;
const defaultTenants = 2;

export interface Started {
  summary: UpSummary;
  superCluster: Parameters<typeof withConnection>[0];
}

/** Brings everything up. `onStack` is called before the first process is started. */
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
  // Before anything is written down: a mistyped name must not stick to the state.
  if (chosen !== 'local') await checkForeign(chosen, progress, signal);
  const settings = await settle(options.stateDir, chosen);
  const isLocal = settings.superCluster === 'local';
  const binaries = binariesWithProgress(cli, progress);
  const kubectl = await fetchBinaries(binaries, { isLocal, signal });
  const address = options.advertiseAddress ?? advertiseAddress();
  const stack = new LocalStack({
    stateDir: options.stateDir,
    binaries,
    advertiseAddress: address,
    clock: cli.clock,
    unsafeNoFsync: options.unsafeNoFsync,
    packageVersion: packageVersion(),
    ...(isLocal
      ? {
          superCluster: {
            nodes: options.nodes,
            bindAddress: options.superBindAddress,
            ...(options.isAudited ? { audited: ownUsers } : {}),
          },
          prepare: grantOwnRights,
        }
      : {}),
    components: (parts) =>
      ownComponents(
        {
          stateDir: options.stateDir,
          env: cli.env,
          superCluster: settings.superCluster,
          ports: settings.ports,
          bindAddress: options.bindAddress,
          advertiseAddress: address,
          // The image cannot be pulled to a node that is only simulated.
          dns: options.dns ?? (isLocal && options.nodes > 0 ? 'none' : 'coredns'),
        },
        parts,
      ),
  });
  onStack(stack);
  const title = isLocal
    ? 'Starting super cluster, manager and syncer'
    : 'Starting datastore, manager and syncer';
  const parts = await inStep(progress, title, (step) =>
    stack.start({ signal, onProgress: (message) => step.tell(message) }),
  );
  const superCluster = await superClusterConnection(settings, parts);
  const tenants = await withConnection(superCluster, async (client) => {
    await inStep(progress, 'Waiting for the manager', () => managerServes(client, stack, cli.clock, signal));
    const count = options.tenants ?? (settings.samplesMade === true ? 0 : defaultTenants);
    await createSampleTenants(client, { count, withSamples: options.withSamples, signal });
    await writeSettings(options.stateDir, { ...settings, samplesMade: true });
    const furnishing = {
      client,
      progress,
      clock: cli.clock,
      signal,
      withStorage: isLocal && options.nodes > 0,
    };
    await awaitSamples(await awaitTenants(furnishing), furnishing);
    return existingTenants(client, signal);
  });
  const summary = {
    superCluster: superCluster.server,
    isLocal,
    tenants: tenants.map(row),
    metricsUrl: `http://127.0.0.1:${settings.ports.metrics}/metrics`,
    stateDir: options.stateDir,
    kubectl,
    sampleNamespace: options.withSamples ? sampleNamespace : undefined,
    pid: process.pid,
  };
  return { summary, superCluster };
}

function row({ metadata, status }: VirtualCluster): UpSummary['tenants'][number] {
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name ?? '',
    phase: status?.phase ?? 'Pending',
    version: status?.version ?? '',
    endpoint: status?.endpoint ?? '',
  };
}

async function superClusterConnection(
  { superCluster }: StateSettings,
  parts: LocalStackParts,
): Promise<Started['superCluster']> {
  if (superCluster !== 'local') return loadKubeconfig(superCluster.kubeconfig, superCluster.context);
  return loadKubeconfig(parts.superCluster?.kubeconfigFile);
}

/** Fails before anything is started when the cluster cannot be used, and says what will happen to it. */
async function checkForeign(
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

async function managerServes(
  client: KubeClient,
  stack: LocalStack,
  clock: Cli['clock'],
  signal: AbortSignal,
): Promise<void> {
  const deadline = clock.monotonic() + managerTimeoutMs;
  for (;;) {
    try {
      await client.list(resources.virtualClusters, { signal });
      return;
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
