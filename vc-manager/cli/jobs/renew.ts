import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import type { Cli } from '../context.ts';
import { CliError } from '../errors.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, type VirtualClusterRef } from '../virtual-clusters.ts';
import { annotate, answered, type Flags } from './ask.ts';

/** Asks for new certificates; with `wait` it returns when the control plane has taken them up. */
export async function renewCertificates(
  cli: Cli,
  ref: VirtualClusterRef,
  flags: Flags & { wait?: boolean },
): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    const { name } = ref;
    refuse(await getVirtualCluster(client, ref, cli.signal));
    const asked = new Date(cli.clock.now()).toISOString();
    await annotate(client, ref, annotationKeys.renewCertificates, asked, cli.signal);
    if (!flags.wait) {
      cli.stdout.write(`new certificates for ${name} are asked for: see "vc-manager jobs ${name}"\n`);
      return;
    }
    const until = untilRenewed(name, asked);
    await answered(cli, client, { ref, flags, what: 'renew its certificates' }, until);
    cli.stdout.write(`certificates of ${name} renewed\n`);
  });
}

/** Those for whom a manager does nothing now. */
function refuse({ metadata, status }: VirtualCluster): void {
  const { name } = metadata;
  if (metadata.deletionTimestamp !== undefined) throw new CliError('Conflict', `${name} is being deleted`);
  if (status?.phase === 'Cancelled')
    throw new CliError(
      'Conflict',
      `the creation of ${name} was cancelled: "vc-manager jobs retry ${name}" begins it anew, with new certificates`,
    );
}

/**
 * Whether the control plane has taken up what was asked for, as each state of its VirtualCluster tells: by the renewal,
 * by whatever other job was under way, or along with a later request. Throws `Conflict` when the renewal was cancelled.
 */
export function untilRenewed(name: string, asked: string): (found: VirtualCluster | undefined) => boolean {
  let renewal: string | undefined;
  return (found) => {
    if (found === undefined) throw new CliError('NotFound', `${name} is gone`);
    const { renewed = '', current, history: [last] = [] } = found.status?.jobs ?? {};
    if (current?.kind === 'renewal') renewal = current.id;
    if (renewed < asked || current !== undefined) return false;
    // One that made way for a change of version has ended in the same way, but is not the last.
    if (last !== undefined && last.id === renewal && last.result === 'Cancelled')
      throw new CliError('Conflict', `the renewal of ${name} was cancelled`);
    return true;
  };
}
