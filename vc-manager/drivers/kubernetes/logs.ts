import { StringDecoder } from 'node:string_decoder';
import { labelKeys } from '../../../api/labels.ts';
import { type Clock, type KubeClient, resources } from '../../../kube/index.ts';
import type { LogOptions, OnProblem } from '../driver.ts';
import { LineSplitter, lastOf } from '../log-lines.ts';
import { NamespaceView } from './super-objects.ts';
import { containerOf, namespaceOf, type Pod, runOf, type Termination } from './types.ts';

interface PodLogOptions {
  namespace: string;
  pod: string;
  container: string;
  /** Of the container that ran before the present one. */
  previous?: boolean;
  tailLines?: number | undefined;
  follow?: boolean;
  /** Each line begins with its time and a space. */
  timestamps?: boolean;
  /** Nothing that is older, in whole seconds. */
  sinceTime?: string;
  signal: AbortSignal;
}

/** How long a followed log may be silent. */
const silenceMs = 0;
const answerMs = 30_000;

/** Lines of one container. Ends with the container, or when aborted; nothing when there is no log to be had. */
async function* podLog(client: KubeClient, options: PodLogOptions): AsyncGenerator<string> {
  const { namespace, pod, container, previous = false, tailLines, follow = false, signal } = options;
  const { timestamps = false, sinceTime } = options;
  const query = new URLSearchParams({ container });
  if (previous) query.set('previous', 'true');
  if (follow) query.set('follow', 'true');
  if (timestamps) query.set('timestamps', 'true');
  if (sinceTime !== undefined) query.set('sinceTime', sinceTime);
  if (tailLines !== undefined) query.set('tailLines', String(tailLines));
  let body: Awaited<ReturnType<typeof client.connection.stream>>['body'] | undefined;
  try {
    const answer = await client.connection.stream(
      {
        method: 'GET',
        verb: 'get',
        resource: resources.pods.plural,
        path: `/api/v1/namespaces/${namespace}/pods/${pod}/log?${query}`,
        signal,
      },
      follow ? silenceMs : answerMs,
    );
    body = answer.body;
    // A later error has no other listener once the lines are read.
    body.on('error', () => undefined);
    // 400: it has not started, or there was none before it. 404: it is gone.
    if (answer.status !== 200) return;
    const decoder = new StringDecoder('utf8');
    const splitter = new LineSplitter();
    for await (const chunk of body as AsyncIterable<Buffer>) {
      for (const line of splitter.push(decoder.write(chunk))) {
        if (signal.aborted) return;
        yield line;
      }
    }
    const last = splitter.end();
    if (last !== undefined) yield last;
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    body?.destroy();
  }
}

/** The last lines of the log of a container that has ended; none if there is an error. */
export async function lastLinesOf(
  client: KubeClient,
  options: Omit<PodLogOptions, 'follow'>,
): Promise<string[]> {
  try {
    return await lastOf(podLog(client, options));
  } catch {
    options.signal.throwIfAborted();
    return [];
  }
}

/** A container of a pod. */
interface ContainerRef {
  client: KubeClient;
  namespace: string;
  pod: string;
  container: string;
}

const stamped = /^(\d{4}-\d{2}-\d{2}T\S+) (.*)$/s;

/**
 * The log of one pod's container, with the position up to which it was read. It spans runs of the container: which run
 * a kubelet shows is not known, as restarts are reported later, but times only grow.
 */
class ContainerLog {
  readonly #place: ContainerRef;
  /** Of the last line that was read; times of kubelets are all of the same length. */
  #last: string | undefined;

  constructor(place: ContainerRef) {
    this.#place = place;
  }

  /** Lines that were not read before. Ends with the run, or with the connection, or when aborted. */
  async *read(options: {
    tailLines?: number | undefined;
    follow?: boolean;
    signal: AbortSignal;
  }): AsyncGenerator<string> {
    const { client, ...place } = this.#place;
    const last = this.#last;
    // With no earlier lines wanted, the time of the last one is the position to go on from.
    const isUnwanted = options.tailLines === 0;
    const from = {
      ...(isUnwanted && { tailLines: 1 }),
      ...(last !== undefined && { sinceTime: wholeSeconds(last) }),
    };
    for await (const line of podLog(client, { ...place, ...options, ...from, timestamps: true })) {
      const [, time, text] = stamped.exec(line) ?? [];
      // Messages of the kubelet itself have no time.
      if (time === undefined || text === undefined) {
        if (!isUnwanted) yield line;
        continue;
      }
      // A line of the last second that was read already.
      if (last !== undefined && time <= last) continue;
      this.#last = time;
      if (!isUnwanted) yield text;
    }
  }
}

