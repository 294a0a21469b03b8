import type { Load, PodSample, RunResult, Target } from './generator/protocol.ts';
import type { Lab } from './lab.ts';
import { parseSyncerWork, type SyncerWork, type Usage, UsageMeter, workBetween } from './measure.ts';
import type { BenchOptions } from './options.ts';
import { type Distribution, distribution, median, sum } from './statistics.ts';

/** One way to do the work: straight on the super cluster, or through tenants. */
export interface Side {
  name: string;
  /** Whether it goes through tenants, and if so, how the syncer runs. */
  through: 'super cluster' | { fair: boolean; delayMs?: number };
}

export const direct: Side = { name: 'direct', through: 'super cluster' };
export const tenants: Side = { name: 'tenants', through: { fair: true } };
export const unfairTenants: Side = { name: 'tenants, --no-fair', through: { fair: false } };

/** The sides of scenarios that compare tenants with the super cluster alone. */
export function sidesToCompare({ sides }: Pick<BenchOptions, 'sides'>): readonly Side[] {
  return sides === 'direct' ? [direct] : [direct, tenants];
}

/** One side, measured once. */
export interface Round<Result = unknown> {
  side: string;
  repeat: number;
  /** False: processes still used CPU when the round began. */
  wasQuiet: boolean;
  result: Result;
  /** Pods or operations that costs are divided by. */
  count: number;
  usage: Usage;
  /** What the syncer did in the round; absent where its metrics are not read. */
  syncer?: SyncerWork;
}

interface RoundWork<Result> {
  lab: Lab;
  options: BenchOptions;
  sides: readonly Side[];
  /** Called before measuring; the targets are open and empty. */
  prepare?: (targets: readonly Target[]) => Promise<void>;
  measure: (targets: readonly Target[], side: Side, repeat: number) => Promise<Result>;
  /** What the costs of a round are divided by, and how its result is described in the progress. */
  count: (result: Result) => number;
  describe: (result: Result) => string;
  /** Called while everything that a round has made is there. */
  whileLoaded?: (round: Round<Result>) => Promise<void>;
}

const warmUpTimeoutMs = 60_000;

/**
 * Measures each side as often as there are repeats, each time in the reverse order of the time before,
 * so that whatever drifts hits both. A pod at each target comes first and is not measured.
 */
export async function runRounds<Result>(work: RoundWork<Result>): Promise<Round<Result>[]> {
  const rounds: Round<Result>[] = [];
  const { lab, options, sides } = work;
  // Before the first round: idle tenants cost CPU, and that has to hit every side.
  for (const side of sides) await targetsOf(lab, side);
  for (let repeat = 0; repeat < options.repeats; repeat++) {
    for (const side of inTurn(sides, repeat)) {
      const round = await runRound(work, side, repeat);
      const seconds = round.usage.elapsedSeconds.toFixed(1);
      lab.log(
        `${side.name}, ${repeat + 1} of ${options.repeats}: ${work.describe(round.result)} in ${seconds} s`,
      );
      rounds.push(round);
    }
  }
  return rounds;
}

export function inTurn<T>(sides: readonly T[], repeat: number): readonly T[] {
  return repeat % 2 === 0 ? sides : sides.toReversed();
}

export function bySide<Item extends { side: string }>(rounds: readonly Item[]): Map<string, Item[]> {
  return Map.groupBy(rounds, ({ side }) => side);
}

function targetsOf(lab: Lab, { through }: Side): Promise<Target[]> {
  return through === 'super cluster' ? lab.directTargets() : lab.tenantTargets();
}

async function runRound<Result>(work: RoundWork<Result>, side: Side, repeat: number): Promise<Round<Result>> {
  const { lab } = work;
  const { generator, signal } = lab;
  const targets = await targetsOf(lab, side);
  if (side.through !== 'super cluster') await lab.stack.setSyncer?.(side.through, signal);
  await generator.request('open', { targets }, signal);
  await warmUp(work, side, targets);
  await clear(work, side);
  await work.prepare?.(targets);
  const wasQuiet = await lab.waitUntilQuiet();
  const before = await syncerWork(lab, side);
  const meter = new UsageMeter(() => lab.processes());
  await meter.start();
  const result = await work.measure(targets, side, repeat);
  const usage = await meter.stop();
  const round: Round<Result> = {
    side: side.name,
    repeat,
    wasQuiet,
    result,
    count: work.count(result),
    usage,
  };
  const after = await syncerWork(lab, side);
  if (before !== undefined && after !== undefined) {
    round.syncer = workBetween(before, after);
  }
  await work.whileLoaded?.(round);
  await clear(work, side);
  return round;
}

