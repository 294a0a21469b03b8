import type { VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { Health, JobRow, TenantLoad, TenantRow } from '../types.ts';
import { CreateDialog } from './actions.ts';
import { milliseconds, percent, quantity, relative, since, sortValue } from './format.ts';
import { state } from './state.ts';
import {
  Advice,
  type Column,
  HealthMark,
  healthNames,
  html,
  Meter,
  Section,
  Table,
  useDialog,
} from './ui.ts';

function tenantName({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name}`;
}

function TenantLink({ tenant }: { tenant: { namespace: string; name: string } }): VNode {
  const { namespace, name } = tenant;
  return html`<a href=${`#/tenants/${namespace}/${name}`}
    >${namespace !== 'default' && html`<span class="muted">${namespace}/</span>`}${name}</a
  >`;
}

const order: Health[] = ['wrong', 'limited', 'busy', 'asleep', 'well'];

interface Listed extends TenantRow {
  load?: TenantLoad;
}

/** What is used, and what is reserved. */
function usedOf(resource: string, used: string | undefined, reserved: string | undefined): string {
  if (used === undefined) return quantity(resource, reserved);
  return `${quantity(resource, used)} / ${quantity(resource, reserved)}`;
}

export const tenantColumns: Column<Listed>[] = [
  { title: 'Tenant', isName: true, order: tenantName, cell: (row) => html`<${TenantLink} tenant=${row} />` },
  {
    title: 'Health',
    order: ({ health }) => order.indexOf(health),
    cell: ({ health, phase }) =>
      html`<${HealthMark} health=${health} text=${phase === 'Ready' ? healthNames[health] : phase} />`,
  },
  { title: 'Version', order: ({ version }) => version, cell: ({ version }) => version || '–' },
  {
    title: 'Pods',
    isNumber: true,
    order: ({ pods = -1 }) => pods,
    cell: ({ pods }) => pods?.toLocaleString('en') ?? '–',
  },
  {
    title: 'CPU',
    about: 'used / reserved',
    isNumber: true,
    isMinor: true,
    order: ({ cpu, requestsCpu }) => sortValue(cpu ?? requestsCpu),
    cell: ({ cpu, requestsCpu }) => usedOf('cpu', cpu, requestsCpu),
  },
  {
    title: 'Memory',
    about: 'used / reserved',
    isNumber: true,
    isMinor: true,
    order: ({ memory, requestsMemory }) => sortValue(memory ?? requestsMemory),
    cell: ({ memory, requestsMemory }) => usedOf('memory', memory, requestsMemory),
  },
  {
    title: 'Quota',
    order: ({ fullest }) => fullest?.share ?? -1,
    cell: ({ fullest }) =>
      html`<${Meter} share=${fullest?.share} label=${fullest === undefined ? '' : `fullest: ${fullest.resource}`} />`,
  },
  {
    title: 'Weight',
    isNumber: true,
    isMinor: true,
    order: ({ weight }) => weight,
    cell: ({ weight }) => weight,
  },
  {
    title: 'Wait',
    isNumber: true,
    order: ({ load }) => load?.waitMeanMs ?? -1,
    cell: ({ load }) => milliseconds(load?.waitMeanMs),
  },
  {
    title: 'Share',
    isNumber: true,
    isMinor: true,
    order: ({ load }) => load?.share ?? -1,
    cell: ({ load }) => percent(load?.share),
  },
  {
    title: 'Age',
    isNumber: true,
    order: ({ createdAt }) => -Date.parse(createdAt),
    cell: ({ createdAt }) => since(createdAt),
  },
  {
    title: 'Problem',
    isMinor: true,
    cell: ({ problems }) => (problems.length === 0 ? '' : problems.join(', ')),
  },
];

export function Tenants(): VNode {
  const [search, setSearch] = useState('');
  const [health, setHealth] = useState<Health | ''>('');
  const dialog = useDialog<'create'>();
  const { tenants, system, session } = state;
  const rows = useMemo(() => {
    const loads = new Map(system?.loads.map((load) => [load.tenant, load]));
    return [...tenants.values()].map((tenant): Listed => {
      const load = loads.get(tenantName(tenant));
      return load === undefined ? tenant : { ...tenant, load };
    });
  }, [tenants, system]);
  const counts = new Map<Health, number>();
  for (const row of rows) counts.set(row.health, (counts.get(row.health) ?? 0) + 1);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows.filter((row) => {
    if (health !== '' && row.health !== health) return false;
    const text = `${tenantName(row)} ${row.phase} ${row.version} ${row.problems.join(' ')}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const chip = (value: Health | '', label: string, count: number) =>
    html`<button type="button" class="chip" aria-pressed=${health === value} onClick=${() => setHealth(value)}>
      ${value === '' ? label : html`<${HealthMark} health=${value} text=${label} />`} <b>${count}</b>
    </button>`;
  return html`<${Section}
    title="Tenants"
    isPage
    aside=${
      session?.mayCreate === true &&
      html`<button type="button" class="primary" onClick=${() => dialog.open('create')}>Create a tenant</button>`
    }
  >
    <div class="filters" role="group" aria-label="Filter">
      ${chip('', 'All', rows.length)}
      ${order.filter((each) => counts.has(each) || each === health).map((each) => chip(each, healthNames[each], counts.get(each) ?? 0))}
      <input
        type="search"
        aria-label="Search tenants"
        placeholder="Search"
        value=${search}
        onInput=${(event: Event) => setSearch((event.target as HTMLInputElement).value)}
      />
    </div>
    <p class="hidden" role="status">${(health !== '' || words.length > 0) && `${shown.length} of ${rows.length} tenants`}</p>
    <${Table}
      caption="Tenants. CPU and memory: used / reserved. Wait and share of the syncer are of the last hour."
      columns=${tenantColumns}
      rows=${shown}
      keyOf=${tenantName}
      order="Health"
      empty=${rows.length === 0 ? 'There are no tenants yet.' : 'No tenant is like that.'}
    />
    ${dialog.what === 'create' && html`<${CreateDialog} key=${dialog.count} onClose=${dialog.close} />`}
  </${Section}>`;
}

/** Who is held, stopped or limited, why, and what helps. */
export function Attention(): VNode {
  const rows = needAttention();
  const columns: Column<TenantRow>[] = [
    { title: 'Tenant', isName: true, cell: (row) => html`<${TenantLink} tenant=${row} />` },
    {
      title: 'Health',
      cell: ({ health, phase }) =>
        html`<${HealthMark} health=${health} text=${phase === 'Ready' ? undefined : phase} />`,
    },
    { title: 'Why', cell: ({ problems }) => problems.join(', ') || 'a job fails' },
    {
      title: 'What helps',
      cell: ({ advice }) =>
        html`<ul class="plain">${advice.map((text) => html`<li><${Advice} text=${text} /></li>`)}</ul>`,
    },
  ];
  return html`<${Section} title="Attention" isPage>
    <${Table} caption="Tenants that are held or limited" columns=${columns} rows=${rows} keyOf=${tenantName} empty="All tenants are well." pageSize=${25} />
  </${Section}>`;
}

export function needAttention(): TenantRow[] {
  return [...state.tenants.values()]
    .filter(({ health }) => health === 'wrong' || health === 'limited')
    .sort((a, b) => order.indexOf(a.health) - order.indexOf(b.health));
}

const jobHealth: Record<string, Health> = {
  Running: 'busy',
  Waiting: 'limited',
  Succeeded: 'well',
  Cancelled: 'asleep',
};

export const jobColumns: Column<JobRow>[] = [
  {
    title: 'Job',
    isName: true,
    cell: ({ kind, target }) => (target === undefined ? kind : `${kind} to ${target}`),
  },
  {
    title: 'State',
    cell: ({ state: is }) => html`<${HealthMark} health=${jobHealth[is] ?? 'wrong'} text=${is} />`,
  },
  { title: 'Step', cell: ({ step }) => step ?? '–' },
  { title: 'Attempts', isNumber: true, isMinor: true, cell: ({ attempts }) => attempts ?? '–' },
  { title: 'Began', isNumber: true, cell: ({ startedAt }) => `${since(startedAt)} ago` },
  {
    title: 'Took',
    isNumber: true,
    cell: ({ startedAt, finishedAt }) =>
      finishedAt === undefined ? '–' : milliseconds(Date.parse(finishedAt) - Date.parse(startedAt)),
  },
  { title: 'Message', cell: ({ message }) => message ?? '' },
];

export function Jobs(): VNode {
  const rows = [...state.tenants.values()].flatMap((tenant) =>
    tenant.job === undefined ? [] : [{ ...tenant.job, tenant }],
  );
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    {
      title: 'Tenant',
      isName: true,
      order: ({ tenant }) => tenantName(tenant),
      cell: ({ tenant }) => html`<${TenantLink} tenant=${tenant} />`,
    },
    ...(jobColumns as Column<Row>[]).map((column) => ({ ...column, isName: false })),
  ];
  return html`<${Section} title="Jobs under way" isPage>
    <${Table} caption="Long operations under way" columns=${columns} rows=${rows} keyOf=${({ tenant }: Row) => tenantName(tenant)} empty="Nothing is under way." />
  </${Section}>`;
}

/** A timestamp to the minute. */
export function dateOf(at: string): VNode {
  return html`<time datetime=${at}>${at.replace('T', ' ').slice(0, 16)}</time>`;
}

export function Certificates(): VNode {
  const rows = [...state.tenants.values()].filter(({ certificatesDue }) => certificatesDue !== undefined);
  const columns: Column<TenantRow>[] = [
    {
      title: 'Tenant',
      isName: true,
      order: tenantName,
      cell: (row) => html`<${TenantLink} tenant=${row} />`,
    },
    {
      title: 'Renewed',
      order: ({ certificatesDue = '' }) => certificatesDue,
      cell: ({ certificatesDue }) => relative(certificatesDue),
    },
    {
      title: 'Date',
      cell: ({ certificatesDue = '' }) => dateOf(certificatesDue),
    },
  ];
  return html`<${Section} title="Certificates" isPage>
    <p class="hint">The manager renews them by itself, when the first certificate of a tenant is due.</p>
    <${Table} caption="When the certificates of each tenant are renewed" columns=${columns} rows=${rows} keyOf=${tenantName} order="Renewed" empty="There are no certificates yet." />
  </${Section}>`;
}
