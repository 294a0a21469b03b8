import type { TargetPods } from '../target-pods.ts';
import { anchor, runKey } from './objects.ts';

/** The pod of each target that uses all ConfigMaps of so many lanes; resolves when all are Ready. */
export async function furnish(
  targets: readonly TargetPods[],
  { lanes, timeoutMs }: { lanes: number; timeoutMs: number },
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const late = new Promise<never>((_, reject) => {
    const refuse = (): void => reject(new Error('the pods that use ConfigMaps did not become Ready in time'));
    signal.addEventListener('abort', refuse, { once: true });
  });
  const all = targets.map(async (target) => {
    await target.calls.create('pods', anchor(lanes), signal);
    await target.ready('anchor');
  });
  await Promise.race([Promise.all(all), late]);
}

/** Removes what a run of churn has left, but for pods. */
export async function unfurnish(
  targets: readonly TargetPods[],
  run: string,
  signal: AbortSignal,
): Promise<void> {
  const ofRun = `${runKey}=${run}`;
  await Promise.all(
    targets.map(async ({ calls }) => {
      await calls.deleteAll('configmaps', ofRun, signal);
      await calls.deleteAll('services', ofRun, signal);
    }),
  );
}
