import { attacks } from '../attacker/attacks.ts';
import type { AttackRequest } from '../attacker/main.ts';
import { AttackerProcess } from '../child-process.ts';
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
const floodSides = (names: readonly string[]): Side[] =>
  [quiet, ...names].map((name) => ({ name, through: { fair: true } }));

interface SyncerMeanwhile<T> {
  readonly result: T;
  /** Largest resident memory of one process. */
  readonly megabytes: number;
  /** Processes that were not there at first. */
  readonly restarts: number;
}

/** What the syncer's processes were like while something went on. */
async function watchSyncer<T>(lab: Lab, work: Promise<T>): Promise<SyncerMeanwhile<T>> {
  let most = 0;
  const syncers = async (): Promise<number[]> =>
    (await lab.processes()).flatMap(({ pid, component }) => (component === 'vc-syncer' ? [pid] : []));
  const first = await syncers();
  const later = new Set<number>();
  const watching = new AbortController();
  const watch = async (): Promise<void> => {
    while (!watching.signal.aborted) {
      for (const pid of await syncers()) {
        if (!first.includes(pid)) later.add(pid);
        most = Math.max(most, ((await memoryOf(pid))?.rss ?? 0) / megabyte);
      }
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  };
  const watched = watch();
  try {
    return { result: await work, megabytes: Math.round(most), restarts: later.size };
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
    const restarts = new Map<string, number>();
    const rounds: PodRound[] = await runRounds({
      lab,
      options,
      sides: floodSides(options.floods ?? Object.keys(attacks)),
      measure: async (targets, side, repeat) => {
        const [victim, ...others] = targets;
        const attacker = others.at(-1);
        if (victim === undefined || attacker === undefined)
          throw new Error('floods needs two tenants: one to attack and one to watch');
        const loads = [{ target: victim.name, pods, shape: 'rate', perSecond: rate } as const];
        const run = { podPrefix: `r${repeat}`, loads, timeoutMs: options.timeoutMs };
        const { connection, namespace } = attacker;
        const flood = side.name === quiet ? undefined : { connection, namespace, attack: side.name };
        // The generator must not read what the attacker invents: that would take its time, and counts as pods.
        await lab.generator.request('open', { targets: [victim] }, lab.signal);
        const measured = await during(flood, () =>
          watchSyncer(lab, lab.generator.request('run', run, lab.signal)),
        );
        await lab.generator.request('open', { targets: [...targets] }, lab.signal);
        memory.set(side.name, [...(memory.get(side.name) ?? []), measured.megabytes]);
        restarts.set(side.name, (restarts.get(side.name) ?? 0) + measured.restarts);
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
          'syncer restarts': (all) => String(restarts.get(all[0]?.side ?? '') ?? 0),
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
        ...figure(`${side}, restarts of the syncer`, '', [restarts.get(side) ?? 0]),
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
