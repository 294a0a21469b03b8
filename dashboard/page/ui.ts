import htm from 'htm';
import { type ComponentChildren, h, type VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Health } from '../types.ts';
import { isPassing, Refused, tryAgainMs } from './api.ts';
import { messageOf, percent, withCommands } from './format.ts';

export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode;

export interface Column<T> {
  title: string;
  /** What is in it, where the title does not say it all. */
  about?: string;
  cell: (row: T) => unknown;
  /** What rows are ordered by; without it the column cannot be ordered. */
  order?: (row: T) => string | number;
  isNumber?: boolean;
  /** The first cell of a row names it. */
  isName?: boolean;
  /** Left out where there is little room. */
  isMinor?: boolean;
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
  empty: string;
  pageSize?: number;
  /** Title of the column that rows are ordered by at first; `-` in front: the largest first. */
  order?: string;
}

/** A table in pages: a browser with a thousand rows is slow, and so is a screen reader. */
export function Table<T>(props: TableProps<T>): VNode {
  const { caption, columns, rows, keyOf, empty, pageSize = 50 } = props;
  const [order, setOrder] = useState(props.order ?? '');
  const [page, setPage] = useState(0);
  const isDown = order.startsWith('-');
  const by = columns.find(({ title }) => title === order.replace(/^-/, ''))?.order;
  const sorted = by === undefined ? rows : rows.toSorted((a, b) => compare(by(a), by(b)) * (isDown ? -1 : 1));
  const pages = Math.max(1, Math.ceil(sorted.length / pageSize));
  const at = Math.min(page, pages - 1);
  const shown = sorted.slice(at * pageSize, (at + 1) * pageSize);
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const header = ({ title, about, order: sortable, isNumber, isMinor }: Column<T>) => {
    const isBy = title === order.replace(/^-/, '');
    const sort = isBy && sortable !== undefined ? (isDown ? 'descending' : 'ascending') : undefined;
    const next = isBy && !isDown ? `-${title}` : title;
    const label =
      sortable === undefined
        ? title
        : html`<button type="button" class="sort" onClick=${() => setOrder(next)}>
              ${title}<span aria-hidden="true">${sort === undefined ? '' : isDown ? ' ↓' : ' ↑'}</span></button
            ><span class="narrow">${title}</span>`;
    return html`<th role="columnheader" scope="col" title=${about} aria-sort=${sort} class=${classes({ number: isNumber, minor: isMinor })}>
      ${label}
    </th>`;
  };
  const cell = (column: Column<T>, row: T) => {
    const { title, isNumber, isName, isMinor } = column;
    const className = classes({ number: isNumber, minor: isMinor });
    return isName
      ? html`<th role="rowheader" scope="row" class=${className}>${column.cell(row)}</th>`
      : html`<td role="cell" class=${className} data-title=${title}>${column.cell(row)}</td>`;
  };
  const sortable = columns.filter((column) => column.order !== undefined);
  return html`<div class="table">
    ${sortable.length > 0 && html`<${SortBy} titles=${sortable.map(({ title }) => title)} order=${order} onOrder=${setOrder} />`}
    <table role="table" aria-rowcount=${rows.length + 1}>
      <caption class="hidden">
        ${caption}
      </caption>
      <thead role="rowgroup">
        <tr role="row" aria-rowindex="1">
          ${columns.map(header)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${shown.map(
          (row, index) =>
            html`<tr role="row" key=${keyOf(row)} aria-rowindex=${at * pageSize + index + 2}>
              ${columns.map((column) => cell(column, row))}
            </tr>`,
        )}
      </tbody>
    </table>
    ${pages > 1 && html`<${Pages} at=${at} pages=${pages} count=${rows.length} size=${pageSize} onPage=${setPage} />`}
  </div>`;
}

interface SortByProps {
  titles: string[];
  order: string;
  onOrder: (order: string) => void;
}

/** Where there is no room for a header to press on. */
function SortBy({ titles, order, onOrder }: SortByProps): VNode {
  const choose = (event: Event) => onOrder((event.target as HTMLSelectElement).value);
  return html`<label class="sort-by narrow">
    Sort by
    <select value=${order} onChange=${choose}>
      ${order === '' && html`<option value="">–</option>`}
      ${titles.map(
        (title) =>
          html`<option key=${title} value=${title}>${title}</option>
            <option key=${`-${title}`} value=${`-${title}`}>${title}, descending</option>`,
      )}
    </select>
  </label>`;
}

interface PagesProps {
  at: number;
  pages: number;
  count: number;
  size: number;
  onPage: (page: number) => void;
}

function Pages({ at, pages, count, size, onPage }: PagesProps): VNode {
  const from = at * size + 1;
  const to = Math.min(count, (at + 1) * size);
  // One that is disabled at the last page would lose the focus.
  const button = (label: string, page: number) => {
    const isThere = page >= 0 && page < pages;
    const turn = () => isThere && onPage(page);
    return html`<button type="button" aria-disabled=${!isThere} onClick=${turn}>${label}</button>`;
  };
  return html`<nav class="pages" aria-label="Pages of the table">
    ${button('Previous', at - 1)}
    <span role="status">${from}–${to} of ${count}</span>
    ${button('Next', at + 1)}
  </nav>`;
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), 'en', { numeric: true });
}

