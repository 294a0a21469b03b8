import type { PodReport, Whose } from '../../api/pod-report.ts';
import type { Clock } from '../../kube/index.ts';
import { podReport, type StepTable } from './trace-report.ts';

/**
 * What happens to a pod on its way, each at the time when the syncer did or saw it for the first time.
 *
 * - `seen`: the tenant's watch showed the new pod T. The zero of all other times.
 * - `queued`, `taken`: its key came into the queue; a worker took it.
 * - `held`, `admitted`: it was kept back because its tenant has enough unscheduled pods, and let go on.
 * - `createSent`, `created`: S was asked for; it is there, by the answer or by the watch.
 * - `scheduled`: S has a node.
 * - `bindingSent`, `bound`: T was bound to that node, by the answer or by the watch.
 * - `tokensWritten`: the Secret with the tokens that S mounts is there.
 * - `running`, `ready`: S says so. One that ends without ever having been ready counts as ready when it ends.
 * - `statusSent`, `told`: T was told; T says so.
 * - `deleted`: T has gone before that.
 */
export const podSteps = [
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

export type PodStep = (typeof podSteps)[number];

export interface PodSpan {
  readonly name: string;
  readonly whose: Whose;
  /** It begins with the latest of these that came before its end. */
  readonly from: readonly [PodStep, ...PodStep[]];
  readonly to: PodStep;
  /** Most pods come without: nobody can tell that one waits for its end. */
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

/** When steps were reached, in milliseconds since `seen`; undefined: not yet. */
export interface StepTimes {
  at(step: PodStep): number | undefined;
}

/** When a span that ends at `endMs` began; `undefined`: it has not. */
export function spanStart(span: PodSpan, times: StepTimes, endMs: number): number | undefined {
  let start: number | undefined;
  for (const step of span.from) {
    const at = times.at(step);
    if (at !== undefined && at <= endMs && (start === undefined || at > start)) start = at;
  }
  return start;
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
export class Trace implements StepTimes {
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
    // Where nodes are simulated, nobody waits for the tokens.
    if (this.isOver && (step !== 'tokensWritten' || this.has('deleted'))) return;
    const { table, onSpan, onReady } = this.#context;
    const atMs = this.#nowMs;
    table.set(this.#row, step, atMs);
    for (const span of spansTo.get(step) ?? []) {
      const start = spanStart(span, this, atMs);
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
    const start = end === undefined ? undefined : spanStart(span, this, end);
    return end === undefined || start === undefined ? undefined : end - start;
  }

  /** Gives its row back; nothing may be asked of it afterwards. */
  close(): void {
    this.#context.table.close(this.#row);
  }

  report(): PodReport {
    const { tenant, namespace, name, uid, node } = this;
    const seenAtMs = this.#context.clock.now() - this.#nowMs;
    const facts = {
      ...{ tenant, namespace, name, uid },
      seenAt: new Date(seenAtMs).toISOString(),
      ...(this.#createdAt === undefined ? {} : { createdAt: this.#createdAt }),
      ...(node === undefined ? {} : { node }),
    };
    return podReport(facts, this, this.#nowMs);
  }

  get #nowMs(): number {
    return this.#context.clock.monotonic() - this.#seenAtMs;
  }
}
