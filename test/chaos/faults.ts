import { setTimeout as delay } from 'node:timers/promises';
import { poll } from '../harness/poll.ts';
import { componentProcess, kill, type ProcessIdentity, send } from '../harness/processes.ts';
import type { Tenant, World } from '../harness/world.ts';
import type { NetworkCut } from './network-cut.ts';
import type { Fault } from './schedule.ts';

/** Everything that is started again by something else; the supervisor of the local stack is what does that. */
const stackParts = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kwok',
  'datastore',
  'vc-manager',
  'vc-syncer',
];
const tenantParts = ['kube-apiserver', 'kube-controller-manager'];

/** A manager that met one fault after the other tries again ever more rarely. */
const startTimeoutMs = 300_000;

/** Carries faults out on the processes of a stack. */
export class Faults {
  readonly #world: World;
  readonly #tenants: ReadonlyMap<string, Tenant>;
  readonly #cut: NetworkCut | undefined;

  constructor(world: World, tenants: readonly Tenant[], cut: NetworkCut | undefined) {
    this.#world = world;
    this.#tenants = new Map(tenants.map((tenant) => [tenant.name, tenant]));
    this.#cut = cut;
  }

  get parts(): string[] {
    return [
      ...stackParts,
      ...[...this.#tenants.keys()].flatMap((tenant) => tenantParts.map((part) => `${tenant}/${part}`)),
    ];
  }

  /** Resolves when the fault is over; a part that another fault has taken away is waited for first. */
  async carryOut({ part, kind, forMs }: Fault): Promise<void> {
    const process = await this.#running(part);
    if (kind === 'kill') return kill(process);
    if (kind === 'pause') {
      send(process, 'SIGSTOP');
      await delay(forMs);
      send(process, 'SIGCONT');
      return;
    }
    this.#cut?.cut(process.pid);
    await delay(forMs);
    this.#cut?.heal(process.pid);
  }

  /** Every part runs. */
  async allRunning(): Promise<void> {
    for (const part of this.parts) await this.#running(part);
  }

  /**
   * Ends the simulated nodes and resolves when they are back. They do not repeat a write that got no answer, and
   * do not look at its pod again until it changes: what they missed in the faults they find in a new list.
   */
  async renewNodes(): Promise<void> {
    const before = await this.#running('kwok');
    await kill(before);
    await this.#running('kwok');
  }

  #running(part: string): Promise<ProcessIdentity> {
    const [first = '', second] = part.split('/');
    const tenant = this.#tenants.get(first);
    return poll(
      `${part} to run`,
      () => componentProcess(this.#world.stateDir, tenant ?? 'stack', second ?? first),
      { timeoutMs: startTimeoutMs },
    );
  }
}
