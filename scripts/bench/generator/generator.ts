import type { Load, Request, RunResult, Target } from './protocol.ts';
import { runLoad } from './run-load.ts';
import { TargetPods } from './target-pods.ts';

/** Creates pods at several targets and measures how long each takes to be Ready. */
export class Generator {
  #targets = new Map<string, TargetPods>();

  async answer(request: Request): Promise<RunResult | null> {
    switch (request.do) {
      case 'open':
        await this.#open(request.targets);
        return null;
      case 'run':
        return this.#run(request);
      case 'clear': {
        const signal = AbortSignal.timeout(request.timeoutMs);
        await Promise.all([...this.#targets.values()].map((target) => target.clear(signal)));
        return null;
      }
      case 'close':
        await this.#close();
        return null;
    }
  }

  async #open(targets: readonly Target[]): Promise<void> {
    await this.#close();
    this.#targets = new Map(targets.map((target) => [target.name, new TargetPods(target)]));
    await Promise.all([...this.#targets.values()].map((target) => target.open()));
  }

  async #run({ podPrefix, loads, timeoutMs }: Extract<Request, { do: 'run' }>): Promise<RunResult> {
    const failures = new Set<string>();
    const ended = new AbortController();
    const timer = setTimeout(() => ended.abort(), timeoutMs);
    const startedAt = performance.now();
    const run = {
      podPrefix,
      signal: ended.signal,
      elapsed: () => Math.round((performance.now() - startedAt) * 100) / 100,
      onFailure: (error: unknown) => failures.add(error instanceof Error ? error.message : String(error)),
    };
    const targets = [...this.#targets.values()];
    const retriesBefore = retriesOf(targets);
    try {
      const pods = await Promise.all(loads.map((load) => runLoad(this.#target(load), load, run)));
      return { pods: pods.flat(), retries: retriesOf(targets) - retriesBefore, failures: [...failures] };
    } finally {
      clearTimeout(timer);
      for (const target of targets) target.forget();
    }
  }

  #target({ target }: Load): TargetPods {
    const found = this.#targets.get(target);
    if (found === undefined) throw new Error(`the target "${target}" was not opened`);
    return found;
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#targets.values()].map((target) => target.close()));
    this.#targets.clear();
  }
}

function retriesOf(targets: readonly TargetPods[]): number {
  return targets.reduce((sum, { retries }) => sum + retries, 0);
}
