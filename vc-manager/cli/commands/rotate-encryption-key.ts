import type { Command } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import { tenantArgument, waitTimeoutOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { followsRequest, hasEnded, requestAndWait, sendRequest } from '../manager-request.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, namespaceFlag, validRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  dryRun?: boolean;
  wait?: boolean;
  timeout: number;
}

const help = `
The Secrets of a tenant are encrypted in the datastore with a key of its own. This gives it another one, as a job: API
servers learn the new key, write with it, every Secret is written anew, and the old key is forgotten. The API server is
started anew three times. "vc-manager jobs cancel" takes it back as long as nothing is written with the new key.

Examples:
  vc-manager rotate-encryption-key team-blue --dry-run
  vc-manager rotate-encryption-key team-blue --wait
  vc-manager rotate-encryption-key team-blue -n teams`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--dry-run', 'change nothing; say what would be done')
    .option('--wait', 'return when the old key is gone')
    .addOption(waitTimeoutOption())
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) =>
      rotateEncryptionKey(cli, name, chosen.optsWithGlobals<Flags>()),
    );
}

async function rotateEncryptionKey(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    const before = await getVirtualCluster(client, ref, cli.signal);
    if (before.status?.identities?.tenant === undefined)
      throw new CliError(
        'Conflict',
        `${name} has not been ready yet: it gets a key of its own when it is made`,
      );
    if (flags.dryRun) {
      const isAsleep = before.status.phase === 'Asleep';
      cli.stdout.write(
        `${name} would get a new encryption key (dry run): its API server is replaced three times, every Secret is written ` +
          `anew, and the old key is forgotten.${isAsleep ? ' It sleeps, and is woken for that.' : ''}\n`,
      );
      return;
    }
    const asked = new Date(cli.clock.now()).toISOString();
    const request = { client, ref, annotation: annotationKeys.rotateEncryptionKey, value: asked };
    if (!flags.wait) {
      await sendRequest(request, cli.signal);
      cli.stdout.write(
        `a new encryption key for ${name} is asked for: see "vc-manager jobs ${name}${namespaceFlag(ref.namespace)}"\n`,
      );
      return;
    }
    const isFollowed = followsRequest(request, before, ({ jobs }) => jobs?.rotated);
    const cancelled = `the rotation of the encryption key of ${name} was cancelled`;
    await requestAndWait(cli, request, {
      timeoutMs: flags.timeout,
      what: 'rotate its encryption key',
      until: hasEnded(isFollowed, 'key-rotation', cancelled),
    });
    cli.stdout.write(`encryption key of ${name} rotated\n`);
  });
}
