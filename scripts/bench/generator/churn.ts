import {
  Connection,
  type ConnectionOptions,
  KubeClient,
  type KubeObject,
  messageOf,
  resources,
  systemClock,
  untilAborted,
} from '../../../kube/index.ts';
import {
  type ChurnKind,
  type ChurnResult,
  type ChurnVerb,
  type ChurnWork,
  type Counts,
  churnKinds,
  type Operation,
} from './protocol.ts';
import type { TargetPods } from './target-pods.ts';
import { RawWatch, valueAfter } from './watch.ts';

const pollMs = 100;
const compareEveryMs = 1_000;
const maxFailures = 20;

/** Creates, updates and deletes objects at all targets, and waits until the super cluster agrees. `run` labels the objects. */
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
    new SuperClusterWatch({
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
      operations: calls.operations.map((operation) => relativeTo(operation, beginMs)),
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
    // The remainder goes to the first lanes.
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
      if (failures.size < maxFailures) failures.add(messageOf(error));
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
  other: Parameters<typeof statesIn>[0][number] | undefined,
  { tracker, timeoutMs }: { tracker: ShownTracker; timeoutMs: number },
): Promise<Pick<ChurnResult, 'counts' | 'differences'>> {
  const signal = AbortSignal.timeout(timeoutMs + 60_000);
  const own = (): Promise<States> =>
    statesIn(
      targets.map(({ calls: { connection, namespace } }) => ({ connection, namespace })),
      run,
      signal,
    );
  if (other === undefined) return { counts: { own: countsOf(await own()) }, differences: 0 };
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    // Comparing lists all objects, which costs the API servers more than waiting for the watch.
    const compareAt = performance.now() + compareEveryMs;
    while (tracker.pending > 0 && performance.now() < compareAt) await systemClock.sleep(pollMs, signal);
    const [here, there] = [await own(), await statesIn([other], run, signal)];
    const different = differences(here, there);
    if (different === 0 || performance.now() > deadline)
      return { counts: { own: countsOf(here), other: countsOf(there) }, differences: different };
    await systemClock.sleep(pollMs, signal);
  }
}

function relativeTo({ sentMs, answeredMs, shownMs, ...operation }: Operation, beginMs: number): Operation {
  const relative = (ms: number): number => Math.round((ms - beginMs) * 100) / 100;
  return {
    ...operation,
    sentMs: relative(sentMs),
    ...(answeredMs === undefined ? {} : { answeredMs: relative(answeredMs) }),
    ...(shownMs === undefined ? {} : { shownMs: relative(shownMs) }),
  };
}

/** Creates a pod at each target that uses the ConfigMaps of all lanes; resolves when all are Ready. */
export async function prepareChurn(
  targets: readonly TargetPods[],
  { lanes, timeoutMs }: { lanes: number; timeoutMs: number },
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const late = untilAborted(signal).then(() => {
    throw new Error('the pods that use ConfigMaps did not become Ready in time');
  });
  const all = targets.map(async (target) => {
    await target.calls.create('pods', configMapConsumer(lanes), signal);
    await target.ready('anchor');
  });
  await Promise.race([Promise.all(all), late]);
}