async function clear({ lab, options }: Pick<RoundWork<never>, 'lab' | 'options'>, side: Side): Promise<void> {
  await lab.generator.request('clear', { timeoutMs: options.timeoutMs }, lab.signal);
  if (side.through !== 'super cluster') await lab.superPodsGone();
}

async function warmUp({ lab }: { lab: Lab }, side: Side, targets: readonly Target[]): Promise<void> {
  const loads: Load[] = targets.map(({ name }) => ({ target: name, pods: 1, shape: 'burst', inFlight: 1 }));
  const run = { podPrefix: 'warm-up', loads, timeoutMs: warmUpTimeoutMs };
  throwIfBroken(side, await lab.generator.request('run', run, lab.signal));
}

/** Ends the run when a target does not get its first pod Ready. */
function throwIfBroken(side: Side, { pods, failures }: RunResult): void {
  const broken = pods.filter(({ readyMs }) => readyMs === undefined).map(({ target }) => target);
  if (broken.length === 0) return;
  const why = failures.length > 0 ? failures.join('; ') : 'no error from the API server';
  throw new Error(
    `${side.name}: the first pod did not become Ready within ${warmUpTimeoutMs / 1000} s in ${broken.join(', ')} (${why})`,
  );
}

async function syncerWork({ stack }: Lab, { through }: Side): Promise<SyncerWork | undefined> {
  if (through === 'super cluster' || stack.syncerMetrics === undefined) return undefined;
  return parseSyncerWork(await stack.syncerMetrics());
}

export type PodRound = Round<RunResult>;

interface PodRoundWork extends Pick<RoundWork<RunResult>, 'lab' | 'options' | 'sides' | 'whileLoaded'> {
  loads: (targets: readonly Target[]) => Load[];
  withTokens?: boolean;
}

/** Rounds in which pods are created and become Ready. */
export function runPodRounds({ loads, withTokens = false, ...work }: PodRoundWork): Promise<PodRound[]> {
  const { lab, options } = work;
  return runRounds({
    ...work,
    measure: async (targets, _side, repeat) => {
      const run = {
        podPrefix: `r${repeat}`,
        loads: loads(targets),
        withTokens,
        timeoutMs: options.timeoutMs,
      };
      const result = await lab.generator.request('run', run, lab.signal);
      for (const failure of result.failures) lab.log(`  ${failure}`);
      return result;
    },
    count: ({ pods }) => pods.length,
    describe: ({ pods }) => `${pods.length - neverReady(pods)} of ${pods.length} pods Ready`,
  });
}

/** The median over rounds of a figure of their pods. */
export function medianOfPods(figure: (pods: PodSample[]) => number): (rounds: readonly PodRound[]) => number {
  return (rounds) => median(rounds.map(({ result }) => figure(result.pods)));
}

/** Pods that were never Ready in any of the rounds. */
export function allNeverReady(rounds: readonly PodRound[]): string {
  return String(sum(rounds.map(({ result }) => neverReady(result.pods))));
}

/** How long pods took from the create call until a watch showed them Ready, in milliseconds. */
export function readyTimes(pods: readonly PodSample[]): Distribution {
  return distribution(timesToReady(pods));
}

export function timesToReady(pods: readonly PodSample[]): number[] {
  return pods.flatMap(({ createdMs, readyMs }) => (readyMs === undefined ? [] : readyMs - createdMs));
}

/** Pods that were Ready per second, from the first create call until the last was. */
export function podsPerSecond(pods: readonly PodSample[]): number {
  const ready = pods.flatMap(({ readyMs }) => readyMs ?? []);
  const first = Math.min(...pods.map(({ createdMs }) => createdMs));
  return (ready.length * 1000) / (Math.max(...ready) - first);
}

export function neverReady(pods: readonly PodSample[]): number {
  return pods.filter(({ readyMs }) => readyMs === undefined).length;
}
