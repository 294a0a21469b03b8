import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync, watch } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { execa } from 'execa';
import type { BuildRecipe } from '../../../vc-manager/binaries/index.ts';
import { patienceMs } from '../../harness/poll.ts';
import { built, type Cache } from '../../real-node/build/programs.ts';
import { isOnPath } from '../../real-node/machine/machine.ts';

/** Program to the Debian package that has it. */
const programs: Readonly<Record<string, string>> = {
  dockerd: 'docker.io',
  docker: 'docker.io',
  containerd: 'containerd',
  runc: 'runc',
  unshare: 'util-linux',
  setpriv: 'util-linux',
  go: 'golang, to build Docker Compose',
  // Of which images are made.
  'redis-server': 'redis-server',
  npm: 'npm',
  gcc: 'gcc and libc6-dev',
  make: 'make',
  bzip2: 'bzip2',
  'apt-get': 'apt, of Debian or Ubuntu',
};

/** Why this machine cannot run a Docker engine of the tests' own; undefined when it can. */
export function whyNoEngine(env: Readonly<Record<string, string | undefined>>): string | undefined {
  if (process.platform !== 'linux') return 'a Docker engine of our own needs Linux';
  if (process.getuid?.() !== 0) return 'a Docker engine of our own needs root';
  const missing = Object.keys(programs).filter((name) => !isOnPath(name, env));
  if (missing.length === 0) return undefined;
  return `missing: ${[...new Set(missing.map((name) => programs[name]))].join(', ')}`;
}

/** overlay2 where this directory's file system can be a layer of one, else vfs, which copies every layer. */
async function storageDriver(directory: string): Promise<'overlay2' | 'vfs'> {
  const probe = join(directory, 'probe');
  const [lower, upper, work, merged] = ['lower', 'upper', 'work', 'merged'].map((name) => join(probe, name));
  for (const each of [lower, upper, work, merged]) await mkdir(each as string, { recursive: true });
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
  // In a namespace of its own: nothing stays mounted.
  const { exitCode } = await execa(
    'unshare',
    ['--mount', 'mount', '-t', 'overlay', 'overlay', '-o', options, merged as string],
    { reject: false },
  );
  await rm(probe, { recursive: true, force: true });
  return exitCode === 0 ? 'overlay2' : 'vfs';
}

interface DockerResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

interface DockerOptions {
  /** Beside DOCKER_HOST and DOCKER_CONFIG. */
  env?: Record<string, string>;
  cwd?: string;
  /** Standard input. */
  input?: string;
  timeoutMs?: number;
}

const defaultTimeoutMs = patienceMs;

/** Runs `docker ...` at the engine; gives what happened, and throws only when it did not end in time. */
export async function docker(
  { env }: EngineInfo,
  args: readonly string[],
  options: DockerOptions = {},
): Promise<DockerResult> {
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  const result = await execa('docker', args, {
    env: { ...env, ...options.env },
    reject: false,
    timeout: timeoutMs,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.input === undefined ? { stdin: 'ignore' as const } : { input: options.input }),
  });
  if (result.timedOut) {
    throw new Error(
      `docker ${args.join(' ')} did not end within ${timeoutMs / 1000} s: ${String(result.stdout)}${String(result.stderr)}`,
    );
  }
  return { exitCode: result.exitCode ?? 1, stdout: String(result.stdout), stderr: String(result.stderr) };
}

/** As `docker`, for what must succeed: gives standard output, and throws with its words when it fails. */
export async function mustDocker(
  engine: EngineInfo,
  args: readonly string[],
  options: DockerOptions = {},
): Promise<string> {
  const { exitCode, stdout, stderr } = await docker(engine, args, options);
  if (exitCode !== 0) throw new Error(`docker ${args.join(' ')} failed: ${stderr || stdout}`);
  return stdout;
}

const version = 'v2.40.3';
const module = 'github.com/docker/compose/v2';
const recipe: BuildRecipe = {
  module,
  moduleVersion: version,
  package: `${module}/cmd`,
  // It prints its name when it was not told its version.
  ldflags: `-s -w -X ${module}/internal.Version=${version}`,
};

/** Path of Docker Compose v2, which Debian does not have; built from its Go module unless it was built before. */
export function provideCompose(cache: Cache): Promise<string> {
  return built(cache, 'docker-compose', { edition: version, recipe });
}

/** Makes a DOCKER_CONFIG of its own, which knows `docker compose` and no credentials of anybody. */
async function makeDockerConfig(directory: string, compose: string): Promise<void> {
  const plugins = join(directory, 'cli-plugins');
  await mkdir(plugins, { recursive: true });
  await symlink(compose, join(plugins, 'docker-compose'));
}

interface EngineOptions {
  /** Everything of the engine lies here, and is removed with it. Short: sockets are in it. */
  directory: string;
  /** Path of Docker Compose v2. */
  compose: string;
  /** What an engine kept that was stopped: this one has all its images. */
  store?: string;
  /** Where what it has stays when it is stopped; by default nowhere. */
  keep?: string;
  tell: (line: string) => void;
}

