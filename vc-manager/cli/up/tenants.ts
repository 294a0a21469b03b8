import { apiVersion } from '../../../api/names.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  ApiError,
  ConnectionError,
  connectionFromSecret,
  isAlreadyExists,
  type KubeClient,
  resources,
} from '../../../kube/index.ts';
import type { Cli } from '../context.ts';
import { CliError } from '../errors.ts';
import { withConnection } from '../super-cluster.ts';
import {
  adminKubeconfig,
  getVirtualCluster,
  isReady,
  readyCondition,
  type VirtualClusterRef,
} from '../virtual-clusters.ts';
import { type WaitOptions, waitFor } from '../wait-for.ts';

/** Annotation: `wanted` until the sample workloads have been put into the tenant. */
export const samplesKey = 'skerry.dev/samples';

const namespace = 'default';
const lookEveryMs = 200;

export function sampleTenantNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `tenant-${index + 1}`);
}

/** Creates those that are missing. */
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
        namespace,
        ...(options.withSamples ? { annotations: { [samplesKey]: 'wanted' } } : {}),
      },
      spec: {},
    };
    await client.create(resources.virtualClusters, vc, { signal: options.signal }).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
  }
}

/** All that are not being deleted. */
export async function existingTenants(client: KubeClient, signal: AbortSignal): Promise<VirtualCluster[]> {
  const { items } = await client.list<VirtualCluster>(resources.virtualClusters, { signal });
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

export function refOf({ metadata }: VirtualCluster): VirtualClusterRef {
  return { namespace: metadata.namespace ?? namespace, name: metadata.name ?? '' };
}

/**
 * Waits until the tenant's own API server answers: a status of before the last stop says nothing.
 * Throws `ProvisioningFailed`, `TimedOut` or `NotFound`.
 */
export async function waitUntilUsable(
  client: KubeClient,
  ref: VirtualClusterRef,
  options: Pick<Cli, 'clock' | 'signal'> & Pick<WaitOptions, 'timeoutMs' | 'onChange'>,
): Promise<void> {
  const { clock, signal, timeoutMs } = options;
  const deadline = clock.monotonic() + timeoutMs;
  await waitFor({ client, ref, ...options, what: 'become Ready', until: readyOrThrow(ref) });
  const kubeconfig = await adminKubeconfig(client, await getVirtualCluster(client, ref, signal), signal);
  await withConnection(connectionFromSecret(kubeconfig), async (tenant) => {
    while (!(await answers(tenant, signal))) {
      if (clock.monotonic() > deadline) {
        throw new CliError(
          'TimedOut',
          `the API server of ${ref.name} did not answer within ${timeoutMs / 1000} s: see "vc-manager describe ${ref.name} -n ${ref.namespace}"`,
        );
      }
      await clock.sleep(lookEveryMs, signal);
    }
  });
}

/** For `waitFor`: true when Ready, throws when it failed for good or is gone. */
export function readyOrThrow(ref: VirtualClusterRef): (vc: VirtualCluster | undefined) => boolean {
  return (vc) => {
    if (vc === undefined || vc.metadata.deletionTimestamp !== undefined) {
      throw new CliError('NotFound', `VirtualCluster ${ref.name} was deleted before it became Ready`);
    }
    if (isReady(vc)) return true;
    const { phase, observedGeneration } = vc.status ?? {};
    if (
      (phase === 'Failed' || phase === 'Cancelled') &&
      (observedGeneration ?? 0) >= (vc.metadata.generation ?? 0)
    ) {
      throw new CliError(
        'ProvisioningFailed',
        `${ref.name} ${phase === 'Failed' ? 'has failed' : 'was cancelled'}: ${readyCondition(vc)?.message ?? `see "vc-manager describe ${ref.name} -n ${ref.namespace}"`}`,
      );
    }
    return false;
  };
}

async function answers(tenant: KubeClient, signal: AbortSignal): Promise<boolean> {
  try {
    await tenant.raw('GET', '/readyz', { signal, timeoutMs: 5_000 });
    return true;
  } catch (error) {
    // Until its own roles exist, a starting API server forbids everything.
    if (error instanceof ConnectionError || error instanceof ApiError) return false;
    throw error;
  }
}
