import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Health, ListedPod } from '../types.ts';
import { get, type PodList, type PodReport } from './api.ts';
import { milliseconds, since } from './format.ts';
import { type Column, HealthMark, html, Section, Table, useLoaded } from './ui.ts';

const whoseNames: Readonly<Record<string, string>> = {
  skerry: 'Skerry',
  scheduler: 'Scheduler',
  kubelet: 'Kubelet',
};

/** Browsers read it as with the flag v, in which a dash in a class has to be escaped. */
const podPattern = '([a-z0-9][a-z0-9\\-]*/)?[a-z0-9][a-z0-9.\\-]*';

/**
 * The slowest pods of a tenant, or those that there are where none was measured, and the way of the one that is
 * chosen. `base`: where the server has them.
 */
export function Pods({ base }: { base: string }): VNode {
  const {
    value: list,
    problem,
    reload,
  } = useLoaded((signal) => get<PodList>(`${base}/pods`, signal), [base]);
  const [chosen, setChosen] = useState('');
  const [typed, setTyped] = useState('');
  type Named = Pick<PodReport, 'namespace' | 'name'>;
  const name = ({ namespace, name: own }: Named) => `${namespace}/${own}`;
  const nameColumn: Column<Named> = {
    title: 'Pod',
    isName: true,
    cell: (pod) =>
      html`<button type="button" class="link" aria-expanded=${chosen === name(pod)} onClick=${() => setChosen(chosen === name(pod) ? '' : name(pod))}>
        ${name(pod)}
      </button>`,
  };
  const listed = list?.listed ?? [];
  const listedColumns: Column<ListedPod>[] = [
    nameColumn as Column<ListedPod>,
    {
      title: 'Phase',
      order: ({ phase }) => phase,
      cell: ({ phase, isReady }) =>
        html`<${HealthMark} health=${podHealth(phase, isReady)} text=${phase === 'Running' && !isReady ? 'Running, not ready' : phase || 'Unknown'} />`,
    },
    {
      title: 'Age',
      isNumber: true,
      order: ({ createdAt }) => -Date.parse(createdAt),
      cell: ({ createdAt }) => since(createdAt),
    },
    ...(listed.some(({ node }) => node !== undefined)
      ? [{ title: 'Node', isMinor: true, cell: ({ node }: ListedPod) => node ?? '–' }]
      : []),
  ];
  const columns: Column<PodReport>[] = [
    nameColumn as Column<PodReport>,
    {
      title: 'Ready in',
      isNumber: true,
      order: ({ totalMs }) => totalMs,
      cell: ({ state, totalMs }) =>
        state === 'ready' ? milliseconds(totalMs) : `not yet (${milliseconds(totalMs)})`,
    },
    ...Object.entries(whoseNames).map(
      ([whose, title]): Column<PodReport> => ({
        title,
        isNumber: true,
        isMinor: whose !== 'skerry',
        order: ({ shares }) => shares[whose] ?? 0,
        cell: ({ shares }) => milliseconds(shares[whose]),
      }),
    ),
  ];
  const look = (event: Event) => {
    event.preventDefault();
    setChosen(typed.includes('/') ? typed.trim() : `default/${typed.trim()}`);
  };
  return html`<${Section} title="Pods" aside=${html`<button type="button" onClick=${reload}>Refresh</button>`}>
    <form class="filters" onSubmit=${look}>
      <input
        aria-label="Pod as namespace/name"
        placeholder="namespace/pod"
        required
        pattern=${podPattern}
        value=${typed}
        onInput=${(event: Event) => setTyped((event.target as HTMLInputElement).value)}
      />
      <button type="submit">Show its way</button>
      ${
        list?.total !== undefined &&
        html`<span class="muted"
          >${list.ready} pods: median ${milliseconds(list.total.p50Ms)}, 99 of 100 within ${milliseconds(list.total.p99Ms)}</span
        >`
      }
    </form>
    ${chosen !== '' && html`<${PodTimeline} key=${chosen} base=${base} pod=${chosen} />`}
    ${list?.problem !== undefined && html`<p class="hint">The syncer could not be asked how long pods took: ${list.problem}</p>`}
    ${
      listed.length > 0 &&
      html`<p class="hint">
        ${list?.problem === undefined && 'The syncer has measured no pod since it took this tenant up, as when it was started or the tenant woke. '}These
        are the ones that there are${list?.isCut === true && `, the first ${listed.length}`}.
      </p>`
    }
    ${
      problem !== ''
        ? html`<p class="hint">${problem}</p>`
        : listed.length > 0
          ? html`<${Table} caption="Pods of the tenant" columns=${listedColumns} rows=${listed} keyOf=${name} pageSize=${10} />`
          : html`<${Table} caption="The slowest pods since the syncer took this tenant up" columns=${columns} rows=${list?.pods ?? []} keyOf=${name} empty=${emptyText(list)} pageSize=${10} />`
    }
  </${Section}>`;
}

