import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type {
  CertificateRow,
  ComponentRow,
  ConditionRow,
  EventRow,
  JobRow,
  QuotaRow,
  SnapshotRow,
} from '../types.ts';
import { Actions, KubeconfigButton } from './actions.ts';
import { get, type OwnTenant, type TenantDetail, tenantPath } from './api.ts';
import { bytes, quantity, relative, since } from './format.ts';
import { state } from './state.ts';
import { dateOf, jobColumns } from './tenants.ts';
import { Advice, type Column, classes, HealthMark, html, Meter, Section, Table, useLoaded } from './ui.ts';
import { Pods } from './waterfall.ts';

const quotaColumns: Column<QuotaRow>[] = [
  { title: 'Resource', isName: true, order: ({ resource }) => resource, cell: ({ resource }) => resource },
  { title: 'Used', isNumber: true, cell: ({ resource, used }) => quantity(resource, used) },
  { title: 'Allowed', isNumber: true, cell: ({ resource, allowed }) => quantity(resource, allowed) },
  {
    title: 'Full',
    order: ({ share = -1 }) => share,
    cell: ({ resource, share }) => html`<${Meter} share=${share} label=${resource} />`,
  },
];

const conditionColumns: Column<ConditionRow>[] = [
  { title: 'Condition', isName: true, cell: ({ type }) => type },
  {
    title: 'Status',
    cell: ({ health, status }) => html`<${HealthMark} health=${health} text=${status} />`,
  },
  { title: 'Reason', cell: ({ reason }) => reason || '–' },
  { title: 'Since', isNumber: true, cell: ({ since: at }) => since(at) },
  { title: 'Message', isMinor: false, cell: ({ message }) => message || '–' },
];

const eventColumns: Column<EventRow>[] = [
  { title: 'Reason', isName: true, cell: ({ reason }) => reason },
  {
    title: 'Type',
    cell: ({ type }) =>
      html`<${HealthMark} health=${type === 'Warning' ? 'limited' : 'well'} text=${type || 'Normal'} />`,
  },
  { title: 'Last seen', isNumber: true, order: ({ at }) => at, cell: ({ at }) => `${since(at)} ago` },
  { title: 'Count', isNumber: true, isMinor: true, order: ({ count }) => count, cell: ({ count }) => count },
  { title: 'Object', isMinor: true, cell: ({ object }) => object },
  { title: 'Message', cell: ({ message }) => message },
];

const certificateColumns: Column<CertificateRow>[] = [
  { title: 'Certificate', isName: true, order: ({ name }) => name, cell: ({ name }) => name },
  { title: 'Kind', cell: ({ kind }) => kind },
  { title: 'Expires', order: ({ expires }) => expires, cell: ({ expires }) => relative(expires) },
  { title: 'Date', cell: ({ expires }) => dateOf(expires) },
];

const snapshotColumns: Column<SnapshotRow>[] = [
  { title: 'Snapshot', isName: true, cell: ({ name }) => html`<code>${name}</code>` },
  { title: 'Taken', isNumber: true, order: ({ at }) => at, cell: ({ at }) => `${since(at)} ago` },
  { title: 'Reason', cell: ({ reason }) => reason },
  { title: 'Version', isMinor: true, cell: ({ version }) => version },
  { title: 'Entries', isNumber: true, isMinor: true, cell: ({ entries }) => entries.toLocaleString('en') },
  { title: 'Size', isNumber: true, cell: ({ bytes: size }) => bytes(size) },
];

function Conditions({ rows }: { rows: ConditionRow[] }): VNode {
  return html`<${Section} title="Conditions">
    <${Table} caption="Conditions" columns=${conditionColumns} rows=${rows} keyOf=${({ type }: ConditionRow) => type} empty="None yet: no manager has looked at it." />
  </${Section}>`;
}

function QuotaTable({ rows }: { rows: QuotaRow[] }): VNode {
  return html`<${Section} title="Usage and quota">
    <${Table} caption="Usage against quota" columns=${quotaColumns} rows=${rows} keyOf=${({ resource }: QuotaRow) => resource} order="-Full" empty="Nothing is known yet." pageSize=${25} />
  </${Section}>`;
}

/** What a tenant is told of its jobs. */
const ownJobColumns = jobColumns.filter(({ title }) => !['Step', 'Attempts', 'Message'].includes(title));

function JobsTable({ rows, columns = jobColumns }: { rows: JobRow[]; columns?: Column<JobRow>[] }): VNode {
  return html`<${Section} title="Jobs">
    <${Table} caption="Jobs" columns=${columns} rows=${rows} keyOf=${({ id, startedAt }: JobRow) => `${id} ${startedAt}`} empty="None." pageSize=${11} />
  </${Section}>`;
}

