import { callsPer } from './measure/syncer-work.ts';
import { totalCpuSeconds } from './measure/usage.ts';
import type { Round } from './rounds.ts';
import type { Figure } from './scenario.ts';

/** CPU of all, of the syncer and of the load generator, and calls of the syncer, for each pod or whatever is counted. */
export function costFigures(rounds: readonly Round[], unit: string): Figure[] {
  return [...Map.groupBy(rounds, ({ side }) => side)].flatMap(([side, ofSide]) => {
    const cpu = (what: string, seconds: (round: Round) => number | undefined): Figure => ({
      name: `${side}, CPU${what} per ${unit}`,
      unit: 'ms',
      better: 'less',
      values: ofSide.flatMap((round) => {
        const spent = seconds(round);
        return spent === undefined ? [] : [(spent * 1000) / round.count];
      }),
    });
    const calls: Figure = {
      name: `${side}, calls of the syncer per ${unit}`,
      unit: 'calls',
      better: 'less',
      values: ofSide.flatMap(({ syncer, count }) =>
        syncer === undefined ? [] : [callsPer([{ work: new Map(Object.entries(syncer)), count }])],
      ),
    };
    const all = [
      cpu('', ({ usage }) => totalCpuSeconds(usage)),
      // On the super cluster alone the syncer has nothing to do with it.
      ...(calls.values.length === 0 ? [] : [cpu(' of the syncer', ({ usage }) => usage.cpuSeconds.syncer)]),
      cpu(' of the load generator', ({ usage }) => usage.cpuSeconds.generator),
      calls,
    ];
    return all.filter(({ values }) => values.length > 0);
  });
}
