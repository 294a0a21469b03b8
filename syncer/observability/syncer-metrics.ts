import type { Logger } from 'pino';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { defaultQuota } from '../../api/default-policy.ts';
import type { EngineObserver } from '../engine.ts';
import type { DirectoryHooks } from '../tenants/directory.ts';
import { observePods, type PodTraces } from './pod-traces.ts';

/** The label of all tenants beyond the limit. */
const otherTenants = 'other';

/** Bounds how many tenants get a label value of their own: those that come first. The rest are counted together. */
class TenantLabels {
  readonly #limit: number;
  readonly #named = new Set<string>();

  constructor(limit: number) {
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

/**
 * A metric with the series of each tenant, so that they can go when the tenant does.
 * Label objects are made once per series: making and hashing them is most of the cost of an observation.
 */
class TenantSeries<Metric extends Counter | Histogram> {
  readonly metric: Metric;
  /** The first is the tenant's. */
  readonly #labelNames: readonly string[];
  /** By tenant, then by the values of the other labels. */
  readonly #series = new Map<string, Map<string, Record<string, string>>>();

  constructor(metric: Metric, labelNames: readonly string[]) {
    this.metric = metric;
    this.#labelNames = labelNames;
  }

  /** The labels of one series; `values` in the order of the label names. */
  labels(tenant: string, ...values: string[]): Record<string, string> {
    let ofTenant = this.#series.get(tenant);
    if (ofTenant === undefined) {
      ofTenant = new Map();
      this.#series.set(tenant, ofTenant);
    }
    const key = values.length === 1 ? (values[0] as string) : values.join('\0');
    let labels = ofTenant.get(key);
    if (labels === undefined) {
      const all = [tenant, ...values];
      labels = Object.fromEntries(this.#labelNames.map((name, i) => [name, all[i] ?? '']));
      ofTenant.set(key, labels);
    }
    return labels;
  }

  remove(tenant: string): void {
    for (const labels of this.#series.get(tenant)?.values() ?? []) this.metric.remove(labels);
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

const queueStates = ['live', 'background', 'delayed', 'processing'] as const;

/** How many pods may be with the scheduler at once, and where each tenant's stand. */
interface SchedulingWindowState {
  size: number;
  tenants: readonly { tenant: string; parked: number; scheduling: number; refused: number }[];
}

const windowStates = ['parked', 'scheduling', 'refused'] as const;

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
/** One set for each step of a pod: 1 ms to a minute, in which the scheduler or an image may keep it. */
const stepBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** One set for each tenant. */
const readyBuckets = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/**
 * What the syncer counts and measures, in Prometheus' text format. Each instance has its own registry.
 *
 * Series with a tenant appear when there is something to say, are bounded by `maxTenants`, and go with `removeTenant`.
 */
export class SyncerMetrics {
  readonly #registry = new Registry();
  readonly #labels: TenantLabels;
  readonly #joined = new Set<string>();
  readonly #tenantSeries: TenantSeries<Counter | Histogram>[] = [];

  readonly #wait = this.#tenantHistogram(
    'skerry_syncer_queue_wait_seconds',
    'Time that items waited in the queue when they could have run, without delays and back-off.',
    ['tenant', 'kind'],
    bucketsSeconds,
  );
  readonly #service = this.#tenantHistogram(
    'skerry_syncer_service_seconds',
    'Time that workers spent on items.',
    ['tenant', 'kind'],
    bucketsSeconds,
  );
  readonly #errors = this.#tenantCounter(
    'skerry_syncer_reconcile_errors_total',
    'Runs that ended in an error, by its code.',
    ['tenant', 'kind', 'code'],
  );
  readonly #drift = this.#tenantCounter(
    'skerry_syncer_drift_findings_total',
    'Differences between tenant and super cluster that the resync found.',
    ['tenant', 'kind', 'finding'],
  );
  readonly #resyncs = this.#tenantCounter(
    'skerry_syncer_resyncs_total',
    'Comparisons of both sides of a tenant that the resync has ended.',
    ['tenant'],
  );
  readonly #resyncTime = new Histogram({
    name: 'skerry_syncer_resync_seconds',
    help: 'Time that comparing both sides of one tenant took, without waiting in between.',
    buckets: bucketsSeconds,
    registers: [this.#registry],
  });
  readonly #problems = this.#tenantCounter(
    'skerry_syncer_reflector_problems_total',
    'Lists and watches that failed; source is a tenant, or "super" for the super cluster.',
    ['source', 'resource', 'phase'],
  );
  readonly #calls = new Counter({
    name: 'skerry_syncer_api_calls_total',
    help: 'Calls of API servers, by HTTP status; "none" where there was no answer.',
    labelNames: ['side', 'verb', 'resource', 'code'],
    registers: [this.#registry],
  });
  readonly #callDuration = new Histogram({
    name: 'skerry_syncer_api_call_seconds',
    help: 'Duration of calls of API servers, watches left out.',
    labelNames: ['side', 'verb'],
    buckets: bucketsSeconds,
    registers: [this.#registry],
  });
  readonly #fenced = new Counter({
    name: 'skerry_syncer_fenced_writes_total',
    help: 'Writes that were not sent because the Lease of this replica was not renewed in time.',
    registers: [this.#registry],
  });
  readonly #cacheLimits = this.#tenantCounter(
    'skerry_syncer_cache_limits_exceeded_total',
    'How often a tenant was let go of for a time because its objects take too much memory.',
    ['tenant'],
  );
  readonly #abortedReads = this.#tenantCounter(
    'skerry_syncer_aborted_reads_total',
    'Responses and watch events of a tenant that were given up because those of all tenants took too much memory.',
    ['tenant'],
  );
  readonly #podSteps = new Histogram({
    name: 'skerry_syncer_pod_step_seconds',
    help: 'Time that new pods spent between two points of their way.',
    labelNames: ['step'],
    buckets: stepBuckets,
    registers: [this.#registry],
  });
  readonly #podReady = this.#tenantHistogram(
    'skerry_syncer_pod_ready_seconds',
    'Time from when a new pod was seen in its tenant until it was seen there as ready.',
    ['tenant'],
    readyBuckets,
  );

  constructor({ maxTenants = 250, processMetrics = false }: SyncerMetricsOptions = {}) {
    this.#labels = new TenantLabels(maxTenants);
    this.gauge('skerry_syncer_tenants', 'Tenants served by this syncer.', () => this.#joined.size);
    if (processMetrics) collectDefaultMetrics({ register: this.#registry });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics as Prometheus reads them. */
  render(): Promise<string> {
    return this.#registry.metrics();
  }

  /**
   * Asks for the depth of the queue whenever metrics are rendered. Like all `collect` methods, to be called once.
   * @param nameOf the tenant label for what the queue calls a tenant
   */
  collectFrom(
    depths: () => Iterable<QueueDepth>,
    nameOf: (tenant: string) => string = (tenant) => tenant,
  ): void {
    this.#tenantGauge(
      'skerry_syncer_queue_depth',
      'Items in the queue: ready (live, background), delayed (back-off included), processing.',
      ['tenant', 'state'],
      (add) => {
        for (const depth of depths())
          for (const state of queueStates) add(nameOf(depth.tenant), { state }, depth[state]);
      },
    );
  }

  /** The number of objects in the caches. */
  collectObjectsFrom(read: () => Iterable<{ side: Side; kind: string; count: number }>): void {
    new Gauge({
      name: 'skerry_syncer_objects',
      help: 'Objects in the caches, over all tenants.',
      labelNames: ['side', 'kind'],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { side, kind, count } of read()) this.inc({ side, kind }, count);
      },
    });
  }

  /** What the objects of tenants take. */
  collectCachesFrom(read: () => Iterable<{ tenant: string; bytes: number }>): void {
    this.#tenantGauge(
      'skerry_syncer_cache_bytes',
      'About what the objects of a tenant take in the memory of this syncer.',
      ['tenant'],
      (add) => {
        for (const { tenant, bytes } of read()) add(tenant, {}, bytes);
      },
    );
  }

  /**
   * What tenants have of what their quotas limit. Owners of VirtualClusters may limit resources that do not exist, under
   * other names each time: beyond the default quota only those that are used have series.
   */
  collectQuotasFrom(
    quotas: () => Iterable<{ tenant: string; resource: string; used: number; limit: number }>,
  ): void {
    const read = () =>
      [...quotas()].filter(({ resource, used }) => used > 0 || Object.hasOwn(defaultQuota, resource));
    const labelNames = ['tenant', 'resource'];
    const help = 'What a tenant has in the super cluster of a limited resource.';
    this.#tenantGauge('skerry_tenant_quota_used', help, labelNames, (add) => {
      for (const { tenant, resource, used } of read()) add(tenant, { resource }, used);
    });
    this.#tenantGauge('skerry_tenant_quota_limit', 'What it may have.', labelNames, (add) => {
      for (const { tenant, resource, limit } of read()) add(tenant, { resource }, limit);
    });
  }

  /** When certificates of tenants expire. */
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

  /** The state of the scheduling window; no series where there is no window. */
  collectSchedulingFrom(
    read: () => SchedulingWindowState | undefined,
    nameOf: (tenant: string) => string = (tenant) => tenant,
  ): void {
    new Gauge({
      name: 'skerry_syncer_scheduling_window',
      help: 'Pods that may be with the scheduler of the super cluster at once.',
      registers: [this.#registry],
      collect() {
        const state = read();
        if (state === undefined) this.remove();
        else this.set(state.size);
      },
    });
    this.#tenantGauge(
      'skerry_syncer_scheduling_pods',
      'Pods without a node: parked (not created yet), scheduling (with the scheduler), refused (it has found none).',
      ['tenant', 'state'],
      (add) => {
        for (const counts of read()?.tenants ?? [])
          for (const state of windowStates) add(nameOf(counts.tenant), { state }, counts[state]);
      },
    );
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
    this.#wait.metric.observe(this.#wait.labels(this.#labels.of(tenant), kind), waitMs / 1_000);
  }

  served(tenant: string, kind: string, serviceMs: number): void {
    this.#service.metric.observe(this.#service.labels(this.#labels.of(tenant), kind), serviceMs / 1_000);
  }

  /** `code`: an HTTP status, or a code from a catalogue of errors; never a message. */
  reconcileError(tenant: string, kind: string, code: string): void {
    this.#errors.metric.inc(this.#errors.labels(this.#labels.of(tenant), kind, codeLabel(code)));
  }

  resynced(tenant: string): void {
    this.#resyncs.metric.inc(this.#resyncs.labels(this.#labels.of(tenant)));
  }

  /** How long one comparison took. */
  resyncTook(busyMs: number): void {
    this.#resyncTime.observe(busyMs / 1_000);
  }

  drift(tenant: string, kind: string, finding: string, count = 1): void {
    this.#drift.metric.inc(this.#drift.labels(this.#labels.of(tenant), kind, finding), count);
  }

  /** `source`: a tenant, or `super`. */
  reflectorProblem(source: string, resource: string, phase: string): void {
    const label = source === 'super' ? source : this.#labels.of(source);
    this.#problems.metric.inc(this.#problems.labels(label, resource, phase));
  }

  apiCall(side: Side, { verb, resource, status, durationMs }: ApiCall): void {
    this.#calls.inc({ side, verb, resource, code: status === 0 ? 'none' : codeLabel(String(status)) });
    if (verb !== 'watch') this.#callDuration.observe({ side, verb }, durationMs / 1_000);
  }

  fencedWrite(): void {
    this.#fenced.inc();
  }

  /** A tenant was let go of for a time because its objects take too much memory. */
  cacheLimitExceeded(tenant: string): void {
    this.#cacheLimits.metric.inc(this.#cacheLimits.labels(this.#labels.of(tenant)));
  }

  /** An answer or event of a tenant was given up for the memory that it took. */
  readAborted(tenant: string): void {
    this.#abortedReads.metric.inc(this.#abortedReads.labels(this.#labels.of(tenant)));
  }

  /** A new pod has spent so long between two points of its way. */
  podStep(step: string, tookMs: number): void {
    this.#podSteps.observe({ step }, tookMs / 1_000);
  }

  podReady(tenant: string, tookMs: number): void {
    this.#podReady.metric.observe(this.#podReady.labels(this.#labels.of(tenant)), tookMs / 1_000);
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
    for (const series of this.#tenantSeries) series.remove(tenant);
  }

  #tenantCounter(name: string, help: string, labelNames: readonly string[]): TenantSeries<Counter> {
    return this.#ofTenants(new Counter({ name, help, labelNames, registers: [this.#registry] }), labelNames);
  }

  #tenantHistogram(
    name: string,
    help: string,
    labelNames: readonly string[],
    buckets: number[],
  ): TenantSeries<Histogram> {
    const metric = new Histogram({ name, help, labelNames, buckets, registers: [this.#registry] });
    return this.#ofTenants(metric, labelNames);
  }

  #ofTenants<M extends Counter | Histogram>(metric: M, labelNames: readonly string[]): TenantSeries<M> {
    const series = new TenantSeries(metric, labelNames);
    this.#tenantSeries.push(series);
    return series;
  }

  /** Asked for whenever metrics are rendered; the values of tenants without a label of their own add up. */
  #tenantGauge(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: (add: (tenant: string, labels: Record<string, string>, value: number) => void) => void,
  ): void {
    const tenants = this.#labels;
    new Gauge({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset();
        read((tenant, labels, value) => this.inc({ tenant: tenants.peek(tenant), ...labels }, value));
      },
    });
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

/** Turns what the engine reports into metrics, traces of pods, and log lines for what an operator may need to see. */
export function observeEngine(metrics: SyncerMetrics, traces: PodTraces, logger: Logger): EngineObserver {
  const pods = observePods(traces);
  return {
    ...pods,
    taken: (tenant, key, waitMs) => {
      metrics.waited(tenant.label, key.kind, waitMs);
      pods.taken(tenant, key, waitMs);
    },
    done: (tenant, kind, serviceMs) => metrics.served(tenant.label, kind, serviceMs),
    resynced: (busyMs) => metrics.resyncTook(busyMs),
    outcome: (tenant, key, outcome) => {
      if (outcome.is !== 'retry' && outcome.is !== 'refused') return;
      metrics.reconcileError(tenant.label, key.kind, outcome.code);
      const fields = { tenant: tenant.label, kind: key.kind, namespace: key.namespace, name: key.name };
      if (outcome.is === 'refused')
        logger.info({ ...fields, code: outcome.code, message: outcome.message }, 'refused');
      else if (outcome.code === 'internal')
        logger.error({ ...fields, code: outcome.code, err: outcome.error }, 'reconcile failed');
      else
        logger.debug({ ...fields, code: outcome.code, err: outcome.error }, 'reconcile will be tried again');
    },
    enforced: (tenant, key, outcome) => {
      if (outcome.is !== 'retry' && outcome.is !== 'refused') return;
      const fields = { tenant: tenant.label, kind: key.kind, namespace: key.namespace, name: key.name };
      const why = outcome.is === 'refused' ? { message: outcome.message } : { err: outcome.error };
      logger.warn(
        { ...fields, code: outcome.code, ...why },
        'cannot take away what policy does not allow; it will be tried again',
      );
    },
    failed: (tenant, key, error) => {
      if (tenant !== undefined) metrics.reconcileError(tenant.label, key?.kind ?? '', 'internal');
      const object = { kind: key?.kind, namespace: key?.namespace, name: key?.name };
      const label = tenant?.label ?? key?.tenant;
      logger.error({ tenant: label, ...object, code: 'internal', err: error }, 'reconcile failed');
    },
  };
}

/** Turns reports about tenants into metrics. */
export function observeTenants(metrics: SyncerMetrics): DirectoryHooks {
  return {
    call: (_tenant, call) => metrics.apiCall('tenant', call),
    reflectorProblem: (tenant, kind, phase) => metrics.reflectorProblem(tenant, kind, phase),
    resync: (tenant, findings) => {
      metrics.resynced(tenant);
      for (const { kind, drift: finding, count } of findings) metrics.drift(tenant, kind, finding, count);
    },
    joined: (tenant) => metrics.addTenant(tenant),
    held: (tenant) => metrics.cacheLimitExceeded(tenant),
    left: (tenant) => metrics.removeTenant(tenant),
    readAborted: (tenant) => metrics.readAborted(tenant),
  };
}
