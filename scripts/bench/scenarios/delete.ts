import { costFigures, costTables } from '../costs.ts';
import type { Load, Removal } from '../generator/protocol.ts';
import { type Cell, renderCell } from '../markdown.ts';
import { lineChart } from '../plot.ts';
import { direct, type Round, runRounds, sidesOf, tenants } from '../rounds.ts';
import { figure, type Scenario } from '../scenario.ts';
import { distribution, median, sum } from '../statistics.ts';

type Removals = { removals: Removal[]; timeoutMs: number };

/** One tenant deletes pods as one does, with grace: how long until they are gone. */
export const deletion: Scenario = {
  name: 'delete',
  summary: 'one tenant deletes --delete-pods pods at once, with grace',
  needsTenants: false,

  async run(lab, options) {
    const { deletePods: pods, inFlight, timeoutMs, repeats, tenants: tenantCount } = options;
    const rounds = await runRounds<Removals>({
      lab,
      options,
      sides: sidesOf(options),
      prepare: async ([target]) => {
        const loads: Load[] = [{ target: target?.name ?? '', pods, shape: 'burst', inFlight }];
        await lab.generator.request('run', { podPrefix: 'doomed', loads, timeoutMs }, lab.signal);
      },
      measure: async ([target]) => {
        const ask = { target: target?.name ?? '', timeoutMs };
        return { removals: await lab.generator.request('remove', ask, lab.signal), timeoutMs };
      },
      count: ({ removals }) => removals.length,
      describe: ({ removals }) =>
        `${removals.filter(({ goneMs }) => goneMs !== undefined).length} of ${removals.length} pods gone`,
    });
    const bySide = Map.groupBy(rounds, ({ side }) => side);
    const last = (name: string): number => median((bySide.get(name) ?? []).map(lastSeconds));
    const title = `delete: ${pods} pods of one of ${tenantCount} tenants at once`;
    const added = last(tenants.name) - last(direct.name);
    return {
      settings: { pods, repeats, tenants: tenantCount },
      rounds,
      figures: [
        ...[...bySide].flatMap(([side, ofSide]) =>
          figure(`${side}, until the last is gone`, 's', ofSide.map(lastSeconds)),
        ),
        ...costFigures(rounds, 'pod'),
      ],
      tables: [
        {
          title,
          columns: ['side', 'gone p50, s', 'p99, s', 'last, s', 'still there'],
          rows: [...bySide].map(([side, ofSide]): Cell[] => {
            const all = ofSide.map(({ result }) => distribution(secondsOf(result)));
            return [
              side,
              median(all.map(({ p50 }) => p50)),
              median(all.map(({ p99 }) => p99)),
              last(side),
              String(sum(ofSide.map(({ result }) => stillThere(result)))),
            ];
          }),
          notes: bySide.has(tenants.name)
            ? [`Added by Skerry until the last is gone: **${renderCell(added)} s**.`]
            : [],
        },
        ...costTables('delete', rounds),
      ],
      plots: lineChart({
        name: 'delete',
        title,
        x: { label: 'seconds since the first delete call' },
        y: { label: 'pods gone' },
        lines: rounds.map(({ side, repeat, result }) => {
          const gone = result.removals.flatMap(({ goneMs }) => goneMs ?? []).sort((a, b) => a - b);
          return { name: `${side} ${repeat + 1}`, points: gone.map((ms, index) => [ms / 1000, index + 1]) };
        }),
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
