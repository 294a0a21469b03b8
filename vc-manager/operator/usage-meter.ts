import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  addedUids,
  addUsage,
  type MonthlyUsage,
  monthlyUsage,
  noUsage,
  roundedUsage,
  type UsageDay,
  usageConfigMapName,
  usageDays,
  usageLabel,
} from '../../api/usage.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { isUnclaimed } from '../../api/warm-pool.ts';
import {
  type Clock,
  type ConfigMap,
  ignoreNotFound,
  isNotFound,
  type KubeClient,
  modifyStatus,
  namespacedName,
  parseQuantity,
  repeatUntilAborted,
  resources,
  type Store,
} from '../../kube/index.ts';
import { explain } from './errors.ts';
import type { OperatorSettings } from './settings.ts';
import { boundUsage, maxOfGone } from './usage-retention.ts';

const sampleMs = 60_000;
/** A manager that stood still says nothing of the time in between. */
const longestGapMs = 5 * 60_000;
const flushMs = 10 * 60_000;
const hourMs = 3_600_000;
const GiB = 2 ** 30;
const countCallsMs = 10 * 60_000;

/** One tenant, as it is metered. */
interface Meter {
  vc: VirtualCluster;
  id: string;
  /** By day, those of this month. */
  days: Map<string, UsageDay>;
  /** Not written yet. */
  dirty: Set<string>;
  flushedMs: number;
}

/** Calls that API servers of a tenant had counted, by when each was started. */
interface Counted {
  atMs: number;
  byStart: Map<string, number>;
}

interface MeterServices {
  client: KubeClient;
  virtualClusters: Store<VirtualCluster>;
  settings: Pick<OperatorSettings, 'namespace'>;
  /** `used`: undefined for a tenant that is gone. */
  onUsage: (tenant: string, used: Partial<UsageDay> | undefined) => void;
  clock: Clock;
  logger: Logger;
}

/** How many calls an API server has answered, and when it was started, as its metrics say. */
export interface CallCount {
  startedAt: string;
  calls: number;
}

/**
 * Adds up what tenants use, and keeps it in a ConfigMap per tenant and month, a row a day; the sum of this month is in the
 * status of the VirtualCluster, too. What a manager has added up since it last wrote goes with it: ten minutes at the most.
 */
export class UsageMeter {
  readonly #counted = new Map<string, Counted>();
  /** Calls since the last sample, by UID. */
  readonly #calls = new Map<string, number>();
  #meters = new Map<string, Meter>();
  /** Names of tenants whose usage was told. */
  #told = new Set<string>();
  /** Tenants that have gone since their ConfigMaps were last looked through. */
  #gone = 0;

  /** Whether a tenant's calls are to be counted again. */
  isCallCountDue(uid: string, nowMs: number): boolean {
    const known = this.#counted.get(uid);
    return known === undefined || nowMs - known.atMs >= countCallsMs;
  }

  /** Of several API servers one answers at a time: what each has counted is known apart. */
  countCalls(uid: string, count: CallCount | undefined, nowMs: number): void {
    const known = this.#counted.get(uid) ?? { atMs: nowMs, byStart: new Map<string, number>() };
    known.atMs = nowMs;
    this.#counted.set(uid, known);
    if (count === undefined) return;
    const before = known.byStart.get(count.startedAt);
    // What one had counted before it was first asked belongs to another manager's time, unless it was started since.
    const isNew = before === undefined && Number(count.startedAt) * 1_000 < nowMs - 2 * countCallsMs;
    if (!isNew) this.#calls.set(uid, (this.#calls.get(uid) ?? 0) + Math.max(0, count.calls - (before ?? 0)));
    known.byStart.delete(count.startedAt);
    known.byStart.set(count.startedAt, count.calls);
    for (const start of known.byStart.keys()) if (known.byStart.size > 10) known.byStart.delete(start);
  }

  /** For a tenant that is gone. */
  forget(uid: string): void {
    this.#counted.delete(uid);
    this.#calls.delete(uid);
  }

