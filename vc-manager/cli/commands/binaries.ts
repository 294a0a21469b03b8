import type { Command } from 'commander';
import { messageOf } from '../../../kube/index.ts';
import {
  Binaries,
  type BinaryListing,
  controlPlaneRequests,
  defaultCacheDirectory,
  defaultRequests,
} from '../../binaries/index.ts';
import { loadTemplates, selectTemplate } from '../../control-plane/template.ts';
import { kubernetesVersion } from '../arguments.ts';
import { outputOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { exitCodes, invalidArgument } from '../errors.ts';
import { binariesWithProgress } from '../fetch-binaries.ts';
import { serialize, type TableFormat, table } from '../output.ts';
import { withProgress } from '../progress.ts';

interface Flags extends GlobalFlags {
  fetch?: boolean;
  kubernetesVersion?: string;
  output: TableFormat;
}

const help = `
Looked for in this order: the directories in SKERRY_BINARIES and KUBEBUILDER_ASSETS, the cache, the official release
(with its SHA-256), a build from Go modules. The exit code is 1 when one is missing.

Examples:
  vc-manager binaries
  vc-manager binaries --fetch                    fetch what is missing ahead of time
  vc-manager binaries --fetch --kubernetes-version 1.36.2
  SKERRY_BINARIES=/opt/kubernetes/bin vc-manager binaries`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('--fetch', 'download or build what is missing')
    .option(
      '--kubernetes-version <version>',
      "those of a tenant's control plane in another version, like 1.36 or 1.36.2",
      kubernetesVersion,
    )
    .addOption(outputOption())
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => binaries(cli, chosen.optsWithGlobals<Flags>()));
}

async function binaries(cli: Cli, flags: Flags): Promise<void> {
  const { env, clock, signal } = cli;
  const requests =
    flags.kubernetesVersion === undefined
      ? defaultRequests()
      : controlPlaneRequests(await wholeVersion(flags.kubernetesVersion));
  if (flags.fetch)
    await withProgress(cli, (progress) =>
      binariesWithProgress(cli, progress).ensureAll(requests, { signal }),
    );
  const listing = await new Binaries({ cacheDir: defaultCacheDirectory(env), env, clock }).list(requests);
  cli.stdout.write(render(listing, flags.output));
  for (const { name, notes } of listing) for (const note of notes) cli.stderr.write(`${name}: ${note}\n`);
  const missing = listing.filter(({ found }) => found === undefined);
  if (missing.length === 0) return;
  cli.stderr.write(
    `${missing.length} missing: "vc-manager binaries --fetch" gets them, and so does "vc-manager up".\n`,
  );
  cli.setExitCode(exitCodes.failure);
}

/** `1.36` is the one that tenants of that version get. Throws `InvalidArgument`. */
async function wholeVersion(version: string): Promise<string> {
  if (version.split('.').length === 3) return version;
  try {
    return selectTemplate(await loadTemplates(), { version, defaultVersion: version }).version;
  } catch (error) {
    throw invalidArgument(messageOf(error));
  }
}

function render(listing: readonly BinaryListing[], output: Flags['output']): string {
  const plain = listing.map(({ name, version, found }) => ({
    name,
    version: found?.version ?? version,
    source: found?.source ?? 'missing',
    ...(found === undefined ? {} : { path: found.path, sizeBytes: found.sizeBytes }),
  }));
  if (output !== 'table') return serialize(output, plain);
  return table(
    ['NAME', 'VERSION', 'SOURCE', 'SIZE', 'PATH'],
    plain.map(({ name, version, source, path, sizeBytes }) => [
      name,
      version,
      source,
      sizeBytes === undefined ? '-' : `${Math.round(sizeBytes / 1_000_000)} MB`,
      path ?? '-',
    ]),
  );
}
