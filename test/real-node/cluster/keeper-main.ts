import type { ClusterInfo } from './cluster-info.ts';
import { Keeper, type KeeperOptions } from './keeper.ts';

/** What the keeper is asked for, as JSON in its first argument. */
export interface KeeperRequest extends Omit<KeeperOptions, 'env' | 'tell'> {
  /** It ends with the process that started it, and takes the cluster down. */
  isOwned: boolean;
}

/** What it says to the process that started it. */
export type KeeperMessage =
  | { type: 'tell'; line: string }
  | { type: 'ready'; info: ClusterInfo }
  | { type: 'failed'; message: string };

/**
 * The process that has the nodes of a cluster as children: they end with it, and it takes away what they leave.
 */
async function main(): Promise<void> {
  const { isOwned, ...request } = JSON.parse(process.argv[2] ?? '{}') as KeeperRequest;
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => stop.abort(new Error(`received ${signal}`)));
  }
  let isUp = false;
  process.on('disconnect', () => {
    if (isOwned || !isUp) stop.abort(new Error('whoever started the cluster has ended'));
  });
  const tell = (line: string): void => {
    console.log(line);
    send({ type: 'tell', line });
  };
  const keeper = new Keeper({ ...request, env: process.env, tell });
  const stopped = new Promise<void>((resolve) => {
    stop.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  try {
    const info = await Promise.race([
      keeper.up(stop.signal),
      stopped.then(() => Promise.reject(stop.signal.reason as Error)),
    ]);
    isUp = true;
    send({ type: 'ready', info });
    await stopped;
  } catch (error) {
    console.log((error as Error).stack);
    send({ type: 'failed', message: (error as Error).message });
    process.exitCode = 1;
  } finally {
    await keeper.down();
    if (process.connected) process.disconnect?.();
  }
}

function send(message: KeeperMessage): void {
  if (process.connected) process.send?.(message, () => undefined);
}

await main();
// A start that was given up may still wait for something.
process.exit();
