import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type ObjectCount, type QueueDepth, registerGauges, type Side } from './gauges.ts';
import { PodMetrics } from './pod-metrics.ts';
import { TenantLabels } from './tenant-labels.ts';
import { TenantSeries } from './tenant-series.ts';
import { registerWindowGauges, type SchedulingWindowState } from './window-gauges.ts';

/** One call of an API server, as `kube` reports it. */
export interface ApiCall {
  verb: string;
  /** Plural name. */
  resource: string;
  /** 0: there was no answer. */
  status: number;
  durationMs: number;
}

export interface SyncerMetricsOptions {
  /** Tenants with series of their own; all others are added up under `other`. Default 250. */
  maxTenants?: number;
  /** Also CPU, memory, event loop and garbage collection of this process. Their collectors live as long as the process. */
  processMetrics?: boolean;
}

/** Few, because there is one set for each tenant and kind: 1 ms to 10 s. */
const bucketsSeconds = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10];

/**
 * What the syncer counts and measures, in Prometheus' text format. Each instance has its own registry.
 *
 * Series with a tenant appear when there is something to say, are bounded by `maxTenants`, and go with `removeTenant`.
 */
export class SyncerMetrics {
  readonly pods: PodMetrics;
  readonly #registry = new Registry();
  readonly #labels: TenantLabels;
  readonly #joined = new Set<string>();
  #depths: () => Iterable<QueueDepth> = () => [];
  #objects: () => Iterable<ObjectCount> = () => [];

  readonly #wait: Histogram;
  readonly #waitSeries: TenantSeries<'kind'>;
  readonly #service: Histogram;
  readonly #serviceSeries: TenantSeries<'kind'>;
  readonly #errors: Counter;
  readonly #errorSeries: TenantSeries<'kind' | 'code'>;
  readonly #drift: Counter;
  readonly #driftSeries: TenantSeries<'kind' | 'finding'>;
  readonly #patrols: Counter;
  readonly #patrolSeries: TenantSeries<never>;
  readonly #patrolTime: Histogram;
  readonly #problems: Counter;
  readonly #problemSeries: TenantSeries<'resource' | 'phase'>;
  readonly #calls: Counter;
  readonly #callDuration: Histogram;
  readonly #fenced: Counter;

