import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { makeDockerConfig } from './compose-plugin.ts';
import { storageDriver } from './storage-driver.ts';

export interface EngineOptions {
  /** Everything of the engine lies here, and is removed with it. Short: sockets are in it. */
  directory: string;
  /** Path of Docker Compose v2. */
  compose: string;
  tell: (line: string) => void;
}

/** How clients find the engine; plain data, so that it reaches the workers of tests. */
export interface EngineInfo {
  /** `unix:///…/docker.sock`. */
  host: string;
  /** Of clients: DOCKER_HOST, and a DOCKER_CONFIG with the plugin `compose`. */
  env: Record<string, string>;
}

export interface Engine extends EngineInfo {
  /** Ends every container and the engine, and removes all that was theirs. */
  stop(): Promise<void>;
}

/** How clients find the engine that lies in this directory. */
export function engineAt(directory: string): EngineInfo {
  const host = `unix://${join(directory, 'docker.sock')}`;
  return { host, env: { DOCKER_HOST: host, DOCKER_CONFIG: join(directory, 'config') } };
}

const startTimeoutMs = 60_000;

/**
 * Starts a Docker engine beside any other on this machine. It has no networks: containers use the host's
 * (`--network host`). It goes when this process does, however that ends; its mounts are its own.
 */
export async function startEngine({ directory, compose, tell }: EngineOptions): Promise<Engine> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const at = (name: string): string => join(directory, name);
  const { host, env } = engineAt(directory);
  await makeDockerConfig(at('config'), compose);
  const driver = await storageDriver(directory);
  await writeFile(at('daemon.json'), '{}\n');
  const log = openSync(at('dockerd.log'), 'w');
  const child = spawn(
    'setpriv',
    [
      ...['--pdeathsig', 'TERM', 'unshare', '--mount', '--propagation', 'private', 'dockerd'],
      ...['--bridge=none', '--iptables=false', '--ip6tables=false', '--ip-masq=false', '--ip-forward=false'],
      ...[`--data-root=${at('data')}`, `--exec-root=${at('exec')}`, `--pidfile=${at('dockerd.pid')}`],
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
    await serves(env, ended);
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

/** The engine tells nobody that it is ready: it is asked. */
async function serves(env: Record<string, string>, ended: Promise<unknown>): Promise<void> {
  const deadline = performance.now() + startTimeoutMs;
  let hasEnded = false;
  void ended.then(() => {
    hasEnded = true;
  });
  for (;;) {
    const { exitCode } = await execa('docker', ['info'], { env, reject: false, timeout: 10_000 });
    if (exitCode === 0) return;
    if (hasEnded) throw new Error('dockerd ended by itself');
    if (performance.now() > deadline)
      throw new Error(`dockerd did not answer within ${startTimeoutMs / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
