import { access, constants, readFile, statfs } from 'node:fs/promises';
import { freemem } from 'node:os';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { execa } from 'execa';
import { loadKubeconfig } from '../../../kube/index.ts';
import { openFileLimits } from '../../../program/open-files.ts';
import { Binaries, defaultCacheDirectory } from '../../binaries/index.ts';
import { findCgroups } from '../../os/cgroups.ts';
import { egressFilterProblem } from '../../os/egress-filter.ts';
import { freePort, machineAddress, NetworkError } from '../../os/network.ts';
import { type CheckResult, checkCluster, missing, ok, warn } from '../cluster-checks.ts';
import { outputOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { exitCodes, invalidArgument } from '../errors.ts';
import { type Style, serialize, styler, type TableFormat, table } from '../output.ts';
import { findSupervisor, stateChoice } from '../state-directory.ts';
import { withConnection } from '../super-cluster.ts';

interface Flags extends GlobalFlags {
  output: TableFormat;
  superKubeconfig?: string;
}

const help = `
Changes nothing. The exit code is 1 when something is missing without which "vc-manager up" fails, or with
--super-kubeconfig an install of the Helm chart; warnings are none.

Examples:
  vc-manager doctor
  vc-manager doctor --super-kubeconfig ~/.kube/config`;

export function configure(command: Command, cli: Cli): void {
  command
    .option(
      '--super-kubeconfig <file>',
      'check the cluster of this file instead of this machine, for an install there (with --context)',
    )
    .addOption(outputOption('how to print it'))
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => doctor(cli, chosen.optsWithGlobals<Flags>()));
}

async function doctor(cli: Cli, flags: Flags): Promise<void> {
  const { superKubeconfig, context } = flags;
  // Nothing of that cluster would be checked.
  if (superKubeconfig === undefined && (flags.kubeconfig !== undefined || context !== undefined))
    throw invalidArgument(
      '"doctor" checks the cluster of --super-kubeconfig (with --context), not of --kubeconfig',
    );
  const findings =
    superKubeconfig === undefined
      ? await runChecks(cli, stateChoice(cli.env, flags).directory)
      : await withConnection(await loadKubeconfig(superKubeconfig, context), (client) =>
          checkCluster(client, cli.signal),
        );
  cli.stdout.write(render(findings, flags.output, cli));
  if (findings.some(({ state }) => state === 'missing')) cli.setExitCode(exitCodes.failure);
}

function render(findings: readonly CheckResult[], output: Flags['output'], { stdout }: Cli): string {
  if (output !== 'table') return serialize(output, findings);
  const style = styler(stdout);
  const marks = { ok: 'ok', warn: 'warn', missing: 'MISSING' };
  const colours: Readonly<Record<string, Style>> = { ok: 'green', warn: 'yellow', MISSING: 'red' };
  const rows = findings.flatMap(({ name, state, detail, remedy }) => [
    [marks[state], name, detail],
    ...(remedy === undefined ? [] : [['', '', `-> ${remedy}`]]),
  ]);
  return table(undefined, rows, (mark) => style(colours[mark] ?? 'reset', mark));
}

const neededForState = 1_000_000_000;
const neededForBinaries = 600_000_000;
const neededForBuilds = 5_000_000_000;

const gigabyte = 1_000_000_000;

/** Super cluster, manager, syncer and two tenants were measured at about 1.3 GB. */
const neededMemory = 1.5 * gigabyte;
const neededPerTenant = 0.15 * gigabyte;

/** Counted on Kubernetes 1.36: what a tenant's kube-apiserver watches its files with. */
const inotifyPerControlPlane = 7;