  constructor(options: SyncerMetricsOptions = {}) {
    this.#labels = new TenantLabels(options.maxTenants ?? 250);
    const registers = [this.#registry];

    this.#wait = new Histogram({
      name: 'skerry_syncer_queue_wait_seconds',
      help: 'Time that items waited in the queue when they could have run, without delays and back-off.',
      labelNames: ['tenant', 'kind'],
      buckets: bucketsSeconds,
      registers,
    });
    this.#waitSeries = new TenantSeries(this.#wait, 'tenant', ['kind']);
    this.#service = new Histogram({
      name: 'skerry_syncer_service_seconds',
      help: 'Time that workers spent on items.',
      labelNames: ['tenant', 'kind'],
      buckets: bucketsSeconds,
      registers,
    });
    this.#serviceSeries = new TenantSeries(this.#service, 'tenant', ['kind']);
    this.#errors = new Counter({
      name: 'skerry_syncer_reconcile_errors_total',
      help: 'Runs that ended in an error, by its code.',
      labelNames: ['tenant', 'kind', 'code'],
      registers,
    });
    this.#errorSeries = new TenantSeries(this.#errors, 'tenant', ['kind', 'code']);
    this.#drift = new Counter({
      name: 'skerry_syncer_drift_findings_total',
      help: 'Differences between tenant and super cluster that the patrol found.',
      labelNames: ['tenant', 'kind', 'finding'],
      registers,
    });
    this.#driftSeries = new TenantSeries(this.#drift, 'tenant', ['kind', 'finding']);
    this.#patrols = new Counter({
      name: 'skerry_syncer_patrols_total',
      help: 'Comparisons of both sides of a tenant that the patrol has ended.',
      labelNames: ['tenant'],
      registers,
    });
    this.#patrolSeries = new TenantSeries(this.#patrols, 'tenant', []);
    this.#patrolTime = new Histogram({
      name: 'skerry_syncer_patrol_seconds',
      help: 'Time that comparing both sides of one tenant took, without waiting in between.',
      buckets: bucketsSeconds,
      registers,
    });
    this.#problems = new Counter({
      name: 'skerry_syncer_reflector_problems_total',
      help: 'Lists and watches that failed; source is a tenant, or "super" for the super cluster.',
      labelNames: ['source', 'resource', 'phase'],
      registers,
    });
    this.#problemSeries = new TenantSeries(this.#problems, 'source', ['resource', 'phase']);
    this.#calls = new Counter({
      name: 'skerry_syncer_api_calls_total',
      help: 'Calls of API servers, by HTTP status; "none" where there was no answer.',
      labelNames: ['side', 'verb', 'resource', 'code'],
      registers,
    });
    this.#callDuration = new Histogram({
      name: 'skerry_syncer_api_call_seconds',
      help: 'Duration of calls of API servers, watches left out.',
      labelNames: ['side', 'verb'],
      buckets: bucketsSeconds,
      registers,
    });
    this.#fenced = new Counter({
      name: 'skerry_syncer_fenced_writes_total',
      help: 'Writes that were not sent because the Lease of this replica was not renewed in time.',
      registers,
    });
    this.pods = new PodMetrics(this.#registry, this.#labels);
    registerGauges(this.#registry, this.#labels, {
      depths: () => this.#depths(),
      objects: () => this.#objects(),
    });
    this.gauge('skerry_syncer_tenants', 'Tenants served by this syncer.', () => this.#joined.size);
    if (options.processMetrics === true) collectDefaultMetrics({ register: this.#registry });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics as Prometheus reads them. */
  render(): Promise<string> {
    return this.#registry.metrics();
  }

  /**
   * Asks for the depth of the queue whenever metrics are rendered.
   * @param nameOf the tenant label for what the queue calls a tenant
   */
  collectFrom(
    depths: () => Iterable<QueueDepth>,
    nameOf: (tenant: string) => string = (tenant) => tenant,
  ): void {
    this.#depths = function* named() {
      for (const depth of depths()) yield { ...depth, tenant: nameOf(depth.tenant) };
    };
  }

  /** Asks for the number of objects in the caches whenever metrics are rendered. */
  collectObjectsFrom(objects: () => Iterable<ObjectCount>): void {
    this.#objects = objects;
  }

  /** Asks for the state of the scheduling window whenever metrics are rendered. To be called once. */
  collectSchedulingFrom(
    read: () => SchedulingWindowState | undefined,
    nameOf: (tenant: string) => string = (tenant) => tenant,
  ): void {
    registerWindowGauges(this.#registry, this.#labels, () => {
      const state = read();
      const named = state?.tenants.map((counts) => ({ ...counts, tenant: nameOf(counts.tenant) })) ?? [];
      return state && { ...state, tenants: named };
    });
  }

  /** One more gauge, which is asked for whenever metrics are rendered. */
  gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.set(read());
      },
    });
  }

  waited(tenant: string, kind: string, waitMs: number): void {
    this.#wait.observe(this.#waitSeries.labels(this.#labels.of(tenant), kind), waitMs / 1_000);
  }

  served(tenant: string, kind: string, serviceMs: number): void {
    this.#service.observe(this.#serviceSeries.labels(this.#labels.of(tenant), kind), serviceMs / 1_000);
  }

  /** `code`: an HTTP status, or a code from a catalogue of errors; never a message. */
  reconcileError(tenant: string, kind: string, code: string): void {
    this.#errors.inc(this.#errorSeries.labels(this.#labels.of(tenant), kind, code));
  }

  patrolled(tenant: string): void {
    this.#patrols.inc(this.#patrolSeries.labels(this.#labels.of(tenant)));
  }

  /** How long one comparison took. */
  patrolTook(busyMs: number): void {
    this.#patrolTime.observe(busyMs / 1_000);
  }

  drift(tenant: string, kind: string, finding: string, count = 1): void {
    this.#drift.inc(this.#driftSeries.labels(this.#labels.of(tenant), kind, finding), count);
  }

  /** `source`: a tenant, or `super`. */
  reflectorProblem(source: string, resource: string, phase: string): void {
    const label = source === 'super' ? source : this.#labels.of(source);
    this.#problems.inc(this.#problemSeries.labels(label, resource, phase));
  }

  apiCall(side: Side, call: ApiCall): void {
    const { verb, resource } = call;
    this.#calls.inc({ side, verb, resource, code: call.status === 0 ? 'none' : String(call.status) });
    if (verb !== 'watch') this.#callDuration.observe({ side, verb }, call.durationMs / 1_000);
  }

  fencedWrite(): void {
    this.#fenced.inc();
  }

  /** Counts a tenant among those served. */
  addTenant(tenant: string): void {
    this.#joined.add(tenant);
    this.#labels.of(tenant);
  }

  /** Removes a tenant's series. What was added up under `other` stays: counters never fall. */
  removeTenant(tenant: string): void {
    this.#joined.delete(tenant);
    if (!this.#labels.release(tenant)) return;
    const all = [
      this.#waitSeries,
      this.#serviceSeries,
      this.#errorSeries,
      this.#driftSeries,
      this.#patrolSeries,
      this.#problemSeries,
    ];
    for (const series of all) series.remove(tenant);
    this.pods.remove(tenant);
  }
}