  /** Works for one term of leadership. */
  async run(services: MeterServices, signal: AbortSignal): Promise<void> {
    const { clock, logger } = services;
    let boundDay = '';
    let sampledMs = clock.now();
    this.#meters = new Map();
    const stop = services.virtualClusters.subscribe(({ type, object }) => {
      const meter = type === 'deleted' ? this.#meters.get(object.metadata.uid ?? '') : undefined;
      if (meter !== undefined) meter.flushedMs = 0;
    });
    const onError = (error: unknown): void =>
      logger.warn({ err: error }, `usage cannot be kept: ${explain(error).message}`);
    await repeatUntilAborted({ everyMs: sampleMs, clock, onError }, signal, async () => {
      const today = dayOf(clock.now());
      if (boundDay !== today || this.#hasNew(services)) {
        // Of one that is back under its id, what it has used before comes first.
        await this.#flushDue(services, signal);
        await this.#load(services, signal);
      }
      const now = clock.now();
      const sinceMs = Math.min(longestGapMs, Math.max(0, now - sampledMs));
      sampledMs = now;
      this.sample(services, sinceMs);
      await this.#flushDue(services, signal);
      // What fails here keeps nobody from being metered.
      if (boundDay !== today || this.#gone >= maxOfGone) {
        await this.#bound(services, signal);
        this.#gone = 0;
        boundDay = today;
      }
    });
    stop();
  }

