import { z } from 'zod';
import type { KubeObject } from '../kube/index.ts';

const amount = z.number().min(0).finite();

/** What a tenant has used in one day (UTC): one row of the ConfigMap of its month. Fields that a reader does not know stay out. */
const usageDaySchema = z.object({
  /** How long of the day was measured. */
  hours: amount,
  podHours: amount,
  /** What its containers used, in cores; what they reserved. */
  cpuHours: amount,
  cpuRequestHours: amount,
  /** Working sets, and reservations, in GiB. */
  memoryGiBHours: amount,
  memoryRequestGiBHours: amount,
  /** What its PersistentVolumeClaims ask for. */
  storageGiBHours: amount,
  /** Its own objects in the etcd of all tenants. */
  datastoreGiBHours: amount,
  /** Answered by its API server, those of Skerry included. */
  apiCalls: amount,
});

export type UsageDay = z.output<typeof usageDaySchema>;
export type UsageField = keyof UsageDay;

export const usageFields = Object.keys(usageDaySchema.shape) as UsageField[];

export function noUsage(): UsageDay {
  return Object.fromEntries(usageFields.map((field) => [field, 0])) as UsageDay;
}

export function addUsage(a: UsageDay, b: Partial<UsageDay>): UsageDay {
  return Object.fromEntries(usageFields.map((field) => [field, a[field] + (b[field] ?? 0)])) as UsageDay;
}

/** As it is kept: with as many digits as bills need. */
export function roundedUsage(day: UsageDay): UsageDay {
  return Object.fromEntries(
    usageFields.map((field) => [field, Math.round(day[field] * 10_000) / 10_000]),
  ) as UsageDay;
}

const shown = (text: string) => amount.describe(text);

/** What a tenant has used of a month, as `status.usage.month` says. */
export const monthlyUsageSchema = z.strictObject({
  of: z
    .string()
    .regex(/^[0-9]{4}-[0-9]{2}$/)
    .describe('The month, as in 2026-03.'),
  podHours: shown('Pods, times hours.'),
  cpuHours: shown('What its containers used, in cores, times hours.'),
  memoryGiBHours: shown('Their working sets in GiB, times hours.'),
  storageGiBHours: shown('What its PersistentVolumeClaims ask for in GiB, times hours.'),
  datastoreGiBHours: shown('Its objects in the etcd of all tenants in GiB, times hours.'),
  apiCalls: z.int().min(0).describe('Requests that its API server has answered.'),
});

export type MonthlyUsage = z.output<typeof monthlyUsageSchema>;

/** What the days of that month add up to; those of others are left out. */
export function monthlyUsage(month: string, days: Iterable<[string, UsageDay]>): MonthlyUsage {
  const own = [...days].flatMap(([day, used]) => (day.startsWith(`${month}-`) ? [used] : []));
  const total = own.reduce<UsageDay>(addUsage, noUsage());
  // Less changes less often: each change is a write.
  const rounded = (value: number): number => Math.round(value * 100) / 100;
  return {
    of: month,
    podHours: rounded(total.podHours),
    cpuHours: rounded(total.cpuHours),
    memoryGiBHours: rounded(total.memoryGiBHours),
    storageGiBHours: rounded(total.storageGiBHours),
    datastoreGiBHours: rounded(total.datastoreGiBHours),
    apiCalls: Math.round(total.apiCalls),
  };
}

/** Label of the ConfigMaps in Skerry's own namespace: the month, as 2026-03. */
export const usageLabel = 'skerry.dev/usage';

/** `id`: `status.id`, which no other tenant ever has. */
export function usageConfigMapName(id: string, month: string): string {
  return `usage-${id}-${month}`;
}

/** The `id` in such a name. */
export function usageConfigMapId(name: string): string {
  return name.replace(/^usage-|-\d{4}-\d\d$/g, '');
}

/** The rows of a ConfigMap by day (2026-03-09), in order; what is none is left out. */
export function usageDays(data: Readonly<Record<string, unknown>> | undefined): [string, UsageDay][] {
  return Object.entries(data ?? {})
    .flatMap(([day, text]): [string, UsageDay][] => {
      if (!/^\d{4}-\d\d-\d\d$/.test(day) || typeof text !== 'string' || text.length > 2_000) return [];
      try {
        return [[day, usageDaySchema.parse(JSON.parse(text))]];
      } catch {
        return [];
      }
    })
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

/** UIDs of ConfigMaps that were added to this one last: they are deleted before others are added. */
export const usageAddedAnnotation = 'skerry.dev/usage-added';

/** UIDs of those ConfigMaps that others contain already: a manager has died before it had deleted them all. */
export function addedUids(records: readonly KubeObject[]): ReadonlySet<string> {
  return new Set(
    records.flatMap(({ metadata }) => metadata.annotations?.[usageAddedAnnotation]?.split(',') ?? []),
  );
}
