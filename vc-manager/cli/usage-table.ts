import { annotationKeys } from '../../api/labels.ts';
import { addUsage, noUsage, type UsageDay, usageDays, usageFields, usageLabel } from '../../api/usage.ts';
import { type KubeClient, type KubeObject, resources } from '../../kube/index.ts';
import { table } from './output.ts';

/** What a tenant has used in one day. */
export interface UsageRow extends UsageDay {
  tenant: string;
  /** `status.id`: a later tenant of that name has another one. */
  id: string;
  day: string;
}

interface UsageMap extends KubeObject {
  data?: Record<string, string>;
}

/** Rows of these days, both included, in order of tenant and day. */
export async function readUsage(
  client: KubeClient,
  options: { namespace: string; since: string; until: string; tenant?: string; signal: AbortSignal },
): Promise<UsageRow[]> {
  const { namespace, since, until, tenant, signal } = options;
  const labelSelector = `${usageLabel} in (${monthsOf(since, until).join(',')})`;
  const { items } = await client.list<UsageMap>(resources.configMaps, { namespace, labelSelector, signal });
  const rows = items.flatMap(({ metadata, data }) => {
    const of = metadata.annotations?.[annotationKeys.tenantName] ?? '';
    if (tenant !== undefined && of !== tenant) return [];
    const id = (metadata.name ?? '').replace(/^usage-|-\d{4}-\d\d$/g, '');
    return usageDays(data)
      .filter(([day]) => day >= since && day <= until)
      .map(([day, used]): UsageRow => ({ tenant: of, id, day, ...used }));
  });
  const order = (row: UsageRow): string => `${row.tenant} ${row.id} ${row.day}`;
  return rows.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

function monthsOf(since: string, until: string): string[] {
  const months: string[] = [];
  const [year = 0, month = 1] = since.split('-').map(Number);
  for (let at = new Date(Date.UTC(year, month - 1, 1)); ; at.setUTCMonth(at.getUTCMonth() + 1)) {
    const name = at.toISOString().slice(0, 7);
    if (name > until.slice(0, 7)) return months;
    months.push(name);
  }
}

/** One row for each tenant, without its days. */
export function usageTotals(rows: readonly UsageRow[]): (UsageDay & { tenant: string; id: string })[] {
  return [...Map.groupBy(rows, ({ tenant, id }) => `${tenant} ${id}`).values()].map((own) => ({
    tenant: own[0]?.tenant ?? '',
    id: own[0]?.id ?? '',
    ...own.reduce<UsageDay>(addUsage, noUsage()),
  }));
}

const titles: Readonly<Record<keyof UsageDay, string>> = {
  hours: 'HOURS',
  podHours: 'POD HOURS',
  cpuHours: 'CPU HOURS',
  cpuRequestHours: 'RESERVED',
  memoryGiBHours: 'MEMORY GIB H',
  memoryRequestGiBHours: 'RESERVED',
  storageGiBHours: 'STORAGE GIB H',
  datastoreGiBHours: 'DATASTORE GIB H',
  apiCalls: 'API CALLS',
};

export function usageTable(rows: readonly (UsageDay & { tenant: string })[]): string {
  const amount = (value: number): string =>
    value >= 100 ? value.toFixed(0) : String(Number(value.toFixed(2)));
  return table(
    ['TENANT', ...usageFields.map((field) => titles[field])],
    rows.map((row) => [row.tenant, ...usageFields.map((field) => amount(row[field]))]),
  );
}

const csvFields = ['tenant', 'id', 'day', ...usageFields] as const;

/** As RFC 4180 has it, a row a day. */
export function usageCsv(rows: readonly UsageRow[]): string {
  const lines = rows.map((row) => csvFields.map((field) => String(row[field])).join(','));
  return [csvFields.join(','), ...lines].map((line) => `${line}\r\n`).join('');
}