function CertificatesTable({ rows }: { rows: CertificateRow[] }): VNode {
  return html`<${Section} title="Certificates">
    <${Table} caption="Authorities and certificates of the control plane" columns=${certificateColumns} rows=${rows} keyOf=${({ name }: CertificateRow) => name} order="Expires" empty="There are none yet." pageSize=${15} />
  </${Section}>`;
}

function Snapshots({ rows }: { rows: SnapshotRow[] }): VNode {
  return html`<${Section} title="Snapshots">
    <${Table} caption="Snapshots" columns=${snapshotColumns} rows=${rows} keyOf=${({ name }: SnapshotRow) => name} empty="None are kept." pageSize=${15} />
  </${Section}>`;
}

/** Of a tenant's own API server, or of the VirtualCluster. */
function Events({ path, title, empty }: { path: string; title: string; empty: string }): VNode {
  const load = (signal: AbortSignal) => get<{ events: EventRow[]; isCut?: boolean }>(path, signal);
  const { value, problem, reload } = useLoaded(load, [path, state.version]);
  return html`<${Section} title=${title} aside=${html`<button type="button" onClick=${reload}>Refresh</button>`}>
    ${
      problem !== ''
        ? html`<p class="hint">${problem}</p>`
        : html`${value?.isCut === true && html`<p class="hint">Only the latest ${value.events.length} are shown.</p>`}
          <${Table} caption=${title} columns=${eventColumns} rows=${value?.events ?? []} keyOf=${({ at, reason, object }: EventRow) => `${at} ${reason} ${object}`} empty=${value === undefined ? 'Loading…' : empty} pageSize=${15} />`
    }
  </${Section}>`;
}

const componentColumns = (
  onChoose: ((name: string) => void) | undefined,
  chosen: string,
): Column<ComponentRow>[] => [
  {
    title: 'Component',
    isName: true,
    cell: ({ name }) =>
      onChoose === undefined
        ? name
        : html`<button type="button" class="link" aria-expanded=${chosen === name} onClick=${() => onChoose(name)}>${name}</button>`,
  },
  {
    title: 'State',
    cell: ({ state: is }) =>
      html`<${HealthMark} health=${is === 'running' ? 'well' : is === 'failed' ? 'wrong' : 'asleep'} text=${is} />`,
  },
  { title: 'Restarts', isNumber: true, cell: ({ restarts }) => restarts },
  {
    title: 'Started',
    isNumber: true,
    cell: ({ startedAt }) => (startedAt === undefined ? '–' : `${since(startedAt)} ago`),
  },
  { title: 'Last exit', isMinor: true, cell: ({ lastExit }) => lastExit ?? '–' },
];

function ControlPlane({ tenant }: { tenant: TenantDetail }): VNode {
  const path = tenantPath(tenant, '/components');
  const { value, problem } = useLoaded(
    (signal) => get<{ components: ComponentRow[] }>(path, signal),
    [path, state.version],
  );
  const [component, setComponent] = useState('');
  const toggle = (name: string): void => setComponent(name === component ? '' : name);
  const columns = componentColumns(tenant.may.logs ? toggle : undefined, component);
  return html`<${Section} title="Control plane">
    ${
      problem !== ''
        ? html`<p class="hint">${problem}</p>`
        : html`<${Table} caption="Components of the control plane" columns=${columns} rows=${value?.components ?? []} keyOf=${({ name }: ComponentRow) => name} empty=${value === undefined ? 'Loading…' : 'It does not run, or not where this dashboard does.'} />`
    }
    ${component !== '' && html`<${Logs} key=${component} tenant=${tenant} component=${component} />`}
  </${Section}>`;
}

function Logs({ tenant, component }: { tenant: TenantDetail; component: string }): VNode {
  const [isFollowing, setFollowing] = useState(false);
  const path = tenantPath(tenant, `/logs?component=${component}&lines=300`);
  const { value, problem, reload } = useLoaded((signal) => get<{ lines: string[] }>(path, signal), [path]);
  useEffect(() => {
    if (!isFollowing) return undefined;
    const timer = setInterval(reload, 3_000);
    return () => clearInterval(timer);
  }, [isFollowing]);
  return html`<div>
    <div class="filters">
      <b>Last lines of ${component}</b>
      <button type="button" onClick=${reload}>Refresh</button>
      <label class="check"><input type="checkbox" checked=${isFollowing} onChange=${() => setFollowing(!isFollowing)} /> follow</label>
    </div>
    ${problem !== '' && html`<p class="problem" role="alert">${problem}</p>`}
    <pre class="logs" tabindex="0" role="log" aria-live="off" aria-label=${`Log of ${component}`}>${logText(value?.lines, problem)}</pre>
  </div>`;
}

