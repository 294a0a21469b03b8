import { loadavg } from 'node:os';
import { cpuSeconds, machineTime } from './proc.ts';
import { type BenchProcess, type ProcessGroup, processGroups } from './process-groups.ts';

/** What some work cost. Groups without a process that could be seen are absent. */
export interface Usage {
  elapsedSeconds: number;
  cpuSeconds: Partial<Record<ProcessGroup, number>>;
  /** The same by `<group>/<component>`. */
  componentSeconds: Record<string, number>;
  /** CPU time of everything else on this machine, and what the hypervisor took. */
  othersSeconds?: number;
  stolenSeconds?: number;
  /** One-minute load average at the end. */
  load: number;
}

export type ListProcesses = () => Promise<BenchProcess[]>;

interface Sample {
  at: number;
  processes: Map<number, { group: ProcessGroup; component: string; seconds: number }>;
  machine: Awaited<ReturnType<typeof machineTime>>;
}

/** CPU time by group of processes between two moments. */
export class UsageMeter {
  readonly #list: ListProcesses;
  #start: Sample | undefined;

  constructor(list: ListProcesses) {
    this.#list = list;
  }

  async start(): Promise<void> {
    this.#start = await this.#sample();
  }

  /** Since `start`. A process that has ended meanwhile is not counted, one that is new counts from its birth. */
  async stop(): Promise<Usage> {
    const start = this.#start;
    if (start === undefined) throw new Error('this meter was not started');
    const end = await this.#sample();
    const byGroup: Partial<Record<ProcessGroup, number>> = {};
    const componentSeconds: Record<string, number> = {};
    let ours = 0;
    for (const [pid, { group, component, seconds }] of end.processes) {
      const spent = seconds - (start.processes.get(pid)?.seconds ?? 0);
      byGroup[group] = (byGroup[group] ?? 0) + spent;
      const key = `${group}/${component}`;
      componentSeconds[key] = (componentSeconds[key] ?? 0) + spent;
      ours += spent;
    }
    const usage: Usage = {
      elapsedSeconds: (end.at - start.at) / 1000,
      cpuSeconds: byGroup,
      componentSeconds,
      load: loadavg()[0] ?? 0,
    };
    if (start.machine !== undefined && end.machine !== undefined) {
      const busy = end.machine.busySeconds - start.machine.busySeconds;
      usage.othersSeconds = Math.max(0, busy - ours);
      usage.stolenSeconds = end.machine.stolenSeconds - start.machine.stolenSeconds;
    }
    return usage;
  }

  async #sample(): Promise<Sample> {
    const processes: Sample['processes'] = new Map();
    for (const { pid, group, component } of await this.#list()) {
      const seconds = await cpuSeconds(pid);
      if (seconds !== undefined) processes.set(pid, { group, component, seconds });
    }
    return { at: performance.now(), processes, machine: await machineTime() };
  }
}

/** Of all groups together; undefined when none could be seen. */
export function totalCpuSeconds(usage: Usage): number | undefined {
  const seconds = processGroups.flatMap((group) => usage.cpuSeconds[group] ?? []);
  return seconds.length === 0 ? undefined : seconds.reduce((sum, each) => sum + each, 0);
}
