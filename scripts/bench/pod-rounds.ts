import type { BenchOptions } from './arguments.ts';
import type { Load, RunResult, Target } from './generator/protocol.ts';
import type { Lab } from './lab.ts';
import { parseSyncerWork, type SyncerWork, workBetween } from './measure/syncer-work.ts';
import { type Usage, UsageMeter } from './measure/usage.ts';

/** One way to run pods: straight on the super cluster, or through tenants. */
export interface Side {
  name: string;
  /** Whether the pods go through tenants, and if so, how the syncer runs. */
  through: 'super cluster' | { fair: boolean };
}

export const direct: Side = { name: 'direct', through: 'super cluster' };
export const tenants: Side = { name: 'tenants', through: { fair: true } };
export const unfairTenants: Side = { name: 'tenants, --no-fair', through: { fair: false } };

/** One side, measured once. */
export interface Round {
  side: string;
  repeat: number;
  /** False: something was still going on when it began. */
  wasQuiet: boolean;
  result: RunResult;
  usage: Usage;
  /** What the syncer did meanwhile; absent where it cannot be asked. */
  syncer?: Record<string, number>;
}

export interface PodRounds {
  lab: Lab;
  options: BenchOptions;
  sides: readonly Side[];
  loads: (targets: readonly Target[]) => Load[];
  /** Called while all pods of a round are there. */
  whileLoaded?: (round: Round) => Promise<void>;
}

const warmUpTimeoutMs = 60_000;

/**
 * Measures each side as often as there are repeats, each time in the reverse order of the time before,
 * so that whatever drifts hits both. A pod at each target comes first and is not measured.
 */
export async function runPodRounds(work: PodRounds): Promise<Round[]> {
  const rounds: Round[] = [];
  const { lab, options, sides } = work;
  // Before the first round: idle tenants cost CPU, and that has to hit every side.
  for (const side of sides) await targetsOf(lab, side);
  for (let repeat = 0; repeat < options.repeats; repeat++) {
    for (const side of inTurn(sides, repeat)) {
      const round = await runRound(work, side, repeat);
      const ready = round.result.pods.filter(({ readyMs }) => readyMs !== undefined).length;
      lab.tell(
        `${side.name}, ${repeat + 1} of ${options.repeats}: ${ready} of ${round.result.pods.length} pods Ready in ${round.usage.elapsedSeconds.toFixed(1)} s`,
      );
      for (const failure of round.result.failures) lab.tell(`  ${failure}`);
      rounds.push(round);
    }
  }
  return rounds;
}

export function inTurn<T>(sides: readonly T[], repeat: number): readonly T[] {
  return repeat % 2 === 0 ? sides : sides.toReversed();
}

function targetsOf(lab: Lab, { through }: Side): Promise<Target[]> {
  return through === 'super cluster' ? lab.directTargets() : lab.tenantTargets();
}

async function runRound(work: PodRounds, side: Side, repeat: number): Promise<Round> {
  const { lab, options } = work;
  const { generator, signal } = lab;
  const targets = await targetsOf(lab, side);
  if (side.through !== 'super cluster') await lab.stack.setSyncer?.(side.through, signal);
  await generator.open(targets, signal);
  const podPrefix = `r${repeat}`;
  const warmUp: Load[] = targets.map(({ name }) => ({ target: name, pods: 1, shape: 'burst', inFlight: 1 }));
  const first = await generator.run(
    { podPrefix: 'warm-up', loads: warmUp, timeoutMs: warmUpTimeoutMs },
    signal,
  );
  throwIfBroken(side, first);
  const clear = async (): Promise<void> => {
    await generator.clear(options.timeoutMs, signal);
    if (side.through !== 'super cluster') await lab.superPodsGone();
  };
  await clear();
  const wasQuiet = await lab.settle();
  const loads = work.loads(targets);
  const before = await syncerWork(lab, side);
  const meter = new UsageMeter(() => lab.processes());
  await meter.start();
  const result = await generator.run({ podPrefix, loads, timeoutMs: options.timeoutMs }, signal);
  const usage = await meter.stop();
  const round: Round = { side: side.name, repeat, wasQuiet, result, usage };
  const after = await syncerWork(lab, side);
  if (before !== undefined && after !== undefined) {
    round.syncer = Object.fromEntries(workBetween(before, after));
  }
  await work.whileLoaded?.(round);
  await clear();
  return round;
}

/** A stack that does not even run one pod per target has no figures worth waiting for. */
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
