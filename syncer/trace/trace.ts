import type { PodReport } from '../../api/pod-report.ts';
import type { Clock } from '../../kube/index.ts';
import { podReport } from './report.ts';
import type { StepTable } from './step-table.ts';
import { type PodSpan, type PodStep, podSpans, podSteps, type StepTimes, spanStart } from './steps.ts';

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
export interface TracedPod {
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