/** Checks everything that the local stack needs of this machine. Changes nothing. */
export async function runChecks(cli: Cli, stateDir: string): Promise<CheckResult[]> {
  const { env, clock } = cli;
  const cacheDir = defaultCacheDirectory(env);
  const supervisor = await findSupervisor(stateDir, clock);
  const binaries = await checkBinaries(cli, cacheDir);
  const isComplete = binaries.every(({ state }) => state === 'ok');
  return [
    checkPlatform(process.platform, process.arch),
    checkNode(process.versions.node),
    ...binaries,
    await checkWritable(stateDir),
    checkDisk('state', stateDir, await freeBytes(stateDir), neededForState),
    ...(isComplete
      ? []
      : [
          checkDisk(
            'binaries',
            cacheDir,
            await freeBytes(cacheDir),
            (await goVersion(env)) ? neededForBuilds : neededForBinaries,
          ),
        ]),
    // A running stack has its memory and its ports already.
    ...(supervisor === undefined ? [checkMemory(freemem(), 2), ...(await checkPorts())] : []),
    checkInotify(await numberIn('/proc/sys/fs/inotify/max_user_instances')),
    checkOpenFiles((await openFileLimits())?.hard),
    checkAddress(),
    checkConfinement(findCgroups()?.version, egressFilterProblem()),
    supervisor === undefined
      ? ok('local stack', `none runs in ${stateDir}`)
      : ok('local stack', `runs in ${stateDir} (process ${supervisor.pid})`),
  ];
}

/** Of the process driver, which the local stack has; where they may dial is the same for containers of the compose driver. */
export function checkConfinement(groups: 1 | 2 | undefined, problem: string | undefined): CheckResult {
  const limits =
    groups === undefined
      ? 'memory and CPU are not limited, as this user may make no control groups'
      : `control groups (version ${groups}) limit memory and CPU`;
  const dials =
    problem === undefined
      ? 'rules of nftables let them dial only what they need on this machine'
      : `they may dial any port here (${problem})`;
  const detail = `control planes of tenants are processes of this machine: ${limits}, and ${dials}, with --driver compose as well`;
  if (groups !== undefined && problem === undefined) return ok('isolation', detail);
  return warn(
    'isolation',
    detail,
    'for tenants that you do not trust run the manager as root with nft installed, or use --driver kubernetes: docs/drivers.md#limits',
  );
}

async function checkBinaries({ env, clock }: Cli, cacheDir: string): Promise<CheckResult[]> {
  const listing = await new Binaries({ cacheDir, env, clock }).list();
  const absent = listing.filter(({ found }) => found === undefined);
  if (absent.length === 0) return [ok('binaries', `all ${listing.length} are on this machine`)];
  const names = absent.map(({ name, version }) => `${name} ${version}`).join(', ');
  const go = await goVersion(env);
  const toolchain =
    go === undefined
      ? warn(
          'Go toolchain',
          'none',
          'only needed where the release servers cannot be reached: install Go 1.26 or newer',
        )
      : ok('Go toolchain', go);
  return [
    warn(
      'binaries',
      `not on this machine yet: ${names}`,
      '"vc-manager binaries --fetch" downloads them, or builds them with Go; or set SKERRY_BINARIES to a directory that has them',
    ),
    toolchain,
  ];
}

async function goVersion(env: Cli['env']): Promise<string | undefined> {
  const result = await execa('go', ['env', 'GOVERSION'], {
    env,
    extendEnv: false,
    reject: false,
    timeout: 10_000,
  });
  return result.failed ? undefined : result.stdout.trim();
}

async function checkWritable(directory: string): Promise<CheckResult> {
  const place = await nearestExisting(directory);
  try {
    await access(place, constants.W_OK | constants.X_OK);
    return ok('state directory', directory);
  } catch {
    return missing(
      'state directory',
      `${place} cannot be written`,
      `make it writable, or use another: --state-dir DIRECTORY`,
    );
  }
}

