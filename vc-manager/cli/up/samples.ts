import { apiVersion } from '../../../api/names.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  connectionFromSecret,
  createIfAbsent,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { simulatedStorageClass } from '../../local-stack/simulated-nodes.ts';
import type { Cli } from '../context.ts';
import { describeFailure } from '../errors.ts';
import type { Progress } from '../progress.ts';
import { withConnection } from '../super-cluster.ts';
import {
  adminKubeconfig,
  getVirtualCluster,
  listTenants,
  type VirtualClusterRef,
} from '../virtual-clusters.ts';
import { waitUntilUsable } from '../wait-for.ts';

const tenantsTimeoutMs = 180_000;
const samplesTimeoutMs = 90_000;
const samplesPollMs = 500;

interface SampleOptions extends Pick<Cli, 'clock'> {
  client: KubeClient;
  progress: Progress;
  signal: AbortSignal;
  withStorage: boolean;
}

/** Waits for every tenant and returns those that are ready; the others are printed with the reason. */
export async function awaitTenants({
  client,
  progress,
  clock,
  signal,
}: SampleOptions): Promise<VirtualCluster[]> {
  const tenants = await keptTenants(client, signal);
  if (tenants.length === 0) return [];
  const waiting = new Set(tenants.map((vc) => vc.metadata.name));
  const step = progress.step(
    tenants.length === 1 ? 'Starting the tenant' : `Starting ${tenants.length} tenants`,
  );
  const showProgress = (): void => step.update(`waiting for ${[...waiting].slice(0, 5).join(', ')}`);
  showProgress();
  const problems: string[] = [];
  const ready: VirtualCluster[] = [];
  await Promise.all(
    tenants.map(async (vc) => {
      try {
        await waitUntilUsable(client, refOf(vc), { clock, signal, timeoutMs: tenantsTimeoutMs });
        ready.push(vc);
      } catch (error) {
        if (signal.aborted) throw error;
        problems.push(describeFailure(error).message);
      }
      waiting.delete(vc.metadata.name);
      if (waiting.size > 0) showProgress();
    }),
  ).catch((error: unknown) => {
    step.fail();
    throw error;
  });
  if (problems.length === 0) step.done();
  else step.fail(`${ready.length} of ${tenants.length} are ready`);
  for (const problem of problems) progress.note(`  ${problem}`);
  return ready;
}

/** Creates the samples in the tenants that are annotated for them, and waits a limited time until their pods run. */
export async function awaitSamples(
  tenants: readonly VirtualCluster[],
  options: SampleOptions,
): Promise<void> {
  const marked = tenants.filter(({ metadata }) => metadata.annotations?.[samplesAnnotation] === 'wanted');
  if (marked.length === 0) return;
  const { progress, signal } = options;
  const step = progress.step('Starting sample workloads');
  const states = new Map<string, SampleState>();
  const showProgress = (): void => {
    const sums = [...states].map(
      ([name, { running, wanted }]) => `${name} ${running}/${wanted} pods running`,
    );
    step.update(sums.join(', '));
  };
  try {
    const results = await Promise.all(
      marked.map((vc) =>
        runSamples(vc, options, (state) => {
          states.set(vc.metadata.name ?? '', state);
          showProgress();
        }),
      ),
    );
    const late = results.filter((problem) => problem !== undefined);
    if (late.length === 0) step.done();
    else step.fail('not all of them run');
    for (const problem of late) progress.note(`  ${problem}`);
  } catch (error) {
    step.fail();
    if (signal.aborted) throw error;
    progress.note(`  ${describeFailure(error).message}`);
  }
}

/** Returns a message when some of the pods do not run in time. */
async function runSamples(
  vc: VirtualCluster,
  { client, clock, signal, withStorage }: SampleOptions,
  onState: (state: SampleState) => void,
): Promise<string | undefined> {
  const ref = refOf(vc);
  const kubeconfig = await adminKubeconfig(client, await getVirtualCluster(client, ref, signal), signal);
  return withConnection(connectionFromSecret(kubeconfig), async (tenant) => {
    await createSamples({ client: tenant, signal, withStorage });
    const annotations = { [samplesAnnotation]: 'made' };
    await client.patch(
      resources.virtualClusters,
      ref,
      { metadata: { annotations } },
      { type: 'merge', signal },
    );
    const deadline = clock.monotonic() + samplesTimeoutMs;
    for (;;) {
      const state = await observeSamples(tenant, signal);
      onState(state);
      if (state.running >= state.wanted) return undefined;
      if (clock.monotonic() > deadline) {
        return (
          `only ${state.running} of ${state.wanted} sample pods run in ${ref.name} after ${samplesTimeoutMs / 1000} s; it goes on. ` +
          `Look at them with: kubectl -n ${sampleNamespace} get pods,events`
        );
      }
      await clock.sleep(samplesPollMs, signal);
    }
  });
}

