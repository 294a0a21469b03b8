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