/** API servers pass times on to kubelets in whole seconds. */
function wholeSeconds(time: string): string {
  return time.replace(/\.\d+/, '');
}

interface LogFollowerOptions {
  client: KubeClient;
  clock: Clock;
  namespace: string;
  component: string;
  /** By UID of the pod: logs that were read in part. */
  begun: ReadonlyMap<string, ContainerLog>;
  onProblem: OnProblem;
}

/** Pause after the end of a stream, which may be the connection's: kubelets report ends of containers later. */
const pauseMs = 1_000;
const lookMs = 3_600_000;

/** Follows the log of a component from now on, over restarts and new pods. */
class LogFollower {
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
    const ending = new AbortController();
    const either = AbortSignal.any([signal, ending.signal]);
    await using view = new NamespaceView(this.#o);
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
        // The next stream goes on from the position.
      }
      const isOther = (): true | undefined => {
        const now = present();
        return now === undefined || runOf(now) !== run ? true : undefined;
      };
      const until = clock.monotonic() + pauseMs;
      // A container that waits for its restart logs nothing until then.
      const timeoutMs = (): number => (run === undefined ? lookMs : until - clock.monotonic());
      await view.until(isOther, { signal, clock, timeoutMs }).catch(() => undefined);
    }
  }

  #push(line: string): void {
    this.#lines.push(line);
    this.#wake.resolve();
  }
}

interface Source {
  client: KubeClient;
  clock: Clock;
  id: string;
  component: string;
  onProblem: OnProblem;
}

/**
 * The log of a component. Of a container that was started again, what the one before said comes first, with a line
 * between them that tells of it; lines of one of several have the name of its pod in front. Followed, it goes on with
 * containers that are started again and with other pods, until aborted.
 */
export async function* componentLog(source: Source, options: LogOptions): AsyncGenerator<string> {
  const { client, clock, id, component, onProblem } = source;
  const { signal } = options;
  const labelSelector = `${labelKeys.component}=${component}`;
  const namespace = namespaceOf(id);
  const { items } = await client.list<Pod>(resources.pods, { namespace, labelSelector, signal });
  const pods = items.toSorted((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
  const several = pods.length > 1;
  const begun = new Map<string, ContainerLog>();
  for (const pod of pods) {
    const place: ContainerRef = { client, namespace, pod: pod.metadata.name ?? '', container: component };
    const log = new ContainerLog(place);
    const lines = await soFar(place, pod, log, options);
    const mark = several ? `[${place.pod}] ` : '';
    for (const line of lines) yield `${mark}${line}`;
    begun.set(pod.metadata.uid ?? '', log);
  }
  if (options.follow === true)
    yield* new LogFollower({ client, clock, namespace, component, begun, onProblem }).lines(signal);
}

/** The present log of one pod. */
async function soFar(
  { client, ...place }: ContainerRef,
  pod: Pod,
  log: ContainerLog,
  { tailLines, signal }: LogOptions,
): Promise<string[]> {
  const collect = async (from: AsyncIterable<string>): Promise<string[]> => {
    if (tailLines !== undefined) return lastOf(from);
    const lines: string[] = [];
    for await (const line of from) lines.push(line);
    return lines;
  };
  const last = containerOf(pod)?.lastState?.terminated;
  const before =
    last === undefined
      ? []
      : [
          ...(await collect(podLog(client, { ...place, tailLines, previous: true, signal }))),
          noteOf(pod, last),
        ];
  const lines = [...before, ...(await collect(log.read({ tailLines, signal })))];
  return tailLines === undefined ? lines : lines.slice(Math.max(0, lines.length - tailLines));
}

function noteOf(pod: Pod, { exitCode, reason, finishedAt }: Termination): string {
  const why = reason === undefined || reason === 'Error' ? '' : `, ${reason}`;
  return `--- ${pod.metadata.name} was started again: it had ended at ${finishedAt} with exit code ${exitCode}${why} ---`;
}
