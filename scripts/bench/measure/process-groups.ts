import { join } from 'node:path';
import { ProcessDriver } from '../../../vc-manager/drivers/index.ts';

/** Whose work a process does. */
export const processGroups = [
  'super cluster',
  'simulated nodes',
  'tenants',
  'syncer',
  'manager',
  'generator',
] as const;

export type ProcessGroup = (typeof processGroups)[number];

export interface BenchProcess {
  pid: number;
  group: ProcessGroup;
  /** Name of the component, such as `kube-apiserver`. */
  component: string;
  /** Id of the control plane, for components of tenants. */
  tenant?: string;
}

const groupOfComponent: Readonly<Record<string, ProcessGroup>> = {
  kwok: 'simulated nodes',
  'simulated-storage': 'simulated nodes',
  datastore: 'tenants',
  'vc-syncer': 'syncer',
  'vc-manager': 'manager',
};

const stackId = 'stack';

/** Every process of the stack whose state lies in a directory, as its run records say. */
export class StackProcesses {
  readonly #stack: ProcessDriver;
  readonly #tenants: ProcessDriver;

  constructor(stateDir: string) {
    const binaries = { ensure: nothingToStart };
    this.#stack = new ProcessDriver({ root: stateDir, binaries });
    this.#tenants = new ProcessDriver({ root: join(stateDir, 'control-planes'), binaries });
  }

  async list(): Promise<BenchProcess[]> {
    const found = await running(this.#stack, stackId);
    const processes: BenchProcess[] = found.map((each) => ({
      ...each,
      group: groupOfComponent[each.component] ?? 'super cluster',
    }));
    for (const tenant of await this.#tenants.list()) {
      for (const each of await running(this.#tenants, tenant)) {
        processes.push({ ...each, group: 'tenants', tenant });
      }
    }
    return processes;
  }
}

async function running(driver: ProcessDriver, id: string): Promise<{ component: string; pid: number }[]> {
  const { components } = await driver.observe(id);
  return components.flatMap(({ name, pid }) => (pid === undefined ? [] : [{ component: name, pid }]));
}

function nothingToStart(): never {
  throw new Error('a driver that only observes was asked to start something');
}