/** Removes the ConfigMaps and Services that a run of churn has left. */
export async function cleanUpChurn(
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

/** The next operation of a lane. */
export interface Step {
  verb: ChurnVerb;
  kind: ChurnKind;
  name: string;
  /** Number of the object among all that this lane has created. */
  object: number;
}

/** Percent of all operations. */
const shares: readonly [ChurnKind, number][] = [
  ['pods', 60],
  ['configmaps', 25],
  ['services', 15],
];
const maxObjects: Readonly<Record<ChurnKind, number>> = { pods: 4, configmaps: 2, services: 2 };

/** Names of ConfigMaps are used again, so that pods can refer to them while they do not exist. */
function configMapName(lane: number, place: number): string {
  return `churn-${lane}-${place}`;
}

const configMapsPerLane = maxObjects.configmaps;

/**
 * An endless sequence of creates, updates and deletes over a handful of objects, made from random numbers
 * alone: the same numbers make the same work, whatever the API server answers.
 */
export class Lane {
  readonly #lane: number;
  readonly #random: () => number;
  readonly #there: Record<ChurnKind, { name: string; object: number; place: number }[]> = {
    pods: [],
    configmaps: [],
    services: [],
  };
  #made = 0;

  constructor(lane: number, random: () => number) {
    this.#lane = lane;
    this.#random = random;
  }

  next(): Step {
    const kind = this.#kind();
    const there = this.#there[kind];
    const verb = this.#verb(there.length, maxObjects[kind]);
    if (verb === 'create') return { verb, kind, ...this.#add(kind) };
    const index = Math.floor(this.#random() * there.length);
    const { name, object } = (verb === 'delete' ? there.splice(index, 1)[0] : there[index]) ?? {
      name: '',
      object: -1,
    };
    return { verb, kind, name, object };
  }

  #kind(): ChurnKind {
    let left = this.#random() * 100;
    for (const [kind, share] of shares) {
      left -= share;
      if (left < 0) return kind;
    }
    return 'pods';
  }

  #verb(there: number, limit: number): ChurnVerb {
    const random = this.#random();
    if (there === 0) return 'create';
    if (there === limit) return random < 0.5 ? 'update' : 'delete';
    if (random < 0.4) return 'create';
    return random < 0.75 ? 'update' : 'delete';
  }

  #add(kind: ChurnKind): { name: string; object: number } {
    const there = this.#there[kind];
    const object = this.#made++;
    const taken = new Set(there.map(({ place }) => place));
    let place = 0;
    while (taken.has(place)) place++;
    const name = kind === 'configmaps' ? configMapName(this.#lane, place) : `churn-${this.#lane}-${object}`;
    there.push({ name, object, place });
    return { name, object };
  }
}

/** Annotation with the number of the operation that wrote the object last. Without a prefix it goes down with pods and Services. */
/** A key that goes down on every kind. */
const operationKey = 'app.kubernetes.io/bench-operation';
/** Label that all objects of one run have. */
const runKey = 'bench-churn';

/** The object that a step creates, as JSON. */
function created(step: Step, lane: number, run: string, operation: string): string {
  const metadata = {
    name: step.name,
    labels: { [runKey]: run, app: step.name },
    annotations: { [operationKey]: operation },
  };
  switch (step.kind) {
    case 'pods':
      return churnPod(metadata, [configMapName(lane, step.object % configMapsPerLane)]);
    case 'configmaps':
      return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { operation } });
    case 'services': {
      const spec = { selector: { [runKey]: run }, ports: [{ port: 80, targetPort: 8080 }] };
      return JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata, spec });
    }
  }
}

/** The merge patch of an update: annotations, sometimes labels, and the data of a ConfigMap. */
function updated(step: Step, operation: string, turn: number): string {
  const labels = turn % 2 === 0 ? {} : { labels: { turn: String(turn) } };
  return JSON.stringify({
    metadata: { annotations: { [operationKey]: operation }, ...labels },
    ...(step.kind === 'configmaps' ? { data: { operation } } : {}),
  });
}

/** A pod that uses every ConfigMap of a target, so that all of them are synced all the time. */
function configMapConsumer(lanes: number): string {
  const names = Array.from({ length: lanes }, (_, lane) =>
    Array.from({ length: configMapsPerLane }, (_, place) => configMapName(lane, place)),
  );
  return churnPod({ name: 'anchor', labels: { app: 'anchor' } }, names.flat());
}

function churnPod(metadata: object, configMaps: string[]): string {
  const envFrom = configMaps.map((name) => ({ configMapRef: { name, optional: true } }));
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: {
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'example.com/bench', envFrom }],
    },
  });
}

interface Pending {
  operation: Operation;
  number: number;
}

/**
 * Records which operations a watch of the super cluster has shown. An event carries the number of the operation that
 * wrote the object last: it shows that one and all earlier ones of the same object.
 */
export class ShownTracker {
  readonly #run: string;
  #next = 0;
  #pendingCount = 0;
  /** Object by number of the operation; objects that are gone on both sides are removed. */
  readonly #objects = new Map<number, string>();
  readonly #pending = new Map<string, Pending[]>();
  lastShownMs = 0;

  /** `run` distinguishes the objects of this run from leftovers of another. */
  constructor(run: string) {
    this.#run = run;
  }

  /** Operations that have not been shown yet. */
  get pending(): number {
    return this.#pendingCount;
  }

  /** Call before the request is sent. Returns the value of the object's annotation. */
  sent(object: string, operation: Operation): string {
    const number = this.#next++;
    this.#objects.set(number, object);
    const pending = this.#pending.get(object) ?? [];
    pending.push({ operation, number });
    this.#pending.set(object, pending);
    this.#pendingCount++;
    return `${this.#run}.${number}`;
  }

