import { createHash } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import type { ControlPlanePlan } from '../control-plane/plan.ts';
import { EgressFilter, type EgressTarget, groupOf } from '../os/egress-filter.ts';
import type { OnProblem } from './driver.ts';
import { cannotConfine } from './errors.ts';

/** Of a directory with control planes: tells what is theirs on this machine from what is another directory's. */
export function placeOnMachine(root: string): { name: string; space: number } {
  const digest = createHash('sha256').update(root).digest();
  return { name: `skerry-${digest.toString('hex', 0, 4)}`, space: digest.readUInt16BE() >> 4 };
}

/**
 * Where the control planes of one directory may open connections to on this machine, each known by a group that its
 * programs run with. Only where there is no `egressFilterProblem`.
 */
export class EgressConfinement {
  readonly #filter: EgressFilter;
  readonly #space: number;
  readonly #targets: readonly EgressTarget[];
  readonly #findGroups: () => Promise<ReadonlySet<number> | undefined>;
  readonly #onProblem: OnProblem;
  #tidied: Promise<void> | undefined;

  /**
   * `targets`: beyond what each control plane needs. `findGroups`: with which programs run or may be started; undefined
   * when not all of them are known.
   */
  constructor(
    root: string,
    targets: readonly EgressTarget[],
    findGroups: () => Promise<ReadonlySet<number> | undefined>,
    onProblem: OnProblem = () => undefined,
  ) {
    const { name, space } = placeOnMachine(root);
    this.#filter = new EgressFilter(name);
    this.#space = space;
    this.#targets = targets;
    this.#findGroups = findGroups;
    this.#onProblem = onProblem;
  }

  /** The group to run its components with; its rules are in force by then. Rejects with `CannotConfine`. */
  async confine({ id, components, network }: ControlPlanePlan): Promise<number> {
    // Before the first rule: what a manager had no time to start cannot be told from what this one is about to.
    this.#tidied ??= this.#tidy();
    await this.#tidied;
    const ports = components.flatMap((component) => component.ports);
    // No two of this machine listen on one port.
    const group = groupOf(this.#space, ports[0]?.port ?? 0);
    const own = ports.map(({ port, host }): EgressTarget => {
      const isAny = host === undefined || host === '0.0.0.0' || host === '::';
      return { ports: [port, port], ...(isAny ? {} : { to: host }) };
    });
    try {
      const datastore = network?.datastore === undefined ? [] : await serversOf(network.datastore);
      await this.#filter.allow(group, [...own, ...datastore, ...this.#targets]);
    } catch (error) {
      throw cannotConfine({ id }, error);
    }
    return group;
  }

  /** Rules for a group without processes do no harm: they are left where they cannot be removed. */
  async forget(groups: Iterable<number>): Promise<void> {
    for (const group of groups) {
      await this.#filter.forget(group).catch((error: unknown) => {
        this.#onProblem(error, 'cannot remove the rules of a control plane that is gone');
      });
    }
  }

  /** Rules of a manager that died before it started anything with them. */
  async #tidy(): Promise<void> {
    try {
      const used = await this.#findGroups();
      if (used === undefined) return;
      const groups = await this.#filter.groups();
      await this.forget(groups.filter((group) => !used.has(group)));
    } catch (error) {
      // With the next manager.
      this.#onProblem(error, 'cannot find out which rules of control planes are of no use any more');
    }
  }
}

/** Of a URL; nothing where its name does not resolve: then no connection gets there. */
async function serversOf(url: string): Promise<EgressTarget[]> {
  const { hostname, port } = new URL(url);
  const number = Number(port || 443);
  const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
  return found.map(({ address }) => ({ to: address, ports: [number, number] }));
}
