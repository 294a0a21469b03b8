import { AttackerProcess } from '../attacker/attacker-process.ts';
import { attacks } from '../attacker/attacks.ts';
import type { AttackRequest } from '../attacker/main.ts';
import type { Lab } from '../lab.ts';
import { groupTable, renderCell } from '../markdown.ts';
import { memoryOf } from '../measure.ts';
import {
  allNeverReady,
  bySide,
  medianOfPods,
  type PodRound,
  readyTimes,
  runRounds,
  type Side,
} from '../rounds.ts';
import { figure, type Scenario } from '../scenario.ts';
import { median } from '../statistics.ts';

const megabyte = 1024 * 1024;
const quiet = 'quiet';
const sidesOf = (names: readonly string[]): Side[] =>
  [quiet, ...names].map((name) => ({ name, through: { fair: true } }));

/** Largest resident memory of the syncer, in MB, while something goes on. */
async function syncerMemory<T>(lab: Lab, work: Promise<T>): Promise<{ result: T; megabytes: number }> {
  let most = 0;
  const watching = new AbortController();
  const watch = async (): Promise<void> => {
    while (!watching.signal.aborted) {
      for (const { pid, component } of await lab.processes())
        if (component === 'vc-syncer') most = Math.max(most, ((await memoryOf(pid))?.rss ?? 0) / megabyte);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  };
  const watched = watch();
  try {
    return { result: await work, megabytes: Math.round(most) };
  } finally {
    watching.abort();
    await watched;
  }
}

/** One tenant floods whatever it reaches, another creates a few pods per second: what the other one notices. */
export const floods: Scenario = {
  name: 'floods',
  summary: 'one tenant floods its API server, another creates --rate pods per second',
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, options) {
    const { latencyPods: pods, rate, repeats, tenants: tenantCount } = options;
    const memory = new Map<string, number[]>();
    const rounds: PodRound[] = await runRounds({
      lab,
      options,
      sides: sidesOf(options.floods ?? Object.keys(attacks)),
      measure: async ([victim, ...others], side, repeat) => {
        const attacker = others.at(-1);
        if (victim === undefined || attacker === undefined)
          throw new Error('floods needs two tenants: one to attack and one to watch');
        const loads = [{ target: victim.name, pods, shape: 'rate', perSecond: rate } as const];
        const run = { podPrefix: `r${repeat}`, loads, timeoutMs: options.timeoutMs };
        const { connection, namespace } = attacker;
        const flood = side.name === quiet ? undefined : { connection, namespace, attack: side.name };
        const measured = await during(flood, () =>
          syncerMemory(lab, lab.generator.request('run', run, lab.signal)),
        );
        memory.set(side.name, [...(memory.get(side.name) ?? []), measured.megabytes]);
        return measured.result;
      },
      count: ({ pods: all }) => all.length,
      describe: ({ pods: all }) => `${all.length} pods`,
    });
    const ofSides = bySide(rounds);
    const ready = (statistic: 'p50' | 'p99') => medianOfPods((all) => readyTimes(all)[statistic]);
    const quietP99 = ready('p99')(ofSides.get(quiet) ?? []);
    const title = `floods: ${rate} pods/s in one of ${tenantCount} tenants, ${pods} pods, while another floods`;
    return {
      settings: { pods, ratePerSecond: rate, repeats, tenants: tenantCount },
      rounds,
      tables: [
        groupTable<PodRound>(title, ['flood', ofSides], {
          'Ready p50, ms': ready('p50'),
          'p99, ms': ready('p99'),
          'p99 to quiet': (all) => renderCell(ready('p99')(all) / quietP99),
          'syncer, MB': (all) => renderCell(median(memory.get(all[0]?.side ?? '') ?? [])),
          'never Ready': allNeverReady,
        }),
      ],
      figures: [...ofSides].flatMap(([side, all]) => [
        ...figure(
          `${side}, Ready p99`,
          'ms',
          all.map(({ result }) => readyTimes(result.pods).p99),
        ),
        ...figure(`${side}, syncer`, 'MB', memory.get(side) ?? []),
      ]),
      plots: [],
    };
  },
};

/** Floods while something else goes on, and ends with it. */
async function during<T>(flood: AttackRequest | undefined, work: () => Promise<T>): Promise<T> {
  if (flood === undefined) return work();
  const attacker = await AttackerProcess.start(flood);
  try {
    return await Promise.race([work(), attacker.failed]);
  } finally {
    await attacker.end();
  }
}
