import { costFigures, costTables } from '../costs.ts';
import type { Load, Removal } from '../generator/protocol.ts';
import { groupTable, renderCell } from '../markdown.ts';
import { countedOverTime, lineChart } from '../plot.ts';
import { bySide, direct, type Round, runRounds, sidesToCompare, tenants } from '../rounds.ts';
import { figure, type Scenario } from '../scenario.ts';
import { distribution, median, sum } from '../statistics.ts';

type Removals = { removals: Removal[]; timeoutMs: number };

/** One tenant deletes pods with their usual grace period: how long until they are gone. */
export const deletion: Scenario = {
  name: 'delete',
  summary: 'one tenant deletes --delete-pods pods at once, with grace',
  needsTenants: false,

  async run(lab, options) {
    const { deletePods: pods, inFlight, timeoutMs, repeats, tenants: tenantCount } = options;
    const rounds = await runRounds<Removals>({
      lab,
      options,
      sides: sidesToCompare(options),
      prepare: async ([target]) => {
        const loads: Load[] = [{ target: target?.name ?? '', pods, shape: 'burst', inFlight }];
        await lab.generator.request('run', { podPrefix: 'doomed', loads, timeoutMs }, lab.signal);
      },
      measure: async ([target]) => {
        const removal = { target: target?.name ?? '', timeoutMs };
        return { removals: await lab.generator.request('remove', removal, lab.signal), timeoutMs };
      },
      count: ({ removals }) => removals.length,
      describe: ({ removals }) =>
        `${removals.filter(({ goneMs }) => goneMs !== undefined).length} of ${removals.length} pods gone`,
    });
    const measured = bySide(rounds);
    const last = (some: readonly Round<Removals>[] = []): number => median(some.map(lastSeconds));
    const percentile = (statistic: 'p50' | 'p99') => (some: readonly Round<Removals>[]) =>
      median(some.map(({ result }) => distribution(secondsOf(result))[statistic]));
    const title = `delete: ${pods} pods of one of ${tenantCount} tenants at once`;
    const added = last(measured.get(tenants.name)) - last(measured.get(direct.name));
    return {
      settings: { pods, repeats, tenants: tenantCount },
      rounds,
      figures: [
        ...[...measured].flatMap(([side, ofSide]) =>
          figure(`${side}, until the last is gone`, 's', ofSide.map(lastSeconds)),
        ),
        ...costFigures(rounds, 'pod'),
      ],
      tables: [
        groupTable<Round<Removals>>(
          title,
          ['side', measured],
          {
            'gone p50, s': percentile('p50'),
            'p99, s': percentile('p99'),
            'last, s': last,
            'still there': (some) => String(sum(some.map(({ result }) => stillThere(result)))),
          },
          measured.has(tenants.name)
            ? [`Added by Skerry until the last is gone: **${renderCell(added)} s**.`]
            : [],
        ),
        ...costTables('delete', rounds),
      ],
      plots: lineChart({
        name: 'delete',
        title,
        x: { label: 'seconds since the first delete call' },
        y: { label: 'pods gone' },
        lines: rounds.map(({ side, repeat, result }) =>
          countedOverTime(
            `${side} ${repeat + 1}`,
            result.removals.flatMap(({ goneMs }) => goneMs ?? []),
          ),
        ),
      }),
    };
  },
};

/** From the first call; a pod that stays counts as gone when time was up. */
function lastSeconds({ result }: Round<Removals>): number {
  return Math.max(...result.removals.map(({ goneMs = result.timeoutMs }) => goneMs)) / 1000;
}

function secondsOf({ removals }: Removals): number[] {
  return removals.flatMap(({ deletedMs, goneMs }) =>
    goneMs === undefined ? [] : [(goneMs - deletedMs) / 1000],
  );
}

function stillThere({ removals }: Removals): number {
  return removals.filter(({ goneMs }) => goneMs === undefined).length;
}
