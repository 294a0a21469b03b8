import { annotationKeys, syncerSelector } from '../api/labels.ts';
import { type KubeClient, type Lease, resources } from '../kube/index.ts';
import type { SyncerRow, SyncerView, TenantLoad } from './types.ts';

const waitSeconds = 'skerry_syncer_queue_wait_seconds';
const serviceSeconds = 'skerry_syncer_service_seconds';
const queueDepth = 'skerry_syncer_queue_depth';
const schedulingPods = 'skerry_syncer_scheduling_pods';
const single = {
  buckets: 'skerry_syncer_buckets',
  tenants: 'skerry_syncer_tenants',
  window: 'skerry_syncer_scheduling_window',
  cpu: 'process_cpu_seconds_total',
  memory: 'process_resident_memory_bytes',
  start: 'process_start_time_seconds',
} as const;
const names: ReadonlySet<string> = new Set([
  `${waitSeconds}_bucket`,
  `${waitSeconds}_sum`,
  `${waitSeconds}_count`,
  `${serviceSeconds}_sum`,
  queueDepth,
  schedulingPods,
  ...Object.values(single),
]);

const hourMs = 3_600_000;
/** Between scrapes that are kept: each holds counters of all tenants. */
const keptEveryMs = 60_000;
/** Between scrapes while someone looks. */
export const refreshMs = 10_000;
/** A timer may be early, by the other clock. */
const toleranceMs = 500;
const timeoutMs = 10_000;
const longestAnswer = 32 << 20;

/** Of one tenant in one syncer, since that syncer was started. */
interface Counters {
  waitSum: number;
  waitCount: number;
  service: number;
  /** By upper limit in seconds, cumulative. */
  waitBuckets: Map<number, number>;
}

interface Scrape {
  at: number;
  /** Another one after a restart. */
  startedAt: number;
  counters: Map<string, Counters>;
}

/** Asks the syncers for their metrics and remembers what they said over the last hour. */
export class Syncers {
  readonly #namespace: string;
  readonly #now: () => number;
  readonly #history = new Map<string, Scrape[]>();
  #view: SyncerView;
  #lookedAt = Number.NEGATIVE_INFINITY;
  readonly #listeners = new Set<() => void>();

  constructor(namespace: string, now: () => number) {
    this.#namespace = namespace;
    this.#now = now;
    this.#view = { at: 0, overMs: 0, syncers: [], loads: [] };
  }

  get view(): SyncerView {
    return this.#view;
  }

  /** Someone is shown the view. Returns whether it is time for another one. */
  look(): boolean {
    this.#lookedAt = this.#now();
    return this.isDue;
  }

  /** Rendering the metrics of many tenants takes a syncer tens of milliseconds: while nobody looks, only what is kept is asked for. */
  get isDue(): boolean {
    const now = this.#now();
    const isWatched = now - this.#lookedAt < 3 * refreshMs;
    const sinceMs = now - this.#view.at;
    // Clocks are set back, too.
    return sinceMs < 0 || sinceMs >= (isWatched ? refreshMs : keptEveryMs) - toleranceMs;
  }

  /** Called after each `refresh`. Returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Answers that are remembered of one syncer. */
  remembered(name: string): number {
    return this.#history.get(name)?.length ?? 0;
  }

