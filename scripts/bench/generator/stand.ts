import { aborted } from './run-load.ts';
import type { TargetPods } from './target-pods.ts';

type StandTarget = Pick<TargetPods, 'name' | 'names' | 'create' | 'remove' | 'isReady' | 'ready'>;

/** Brings each target to so many pods, by making or deleting some; resolves when all are Ready. */
export async function stand(
  targets: readonly StandTarget[],
  { perTarget, inFlight, timeoutMs }: { perTarget: number; inFlight: number; timeoutMs: number },
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const over = aborted(signal);
  const late = over.then(() => Promise.reject(new Error(missingOf(targets, perTarget))));
  const all = targets.map((target) => standOne(target, perTarget, inFlight, { signal, over }));
  await Promise.race([Promise.all(all), late]);
}

async function standOne(
  target: StandTarget,
  count: number,
  inFlight: number,
  end: { signal: AbortSignal; over: Promise<void> },
): Promise<void> {
  const wanted = new Set(Array.from({ length: count }, (_, index) => `standing-${index}`));
  const there = new Set(target.names());
  const work = [
    ...[...there].filter((name) => !wanted.has(name)).map((name) => () => target.remove(name, () => 0, end)),
    ...[...wanted].filter((name) => !there.has(name)).map((name) => () => target.create(name, end.signal)),
  ].values();
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      for (const step of work) await step();
    }),
  );
  await Promise.all([...wanted].map((name) => target.ready(name)));
}

function missingOf(targets: readonly StandTarget[], perTarget: number): string {
  const ready = targets.map((target) => target.names().filter((name) => target.isReady(name)).length);
  const total = ready.reduce((sum, each) => sum + each, 0);
  return `time is up with ${total} of ${targets.length * perTarget} standing pods Ready: give more --timeout`;
}
