interface Step {
  name: string;
  dependsOn: readonly string[];
}

/**
 * Runs a task for each step as soon as the steps that it depends on are done, side by side where
 * possible. `steps` come in an order that has dependencies first. The first failure is thrown, after
 * the other tasks have been aborted and have ended; steps that wait are not run then.
 */
export async function runInDependencyOrder<T extends Step>(
  steps: readonly T[],
  signal: AbortSignal,
  task: (step: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const abort = new AbortController();
  const either = AbortSignal.any([signal, abort.signal]);
  const running = new Map<string, Promise<void>>();
  let failure: { error: unknown } | undefined;
  for (const step of steps) {
    const before = step.dependsOn.map((name) => running.get(name));
    const run = async () => {
      await Promise.all(before);
      either.throwIfAborted();
      await task(step, either);
    };
    const done = run().catch((error: unknown) => {
      failure ??= { error };
      abort.abort();
      throw error;
    });
    done.catch(() => undefined);
    running.set(step.name, done);
  }
  await Promise.allSettled(running.values());
  if (failure !== undefined) throw failure.error;
}