function emptyText(list: PodList | undefined): string {
  if (list === undefined) return 'Loading…';
  if (list.problem !== undefined) return 'There are no pods.';
  return 'No pod has come since the syncer took this tenant up, as when it was started or the tenant woke. Name an earlier one above.';
}

function podHealth(phase: string, isReady: boolean): Health {
  if (phase === 'Failed') return 'wrong';
  return isReady || phase === 'Succeeded' ? 'well' : 'busy';
}

function PodTimeline({ base, pod }: { base: string; pod: string }): VNode {
  const { value, problem } = useLoaded(
    (signal) => get<PodReport>(`${base}/pods/${pod}`, signal),
    [base, pod],
  );
  if (problem !== '') return html`<p class="problem" role="alert">${problem}</p>`;
  if (value === undefined) return html`<p class="loading" role="status">Loading…</p>`;
  return html`<${Waterfall} report=${value} />`;
}

function outcome({ state, totalMs, refusal, waitsFor, stages }: PodReport): string {
  if (state === 'ready') return `Ready in ${milliseconds(totalMs)}`;
  if (state === 'deleted') return `Deleted after ${milliseconds(totalMs)}, before it was ready`;
  if (refusal !== undefined) return `Refused: ${refusal}`;
  if (waitsFor === undefined) return `Not ready since ${milliseconds(totalMs)}`;
  const { name, whose, sinceMs } = waitsFor;
  return `Waits for ${whoseNames[whose] ?? whose} (${stages?.[name] ?? name}) since ${milliseconds(sinceMs)}`;
}

function Waterfall({ report }: { report: PodReport }): VNode {
  const { spans, shares, source, node, stages = {} } = report;
  const totalMs = Math.max(report.totalMs, 0.001);
  const sum = Object.values(shares).reduce((all, each) => all + each, 0) || 1;
  return html`<figure class="way">
    <figcaption>
      <b>${report.namespace}/${report.name}</b> · ${outcome(report)}${node === undefined ? '' : ` · on ${node}`}
      <span class="legend">
        ${Object.entries(whoseNames).map(
          ([whose, title]) =>
            html`<span class=${`key ${whose}`}>${title} ${milliseconds(shares[whose])} (${Math.round((100 * (shares[whose] ?? 0)) / sum)} %)</span>`,
        )}
      </span>
      ${source === 'objects' && html`<span class="hint">From what the objects say: in whole seconds.</span>`}
    </figcaption>
    <table class="waterfall" role="table">
      <caption class="hidden">
        Steps of the pod
      </caption>
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" scope="col">Step</th>
          <th role="columnheader" scope="col" class="number">At</th>
          <th role="columnheader" scope="col" class="number">Took</th>
          <th role="columnheader" scope="col" class="bar-head">Place in the whole</th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${spans.map(({ name, whose, atMs, tookMs }) => {
          const left = `${Math.min(99, (100 * atMs) / totalMs)}%`;
          const width = `${Math.max(0.6, Math.min(100 - (100 * atMs) / totalMs, (100 * tookMs) / totalMs))}%`;
          return html`<tr role="row">
            <th role="rowheader" scope="row" title=${stages[name]}>${name}</th>
            <td role="cell" class="number">${milliseconds(atMs)}</td>
            <td role="cell" class="number">${milliseconds(tookMs)}</td>
            <td role="cell" class="bar-cell">
              <span class="hidden">${whoseNames[whose] ?? whose}: ${stages[name] ?? name}</span>
              <span class="bars" aria-hidden="true"><span class=${`bar ${whose}`} style=${{ left, width }}></span></span>
            </td>
          </tr>`;
        })}
      </tbody>
    </table>
  </figure>`;
}