  /** Asks all of them once. */
  async refresh(client: KubeClient, signal: AbortSignal): Promise<void> {
    await this.#refresh(client, signal);
    for (const listener of this.#listeners) listener();
  }

  async #refresh(client: KubeClient, signal: AbortSignal): Promise<void> {
    const at = this.#now();
    let leases: Lease[];
    try {
      const options = { namespace: this.#namespace, labelSelector: syncerSelector, signal };
      leases = (await client.list<Lease>(resources.leases, options)).items;
    } catch (error) {
      signal.throwIfAborted();
      this.#view = { ...this.#view, at, problem: `Leases cannot be read: ${messageOf(error)}` };
      return;
    }
    const answers = await Promise.all(leases.map((lease) => this.#ask(lease, at, signal)));
    const asked = new Set(answers.map(({ row }) => row.name));
    for (const name of this.#history.keys()) if (!asked.has(name)) this.#history.delete(name);
    const samples = answers.flatMap((answer) => answer.samples);
    this.#view = {
      at,
      overMs: this.#overMs(),
      syncers: answers.map(({ row }) => row),
      loads: this.#loads(samples),
    };
  }

  async #ask(lease: Lease, at: number, signal: AbortSignal): Promise<{ row: SyncerRow; samples: Sample[] }> {
    const { metadata, spec } = lease;
    const row: SyncerRow = {
      name: metadata.name ?? '',
      holder: spec?.holderIdentity ?? '',
      renewedAt: spec?.renewTime ?? '',
    };
    const address = metadata.annotations?.[annotationKeys.metricsAddress] ?? '';
    if (row.holder === '') return { row, samples: [] };
    if (!/^https?:\/\//.test(address) || !URL.canParse(address))
      return { row: { ...row, problem: 'its Lease names no address of its metrics' }, samples: [] };
    try {
      const response = await fetch(new URL('/metrics', address), {
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
        redirect: 'error',
      });
      const text = await response.text();
      if (!response.ok || text.length > longestAnswer) throw new Error(`HTTP ${response.status}`);
      const samples = parseSamples(text, names);
      this.#remember(row.name, at, samples);
      return { row: { ...row, ...figures(samples, at) }, samples };
    } catch (error) {
      signal.throwIfAborted();
      return {
        row: { ...row, problem: `${new URL(address).host} does not answer: ${messageOf(error)}` },
        samples: [],
      };
    }
  }

  #remember(name: string, at: number, samples: readonly Sample[]): void {
    const startedAt = sampleOf(samples, single.start) ?? 0;
    const scrapes = (this.#history.get(name) ?? []).filter((each) => each.startedAt === startedAt);
    // The one before the hour stays, to count from.
    while (scrapes.length > 1 && at - (scrapes[1]?.at ?? at) >= hourMs) scrapes.shift();
    const [beforeLast, last] = scrapes.slice(-2);
    if (last !== undefined && beforeLast !== undefined && last.at - beforeLast.at < keptEveryMs)
      scrapes.pop();
    scrapes.push({ at, startedAt, counters: countersOf(samples) });
    this.#history.set(name, scrapes);
  }

  /** What the loads are of; 0 where each syncer has answered once only, and they are of all since its start. */
  #overMs(): number {
    const spans = [...this.#history.values()].map(
      (scrapes) => (scrapes.at(-1)?.at ?? 0) - (scrapes[0]?.at ?? 0),
    );
    return Math.min(hourMs, Math.max(0, ...spans));
  }

  #loads(samples: readonly Sample[]): TenantLoad[] {
    const totals = new Map<string, Counters>();
    for (const scrapes of this.#history.values()) {
      const [first] = scrapes;
      const last = scrapes.at(-1);
      if (first === undefined || last === undefined) continue;
      // Of a syncer that was asked once, all since its start.
      const since = first === last ? undefined : first.counters;
      for (const [tenant, counters] of last.counters)
        add(totals, tenant, difference(counters, since?.get(tenant)));
    }
    const now = new Map<string, Record<string, number>>();
    for (const { name, labels, value } of samples) {
      const tenant = labels['tenant'];
      if (tenant === undefined || (name !== schedulingPods && name !== queueDepth)) continue;
      const states = now.get(tenant) ?? {};
      const state = `${labels['state']}`;
      states[state] = (states[state] ?? 0) + value;
      now.set(tenant, states);
      if (!totals.has(tenant)) totals.set(tenant, empty());
    }
    const service = [...totals.values()].reduce((sum, each) => sum + each.service, 0);
    return [...totals].map(([tenant, counters]) => {
      const { waitSum, waitCount, service: own } = counters;
      const states = now.get(tenant) ?? {};
      const p95 = quantile(counters, 0.95);
      return {
        tenant,
        waitMeanMs: waitCount === 0 ? undefined : (1_000 * waitSum) / waitCount,
        waitP95Ms: p95 && 1_000 * p95,
        items: waitCount,
        share: service === 0 ? 0 : own / service,
        parked: states['parked'] ?? 0,
        scheduling: states['scheduling'] ?? 0,
        refused: states['refused'] ?? 0,
        queued: (states['live'] ?? 0) + (states['background'] ?? 0),
      };
    });
  }
}

function figures(samples: readonly Sample[], at: number): Partial<SyncerRow> {
  const names = [single.buckets, single.tenants, single.window, single.cpu, single.memory, single.start];
  const [buckets, tenants, window, cpuSeconds, memoryBytes, start] = names.map((name) =>
    sampleOf(samples, name),
  );
  const uptimeSeconds = start === undefined ? undefined : at / 1_000 - start;
  return { buckets, tenants, window, cpuSeconds, memoryBytes, uptimeSeconds };
}

function sampleOf(samples: readonly Sample[], name: string): number | undefined {
  return samples.find((each) => each.name === name)?.value;
}

function empty(): Counters {
  return { waitSum: 0, waitCount: 0, service: 0, waitBuckets: new Map() };
}

function countersOf(samples: readonly Sample[]): Map<string, Counters> {
  const all = new Map<string, Counters>();
  for (const { name, labels, value } of samples) {
    const tenant = labels['tenant'];
    if (tenant === undefined || !(name.startsWith(waitSeconds) || name.startsWith(serviceSeconds))) continue;
    let counters = all.get(tenant);
    if (counters === undefined) {
      counters = empty();
      all.set(tenant, counters);
    }
    if (name === `${serviceSeconds}_sum`) counters.service += value;
    else if (name === `${waitSeconds}_sum`) counters.waitSum += value;
    else if (name === `${waitSeconds}_count`) counters.waitCount += value;
    else {
      const limit = labels['le'] === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels['le']);
      counters.waitBuckets.set(limit, (counters.waitBuckets.get(limit) ?? 0) + value);
    }
  }
  return all;
}

