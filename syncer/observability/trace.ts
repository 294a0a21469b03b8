import type { PodReport, StageOwner } from '../../api/pod-report.ts';
import type { Clock } from '../../kube/index.ts';

/**
 * What happens to a pod on its way, each at the time when the syncer did or saw it for the first time.
 *
 * - `seen`: the tenant's watch showed the new pod the tenant object. The zero of all other times.
 * - `queued`, `taken`: its key came into the queue; a worker took it.
 * - `held`, `admitted`: it was kept back because its tenant has enough unscheduled pods, and let go on.
 * - `createSent`, `created`: the super object was asked for; it is there, by the answer or by the watch.
 * - `scheduled`: the super object has a node.
 * - `bindingSent`, `bound`: the tenant object was bound to that node, by the answer or by the watch.
 * - `tokensWritten`: the Secret with the tokens that the super object mounts is there.
 * - `running`, `ready`: the super object says so. One that ends without ever having been ready counts as ready when it
 * ends.
 * - `statusSent`, `told`: the status was written to the tenant object; the tenant object shows it.
 * - `deleted`: the tenant object has gone before that.
 */
const podSteps = [
  'seen',
  'queued',
  'taken',
  'held',
  'admitted',
  'createSent',
  'created',
  'scheduled',
  'bindingSent',
  'bound',
  'tokensWritten',
  'running',
  'ready',
  'statusSent',
  'told',
  'deleted',
] as const;

type PodStep = (typeof podSteps)[number];

interface PodSpan {
  readonly name: string;
  readonly whose: StageOwner;
  /** It begins with the latest of these that came before its end. */
  readonly from: readonly [PodStep, ...PodStep[]];
  readonly to: PodStep;
  /** Most pods come without: that a pod waits for its end cannot be told. */
  readonly isOptional?: boolean;
}

/** The ways between the steps, in order. `bind` and `tokens` go on while kubelet starts the pod. */
export const podSpans: readonly PodSpan[] = [
  { name: 'queue', whose: 'skerry', from: ['seen'], to: 'taken' },
  { name: 'window', whose: 'skerry', from: ['held'], to: 'admitted' },
  { name: 'prepare', whose: 'skerry', from: ['taken', 'admitted'], to: 'createSent' },
  { name: 'create', whose: 'skerry', from: ['createSent'], to: 'created' },
  { name: 'schedule', whose: 'scheduler', from: ['created'], to: 'scheduled' },
  { name: 'bind', whose: 'skerry', from: ['scheduled'], to: 'bound' },
  { name: 'tokens', whose: 'skerry', from: ['bound'], to: 'tokensWritten', isOptional: true },
  { name: 'start', whose: 'kubelet', from: ['scheduled', 'tokensWritten'], to: 'ready' },
  { name: 'status', whose: 'skerry', from: ['ready', 'bound'], to: 'told' },
];

/** A hundredth of a millisecond is more than the clock of an event loop is good for. */
export function roundedMs(ms: number): number {
  return Math.round(ms * 100) / 100;
}

const width = podSteps.length;
const columns = new Map(podSteps.map((step, column) => [step, column]));

/**
 * The times of many pods' steps in one block of memory, a row for each pod: noting a step makes no garbage, and
 * rows that were never used cost nothing.
 */
export class StepTable {
  readonly #limit: number;
  /** Milliseconds; NaN: not yet. */
  readonly #times: Float32Array;
  readonly #free: number[] = [];
  #opened = 0;

  constructor(limit: number) {
    if (!(Number.isInteger(limit) && limit > 0))
      throw new RangeError(`limit is ${limit}; give a whole number of pods, 1 or more`);
    this.#limit = limit;
    this.#times = new Float32Array(limit * width);
  }

  get isFull(): boolean {
    return this.#free.length === 0 && this.#opened === this.#limit;
  }

  /** An empty row. Throws when there is none left. */
  open(): number {
    if (this.isFull) throw new RangeError('all rows are in use; close one first');
    const row = this.#free.pop() ?? this.#opened++;
    this.#times.fill(Number.NaN, row * width, (row + 1) * width);
    return row;
  }

  close(row: number): void {
    this.#free.push(row);
  }

  get(row: number, step: PodStep): number | undefined {
    const at = this.#times[row * width + (columns.get(step) as number)] as number;
    return Number.isNaN(at) ? undefined : at;
  }

  set(row: number, step: PodStep, ms: number): void {
    this.#times[row * width + (columns.get(step) as number)] = ms;
  }
}

/** What all traces of one recorder have in common. */
export interface TraceContext {
  readonly table: StepTable;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  /** A span has ended. */
  readonly onSpan?: (name: string, tookMs: number) => void;
  /** A pod is ready as its tenant sees it. */
  readonly onReady?: (tenant: string, tookMs: number) => void;
}

/** Its fields are those of one of the tenant's pods. */
interface TracedPod {
  /** `namespace/name` of the VirtualCluster. */
  readonly tenant: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly createdAt: string | undefined;
}

const spansTo = new Map<PodStep, readonly PodSpan[]>(
  podSteps.map((step) => [step, podSpans.filter(({ to }) => to === step)]),
);

