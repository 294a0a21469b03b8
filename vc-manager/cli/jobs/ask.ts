import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { type KubeClient, resources } from '../../../kube/index.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { inStep, progressFor } from '../progress/index.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, type VirtualClusterRef } from '../virtual-clusters.ts';
import { waitFor } from '../wait-for.ts';

export interface Flags extends GlobalFlags {
  timeout: number;
}

/** Asks for the end of what is under way, and waits for the manager's answer. Throws `Conflict` when it refuses. */
export async function cancelJob(cli: Cli, ref: VirtualClusterRef, flags: Flags): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    const current = vc.status?.jobs?.current;
    if (current === undefined)
      throw new CliError(
        'Conflict',
        `nothing is under way for ${ref.name}: see "vc-manager jobs ${ref.name}"`,
      );
    const { id, kind } = current;
    await annotate(client, ref, annotationKeys.cancelJob, id, cli.signal);
    await answered(cli, client, { ref, flags, what: `cancel its ${kind}` }, (found) => {
      if (found === undefined) throw new CliError('Conflict', `${ref.name} is gone: its deletion has ended`);
      const { jobs } = found.status ?? {};
      if (jobs?.current?.id === id) {
        if (jobs.current.refusal === undefined) return false;
        throw new CliError(
          'Conflict',
          `the ${kind} of ${ref.name} is not cancelled: ${jobs.current.refusal}`,
        );
      }
      const ended = jobs?.history?.find((each) => each.id === id);
      if (ended?.result === 'Cancelled') return true;
      throw new CliError(
        'Conflict',
        `the ${kind} of ${ref.name} had ended before: ${ended?.result ?? 'it is forgotten'}`,
      );
    });
    cli.stdout.write(`${kind} of ${ref.name} cancelled\n`);
  });
}

/** Asks for another try, and waits until a manager has heard. */
export async function retryJob(cli: Cli, ref: VirtualClusterRef, flags: Flags): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    await getVirtualCluster(client, ref, cli.signal);
    const asked = new Date(cli.clock.now()).toISOString();
    await annotate(client, ref, annotationKeys.retryJob, asked, cli.signal);
    await answered(cli, client, { ref, flags, what: 'try again' }, (found) => {
      if (found === undefined) throw new CliError('NotFound', `${ref.name} is gone`);
      return found.status?.jobs?.retried === asked;
    });
    cli.stdout.write(`${ref.name} is tried again: see "vc-manager jobs ${ref.name}"\n`);
  });
}

export async function annotate(
  client: KubeClient,
  ref: VirtualClusterRef,
  key: string,
  value: string,
  signal: AbortSignal,
): Promise<void> {
  const patch = { metadata: { annotations: { [key]: value } } };
  await client.patch(resources.virtualClusters, ref, patch, { type: 'merge', signal });
}

export async function answered(
  cli: Cli,
  client: KubeClient,
  { ref, flags, what }: { ref: VirtualClusterRef; flags: Flags; what: string },
  until: (vc: VirtualCluster | undefined) => boolean,
): Promise<void> {
  const { clock, signal } = cli;
  const progress = progressFor(cli);
  try {
    await inStep(progress, `Asking the manager to ${what}`, (step) =>
      waitFor({
        client,
        ref,
        clock,
        signal,
        timeoutMs: flags.timeout,
        what,
        until,
        onChange: () => step.tell('waiting for the manager'),
      }),
    );
  } finally {
    progress.close();
  }
}
