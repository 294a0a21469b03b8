import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type KubeObject, resources } from '../../kube/index.ts';
import { poll } from './poll.ts';
import type { World } from './world.ts';

interface Lease extends KubeObject {
  spec?: { holderIdentity?: string };
}

/** One more manager, with the state directory and options of the one that the stack has. To be ended. */
export async function anotherManager(
  world: World,
  identity: string,
  { options = [], env = {} }: { options?: readonly string[]; env?: Record<string, string> } = {},
): Promise<ChildProcess> {
  const { pid } = await world.process('vc-manager');
  const [node = '', ...args] = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1);
  const log = openSync(world.file(`${identity}.log`), 'a');
  const others = args.filter((argument) => !argument.startsWith('--identity='));
  const child = spawn(node, [...others, `--identity=${identity}`, ...options], {
    stdio: ['ignore', log, log],
    env: { ...process.env, ...env },
  });
  closeSync(log);
  return child;
}

/** The manager that leads; empty: none. */
export async function leader(world: World): Promise<string> {
  const ref = { namespace: 'skerry-system', name: 'skerry-vc-manager' };
  return (await world.superCluster.client.get<Lease>(resources.leases, ref)).spec?.holderIdentity ?? '';
}

export async function untilLeads(world: World, identity: string): Promise<void> {
  await poll(`${identity} to lead`, async () => (await leader(world)) === identity, { timeoutMs: 60_000 });
}

export async function endManager(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await ended;
}
