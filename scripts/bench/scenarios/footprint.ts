import { systemClock } from '../../../kube/index.ts';
import type { Cell } from '../measure/markdown.ts';
import { cpuSeconds, type Memory, memoryOf } from '../measure/proc.ts';
import type { BenchProcess } from '../measure/process-groups.ts';
import { mean, median } from '../measure/statistics.ts';
import type { Scenario } from '../scenario.ts';

const bytesPerMegabyte = 1_000_000;

interface Footprint extends BenchProcess, Memory {
  cpuSecondsPerMinute: number;
}

/** What idle tenants cost: memory and CPU of each of their processes, and of what serves them. */
export const footprint: Scenario = {
  name: 'footprint',
  summary: 'memory and CPU of idle tenants and of what serves them',
  needsTenants: true,

  async run(lab, options) {
    await lab.tenantTargets();
    await lab.settle();
    lab.tell(`footprint: watching idle tenants for ${options.idleSeconds} s`);
    const processes = (await lab.processes()).filter(({ group }) => group !== 'generator');
    const before = new Map<number, number>();
    for (const { pid } of processes) before.set(pid, (await cpuSeconds(pid)) ?? Number.NaN);
    const from = performance.now();
    await systemClock.sleep(options.idleSeconds * 1000, lab.signal);
    const minutes = (performance.now() - from) / 60_000;
    const rounds: Footprint[] = [];
    for (const process of processes) {
      const memory = await memoryOf(process.pid);
      const after = (await cpuSeconds(process.pid)) ?? Number.NaN;
      if (memory === undefined) continue;
      const spent = after - (before.get(process.pid) ?? Number.NaN);
      rounds.push({ ...process, ...memory, cpuSecondsPerMinute: spent / minutes });
    }

    const ofTenants = rounds.filter(({ tenant }) => tenant !== undefined);
    const rows: Cell[][] = [...Map.groupBy(ofTenants, ({ component }) => component)].map(
      ([component, all]) => [`${component} of a tenant`, ...cells(all)],
    );
    const whole = [...Map.groupBy(ofTenants, ({ tenant }) => tenant).values()].map(sum);
    if (whole.length > 0) rows.push(['**one tenant**', ...cells(whole)]);
    for (const each of rounds.filter(({ tenant }) => tenant === undefined))
      rows.push([each.component, ...cells([each])]);
    return {
      settings: { tenants: options.tenants, idleSeconds: options.idleSeconds },
      rounds,
      summary: {
        tenantPrivateMegabytes: median(whole.map((each) => each.private / bytesPerMegabyte)),
        tenantPssMegabytes: median(whole.map((each) => each.pss / bytesPerMegabyte)),
        tenantCpuSecondsPerMinute: mean(whole.map((each) => each.cpuSecondsPerMinute)),
      },
      tables: [
        {
          title: `footprint: ${options.tenants} idle tenants, over ${options.idleSeconds} s`,
          columns: ['process', 'private, MB', 'shared, MB', 'proportional, MB', 'CPU, s per minute'],
          rows,
          notes: [
            'Medians over tenants, CPU: means. Private: pages that nobody else maps. Shared: mostly program text, which is in memory once for all processes of one binary, the super cluster included.',
          ],
        },
      ],
    };
  },
};

type Figures = Pick<Footprint, 'private' | 'shared' | 'pss' | 'cpuSecondsPerMinute'>;

function sum(processes: readonly Figures[]): Figures {
  const total = (figure: keyof Figures): number => processes.reduce((all, each) => all + each[figure], 0);
  return {
    private: total('private'),
    shared: total('shared'),
    pss: total('pss'),
    cpuSecondsPerMinute: total('cpuSecondsPerMinute'),
  };
}

function cells(all: readonly Figures[]): Cell[] {
  const megabytes = (figure: 'private' | 'shared' | 'pss'): number =>
    median(all.map((each) => each[figure] / bytesPerMegabyte));
  return [
    megabytes('private'),
    megabytes('shared'),
    megabytes('pss'),
    mean(all.map(({ cpuSecondsPerMinute }) => cpuSecondsPerMinute)),
  ];
}
