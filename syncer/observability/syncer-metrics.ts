import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** The label of all tenants beyond the limit. */
const otherTenants = 'other';

/** Bounds how many tenants get a label value of their own: those that come first. The rest are counted together. */
class TenantLabels {
  readonly #limit: number;
  readonly #named = new Set<string>();

  constructor(limit: number) {
    if (!(Number.isInteger(limit) && limit >= 0)) {
      throw new RangeError(`maxTenants is ${limit}; give a whole number, 0 or more`);
    }
    this.#limit = limit;
  }

  of(tenant: string): string {
    if (this.#named.has(tenant)) return tenant;
    if (this.#named.size >= this.#limit) return otherTenants;
    this.#named.add(tenant);
    return tenant;
  }

  /** Like `of`, for what is computed anew at each look: reserves nothing for a tenant that may be gone already. */
  peek(tenant: string): string {
    return this.#named.has(tenant) || this.#named.size < this.#limit ? tenant : otherTenants;
  }

  /** Returns whether the tenant had a label of its own, which is free again. */
  release(tenant: string): boolean {
    return this.#named.delete(tenant);
  }
}

/** What all prom-client metrics with labels can do. */
interface Labelled {
  remove(labels: Record<string, string>): void;
}

/**
 * The series of one metric that carry a tenant, so that they can go when the tenant does.
 * Label objects are made once per series: making and hashing them is most of the cost of an observation.
 */
class TenantSeries<Label extends string> {
  readonly #metric: Labelled;
  readonly #tenantLabel: string;
  readonly #otherLabels: readonly Label[];
  /** By tenant, then by the values of the other labels. */
  readonly #series = new Map<string, Map<string, Record<string, string>>>();

  constructor(metric: Labelled, tenantLabel: string, otherLabels: readonly Label[]) {
    this.#metric = metric;
    this.#tenantLabel = tenantLabel;
    this.#otherLabels = otherLabels;
  }

  /** The labels of one series; `values` in the order of the other labels. */
  labels(tenant: string, ...values: string[]): Record<string, string> {
    let ofTenant = this.#series.get(tenant);
    if (ofTenant === undefined) {
      ofTenant = new Map();
      this.#series.set(tenant, ofTenant);
    }
    const key = values.length === 1 ? (values[0] as string) : values.join('\0');
    let labels = ofTenant.get(key);
    if (labels === undefined) {
      labels = { [this.#tenantLabel]: tenant };
      for (const [i, label] of this.#otherLabels.entries()) labels[label] = values[i] ?? '';
      ofTenant.set(key, labels);
    }
    return labels;
  }

  remove(tenant: string): void {
    for (const labels of this.#series.get(tenant)?.values() ?? []) this.#metric.remove(labels);
    this.#series.delete(tenant);
  }
}

type Side = 'super' | 'tenant';

/** Items of one tenant in the queue. */
interface QueueDepth {
  tenant: string;
  live: number;
  background: number;
  delayed: number;
  processing: number;
}

interface ObjectCount {
  side: Side;
  kind: string;
  count: number;
}

const queueStates = ['live', 'background', 'delayed', 'processing'] as const;

/** Gauges of queue and caches, asked for whenever metrics are rendered. */
function registerGauges(
  registry: Registry,
  labels: TenantLabels,
  read: { depths: () => Iterable<QueueDepth>; objects: () => Iterable<ObjectCount> },
): void {
  const registers = [registry];
  new Gauge({
    name: 'skerry_syncer_queue_depth',
    help: 'Items in the queue: ready (live, background), delayed (back-off included), processing.',
    labelNames: ['tenant', 'state'],
    registers,
    collect() {
      this.reset();
      for (const depth of read.depths()) {
        const tenant = labels.peek(depth.tenant);
        for (const state of queueStates) this.inc({ tenant, state }, depth[state]);
      }
    },
  });
  new Gauge({
    name: 'skerry_syncer_objects',
    help: 'Objects in the caches, over all tenants.',
    labelNames: ['side', 'kind'],
    registers,
    collect() {
      this.reset();
      for (const { side, kind, count } of read.objects()) this.inc({ side, kind }, count);
    },
  });
}

/** How many pods may be with the scheduler at once, and where each tenant's stand. */
interface SchedulingWindowState {
  size: number;
  tenants: readonly { tenant: string; parked: number; scheduling: number; refused: number }[];
}

const windowStates = ['parked', 'scheduling', 'refused'] as const;

/** Gauges of the scheduling window, asked for whenever metrics are rendered; no series where there is no window. */
function registerWindowGauges(
  registry: Registry,
  labels: TenantLabels,
  read: () => SchedulingWindowState | undefined,
): void {
  const registers = [registry];
  new Gauge({
    name: 'skerry_syncer_scheduling_window',
    help: 'Pods that may be with the scheduler of the super cluster at once.',
    registers,
    collect() {
      const state = read();
      if (state === undefined) this.remove();
      else this.set(state.size);
    },
  });
  new Gauge({
    name: 'skerry_syncer_scheduling_pods',
    help: 'Pods without a node: parked (not created yet), scheduling (with the scheduler), refused (it has found none).',
    labelNames: ['tenant', 'state'],
    registers,
    collect() {
      this.reset();
      for (const counts of read()?.tenants ?? []) {
        const tenant = labels.peek(counts.tenant);
        for (const state of windowStates) this.inc({ tenant, state }, counts[state]);
      }
    },
  });
}

/** One set for each step: 1 ms to a minute, in which the scheduler or an image may keep a pod. */
const stepBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** One set for each tenant. */
const readyBuckets = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** How long pods take, and where. */
class PodMetrics {
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

/** One call of an API server, as `kube` reports it. */
interface ApiCall {
  verb: string;
  /** Plural name. */
  resource: string;
  /** 0: there was no answer. */
  status: number;
  durationMs: number;
}

interface SyncerMetricsOptions {
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
  readonly #resyncs: Counter;
  readonly #resyncSeries: TenantSeries<never>;
  readonly #resyncTime: Histogram;
  readonly #problems: Counter;
  readonly #problemSeries: TenantSeries<'resource' | 'phase'>;
  readonly #calls: Counter;
  readonly #callDuration: Histogram;
  readonly #fenced: Counter;
  readonly #cacheLimits: Counter;
  readonly #cacheLimitSeries: TenantSeries<never>;

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
      help: 'Differences between tenant and super cluster that the resync found.',
      labelNames: ['tenant', 'kind', 'finding'],
      registers,
    });
    this.#driftSeries = new TenantSeries(this.#drift, 'tenant', ['kind', 'finding']);
    this.#resyncs = new Counter({
      name: 'skerry_syncer_resyncs_total',
      help: 'Comparisons of both sides of a tenant that the resync has ended.',
      labelNames: ['tenant'],
      registers,
    });
    this.#resyncSeries = new TenantSeries(this.#resyncs, 'tenant', []);
    this.#resyncTime = new Histogram({
      name: 'skerry_syncer_resync_seconds',
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
    this.#cacheLimits = new Counter({
      name: 'skerry_syncer_cache_limits_exceeded_total',
      help: 'How often a tenant was let go of for a time because its objects take too much memory.',
      labelNames: ['tenant'],
      registers,
    });
    this.#cacheLimitSeries = new TenantSeries(this.#cacheLimits, 'tenant', []);
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

  /** Asks for what the objects of tenants take whenever metrics are rendered. To be called once. */
  collectCachesFrom(read: () => Iterable<{ tenant: string; bytes: number }>): void {
    const labels = this.#labels;
    new Gauge({
      name: 'skerry_syncer_cache_bytes',
      help: 'About what the objects of a tenant take in the memory of this syncer.',
      labelNames: ['tenant'],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { tenant, bytes } of read()) this.inc({ tenant: labels.peek(tenant) }, bytes);
      },
    });
  }

  /** Asks for what tenants have of what their quotas limit whenever metrics are rendered. To be called once. */
  collectQuotasFrom(
    read: () => Iterable<{ tenant: string; resource: string; used: number; limit: number }>,
  ): void {
    const labels = this.#labels;
    const gauge = (name: string, help: string, of: 'used' | 'limit'): void => {
      new Gauge({
        name,
        help,
        labelNames: ['tenant', 'resource'],
        registers: [this.#registry],
        collect() {
          this.reset();
          for (const { tenant, resource, ...usage } of read())
            this.inc({ tenant: labels.peek(tenant), resource }, usage[of]);
        },
      });
    };
    gauge(
      'skerry_tenant_quota_used',
      'What a tenant has in the super cluster of a limited resource.',
      'used',
    );
    gauge('skerry_tenant_quota_limit', 'What it may have.', 'limit');
  }

  /** Asks when certificates of tenants expire whenever metrics are rendered. To be called once. */
  collectExpiriesFrom(read: () => Iterable<{ tenant: string; kind: string; atMs: number }>): void {
    const labels = this.#labels;
    new Gauge({
      name: 'skerry_tenant_certificate_expiry_timestamp_seconds',
      help: 'When the first authority or certificate of a control plane expires, in seconds since the epoch.',
      labelNames: ['tenant', 'kind'],
      registers: [this.#registry],
      collect() {
        this.reset();
        const first = new Map<string, { tenant: string; kind: string; atMs: number }>();
        for (const { tenant, kind, atMs } of read()) {
          const series = { tenant: labels.peek(tenant), kind, atMs };
          const key = `${kind} ${series.tenant}`;
          if (!(atMs >= (first.get(key)?.atMs ?? Number.POSITIVE_INFINITY))) first.set(key, series);
        }
        for (const { atMs, ...series } of first.values()) this.set(series, atMs / 1_000);
      },
    });
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
    this.#errors.inc(this.#errorSeries.labels(this.#labels.of(tenant), kind, codeLabel(code)));
  }

  resynced(tenant: string): void {
    this.#resyncs.inc(this.#resyncSeries.labels(this.#labels.of(tenant)));
  }

  /** How long one comparison took. */
  resyncTook(busyMs: number): void {
    this.#resyncTime.observe(busyMs / 1_000);
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
    this.#calls.inc({
      side,
      verb,
      resource,
      code: call.status === 0 ? 'none' : codeLabel(String(call.status)),
    });
    if (verb !== 'watch') this.#callDuration.observe({ side, verb }, call.durationMs / 1_000);
  }

  fencedWrite(): void {
    this.#fenced.inc();
  }

  /** A tenant was let go of for a time because its objects take too much memory. */
  cacheLimitExceeded(tenant: string): void {
    this.#cacheLimits.inc(this.#cacheLimitSeries.labels(this.#labels.of(tenant)));
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
      this.#resyncSeries,
      this.#problemSeries,
      this.#cacheLimitSeries,
    ];
    for (const series of all) series.remove(tenant);
    this.pods.remove(tenant);
  }
}

/** HTTP statuses that API servers answer with. */
const knownStatuses = new Set(
  [200, 201, 202, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504].map(String),
);

/** A tenant's API server may answer with any status, and each would be a series of its own. Codes that are no status stay. */
function codeLabel(code: string): string {
  if (!/^-?\d/.test(code) || knownStatuses.has(code)) return code;
  return /^[45]\d\d$/.test(code) ? `${code[0]}xx` : 'other';
}
