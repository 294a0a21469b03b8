import { systemClock, untilAborted } from '../../../kube/index.ts';
import type { Load, PodSample } from './protocol.ts';
import type { TargetPods } from './target-pods.ts';

/** What a load uses of its target. */
export interface LoadTarget {
  readonly name: string;
  whenReady(pod: string, ready: () => void): void;
  create(pod: string, signal: AbortSignal): Promise<void>;
}

interface LoadRun {
  podPrefix: string;
  /** Ends waiting; pods that are not Ready by then have no `readyMs`. */
  signal: AbortSignal;
  /** Milliseconds since the run began. */
  elapsed: () => number;
  onFailure: (error: unknown) => void;
}

interface StartedPod {
  sample: PodSample;
  /** Neither rejects; `ready` also resolves when the create has failed. */
  accepted: Promise<void>;
  ready: Promise<void>;
}

/** Creates the pods of one load and waits until they are Ready. Resolves early when aborted; never rejects. */
export async function runLoad(target: LoadTarget, load: Load, run: LoadRun): Promise<PodSample[]> {
  const started: StartedPod[] = [];
  const start = (): StartedPod => {
    const pod = startPod(target, `${run.podPrefix}-${started.length}`, run);
    started.push(pod);
    return pod;
  };
  const isDone = (): boolean => started.length >= load.pods || run.signal.aborted;
  // Once for the whole load: adding a listener takes time proportional to those that exist.
  const over = untilAborted(run.signal);
  const one = async (until: 'accepted' | 'ready'): Promise<void> => {
    while (!isDone()) await Promise.race([start()[until], over]);
  };
  switch (load.shape) {
    case 'burst':
      await Promise.all(Array.from({ length: load.inFlight }, () => one('accepted')));
      break;
    case 'sequence':
      await one('ready');
      break;
    case 'rate': {
      const from = run.elapsed();
      while (!isDone()) {
        const due = from + (started.length * 1000) / load.perSecond;
        await systemClock.sleep(Math.max(0, due - run.elapsed()), run.signal).catch(() => undefined);
        if (!run.signal.aborted) start();
      }
    }
  }
  await Promise.race([Promise.all(started.map(({ ready }) => ready)), over]);
  return started.map(({ sample }) => sample);
}

function startPod(target: LoadTarget, name: string, run: LoadRun): StartedPod {
  const sample: PodSample = { target: target.name, createdMs: run.elapsed() };
  const { promise: ready, resolve } = Promise.withResolvers<void>();
  target.whenReady(name, () => {
    sample.readyMs = run.elapsed();
    resolve();
  });
  const accepted = target.create(name, run.signal).then(
    () => {
      sample.acceptedMs = run.elapsed();
    },
    (error: unknown) => {
      if (!run.signal.aborted) run.onFailure(error);
      resolve();
    },
  );
  return { sample, accepted, ready };
}

type StandTarget = Pick<TargetPods, 'name' | 'names' | 'create' | 'remove' | 'isReady' | 'ready'>;

/** Creates or deletes pods until each target has `perTarget`; resolves when all are Ready. */
export async function ensureStandingPods(
  targets: readonly StandTarget[],
  { perTarget, inFlight, timeoutMs }: { perTarget: number; inFlight: number; timeoutMs: number },
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const over = untilAborted(signal);
  const late = over.then(() => Promise.reject(new Error(timeoutMessage(targets, perTarget))));
  const all = targets.map((target) => ensureStandingPodsOf(target, perTarget, inFlight, { signal, over }));
  await Promise.race([Promise.all(all), late]);
}

async function ensureStandingPodsOf(
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

function timeoutMessage(targets: readonly StandTarget[], perTarget: number): string {
  const ready = targets.map((target) => target.names().filter((name) => target.isReady(name)).length);
  const total = ready.reduce((sum, each) => sum + each, 0);
  return `time is up with ${total} of ${targets.length * perTarget} standing pods Ready: give more --timeout`;
}