/** A tenant's series go with it and begin anew: then what is there now counts. */
function difference(now: Counters, before: Counters | undefined): Counters {
  if (before === undefined || before.waitCount > now.waitCount) return now;
  return {
    waitSum: now.waitSum - before.waitSum,
    waitCount: now.waitCount - before.waitCount,
    service: Math.max(0, now.service - before.service),
    waitBuckets: new Map(
      [...now.waitBuckets].map(([limit, count]) => [limit, count - (before.waitBuckets.get(limit) ?? 0)]),
    ),
  };
}

function add(totals: Map<string, Counters>, tenant: string, more: Counters): void {
  const total = totals.get(tenant) ?? empty();
  total.waitSum += more.waitSum;
  total.waitCount += more.waitCount;
  total.service += more.service;
  for (const [limit, count] of more.waitBuckets)
    total.waitBuckets.set(limit, (total.waitBuckets.get(limit) ?? 0) + count);
  totals.set(tenant, total);
}

/** The upper limit of the bucket that holds it; undefined for none, or for more than the last limit. */
function quantile({ waitBuckets, waitCount }: Counters, share: number): number | undefined {
  if (waitCount === 0) return undefined;
  const limits = [...waitBuckets.keys()].sort((a, b) => a - b);
  const found = limits.find((limit) => (waitBuckets.get(limit) ?? 0) >= share * waitCount);
  return found === undefined || found === Number.POSITIVE_INFINITY ? undefined : found;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, message } = (error.cause ?? error) as NodeJS.ErrnoException;
  return code ?? message;
}

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const sampleLine = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const sampleLabel = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of these metrics, in Prometheus' text format. Lines that are none are left out. */
export function parseSamples(text: string, names: ReadonlySet<string>): Sample[] {
  const samples: Sample[] = [];
  for (const each of text.split('\n')) {
    const end = each.search(/[{ ]/);
    if (end < 0 || !names.has(each.slice(0, end))) continue;
    const [, name, labels = '', value] = sampleLine.exec(each) ?? [];
    if (name === undefined || value === undefined) continue;
    const pairs = [...labels.matchAll(sampleLabel)].map(
      ([, key = '', text = '']) => [key, unescaped(text)] as const,
    );
    samples.push({ name, labels: Object.fromEntries(pairs), value: Number(value) });
  }
  return samples;
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_, character: string) => (character === 'n' ? '\n' : character));
}
