import type { Clock, KubeClient } from '../../../kube/index.ts';
import { ContainerLog } from './container-log.ts';
import { NamespaceView } from './namespace-view.ts';
import { type Pod, runOf } from './types.ts';

export interface LogFollowerOptions {
  client: KubeClient;
  clock: Clock;
  namespace: string;
  component: string;
  /** By UID of the pod: logs of which something was read already. */
  begun: ReadonlyMap<string, ContainerLog>;
}

/** Between an end that may have been the connection's and the next try; a kubelet tells of ends of containers later. */
const pauseMs = 1_000;
const lookMs = 3_600_000;

/** What a component adds to its log from now on, over restarts and new pods. */
export class LogFollower {
  readonly #o: LogFollowerOptions;
  readonly #lines: string[] = [];
  readonly #logs: Map<string, ContainerLog>;
  /** Pods by UID, each read by one reader until it is gone. */
  readonly #reading = new Set<string>();
  #wake = Promise.withResolvers<void>();

  constructor(options: LogFollowerOptions) {
    this.#o = options;
    this.#logs = new Map(options.begun);
  }

  /** Ends only when aborted. */
  async *lines(signal: AbortSignal): AsyncGenerator<string> {
    const { client, namespace, clock } = this.#o;
    const ending = new AbortController();
    const either = AbortSignal.any([signal, ending.signal]);
    await using view = new NamespaceView(client, namespace, clock);
    const watching = this.#watch(view, either);
    const stop = (): void => this.#wake.resolve();
    signal.addEventListener('abort', stop, { once: true });
    try {
      while (!signal.aborted) {
        const lines = this.#lines.splice(0);
        for (const line of lines) yield line;
        if (lines.length > 0) continue;
        await this.#wake.promise;
        this.#wake = Promise.withResolvers<void>();
      }
    } finally {
      signal.removeEventListener('abort', stop);
      ending.abort();
      await watching;
    }
  }

  async #watch(view: NamespaceView, signal: AbortSignal): Promise<void> {
    const { clock, component } = this.#o;
    const readers = new Set<Promise<void>>();
    const look = (): undefined => {
      for (const pod of view.pods(component)) {
        const uid = pod.metadata.uid ?? '';
        if (runOf(pod) === undefined || this.#reading.has(uid)) continue;
        this.#reading.add(uid);
        const reader = this.#read(view, pod, signal).finally(() => {
          this.#reading.delete(uid);
          readers.delete(reader);
        });
        readers.add(reader);
      }
      return undefined;
    };
    await view.until<never>(look, { signal, clock, timeoutMs: () => lookMs }).catch(() => undefined);
    await Promise.all(readers);
  }

  /** Reads one pod until it is gone: the end of a stream is that of a run, or of the connection. */
  async #read(view: NamespaceView, { metadata }: Pod, signal: AbortSignal): Promise<void> {
    const { client, clock, namespace, component } = this.#o;
    const { name: pod = '', uid = '' } = metadata;
    const log = this.#logs.get(uid) ?? new ContainerLog({ client, namespace, pod, container: component });
    this.#logs.set(uid, log);
    const present = (): Pod | undefined => view.pods(component).find((each) => each.metadata.uid === uid);
    for (let found = present(); found !== undefined && !signal.aborted; found = present()) {
      const run = runOf(found);
      try {
        for await (const line of log.read({ follow: true, signal })) {
          this.#push(view.pods(component).length > 1 ? `[${pod}] ${line}` : line);
        }
      } catch {
        // It is read on from where it was left.
      }
      const isOther = (): true | undefined => {
        const now = present();
        return now === undefined || runOf(now) !== run ? true : undefined;
      };
      const until = clock.monotonic() + pauseMs;
      // One that waits to be started again says nothing until then.
      const timeoutMs = (): number => (run === undefined ? lookMs : until - clock.monotonic());
      await view.until(isOther, { signal, clock, timeoutMs }).catch(() => undefined);
    }
  }

  #push(line: string): void {
    this.#lines.push(line);
    this.#wake.resolve();
  }
}