/** The way of one pod, which begins now. */
export class Trace {
  readonly tenant: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  node: string | undefined;
  readonly #createdAt: string | undefined;
  readonly #context: TraceContext;
  readonly #row: number;
  readonly #seenAtMs: number;

  constructor(pod: TracedPod, context: TraceContext) {
    this.tenant = pod.tenant;
    this.namespace = pod.namespace;
    this.name = pod.name;
    this.uid = pod.uid;
    this.#createdAt = pod.createdAt;
    this.#context = context;
    this.#row = context.table.open();
    this.#seenAtMs = context.clock.monotonic();
    context.table.set(this.#row, 'seen', 0);
  }

  /** When the step was reached, in milliseconds since `seen`; undefined: not yet. */
  at(step: PodStep): number | undefined {
    return this.#context.table.get(this.#row, step);
  }

  has(step: PodStep): boolean {
    return this.at(step) !== undefined;
  }

  /** Whether nothing that the pod is waited for is to come any more. */
  get isOver(): boolean {
    return this.has('told') || this.has('deleted');
  }

  /** Notes that the pod has come to this step now. Only the first time counts. */
  mark(step: PodStep): void {
    if (this.has(step)) return;
    // Where nodes are simulated, no kubelet waits for the tokens.
    if (this.isOver && (step !== 'tokensWritten' || this.has('deleted'))) return;
    const { table, onSpan, onReady } = this.#context;
    const atMs = this.#nowMs;
    table.set(this.#row, step, atMs);
    for (const span of spansTo.get(step) ?? []) {
      const start = this.#startOf(span, atMs);
      if (start !== undefined) onSpan?.(span.name, atMs - start);
    }
    if (step === 'told') onReady?.(this.tenant, atMs);
  }

  /** Until the tenant could see that it is ready, or until it was deleted, or until now. */
  get totalMs(): number {
    return this.at('told') ?? this.at('deleted') ?? this.#nowMs;
  }

  /** How long a span took that has ended. */
  tookMs(span: PodSpan): number | undefined {
    const end = this.at(span.to);
    const start = end === undefined ? undefined : this.#startOf(span, end);
    return end === undefined || start === undefined ? undefined : end - start;
  }

  /** Gives its row back; nothing may be asked of it afterwards. */
  close(): void {
    this.#context.table.close(this.#row);
  }

  report(): PodReport {
    const { tenant, namespace, name, uid, node } = this;
    const nowMs = this.#nowMs;
    const told = this.at('told');
    const deleted = this.at('deleted');
    const totalMs = roundedMs(told ?? deleted ?? nowMs);
    const state = told !== undefined ? 'ready' : deleted === undefined ? 'pending' : 'deleted';
    const steps = podSteps.flatMap((step) => {
      const at = this.at(step);
      return at === undefined ? [] : [{ name: step, atMs: roundedMs(at) }];
    });
    const spans = podSpans.flatMap((span) => {
      const tookMs = this.tookMs(span);
      if (tookMs === undefined) return [];
      const atMs = roundedMs((this.at(span.to) as number) - tookMs);
      return [{ name: span.name, whose: span.whose, atMs, tookMs: roundedMs(tookMs) }];
    });
    const waitsFor = state === 'pending' ? this.#waitsFor(nowMs) : undefined;
    return {
      ...{ tenant, namespace, name, uid },
      seenAt: new Date(this.#context.clock.now() - nowMs).toISOString(),
      ...(this.#createdAt === undefined ? {} : { createdAt: this.#createdAt }),
      ...(node === undefined ? {} : { node }),
      state,
      totalMs,
      shares: this.#shares(totalMs),
      steps: steps.toSorted((a, b) => a.atMs - b.atMs),
      spans,
      ...(waitsFor === undefined ? {} : { waitsFor }),
    };
  }

  /**
   * How much of the whole each took. The scheduler has the super object from when it is there, kubelet from when the
   * super object has a node and its tokens; everything else is Skerry's.
   */
  #shares(totalMs: number): Record<StageOwner, number> {
    const share = (name: string): number => {
      const span = podSpans.find((each) => each.name === name) as PodSpan;
      const end = Math.min(this.at(span.to) ?? totalMs, totalMs);
      const start = this.#startOf(span, end);
      return start === undefined ? 0 : roundedMs(end - start);
    };
    const scheduler = share('schedule');
    const kubelet = share('start');
    return { skerry: roundedMs(Math.max(0, totalMs - scheduler - kubelet)), scheduler, kubelet };
  }

  /** The first span that has begun and not ended. */
  #waitsFor(nowMs: number): PodReport['waitsFor'] {
    for (const span of podSpans) {
      if (span.isOptional === true || this.has(span.to)) continue;
      const start = this.#startOf(span, nowMs);
      if (start !== undefined)
        return { name: span.name, whose: span.whose, sinceMs: roundedMs(nowMs - start) };
    }
    return undefined;
  }

  /** When a span that ends at `endMs` began; `undefined`: it has not. */
  #startOf(span: PodSpan, endMs: number): number | undefined {
    let start: number | undefined;
    for (const step of span.from) {
      const at = this.at(step);
      if (at !== undefined && at <= endMs && (start === undefined || at > start)) start = at;
    }
    return start;
  }

  get #nowMs(): number {
    return this.#context.clock.monotonic() - this.#seenAtMs;
  }
}
