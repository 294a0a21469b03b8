import { storedRequest, type VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeClient, resources } from '../../kube/index.ts';
import type { Cli } from './context.ts';
import { progressFor, withStep } from './progress.ts';
import type { VirtualClusterRef } from './virtual-clusters.ts';
import { type WaitOptions, waitFor } from './wait-for.ts';

/** What the manager is asked for by an annotation of a VirtualCluster. */
interface ManagerRequest {
  client: KubeClient;
  ref: VirtualClusterRef;
  annotation: string;
  value: string;
}

export async function sendRequest(
  { client, ref, annotation, value }: ManagerRequest,
  signal: AbortSignal,
): Promise<void> {
  const patch = { metadata: { annotations: { [annotation]: value } } };
  await client.patch(resources.virtualClusters, ref, patch, { type: 'merge', signal });
}

/**
 * Whether the manager has followed this request or a later one, by what `followedOf` reads from the status. Requests have
 * no order: anybody writes them, as any text, and clocks differ. `before`: the VirtualCluster before the request is sent.
 */
export function followsRequest(
  { annotation, value }: Pick<ManagerRequest, 'annotation' | 'value'>,
  before: VirtualCluster,
  followedOf: (status: NonNullable<VirtualCluster['status']>) => string | undefined,
): (found: VirtualCluster) => boolean {
  const pending = before.metadata.annotations?.[annotation];
  const earlier = [
    followedOf(before.status ?? {}),
    pending === undefined ? undefined : storedRequest(pending),
  ];
  const own = storedRequest(value);
  return ({ status = {} }) => {
    const followed = followedOf(status);
    return followed === own || (followed !== undefined && !earlier.includes(followed));
  };
}

/**
 * Sends the request and waits until `until` sees its effect in the VirtualCluster; shows progress. Throws as `waitFor`
 * does.
 */
export async function requestAndWait(
  cli: Cli,
  request: ManagerRequest,
  wait: Pick<WaitOptions, 'timeoutMs' | 'what' | 'until'>,
): Promise<void> {
  await sendRequest(request, cli.signal);
  const { client, ref } = request;
  const { clock, signal } = cli;
  const progress = progressFor(cli);
  try {
    await withStep(progress, `Asking the manager to ${wait.what}`, (step) =>
      waitFor({
        ...{ client, ref, clock, signal, ...wait },
        onChange: () => step.update('waiting for the manager'),
      }),
    );
  } finally {
    progress.close();
  }
}
