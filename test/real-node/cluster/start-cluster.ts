import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { poll } from '../../harness/poll.ts';
import { isAlive, send } from '../../harness/processes.ts';
import { type ImageName, suiteImages } from '../images/recipes.ts';
import { listClaims, whyNot } from '../machine/machine.ts';
import { endedDaemons } from '../node/real-node.ts';
import { cleanUp } from './clean-up.ts';
import type { ClusterInfo } from './cluster-info.ts';
import type { KeeperOptions } from './keeper.ts';
import type { KeeperMessage, KeeperRequest } from './keeper-main.ts';

interface StartOptions extends Pick<KeeperOptions, 'serviceRange' | 'podSecurity'> {
  /** Empty or not there; removed with the cluster. */
  directory: string;
  nodes: number;
  images?: readonly ImageName[];
  withDns?: boolean;
  /** It outlives this process; `stopCluster` takes it down. Otherwise it goes when this process ends, however. */
  isDetached?: boolean;
  /** Where the keeper's output goes; beside the directory by default. */
  logFile?: string;
  tell: (line: string) => void;
}

const downTimeoutMs = 120_000;

/** A super cluster with real nodes. The first call on a machine builds what they need, which takes minutes. */
export async function startCluster(options: StartOptions): Promise<ClusterInfo> {
  const reason = whyNot(process.env);
  if (reason !== undefined) throw new Error(reason);
  const directory = resolve(options.directory);
  const { nodes, images = suiteImages, withDns = false, isDetached = false, tell, ...rest } = options;
  const { serviceRange, podSecurity } = rest;
  const logFile = options.logFile ?? `${directory}.log`;
  mkdirSync(dirname(logFile), { recursive: true });
  const log = openSync(logFile, 'a', 0o600);
  const request: KeeperRequest = {
    ...{ directory, nodes, images, withDns, isOwned: !isDetached },
    ...(serviceRange === undefined ? {} : { serviceRange }),
    ...(podSecurity === undefined ? {} : { podSecurity }),
  };
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, 'keeper-main.ts'), JSON.stringify(request)],
    // A session of its own, as Ctrl-C is for its owner to hear, and to stop it in order.
    { detached: true, stdio: ['ignore', log, log, 'ipc'], env: { ...process.env, NODE_OPTIONS: '' } },
  );
  closeSync(log);
  const info = await new Promise<ClusterInfo>((ready, fail) => {
    child.on('message', (message: KeeperMessage) => {
      if (message.type === 'tell') tell(message.line);
      else if (message.type === 'ready') ready(message.info);
      else fail(new Error(`${message.message}; see ${logFile}`));
    });
    child.once('error', fail);
    child.once('exit', (code, signal) =>
      fail(new Error(`the keeper of the cluster ended (${signal ?? code}); see ${logFile}`)),
    );
  }).catch(async (error: unknown) => {
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    throw error;
  });
  child.unref();
  if (isDetached) child.disconnect();
  else child.channel?.unref();
  return info;
}

/**
 * Takes down what runs or was left in the directory; false when there is nothing. Rejects afterwards when a daemon of a
 * node had ended by itself, since the cluster was then not what tests took it for.
 */
export async function stopCluster(directory: string): Promise<boolean> {
  const path = resolve(directory);
  const claim = (await listClaims()).find((each) => each.directory === path);
  if (claim === undefined) return false;
  const ended = endedDaemons(join(path, 'nodes'));
  if (claim.isLive) {
    send(claim.keeper, 'SIGTERM');
    await poll('the cluster to go down', () => !isAlive(claim.keeper), { timeoutMs: downTimeoutMs });
  }
  const left = (await listClaims()).find((each) => each.directory === path);
  if (left !== undefined) await cleanUp(left);
  if (ended.length > 0) throw new Error(`daemons of nodes ended by themselves:\n${ended.join('')}`);
  return true;
}
