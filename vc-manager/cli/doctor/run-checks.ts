import { access, constants, readFile, statfs } from 'node:fs/promises';
import { freemem } from 'node:os';
import { dirname } from 'node:path';
import { execa } from 'execa';
import { Binaries, defaultCacheDirectory } from '../../binaries/index.ts';
import { freePort, machineAddress, NetworkError } from '../../os/network.ts';
import type { Cli } from '../context.ts';
import { findSupervisor } from '../state/supervisor-lock.ts';
import { type Finding, missing, ok, warn } from './check.ts';
import { checkDisk, checkInotify, checkMemory, checkNode, checkOpenFiles, checkPlatform } from './machine.ts';

const neededForState = 1_000_000_000;
const neededForBinaries = 600_000_000;
const neededForBuilds = 5_000_000_000;

/** All that the local stack needs of this machine. Changes nothing. */
export async function runChecks(cli: Cli, stateDir: string): Promise<Finding[]> {
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
    // What runs already has its memory and its ports.
    ...(supervisor === undefined ? [checkMemory(await availableMemory(), 2), ...(await checkPorts())] : []),
    checkInotify(await numberIn('/proc/sys/fs/inotify/max_user_instances')),
    checkOpenFiles(await hardLimitOfOpenFiles()),
    checkAddress(),
    supervisor === undefined
      ? ok('local stack', `none runs in ${stateDir}`)
      : ok('local stack', `runs in ${stateDir} (process ${supervisor.pid})`),
  ];
}

async function checkBinaries({ env, clock }: Cli, cacheDir: string): Promise<Finding[]> {
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

async function checkWritable(directory: string): Promise<Finding> {
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

async function checkPorts(): Promise<Finding[]> {
  const ranges = [
    { what: 'ports of the local stack', first: 20_000, last: 20_999 },
    { what: 'ports of tenants', first: 21_000, last: 21_999 },
    { what: 'ports of the syncer', first: 22_000, last: 22_999 },
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

function checkAddress(): Finding {
  const address = machineAddress();
  if (address !== undefined) return ok('network address', address);
  return warn(
    'network address',
    'only loopback',
    'enough for simulated nodes; for a super cluster of yours, its pods must reach this machine',
  );
}

async function availableMemory(): Promise<number> {
  const text = await readFile('/proc/meminfo', 'utf8').catch(() => '');
  const kilobytes = /^MemAvailable:\s+(\d+) kB/m.exec(text)?.[1];
  return kilobytes === undefined ? freemem() : Number(kilobytes) * 1024;
}

async function hardLimitOfOpenFiles(): Promise<number | undefined> {
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const limit = /^Max open files\s+\S+\s+(\d+)/m.exec(text)?.[1];
  return limit === undefined ? undefined : Number(limit);
}

async function numberIn(file: string): Promise<number | undefined> {
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