export function classes(which: Record<string, boolean | undefined>): string | undefined {
  const names = Object.keys(which).filter((name) => which[name] === true);
  return names.length === 0 ? undefined : names.join(' ');
}

export const healthNames: Readonly<Record<Health, string>> = {
  well: 'Well',
  busy: 'Busy',
  asleep: 'Asleep',
  limited: 'Limited',
  wrong: 'Wrong',
};

const marks: Readonly<Record<Health, string>> = {
  well: '●',
  busy: '◐',
  asleep: '☾',
  limited: '▲',
  wrong: '✕',
};

/** Of what neither holds nor is a problem, such as a job that was cancelled: nothing of it sleeps. */
const unmarked = '○';

export function HealthMark({ health, text = healthNames[health] }: { health: Health; text?: string }): VNode {
  const mark = health === 'asleep' && text !== healthNames.asleep ? unmarked : marks[health];
  return html`<span class=${`mark ${health}`}><span aria-hidden="true">${mark}</span> ${text}</span>`;
}

export function Meter({ share, label }: { share: number | undefined; label: string }): VNode {
  if (share === undefined) return html`<span class="muted">–</span>`;
  const level = share >= 0.95 ? 'full' : share >= 0.8 ? 'high' : 'fine';
  const width = `${Math.min(100, Math.max(share > 0 ? 2 : 0, 100 * share))}%`;
  return html`<span class="meter" title=${label}>
    <span class="track" aria-hidden="true"><span class=${`level ${level}`} style=${{ width }}></span></span>
    <span>${percent(share)}</span>
  </span>`;
}

export function Section({
  title,
  isPage,
  children,
  aside,
}: {
  title: string;
  /** It is all that there is on the page: its title is the page's. */
  isPage?: boolean;
  children: ComponentChildren;
  aside?: unknown;
}): VNode {
  const id = `section-${title.toLowerCase().replaceAll(/\W+/g, '-')}`;
  return html`<section aria-labelledby=${id} class="card">
    <div class="card-head">
      ${isPage ? html`<h1 id=${id}>${title}</h1>` : html`<h2 id=${id}>${title}</h2>`}
      ${aside}
    </div>
    ${children}
  </section>`;
}

/** A line of advice, with a button behind each command that copies it. */
export function Advice({ text }: { text: string }): VNode {
  return html`<span class="advice"
    >${withCommands(text).map(({ text: part, isCommand }) =>
      isCommand ? html`${part} <${CopyButton} command=${part} />` : part,
    )}</span
  >`;
}

function CopyButton({ command }: { command: string }): VNode {
  const [isCopied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard.writeText(command).then(() => setCopied(true));
  };
  const label = isCopied ? 'Copied' : 'Copy';
  return html`<button type="button" class="copy" onClick=${copy} aria-label=${`${label}: ${command}`}>
      ${label}</button
    ><span class="hidden" role="status">${isCopied && 'Copied'}</span>`;
}

/** For what the page shows instead of what had the focus. */
export function focusMain(): void {
  document.querySelector('main')?.focus();
}

interface OpenedDialog<T> {
  /** Undefined: none is open. */
  readonly what: T | undefined;
  /** Its key. */
  readonly count: number;
}

/**
 * Which dialog is open. `close` is that of the one that is shown now: a browser may tell that one is closed after the next
 * has been opened.
 */
export function useDialog<T>(): OpenedDialog<T> & { open: (what: T) => void; close: () => void } {
  const [{ what, count }, set] = useState<OpenedDialog<T>>({ what: undefined, count: 0 });
  return {
    what,
    count,
    open: (next) => set((now) => ({ what: next, count: now.count + 1 })),
    close: () => set((now) => (now.count === count ? { what: undefined, count } : now)),
  };
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    // A dialog that is taken away while it is open leaves the focus nowhere.
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
      else focusMain();
    };
  }, []);
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${onClose}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

/**
 * Loads once, and again whenever one of `again` changes, and after a failure that may pass. While there is no answer, the value before stays; of what is refused
 * or gone nothing does.
 */
export function useLoaded<T>(
  load: (signal: AbortSignal) => Promise<T>,
  again: unknown[],
): { value: T | undefined; problem: string; reload: () => void } {
  const [value, setValue] = useState<T | undefined>(undefined);
  const [problem, setProblem] = useState('');
  const [round, setRound] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    let nextTry: ReturnType<typeof setTimeout> | undefined;
    load(left.signal).then(
      (loaded) => {
        if (left.signal.aborted) return;
        setValue(() => loaded);
        setProblem('');
      },
      (error: unknown) => {
        if (left.signal.aborted) return;
        if (error instanceof Refused && !isPassing(error.status)) setValue(undefined);
        else nextTry = setTimeout(() => setRound((each) => each + 1), tryAgainMs);
        setProblem(messageOf(error));
      },
    );
    return () => {
      left.abort();
      clearTimeout(nextTry);
    };
  }, [...again, round]);
  return { value, problem, reload: () => setRound((each) => each + 1) };
}

/** Draws again every few seconds, as ages change. */
export function useClock(ms: number): void {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((each) => each + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}
