import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { type Clock, messageOf } from '../../kube/index.ts';
import { lockHolder, withFileLock } from '../os/file-lock.ts';
import { makeDirectory, replaceFile } from '../os/files.ts';
import type { Cli, GlobalFlags } from './context.ts';
import { alreadyRunning, CliError } from './errors.ts';

const settingsSchema = z.object({
  superCluster: z.union([
    z.literal('local'),
    z.object({ kubeconfig: z.string(), context: z.string().optional() }),
  ]),
  /** Ports of syncer, gateway and dashboard; chosen once, because Node objects and kubeconfigs of tenants contain them. */
  ports: z
    .object({
      metrics: z.int(),
      kubelet: z.int(),
      /** Absent in state of earlier versions. */
      gateway: z.int().optional(),
      gatewayMetrics: z.int().optional(),
      dashboard: z.int().optional(),
    })
    .optional(),
  /** Sample tenants were created once; a deleted one is not created again. */
  samplesMade: z.boolean().optional(),
});

export type StateSettings = z.infer<typeof settingsSchema>;

const settingsFile = 'skerry.json';
/** Marks a directory that Skerry has made and that `down --purge` may remove as a whole. */
const markerFile = 'SKERRY-STATE';
const markerText =
  'State of a local Skerry stack. "vc-manager down --purge" removes this directory and all that is in it.\n';

interface StateChoice {
  directory: string;
  /** Given by option or variable. */
  isExplicit: boolean;
}

/** `--state-dir`, else SKERRY_STATE, else `skerry` in the user's state directory. */
export function stateChoice(env: Cli['env'], flags: Pick<GlobalFlags, 'stateDir'>): StateChoice {
  const named = flags.stateDir ?? (env['SKERRY_STATE'] || undefined);
  if (named !== undefined) return { directory: resolve(named), isExplicit: true };
  return { directory: defaultStateDirectory(env), isExplicit: false };
}

function defaultStateDirectory(env: Cli['env']): string {
  const base = env['XDG_STATE_HOME'] || join(env['HOME'] || homedir(), '.local', 'state');
  return join(base, 'skerry');
}

/** Undefined when there is no settings file. */
export async function readSettings(directory: string): Promise<StateSettings | undefined> {
  const text = await readFile(join(directory, settingsFile), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return settingsSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new CliError(
      'StateUnusable',
      `${join(directory, settingsFile)} cannot be understood: restore it, or use another --state-dir`,
      { cause },
    );
  }
}

/** Creates and marks the directory. Refuses one with other content, because `down --purge` removes it as a whole. */
export async function claimStateDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(directory, 0o700);
    const entries = await readdir(directory);
    if (entries.includes(markerFile)) return;
    if (entries.length === 0) return await writeFile(join(directory, markerFile), markerText);
  } catch (error) {
    throw cannotUse(directory, error);
  }
  throw new CliError(
    'StateUnusable',
    `${directory} is not empty and was not made by Skerry: give --state-dir a directory that is empty or does not exist`,
  );
}

/** Creates the directory of a manager that runs alone; it may have other content. */
export async function ensureStateDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(directory, 0o700);
  } catch (error) {
    throw cannotUse(directory, error);
  }
}

/** Whether `claimStateDirectory` has marked it. */
export async function isStateDirectory(directory: string): Promise<boolean> {
  return (await readFile(join(directory, markerFile), 'utf8').catch(() => undefined)) !== undefined;
}

export async function writeSettings(directory: string, settings: StateSettings): Promise<void> {
  try {
    await replaceFile(join(directory, settingsFile), `${JSON.stringify(settings, null, 2)}\n`);
  } catch (error) {
    throw cannotUse(directory, error);
  }
}

function cannotUse(directory: string, error: unknown): CliError {
  return new CliError(
    'StateUnusable',
    `the state directory ${directory} cannot be used (${messageOf(error)}): make it writable, or name another with --state-dir`,
    { cause: error },
  );
}

/** The process that keeps the stack running, for `down`. */
interface Supervisor {
  pid: number;
}

interface LockOptions {
  stateDir: string;
  clock: Clock;
  signal: AbortSignal;
}

const lockFile = (stateDir: string): string => join(stateDir, 'lock');
const supervisorFile = (stateDir: string): string => join(stateDir, 'supervisor.json');

/** Runs `work` while this process alone may start and stop components of this state. Throws `AlreadyRunning` at once when another process holds the lock. */
export async function withStateLock<T>(
  { stateDir, clock, signal }: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const taken = new AbortController();
  const lock = {
    path: lockFile(stateDir),
    clock,
    signal: AbortSignal.any([signal, taken.signal]),
    onWait: (pid: number) => taken.abort(alreadyRunning(stateDir, pid)),
  };
  return withFileLock(lock, work);
}

/** As `withStateLock`; `down` finds this process and makes it stop the stack. */
export function asSupervisor<T>(options: LockOptions, work: () => Promise<T>): Promise<T> {
  return withStateLock(options, async () => {
    const file = supervisorFile(options.stateDir);
    const self: Supervisor = { pid: process.pid };
    await writeFile(file, `${JSON.stringify(self)}\n`, { mode: 0o600 });
    try {
      return await work();
    } finally {
      await rm(file, { force: true });
    }
  });
}

/** Whether the process holds the lock; a supervisor does until just before it ends. */
export async function holdsStateLock(stateDir: string, pid: number, clock: Clock): Promise<boolean> {
  return (await lockHolder(lockFile(stateDir), clock)) === pid;
}

/** The living supervisor of this state. */
export async function findSupervisor(stateDir: string, clock: Clock): Promise<Supervisor | undefined> {
  const pid = await lockHolder(lockFile(stateDir), clock);
  if (pid === undefined) return undefined;
  const text = await readFile(supervisorFile(stateDir), 'utf8').catch(() => '');
  try {
    const supervisor = JSON.parse(text) as Supervisor;
    // The file is left from a supervisor that was killed; another process holds the lock at the moment.
    return supervisor.pid === pid ? supervisor : undefined;
  } catch {
    return undefined;
  }
}

/** Where tenants' control planes lie. */
export function controlPlanesDirectory(stateDir: string): string {
  return join(stateDir, 'control-planes');
}

/** Where the Compose files of tenants' control planes lie; their other state is kept by the Docker engine. */
export function composeProjectsDirectory(stateDir: string): string {
  return join(stateDir, 'compose-projects');
}

/** Where the admin kubeconfig of a local super cluster lies. */
export function localKubeconfigFile(stateDir: string): string {
  return join(stateDir, 'super-cluster', 'admin.kubeconfig');
}
