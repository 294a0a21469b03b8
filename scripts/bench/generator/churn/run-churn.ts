import { systemClock } from '../../../../kube/index.ts';
import type { TargetPods } from '../target-pods.ts';
import { connect, countsOf, differences, type States, statesAt } from './agreement.ts';
import { Lane, type Step } from './lane.ts';
import { created, updated } from './objects.ts';
import { OtherSide } from './other-side.ts';
import type { ChurnResult, ChurnWork, Operation } from './protocol.ts';
import { seededRandom } from './random.ts';
import { ShownTracker } from './shown-tracker.ts';

const lookEveryMs = 100;
const compareEveryMs = 1_000;
const mostFailures = 20;

/** Creates, updates and deletes objects at all targets, and waits until the other side agrees. `run` is their mark. */
export async function runChurn(
  targets: readonly TargetPods[],
  run: string,
  work: ChurnWork,
): Promise<ChurnResult> {
  const connection = work.otherSide && connect(work.otherSide.connection);
  const startedAt = performance.now();
  const elapsed = (): number => Math.round((performance.now() - startedAt) * 100) / 100;
  const tracker = new ShownTracker(run);
  const otherSide =
    connection &&
    new OtherSide({
      connection,
      labelSelector: work.otherSide?.labelSelector ?? '',
      onSeen: (annotation, isDeleted) => tracker.seen(annotation, isDeleted, elapsed()),
    });
  try {
    await otherSide?.open();
    const beginMs = elapsed();
    const calls = await callAll(targets, work, { run, tracker, elapsed });
    const answeredMs = elapsed();
    const other = connection && { connection, labelSelector: work.otherSide?.labelSelector ?? '' };
    const end = await agreement(targets, run, other, { tracker, timeoutMs: work.timeoutMs });
    const isShown = other !== undefined && end.differences === 0;
    return {
      ...calls,
      operations: calls.operations.map((operation) => since(operation, beginMs)),
      answeredMs: answeredMs - beginMs,
      ...(isShown ? { agreedMs: Math.max(answeredMs, tracker.lastShownMs) - beginMs } : {}),
      ...end,
    };
  } finally {
    await otherSide?.close();
    await connection?.close();
  }
}

interface Calls {
  run: string;
  tracker: ShownTracker;
  elapsed: () => number;
}

async function callAll(
  targets: readonly TargetPods[],
  { seed, lanes, operations, forMs, perSecond }: ChurnWork,
  { run, tracker, elapsed }: Calls,
): Promise<Pick<ChurnResult, 'operations' | 'retries' | 'failures'>> {
  const done: Operation[] = [];
  const failures = new Set<string>();
  const signal = new AbortController().signal;
  const all = targets.length * lanes;
  const until = elapsed() + (forMs ?? Number.POSITIVE_INFINITY);
  const intervalMs = perSecond === undefined ? 0 : (all * 1_000) / perSecond;
  const retriesBefore = targets.reduce((sum, { retries }) => sum + retries, 0);

  async function runLane(target: TargetPods, targetIndex: number, index: number): Promise<void> {
    const lane = new Lane(index, seededRandom(seed, targetIndex, index));
    const place = targetIndex * lanes + index;
    // What does not divide evenly goes to the first ones.
    const count =
      operations === undefined ? Number.POSITIVE_INFINITY : Math.floor((operations + all - 1 - place) / all);
    const from = elapsed() + (place / all) * intervalMs;
    for (let turn = 0; turn < count && elapsed() < until; turn++) {
      const waitMs = from + turn * intervalMs - elapsed();
      if (waitMs > 1) await systemClock.sleep(waitMs, signal);
      await call(target, lane.next(), index, turn);
    }
  }

  async function call(target: TargetPods, step: Step, lane: number, turn: number): Promise<void> {
    const { verb, kind, name } = step;
    const operation: Operation = { kind, verb, sentMs: elapsed() };
    done.push(operation);
    const id = tracker.sent(`${target.name}/${lane}/${step.object}`, operation);
    try {
      if (verb === 'create') await target.calls.create(kind, created(step, lane, run, id), signal);
      else if (verb === 'update') await target.calls.patch(kind, name, updated(step, id, turn), signal);
      else await target.calls.delete(kind, name, signal);
      operation.answeredMs = elapsed();
    } catch (error) {
      if (failures.size < mostFailures) failures.add(error instanceof Error ? error.message : String(error));
    }
  }

  await Promise.all(
    targets.flatMap((target, targetIndex) =>
      Array.from({ length: lanes }, (_, index) => runLane(target, targetIndex, index)),
    ),
  );
  const retries = targets.reduce((sum, each) => sum + each.retries, 0) - retriesBefore;
  return { operations: done, retries, failures: [...failures] };
}

async function agreement(
  targets: readonly TargetPods[],
  run: string,
  other: Parameters<typeof statesAt>[0][number] | undefined,
  { tracker, timeoutMs }: { tracker: ShownTracker; timeoutMs: number },
): Promise<Pick<ChurnResult, 'counts' | 'differences'>> {
  const signal = AbortSignal.timeout(timeoutMs + 60_000);
  const own = (): Promise<States> =>
    statesAt(
      targets.map(({ calls: { connection, namespace } }) => ({ connection, namespace })),
      run,
      signal,
    );
  if (other === undefined) return { counts: { own: countsOf(await own()) }, differences: 0 };
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    // Comparing costs the API servers more than looking at what the watch has shown.
    const compareAt = performance.now() + compareEveryMs;
    while (tracker.pending > 0 && performance.now() < compareAt) await systemClock.sleep(lookEveryMs, signal);
    const [here, there] = [await own(), await statesAt([other], run, signal)];
    const different = differences(here, there);
    if (different === 0 || performance.now() > deadline)
      return { counts: { own: countsOf(here), other: countsOf(there) }, differences: different };
    await systemClock.sleep(lookEveryMs, signal);
  }
}

function since({ sentMs, answeredMs, shownMs, ...operation }: Operation, beginMs: number): Operation {
  const relative = (ms: number): number => Math.round((ms - beginMs) * 100) / 100;
  return {
    ...operation,
    sentMs: relative(sentMs),
    ...(answeredMs === undefined ? {} : { answeredMs: relative(answeredMs) }),
    ...(shownMs === undefined ? {} : { shownMs: relative(shownMs) }),
  };
}
