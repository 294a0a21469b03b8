import { Histogram, type Registry } from 'prom-client';
import { type TenantLabels, TenantSeries } from './syncer-metrics.ts';

/** One set for each step: 1 ms to a minute, in which the scheduler or an image may keep a pod. */
const stepBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** One set for each tenant. */
const readyBuckets = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** How long pods take, and where. */
export class PodMetrics {
  readonly #labels: TenantLabels;
  readonly #steps: Histogram;
  readonly #stepLabels = new Map<string, { step: string }>();
  readonly #ready: Histogram;
  readonly #readySeries: TenantSeries<never>;

  constructor(registry: Registry, labels: TenantLabels) {
    const registers = [registry];
    this.#labels = labels;
    this.#steps = new Histogram({
      name: 'skerry_syncer_pod_step_seconds',
      help: 'Time that new pods spent between two points of their way.',
      labelNames: ['step'],
      buckets: stepBuckets,
      registers,
    });
    this.#ready = new Histogram({
      name: 'skerry_syncer_pod_ready_seconds',
      help: 'Time from when a new pod was seen in its tenant until it was seen there as ready.',
      labelNames: ['tenant'],
      buckets: readyBuckets,
      registers,
    });
    this.#readySeries = new TenantSeries(this.#ready, 'tenant', []);
  }

  step(step: string, tookMs: number): void {
    let labels = this.#stepLabels.get(step);
    if (labels === undefined) {
      labels = { step };
      this.#stepLabels.set(step, labels);
    }
    this.#steps.observe(labels, tookMs / 1_000);
  }

  ready(tenant: string, tookMs: number): void {
    this.#ready.observe(this.#readySeries.labels(this.#labels.of(tenant)), tookMs / 1_000);
  }

  /** Removes the series of a tenant that had a label of its own. */
  remove(tenant: string): void {
    this.#readySeries.remove(tenant);
  }
}
