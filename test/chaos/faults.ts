import { existsSync, mkdirSync, mkdtempSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { execa } from 'execa';
import { seeded } from '../harness/churn.ts';
import { poll } from '../harness/poll.ts';
import { componentProcess, kill, type ProcessIdentity, send } from '../harness/processes.ts';
import type { Tenant, World } from '../harness/world.ts';

/** Of the packets that are dropped; any number that nobody else uses. */
const classId = '0x00100001';

/** The hierarchy is the machine's, whoever mounts it: others may cut at the same time. */
const groupName = `skerry-cut-${process.pid}`;

/**
 * Loses every packet that a process sends, on connections that are open too, until it is healed: what a cable
 * pulled out looks like from both ends. Acts within the network namespace that this process is in, which has to
 * be one of our own: it adds a firewall rule. Linux with cgroup v1's net_cls and iptables, as root.
 */
export class NetworkCut {
  readonly #mount: string;

  private constructor(mount: string) {
    this.#mount = mount;
  }

  /** Undefined where it cannot be had, with the reason told. */
  static async prepare(report: (reason: string) => void): Promise<NetworkCut | undefined> {
    const mount = mkdtempSync(join(tmpdir(), 'skerry-cut-'));
    try {
      await execa('mount', ['-t', 'cgroup', '-o', 'net_cls', 'none', mount]);
      const group = join(mount, groupName);
      if (!existsSync(group)) mkdirSync(group);
      writeFileSync(join(group, 'net_cls.classid'), classId);
      await execa('iptables', ['-A', 'OUTPUT', '-m', 'cgroup', '--cgroup', classId, '-j', 'DROP']);
      return new NetworkCut(mount);
    } catch (error) {
      report(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }

  cut(pid: number): void {
    this.#move(pid, groupName);
  }

  heal(pid: number): void {
    this.#move(pid, '.');
  }

  async close(): Promise<void> {
    rmdirSync(join(this.#mount, groupName));
    await execa('umount', [this.#mount]);
    rmdirSync(this.#mount);
  }

  /** A process that has ended in the meantime is nobody's any more. */
  #move(pid: number, group: string): void {
    try {
      writeFileSync(join(this.#mount, group, 'cgroup.procs'), String(pid));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

/** What is done to a process: ended by the kernel, stopped by a signal, or all its packets lost. */
export type FaultKind = 'kill' | 'pause' | 'cut';

export interface Fault {
  /** A component of the stack, or `<tenant>/<component>`. */
  readonly part: string;
  readonly kind: FaultKind;
  /** How long a pause or a cut lasts; a kill is over at once. */
  readonly forMs: number;
}

interface Step {
  /** At the same time. */
  readonly faults: readonly Fault[];
  /** Quiet before the next step. */
  readonly thenMs: number;
}

const longestFaultMs = 15_000;
const longestQuietMs = 4_000;

/** An endless row of faults; the same seed, parts and kinds give the same row. */
export function* schedule(
  seed: number,
  parts: readonly string[],
  kinds: readonly FaultKind[],
): Generator<Step, never> {
  const random = seeded(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  /** Every part has its turn before any has a second one. */
  let left: string[] = [];
  const next = (): string => {
    if (left.length === 0) left = shuffled(parts, random);
    return left.pop() as string;
  };
  for (;;) {
    const together = random() < 0.3 ? 2 : 1;
    const names = new Set(Array.from({ length: together }, next));
    const faults = [...names].map((part) => {
      const kind = pick(kinds);
      // Short ones are the most frequent: they meet work that is under way.
      return { part, kind, forMs: kind === 'kill' ? 0 : Math.round(200 + random() ** 2 * longestFaultMs) };
    });
    yield { faults, thenMs: Math.round(random() ** 2 * longestQuietMs) };
  }
}

function shuffled(parts: readonly string[], random: () => number): string[] {
  return parts
    .map((part) => ({ part, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ part }) => part);
}

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