/** Annotation: `wanted` until the sample workloads have been put into the tenant, then `made`. */
const samplesAnnotation = 'skerry.dev/samples';

const sampleTenantNamespace = 'default';

function sampleTenantNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `tenant-${index + 1}`);
}

/** Creates the sample tenants that do not exist. */
export async function createSampleTenants(
  client: KubeClient,
  options: { count: number; withSamples: boolean; signal: AbortSignal },
): Promise<void> {
  for (const name of sampleTenantNames(options.count)) {
    const vc: VirtualCluster = {
      apiVersion,
      kind: 'VirtualCluster',
      metadata: {
        name,
        namespace: sampleTenantNamespace,
        ...(options.withSamples ? { annotations: { [samplesAnnotation]: 'wanted' } } : {}),
      },
      spec: {},
    };
    await createIfAbsent(client, resources.virtualClusters, vc, { signal: options.signal });
  }
}

/** All that have an owner and are not being deleted. */
export async function keptTenants(client: KubeClient, signal: AbortSignal): Promise<VirtualCluster[]> {
  const tenants = await listTenants(client, { signal });
  return tenants.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

function refOf({ metadata }: VirtualCluster): VirtualClusterRef {
  return { namespace: metadata.namespace ?? sampleTenantNamespace, name: metadata.name ?? '' };
}

/** Whether the sample workloads have been put into the tenant. */
export function hasSamples({ metadata }: VirtualCluster): boolean {
  return metadata.annotations?.[samplesAnnotation] === 'made';
}

export const sampleNamespace = 'shop';

const pauseImage = 'registry.k8s.io/pause:3.10';

interface CreateSamplesOptions {
  client: KubeClient;
  signal: AbortSignal;
  /** A claim and a pod that uses it; needs the StorageClass of the simulation. */
  withStorage: boolean;
}

/** Creates a small shop in a tenant. Objects that exist are left unchanged. */
async function createSamples({ client, signal, withStorage }: CreateSamplesOptions): Promise<void> {
  const objects: [Resource, KubeObject][] = [
    [resources.namespaces, { metadata: { name: sampleNamespace } }],
    [resources.deployments, deployment('web', 3)],
    [resources.services, webService()],
  ];
  if (withStorage) {
    objects.push(
      [resources.persistentVolumeClaims, dataClaim()],
      [resources.deployments, deployment('database', 1, 'data')],
    );
  }
  for (const [resource, object] of objects) await createIfAbsent(client, resource, object, { signal });
}

interface SampleState {
  running: number;
  wanted: number;
}

/** How many pods of the shop run, and how many its Deployments ask for. */
async function observeSamples(client: KubeClient, signal: AbortSignal): Promise<SampleState> {
  interface Deployment extends KubeObject {
    spec?: { replicas?: number };
  }
  interface Pod extends KubeObject {
    status?: { phase?: string };
  }
  const where = { namespace: sampleNamespace, signal };
  const { items: deployments } = await client.list<Deployment>(resources.deployments, where);
  const { items: pods } = await client.list<Pod>(resources.pods, where);
  return {
    wanted: deployments.reduce((sum, { spec }) => sum + (spec?.replicas ?? 1), 0),
    running: pods.filter(({ status }) => status?.phase === 'Running').length,
  };
}

function deployment(name: string, replicas: number, claimName?: string): KubeObject {
  const labels = { app: name };
  const volume = {
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
  };
  const mount = { volumeMounts: [{ name: 'data', mountPath: '/data' }] };
  return {
    metadata: { name, namespace: sampleNamespace, labels },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          containers: [
            {
              name,
              image: pauseImage,
              resources: { requests: { cpu: '10m', memory: '16Mi' } },
              ...(claimName === undefined ? {} : mount),
            },
          ],
          ...(claimName === undefined ? {} : volume),
        },
      },
    },
  };
}

function webService(): KubeObject {
  return {
    metadata: { name: 'web', namespace: sampleNamespace },
    spec: { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] },
  };
}

function dataClaim(): KubeObject {
  return {
    metadata: { name: 'data', namespace: sampleNamespace },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: simulatedStorageClass,
      resources: { requests: { storage: '1Gi' } },
    },
  };
}