async function checkPorts(): Promise<CheckResult[]> {
  const ranges = [
    { what: 'ports of the local stack', first: 20_000, last: 20_999 },
    { what: 'ports of tenants', first: 21_000, last: 21_999 },
    { what: 'ports of syncer and gateway', first: 22_000, last: 22_999 },
    { what: 'ports of tenants at the gateway', first: 23_000, last: 23_999 },
  ];
  return Promise.all(
    ranges.map(async ({ what, first, last }) => {
      try {
        await freePort({ host: '127.0.0.1', range: [first, last] });
        return ok(what, `free ones from ${first} to ${last}`);
      } catch (error) {
        if (!(error instanceof NetworkError)) throw error;
        return missing(what, error.message, 'end programs that listen there');
      }
    }),
  );
}

function checkAddress(): CheckResult {
  const address = machineAddress();
  if (address !== undefined) return ok('network address', address);
  return warn(
    'network address',
    'only loopback',
    'enough for simulated nodes; for a super cluster of yours, its pods must reach this machine',
  );
}

/** Undefined where there is no such file. */
export async function numberIn(file: string): Promise<number | undefined> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  return text === undefined ? undefined : Number(text);
}

async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(await nearestExisting(directory));
  return bavail * bsize;
}

async function nearestExisting(directory: string): Promise<string> {
  for (let place = directory; ; place = dirname(place)) {
    const exists = await access(place).then(
      () => true,
      () => false,
    );
    if (exists || place === dirname(place)) return place;
  }
}

export function checkPlatform(platform: string, arch: string): CheckResult {
  const name = 'operating system';
  const detail = `${platform}/${arch}`;
  if (platform === 'linux' || platform === 'darwin') return ok(name, detail);
  const remedy = platform === 'win32' ? 'run Skerry inside WSL' : 'run Skerry on Linux or macOS';
  return missing(name, `${detail} is not supported`, remedy);
}

export function checkNode(version: string): CheckResult {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return ok('Node.js', version);
  return missing(
    'Node.js',
    `${version} is too old`,
    'install Node.js 22.18 or newer, or run "npm ci", which brings one along',
  );
}

export function checkMemory(availableBytes: number, tenants: number): CheckResult {
  const name = 'memory';
  const detail = `${inGigabytes(availableBytes)} available`;
  const needed = neededMemory + tenants * neededPerTenant;
  if (availableBytes >= needed) return ok(name, detail);
  return warn(
    name,
    `${detail}, about ${inGigabytes(needed)} are needed`,
    'end other programs, or start with fewer tenants: vc-manager up --tenants 0',
  );
}

export function checkDisk(
  what: string,
  directory: string,
  freeBytes: number,
  neededBytes: number,
): CheckResult {
  const name = `disk space for ${what}`;
  const detail = `${inGigabytes(freeBytes)} free for ${directory}`;
  if (freeBytes >= neededBytes) return ok(name, detail);
  return missing(
    name,
    `${detail}, ${inGigabytes(neededBytes)} are needed`,
    `free space there, or use another place (${what === 'binaries' ? 'SKERRY_CACHE' : '--state-dir'})`,
  );
}

export function checkInotify(instances: number | undefined): CheckResult {
  const name = 'inotify instances';
  // Absent where the system has none to limit.
  if (instances === undefined) return ok(name, 'not limited');
  if (instances >= 512) return ok(name, `${instances} allowed`);
  return warn(
    name,
    `${instances} allowed, which is used up by about ${Math.floor(instances / inotifyPerControlPlane)} control planes`,
    'sudo sysctl fs.inotify.max_user_instances=8192',
  );
}

export function checkOpenFiles(hardLimit: number | undefined): CheckResult {
  const name = 'open files';
  if (hardLimit === undefined || hardLimit === Number.POSITIVE_INFINITY) return ok(name, 'not limited');
  if (hardLimit >= 8_192) return ok(name, `${hardLimit} allowed`);
  return warn(
    name,
    `${hardLimit} allowed`,
    'raise the hard limit: ulimit -Hn 65536, or LimitNOFILE of the service',
  );
}

export function inGigabytes(bytes: number): string {
  return `${(bytes / gigabyte).toFixed(1)} GB`;
}