/** How clients find the engine; plain data, so that it reaches the workers of tests. */
export interface EngineInfo {
  /** `unix:///…/docker.sock`. */
  host: string;
  /** Of clients: DOCKER_HOST, and a DOCKER_CONFIG with the plugin `compose`. */
  env: Record<string, string>;
}

interface Engine extends EngineInfo {
  /** Ends every container and the engine, and removes all that was theirs. */
  stop(): Promise<void>;
}

/** How clients find the engine that lies in this directory. */
export function engineAt(directory: string): EngineInfo {
  const host = `unix://${join(directory, 'docker.sock')}`;
  return { host, env: { DOCKER_HOST: host, DOCKER_CONFIG: join(directory, 'config') } };
}

const startTimeoutMs = patienceMs;

/**
 * Starts a Docker engine beside any other on this machine. It has no networks: containers use the host's
 * (`--network host`). It goes when this process does, however that ends; its mounts are its own.
 */
export async function startEngine({ directory, compose, store, keep, tell }: EngineOptions): Promise<Engine> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const at = (name: string): string => join(directory, name);
  const { host, env } = engineAt(directory);
  await makeDockerConfig(at('config'), compose);
  const data = keep ?? at('data');
  if (store !== undefined) await copyStore(store, data);
  const driver = await storageDriver(directory);
  await writeFile(at('daemon.json'), '{}\n');
  const log = openSync(at('dockerd.log'), 'w');
  const child = spawn(
    'setpriv',
    [
      ...['--pdeathsig', 'TERM', 'unshare', '--mount', '--propagation', 'private', 'dockerd'],
      ...['--bridge=none', '--iptables=false', '--ip6tables=false', '--ip-masq=false', '--ip-forward=false'],
      ...[`--data-root=${data}`, `--exec-root=${at('exec')}`, `--pidfile=${at('dockerd.pid')}`],
      ...[`--host=${host}`, `--storage-driver=${driver}`, '--userland-proxy=false', '--shutdown-timeout=10'],
      // Not the settings of an engine that this machine has for other ends.
      ...[`--config-file=${at('daemon.json')}`],
    ],
    { stdio: ['ignore', log, log] },
  );
  const ended = once(child, 'exit');
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const { stdout } = await execa('docker', ['ps', '--quiet'], { env, reject: false });
      const running = String(stdout).split('\n').filter(Boolean);
      if (running.length > 0) await execa('docker', ['kill', ...running], { env, reject: false });
      child.kill('SIGTERM');
      await ended;
    }
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  };
  try {
    await serves({ env, socket: at('docker.sock') }, ended);
  } catch (error) {
    const words = await readFile(at('dockerd.log'), 'utf8');
    await stop();
    throw new Error(
      `${(error as Error).message}; it said:\n${words.trim().split('\n').slice(-15).join('\n')}`,
    );
  }
  tell(`Docker engine at ${host} (${driver})`);
  return { host, env, stop };
}

/**
 * Layers are links, as none is ever changed in place, nor are the files that tell of them; databases are, so they are
 * copied.
 */
async function copyStore(store: string, target: string): Promise<void> {
  const { stderr, exitCode } = await execa('cp', ['-al', store, target], { reject: false });
  if (exitCode !== 0) {
    // Another file system.
    if (!/cross-device/i.test(stderr)) throw new Error(stderr);
    await rm(target, { recursive: true, force: true });
    await execa('cp', ['-a', store, target]);
    return;
  }
  for (const part of await readdir(store, { withFileTypes: true })) {
    if (!part.isDirectory() || part.name === 'overlay2' || part.name === 'vfs') continue;
    const files = await readdir(join(store, part.name), { recursive: true });
    for (const file of files.filter((name) => name.endsWith('.db'))) {
      const own = join(target, part.name, file);
      await rm(own);
      await cp(join(store, part.name, file), own);
    }
  }
}

/** Whoever connects to its socket, which is there early, is answered when the engine is ready. */
async function serves(
  { env, socket }: { env: Record<string, string>; socket: string },
  ended: Promise<unknown>,
): Promise<void> {
  const directory = watch(dirname(socket));
  const { promise: isThere, resolve } = Promise.withResolvers<void>();
  const look = (): void => {
    if (existsSync(socket)) resolve();
  };
  directory.on('change', look);
  look();
  const over = new AbortController();
  const timedOut = delay(startTimeoutMs, undefined, { signal: over.signal }).then(() => {
    throw new Error(`dockerd did not answer within ${startTimeoutMs / 1000} s`);
  });
  timedOut.catch(() => undefined);
  const failed = Promise.race([
    timedOut,
    ended.then(() => {
      throw new Error('dockerd ended by itself');
    }),
  ]);
  failed.catch(() => undefined);
  try {
    await Promise.race([isThere, failed]);
    await Promise.race([execa('docker', ['info'], { env, cancelSignal: over.signal }), failed]);
  } finally {
    over.abort();
    directory.close();
  }
}