  seen(annotation: string, isDeleted: boolean, atMs: number): void {
    const [run, text] = annotation.split('.', 2);
    const number = Number(text);
    const object = run === this.#run ? this.#objects.get(number) : undefined;
    const pending = object === undefined ? undefined : this.#pending.get(object);
    if (object === undefined || pending === undefined) return;
    const isEnd = isDeleted && pending.some(({ operation }) => operation.verb === 'delete');
    const left = pending.filter((each) => {
      if (!isEnd && (each.number > number || each.operation.verb === 'delete')) return true;
      each.operation.shownMs = atMs;
      this.#pendingCount--;
      this.lastShownMs = atMs;
      return false;
    });
    this.#pending.set(object, left);
    if (isEnd) this.#forget(object);
  }

  #forget(object: string): void {
    this.#pending.delete(object);
    for (const [number, of] of this.#objects) if (of === object) this.#objects.delete(number);
  }
}

const annotation = Buffer.from(`"${operationKey}":"`);

interface SuperClusterWatchOptions {
  connection: Connection;
  labelSelector: string;
  onSeen: (annotation: string, isDeleted: boolean) => void;
}

/** Watches objects of the super cluster for the operations in their annotations. */
class SuperClusterWatch {
  readonly #lines: RawWatch[];
  readonly #stop = new AbortController();
  #running: Promise<unknown> | undefined;

  constructor({ connection, labelSelector, onSeen }: SuperClusterWatchOptions) {
    this.#lines = [resources.pods, resources.configMaps, resources.services].map(
      (resource) =>
        new RawWatch({
          connection,
          resource,
          labelSelector,
          onList: (objects) => {
            for (const { metadata } of objects) {
              const value = metadata.annotations?.[operationKey];
              if (value !== undefined) onSeen(value, false);
            }
          },
          onEvent: (type, line) => {
            const value = valueAfter(line, annotation);
            if (value !== undefined) onSeen(value, type === 'DELETED');
          },
        }),
    );
  }

  async open(): Promise<void> {
    this.#running = Promise.all(this.#lines.map((lines) => lines.run(this.#stop.signal)));
    await Promise.all(this.#lines.map(({ listed }) => listed));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

const resourceOf = {
  pods: resources.pods,
  configmaps: resources.configMaps,
  services: resources.services,
} as const satisfies Record<ChurnKind, unknown>;

/** By kind, the last operation of each object. */
export type States = Record<ChurnKind, Set<string>>;

interface ObjectSource {
  connection: Connection;
  namespace?: string | undefined;
  labelSelector?: string | undefined;
}

/** The states of all objects of a run in some sources together. */
async function statesIn(places: readonly ObjectSource[], run: string, signal: AbortSignal): Promise<States> {
  const states: States = { pods: new Set(), configmaps: new Set(), services: new Set() };
  for (const { connection, namespace, labelSelector } of places) {
    const client = new KubeClient(connection);
    for (const kind of churnKinds) {
      const selectors = [`${runKey}=${run}`, ...(labelSelector === undefined ? [] : [labelSelector])];
      const { items } = await client.list<KubeObject>(resourceOf[kind], {
        signal,
        labelSelector: selectors.join(','),
        namespace,
      });
      for (const { metadata } of items) states[kind].add(metadata.annotations?.[operationKey] ?? '');
    }
  }
  return states;
}

export function countsOf(states: States): Counts {
  return { pods: states.pods.size, configmaps: states.configmaps.size, services: states.services.size };
}

/** Number of objects that only one side has, or that differ. */
export function differences(a: States, b: States): number {
  const onlyIn = (here: Set<string>, there: Set<string>): number =>
    [...here].filter((state) => !there.has(state)).length;
  return churnKinds.reduce((sum, kind) => sum + onlyIn(a[kind], b[kind]) + onlyIn(b[kind], a[kind]), 0);
}

function connect(options: ConnectionOptions): Connection {
  return new Connection({ ...options, userAgent: 'skerry-bench' });
}

/** Numbers in [0, 1) that are the same for the same seeds: mulberry32, after the seeds were mixed. */
export function seededRandom(...seeds: number[]): () => number {
  let state = 0x9e3779b9;
  for (const seed of seeds) state = Math.imul(state ^ Math.trunc(seed), 0x85ebca6b) ^ (state >>> 13);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