function logText(lines: readonly string[] | undefined, problem: string): string {
  if (lines === undefined) return problem === '' ? 'Loading…' : '';
  return lines.length === 0 ? 'It has written nothing.' : lines.join('\n');
}

/** A tenant, for operators. */
export function TenantPage({ namespace, name }: { namespace: string; name: string }): VNode {
  const path = tenantPath({ namespace, name });
  const row = state.tenants.get(`${namespace}/${name}`);
  const { value, problem } = useLoaded((signal) => get<TenantDetail>(path, signal), [path, row]);
  if (value === undefined)
    return problem === ''
      ? html`<p class="loading" role="status">Loading…</p>`
      : html`<section class="card"><p class="problem" role="alert">${problem}</p><p><a href="#/tenants">All tenants</a></p></section>`;
  return html`<div class="page">
    ${problem !== '' && html`<p class="problem" role="alert">${problem}</p>`}
    <header class="card">
      <p class="crumbs"><a href="#/tenants">Tenants</a> / ${namespace}</p>
      <div class="card-head">
        <h1>${name}</h1>
        <${HealthMark} health=${value.health} text=${value.phase} />
      </div>
      <dl class="facts">
        ${fact('Version', value.version || '–')} ${fact('Age', since(value.createdAt))} ${fact('Weight', value.weight)}
        ${fact('Pods', value.pods ?? '–')} ${fact('Services', value.services ?? '–')}
        ${fact('CPU in use', quantity('cpu', value.cpu))} ${fact('Memory in use', quantity('memory', value.memory))}
        ${value.facts.map(([what, is]) => fact(what, is))}
      </dl>
      <${Actions} tenant=${value} />
    </header>
    ${
      value.advice.length > 0 &&
      html`<${Section} title="What to do">
        <ul class="plain">${value.advice.map((text) => html`<li><${Advice} text=${text} /></li>`)}</ul>
      </${Section}>`
    }
    <${Conditions} rows=${value.conditions} />
    <${QuotaTable} rows=${value.quota} />
    <${JobsTable} rows=${value.jobs} />
    <${ControlPlane} tenant=${value} />
    <${Pods} base=${path} />
    <${Events} path=${`${path}/events`} title="Events" empty="None in the last hour." />
    <${CertificatesTable} rows=${value.certificates} />
    <${Snapshots} rows=${value.snapshots} />
  </div>`;
}

/** Times are easier to read as how far away they are. */
function readable(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT/.test(value)) return value;
  return html`<time datetime=${value} title=${value}>${relative(value)}</time>`;
}

function fact(name: string, value: unknown): VNode {
  const shown = readable(value);
  const isWide = typeof shown === 'string' && shown.length > 20;
  return html`<div class=${classes({ wide: isWide })}><dt>${name}</dt><dd>${shown}</dd></div>`;
}

/** A tenant, for itself. */
export function OwnPage(): VNode {
  const { value, problem } = useLoaded((signal) => get<OwnTenant>('/api/own', signal), [state.version]);
  if (value === undefined)
    return problem === ''
      ? html`<p class="loading" role="status">Loading…</p>`
      : html`<section class="card"><p class="problem" role="alert">${problem}</p></section>`;
  return html`<div class="page">
    ${problem !== '' && html`<p class="problem" role="alert">${problem}</p>`}
    <header class="card">
      <div class="card-head">
        <h1>${value.name}</h1>
        <${HealthMark} health=${value.health} text=${value.phase} />
      </div>
      <dl class="facts">
        ${fact('Version', value.version || '–')} ${fact('Age', since(value.createdAt))} ${fact('Pods', value.pods ?? '–')}
        ${fact('Services', value.services ?? '–')} ${fact('Pod Security', value.podSecurity ?? '–')}
        ${fact('CPU in use', quantity('cpu', value.cpu))} ${fact('Memory in use', quantity('memory', value.memory))}
        ${fact('Certificates renewed', relative(value.certificatesDue))}
      </dl>
      <div class="actions">${value.may.kubeconfig && html`<${KubeconfigButton} path="/api/own/kubeconfig" name=${value.name} />`}</div>
    </header>
    <${Events} path="/api/own/events" title="Refusals and notes" empty="Nothing was refused in the last hour." />
    <${QuotaTable} rows=${value.quota} />
    <${Conditions} rows=${value.conditions} />
    ${value.may.pods && html`<${Pods} base="/api/own" />`}
    <${CertificatesTable} rows=${value.certificates} />
    <${Snapshots} rows=${value.snapshots} />
    <${JobsTable} rows=${value.jobs} columns=${ownJobColumns} />
  </div>`;
}