  /** Adds what each tenant has to its row of today, for so long. */
  sample({ virtualClusters, clock, onUsage, logger }: MeterServices, ms: number): void {
    const nowMs = clock.now();
    const day = dayOf(nowMs);
    this.#forgetGone(virtualClusters);
    const before = this.#told;
    this.#told = new Set();
    for (const vc of virtualClusters.list()) {
      const uid = vc.metadata.uid ?? '';
      const id = meteredId(vc);
      if (id === undefined) continue;
      const used = usageOf(vc, ms / hourMs, this.#calls.get(uid) ?? 0);
      this.#calls.delete(uid);
      const meter = this.#meters.get(uid) ?? {
        ...{ vc, id, days: new Map<string, UsageDay>(), dirty: new Set<string>() },
        // The first row soon, so that a short life is known of too.
        flushedMs: nowMs - flushMs + sampleMs,
      };
      meter.vc = vc;
      meter.days.set(day, addUsage(meter.days.get(day) ?? noUsage(), used));
      meter.dirty.add(day);
      this.#meters.set(uid, meter);
      const name = namespacedName(vc.metadata);
      this.#told.add(name);
      try {
        onUsage(name, used);
      } catch (error) {
        // The counter of one tenant is no reason to leave the others out.
        logger.warn({ err: error, virtualCluster: name }, 'its usage is not in the metrics');
      }
    }
    for (const name of before) if (!this.#told.has(name)) onUsage(name, undefined);
  }

  /** Those that have rows are forgotten when the last of these is written. */
  #forgetGone(virtualClusters: Store<VirtualCluster>): void {
    const there = new Set(Array.from(virtualClusters.list(), ({ metadata }) => metadata.uid));
    for (const each of [this.#counted, this.#calls])
      for (const uid of each.keys()) if (!there.has(uid) && !this.#meters.has(uid)) each.delete(uid);
  }

  #hasNew({ virtualClusters }: MeterServices): boolean {
    for (const vc of virtualClusters.list())
      if (meteredId(vc) !== undefined && !this.#meters.has(vc.metadata.uid ?? '')) return true;
    return false;
  }

  /** What earlier managers, or earlier lives of tenants, have added up this month. */
  async #load(
    { client, settings, virtualClusters, clock }: MeterServices,
    signal: AbortSignal,
  ): Promise<void> {
    const month = dayOf(clock.now()).slice(0, 7);
    const options = { namespace: settings.namespace, labelSelector: `${usageLabel}=${month}`, signal };
    const { items } = await client.list<ConfigMap>(resources.configMaps, options);
    const added = addedUids(items);
    const own = items.filter(({ metadata }) => !added.has(metadata.uid ?? ''));
    const byName = new Map(own.map((item) => [item.metadata.name, item]));
    for (const vc of virtualClusters.list()) {
      const { uid = '' } = vc.metadata;
      const id = meteredId(vc);
      if (id === undefined || this.#meters.has(uid)) continue;
      const days = new Map(usageDays(byName.get(usageConfigMapName(id, month))?.data));
      if (days.size > 0) this.#meters.set(uid, { vc, id, days, dirty: new Set(), flushedMs: clock.now() });
    }
  }

  async #flushDue(services: MeterServices, signal: AbortSignal): Promise<void> {
    const nowMs = services.clock.now();
    for (const [uid, meter] of this.#meters) {
      if (nowMs - meter.flushedMs < flushMs) continue;
      await flush(services, meter, signal);
      meter.flushedMs = nowMs;
      const month = dayOf(nowMs).slice(0, 7);
      for (const day of meter.days.keys()) if (!day.startsWith(month)) meter.days.delete(day);
      const { namespace = '', name = '' } = meter.vc.metadata;
      const current = services.virtualClusters.get({ namespace, name });
      if (current?.metadata.uid === uid) {
        await publish(services, current, monthlyUsage(month, meter.days), signal);
        continue;
      }
      this.#meters.delete(uid);
      this.#counted.delete(uid);
      this.#calls.delete(uid);
      this.#gone += 1;
    }
  }

  async #bound(
    { client, settings, clock, virtualClusters }: MeterServices,
    signal: AbortSignal,
  ): Promise<void> {
    const { namespace } = settings;
    const month = dayOf(clock.now()).slice(0, 7);
    const ids = new Set<string | undefined>(Array.from(virtualClusters.list(), ({ status }) => status?.id));
    // Not written to the end yet.
    for (const { id } of this.#meters.values()) ids.add(id);
    const onDeleted = (deleted: string): void => {
      for (const { id, days, dirty } of this.#meters.values())
        if (id === deleted) for (const day of days.keys()) dirty.add(day);
    };
    const isThere = (id: string): boolean => ids.has(id);
    await boundUsage({ client, namespace, month, isThere, onDeleted }, signal);
  }
}

/** The id under which a tenant's usage is kept; undefined: it has none yet, or waits for an owner and is not metered. */
function meteredId(vc: VirtualCluster): string | undefined {
  return isUnclaimed(vc) ? undefined : vc.status?.id;
}

/** What the tenant has, times so many hours. */
export function usageOf({ status }: VirtualCluster, hours: number, apiCalls: number): Partial<UsageDay> {
  const { pods = 0, cpu, memory, resources: of = {} } = status?.usage ?? {};
  const amount = (quantity: string | undefined): number => Math.max(0, parseQuantity(quantity ?? '0') ?? 0);
  return {
    hours,
    // Those in the super cluster, where that is said: of its own a tenant may show what it likes.
    podHours: (of['pods'] === undefined ? pods : amount(of['pods'])) * hours,
    cpuHours: amount(cpu) * hours,
    cpuRequestHours: amount(of['requests.cpu']) * hours,
    memoryGiBHours: (amount(memory) / GiB) * hours,
    memoryRequestGiBHours: (amount(of['requests.memory']) / GiB) * hours,
    storageGiBHours: (amount(of['requests.storage']) / GiB) * hours,
    datastoreGiBHours: ((status?.datastoreUsage?.bytes ?? 0) / GiB) * hours,
    apiCalls,
  };
}

async function flush(
  { client, settings }: MeterServices,
  { vc, id, days, dirty }: Meter,
  signal: AbortSignal,
): Promise<void> {
  const { namespace } = settings;
  for (const [month, which] of Map.groupBy([...dirty].sort(), (day) => day.slice(0, 7))) {
    const data = Object.fromEntries(
      which.map((day) => [day, JSON.stringify(roundedUsage(days.get(day) ?? noUsage()))]),
    );
    const name = usageConfigMapName(id, month);
    const metadata = {
      // Without the label of what is made for a tenant: it is no copy, and outlives it.
      labels: { [usageLabel]: month, [labelKeys.managedBy]: 'skerry' },
      annotations: { [annotationKeys.tenantName]: namespacedName(vc.metadata) },
    };
    const patch = client.patch(
      resources.configMaps,
      { namespace, name },
      { metadata, data },
      { type: 'merge', signal },
    );
    if ((await ignoreNotFound(patch)) === undefined) {
      const made: ConfigMap = { metadata: { ...metadata, namespace, name }, data };
      await client.create(resources.configMaps, made, { signal });
    }
    for (const day of which) dirty.delete(day);
  }
}

/** Nothing is lost when that fails: the next time says it all. */
async function publish(
  { client, logger }: MeterServices,
  known: VirtualCluster,
  month: MonthlyUsage,
  signal: AbortSignal,
): Promise<void> {
  const { uid, namespace = '', name = '' } = known.metadata;
  const change = (vc: VirtualCluster): VirtualCluster | undefined => {
    const usage = vc.status?.usage;
    // The syncer takes one with a usage for one that a syncer has measured.
    if (vc.metadata.uid !== uid || usage === undefined || isDeepStrictEqual(usage.month, month))
      return undefined;
    return { ...vc, status: { ...vc.status, usage: { ...usage, month } } };
  };
  try {
    await modifyStatus(client, resources.virtualClusters, { namespace, name }, change, { signal, known });
  } catch (error) {
    signal.throwIfAborted();
    if (isNotFound(error)) return;
    logger.warn(
      { err: error, virtualCluster: namespacedName(known.metadata) },
      `its usage cannot be shown: ${explain(error).message}`,
    );
  }
}

/** In UTC, as 2026-03-09. */
function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
