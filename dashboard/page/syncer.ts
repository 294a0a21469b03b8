import type { VNode } from 'preact';
import type { SyncerRow, TenantLoad } from '../types.ts';
import { bytes, duration, milliseconds, percent, since } from './format.ts';
import { state } from './state.ts';
import { type Column, html, Meter, Section, Table } from './ui.ts';

const replicas: Column<SyncerRow>[] = [
  { title: 'Replica', isName: true, cell: ({ name }) => name },
  {
    title: 'Buckets',
    isNumber: true,
    cell: ({ buckets }) => (buckets === undefined ? '–' : `${buckets} of 64`),
  },
  { title: 'Tenants', isNumber: true, cell: ({ tenants }) => tenants ?? '–' },
  { title: 'Scheduler window', isNumber: true, cell: ({ window }) => window ?? '–' },
  { title: 'Memory', isNumber: true, cell: ({ memoryBytes }) => bytes(memoryBytes) },
  {
    title: 'CPU since start',
    isNumber: true,
    isMinor: true,
    cell: ({ cpuSeconds, uptimeSeconds }) =>
      cpuSeconds === undefined || !uptimeSeconds ? '–' : percent(cpuSeconds / uptimeSeconds),
  },
  {
    title: 'Up for',
    isNumber: true,
    cell: ({ uptimeSeconds }) => (uptimeSeconds === undefined ? '–' : duration(1_000 * uptimeSeconds)),
  },
  {
    title: 'Lease',
    cell: ({ holder, renewedAt, problem }) =>
      problem ?? (holder === '' ? 'released' : `renewed ${since(renewedAt)} ago`),
  },
];

const loads: Column<TenantLoad>[] = [
  {
    title: 'Tenant',
    isName: true,
    order: ({ tenant }) => tenant,
    cell: ({ tenant }) =>
      tenant.includes('/')
        ? html`<a href=${`#/tenants/${tenant}`}>${tenant.replace(/^default\//, '')}</a>`
        : tenant,
  },
  {
    title: 'Share',
    order: ({ share }) => share,
    cell: ({ share }) => html`<${Meter} share=${share} label="of the syncer's time" />`,
  },
  {
    title: 'Wait',
    isNumber: true,
    order: ({ waitMeanMs = -1 }) => waitMeanMs,
    cell: ({ waitMeanMs }) => milliseconds(waitMeanMs),
  },
  {
    title: '95 %',
    isNumber: true,
    order: ({ waitP95Ms = -1 }) => waitP95Ms,
    cell: ({ waitP95Ms, items }) =>
      items === 0 ? '–' : waitP95Ms === undefined ? '> 10 s' : `≤ ${milliseconds(waitP95Ms)}`,
  },
  {
    title: 'Items',
    isNumber: true,
    isMinor: true,
    order: ({ items }) => items,
    cell: ({ items }) => items.toLocaleString('en'),
  },
  { title: 'Queued', isNumber: true, order: ({ queued }) => queued, cell: ({ queued }) => queued },
  { title: 'Parked pods', isNumber: true, order: ({ parked }) => parked, cell: ({ parked }) => parked },
  {
    title: 'Scheduling',
    isNumber: true,
    isMinor: true,
    order: ({ scheduling }) => scheduling,
    cell: ({ scheduling }) => scheduling,
  },
  {
    title: 'No node',
    isNumber: true,
    isMinor: true,
    order: ({ refused }) => refused,
    cell: ({ refused }) => refused,
  },
];

/** Replicas of the syncer, and how each tenant uses them. */
export function Syncer(): VNode {
  const { system } = state;
  const heading = html`<h1 class="hidden">Syncer</h1>`;
  if (system === undefined)
    return html`${heading}<p class="loading" role="status">The syncers are being asked…</p>`;
  const over =
    system.overMs === 0 ? 'since the syncers were started' : `over the last ${duration(system.overMs)}`;
  return html`${heading}<${Section} title="Replicas of the syncer">
      ${system.problem !== undefined && html`<p class="problem" role="alert">${system.problem}</p>`}
      <${Table} caption="Replicas of the syncer" columns=${replicas} rows=${system.syncers} keyOf=${({ name }: SyncerRow) => name} empty="No syncer has a Lease that you may see." />
    </${Section}>
    <${Section} title="Share and wait by tenant">
      <p class="hint">Of the syncer's time ${over}. Wait: how long work stood in the queue that could have been done.</p>
      <${Table} caption="Share of the syncer and wait in its queue, by tenant" columns=${loads} rows=${system.loads} keyOf=${({ tenant }: TenantLoad) => tenant} order="-Share" empty="Nothing is known yet." />
    </${Section}>`;
}
