import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { join } from 'node:path';
import type { KubeObject } from '../../kube/index.ts';
import { resource } from '../../kube/index.ts';
import { poll } from './poll.ts';
import { identify, isAlive, type ProcessIdentity, send } from './processes.ts';
import type { World } from './world.ts';

const leases = resource('coordination.k8s.io', 'v1', 'leases', 'Lease', true);
const program = join(import.meta.dirname, '..', '..', 'bin', 'vc-syncer.js');

/** A syncer beside the stack's own, on the same super cluster. What it logs is in the suite's directory. */
export class SecondSyncer {
  readonly replica: string;
  readonly #world: World;
  readonly #child: ChildProcess;
  readonly #log: WriteStream;
  readonly #identity: ProcessIdentity;
  readonly #exited: Promise<unknown>;

  /** `options`: on the command line, beside those that make it a second one. */
  constructor(world: World, replica: string, options: readonly string[]) {
    this.replica = replica;
    this.#world = world;
    this.#log = createWriteStream(world.file(`${replica}.log`));
    const args = [
      program,
      // With the rights of the first one.
      `--kubeconfig=${join(world.stateDir, 'stack', 'files', 'vc-syncer', 'super-cluster.kubeconfig')}`,
      '--metrics-address=127.0.0.1:0',
      ...options,
    ];
    this.#child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child.stdout?.pipe(this.#log, { end: false });
    this.#child.stderr?.pipe(this.#log, { end: false });
    this.#exited = once(this.#child, 'exit');
    const { pid } = this.#child;
    const identity = pid === undefined ? undefined : identify(pid);
    if (identity === undefined) throw new Error(`syncer ${replica} does not start`);
    this.#identity = identity;
  }

  send(signal: NodeJS.Signals): void {
    send(this.#identity, signal);
  }

  /** Ends it, however it is; resolves to its exit code, undefined where a signal ended it. */
  async end(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<number | undefined> {
    this.send(signal);
    await poll(`syncer ${this.replica} to end`, () => !isAlive(this.#identity));
    await this.#exited;
    this.#log.end();
    return this.#child.exitCode ?? undefined;
  }

  /** The sum of a metric over all its series whose labels include these. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const ref = { namespace: 'skerry-system', name: `vc-syncer-${this.replica}` };
    const lease = await this.#world.superCluster.client.get<KubeObject>(leases, ref);
    const address = lease.metadata.annotations?.['skerry.dev/metrics-address'];
    const text = await (await fetch(`${address}/metrics`)).text();
    const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
    return text
      .split('\n')
      .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
      .filter((line) => wanted.every((label) => line.includes(label)))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }
}
