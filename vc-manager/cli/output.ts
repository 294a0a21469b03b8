import { styleText } from 'node:util';
import Table from 'cli-table3';
import { stringify } from 'yaml';
import { apiVersion } from '../../api/names.ts';
import { type KubeObject, printable } from '../../kube/index.ts';

/** How commands with a table print. */
export type TableFormat = 'table' | 'json' | 'yaml';

export const outputFormats = ['table', 'wide', 'json', 'yaml', 'name'] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** What a terminal acts on, or shows in another order, and neither JSON nor YAML escapes by itself. */
const acted = /[\u007f-\u009f\p{Cf}\u2028\u2029]/gu;

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

export function json(value: unknown): string {
  const escapeOf = (found: string): string =>
    Array.from({ length: found.length }, (_, at) => `\\u${hex(found.charCodeAt(at), 4)}`).join('');
  return `${JSON.stringify(value, null, 2).replaceAll(acted, escapeOf)}\n`;
}

export function yaml(value: unknown): string {
  const text = stringify(value, { lineWidth: 0 });
  if (text.search(acted) === -1) return text;
  // YAML has no pairs of surrogates: go-yaml refuses them.
  const escapeOf = (found: string): string => {
    const code = found.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
  };
  return stringify(value, { lineWidth: 0, defaultStringType: 'QUOTE_DOUBLE' }).replaceAll(acted, escapeOf);
}

export function serialize(format: 'json' | 'yaml', value: unknown): string {
  return format === 'json' ? json(value) : yaml(value);
}

/** `virtualcluster.skerry.dev/NAME`, which kubectl takes too. */
export function resourceName(name: string): string {
  return `virtualcluster.skerry.dev/${name}`;
}

/** A Kubernetes List, as `kubectl get -o json` prints it. */
export function listOf(items: readonly KubeObject[]): KubeObject & { items: KubeObject[] } {
  return { apiVersion: 'v1', kind: 'List', metadata: { resourceVersion: '' }, items: items.map(withKind) };
}

/** As kubectl prints an object: with apiVersion and kind, without managedFields. */
export function withKind(object: KubeObject): KubeObject {
  const { managedFields: _, ...metadata } = object.metadata;
  return { apiVersion, kind: 'VirtualCluster', ...object, metadata };
}

export type Style = Parameters<typeof styleText>[0];

/** Colours for one stream: none when it is not a terminal, or when NO_COLOR is set. */
export function styler(stream: NodeJS.WritableStream): (style: Style, text: string) => string {
  return (style, text) => styleText(style, text, { stream });
}

const noBorders = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '   ',
};

const longestCell = 10_000;

/**
 * Columns as kubectl prints them: no lines, three spaces apart, nothing after the last one. Ends with a newline. Cells
 * may be of unknown origin: nothing in them reaches the terminal but text.
 * `styleFirst` colours the first cell of each row.
 */
export function table(
  header: readonly string[] | undefined,
  rows: readonly (readonly string[])[],
  styleFirst: (cell: string) => string = (cell) => cell,
): string {
  const lines = new Table({
    chars: noBorders,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  if (header !== undefined) lines.push([...header]);
  for (const row of rows) {
    const [first = '', ...others] = row.map((cell) => printable(cell, longestCell));
    lines.push([styleFirst(first), ...others]);
  }
  const text = lines.toString();
  return text === ''
    ? ''
    : `${text
        .split('\n')
        .map((line) => line.trimEnd())
        .join('\n')}\n`;
}

export function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '  ');
}

/** An age as kubectl writes it: `45s`, `3m12s`, `14m`, `5h20m`, `3d4h`, `90d`. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return joined(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return joined(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 8) return joined(days, 'd', hours % 24, 'h');
  return `${days}d`;
}

/** Since the timestamp of an object; `<unknown>` when it has none. */
export function ageSince(timestamp: string | undefined, nowMs: number): string {
  const then = Date.parse(timestamp ?? '');
  return Number.isNaN(then) ? '<unknown>' : age(nowMs - then);
}

/** How long something took: `0.4 s`, `12 s`, `3 min 05 s`. */
export function elapsed(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}

function joined(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big}${bigUnit}` : `${big}${bigUnit}${small}${smallUnit}`;
}
