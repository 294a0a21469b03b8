import { systemClock } from '../../../kube/index.ts';
import type { Load, PodSample } from './protocol.ts';

/** What a load needs of its target. */
export interface LoadTarget {
  readonly name: string;
  whenReady(pod: string, ready: () => void): void;
  create(pod: string, signal: AbortSignal): Promise<void>;
}

export interface LoadRun {
  podPrefix: string;
  /** Ends waiting: what is not Ready by then stays without `readyMs`. */
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
  const over = aborted(run.signal);
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

/** Resolves when the signal is aborted. One listener for a whole load: a signal looks through all that it has when it gets one more. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
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
