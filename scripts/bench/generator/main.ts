import { messageOf, untilAborted } from '../../../kube/index.ts';
import { cleanUpChurn, prepareChurn, runChurn } from './churn.ts';
import { ensureStandingPods, runLoad } from './pod-load.ts';
import type {
  PodRun,
  Removal,
  Reply,
  Request,
  RequestName,
  Requests,
  RunResult,
  Target,
} from './protocol.ts';
import { TargetPods } from './target-pods.ts';

// The load generator as a process of its own, so that its CPU time can be told from everything else's.
// It ends with the process that started it; Ctrl-C is that one's business.
process.on('SIGINT', () => undefined);
process.on('disconnect', () => process.exit());

/** Creates pods at several targets and measures how long each takes to be Ready. */
class Generator {
  #targets = new Map<string, TargetPods>();
  /** Label of the objects that the last churn has left, until they are cleared. */
  #churnRun: string | undefined;

  async handle(request: Request): Promise<Requests[RequestName]['response']> {
    switch (request.do) {
      case 'open':
        await this.#open(request.targets);
        return null;
      case 'run':
        return this.#run(request);
      case 'ensureStandingPods':
        await ensureStandingPods([...this.#targets.values()], request);
        return null;
      case 'remove':
        return this.#remove(request);
      case 'clear': {
        const signal = AbortSignal.timeout(request.timeoutMs);
        const targets = [...this.#targets.values()];
        await Promise.all(targets.map((target) => target.clear(signal)));
        if (this.#churnRun !== undefined) await cleanUpChurn(targets, this.#churnRun, signal);
        this.#churnRun = undefined;
        return null;
      }
      case 'prepareChurn':
        await prepareChurn([...this.#targets.values()], request);
        return null;
      case 'churn':
        this.#churnRun = Date.now().toString(36);
        return runChurn([...this.#targets.values()], this.#churnRun, request);
    }
  }

  async #open(targets: readonly Target[]): Promise<void> {
    await Promise.all([...this.#targets.values()].map((target) => target.close()));
    this.#targets = new Map(targets.map((target) => [target.name, new TargetPods(target)]));
    await Promise.all([...this.#targets.values()].map((target) => target.open()));
  }

  async #run({ podPrefix, loads, withTokens = false, timeoutMs }: PodRun): Promise<RunResult> {
    const failures = new Set<string>();
    const ended = new AbortController();
    const timer = setTimeout(() => ended.abort(), timeoutMs);
    const run = {
      podPrefix,
      signal: ended.signal,
      elapsed: stopwatch(),
      onFailure: (error: unknown) => failures.add(messageOf(error)),
    };
    const targets = [...this.#targets.values()];
    for (const target of targets) target.withTokens = withTokens;
    const retriesBefore = retriesOf(targets);
    try {
      const pods = await Promise.all(loads.map((load) => runLoad(this.#target(load), load, run)));
      return { pods: pods.flat(), retries: retriesOf(targets) - retriesBefore, failures: [...failures] };
    } finally {
      clearTimeout(timer);
      for (const target of targets) target.forget();
    }
  }

  #remove(request: { target: string; timeoutMs: number }): Promise<Removal[]> {
    const target = this.#target(request);
    const signal = AbortSignal.timeout(request.timeoutMs);
    const elapsed = stopwatch();
    const over = untilAborted(signal);
    return Promise.all(target.names().map((name) => target.remove(name, elapsed, { signal, over })));
  }

  #target({ target }: { target: string }): TargetPods {
    const found = this.#targets.get(target);
    if (found === undefined) throw new Error(`the target "${target}" was not opened`);
    return found;
  }
}

/** Milliseconds since now, to a hundredth. */
function stopwatch(): () => number {
  const startedAt = performance.now();
  return () => Math.round((performance.now() - startedAt) * 100) / 100;
}

function retriesOf(targets: readonly TargetPods[]): number {
  return targets.reduce((sum, { retries }) => sum + retries, 0);
}

const generator = new Generator();
process.on('message', (request: Request) => {
  void generator.handle(request).then(
    (result) => send({ result }),
    (error: unknown) => send({ error: messageOf(error) }),
  );
});

function send(reply: Reply): void {
  process.send?.(reply);
}
