export interface Table {
  title: string;
  columns: readonly string[];
  /** The first cell of each row is its name; numbers are made readable, what is missing becomes a dash. */
  rows: readonly (readonly Cell[])[];
  /** Text below the table. */
  notes?: readonly string[];
}

export type Cell = string | number | undefined;

export function renderTable({ title, columns, rows, notes }: Table): string {
  const cells = [columns, ...rows].map((row) => row.map(renderCell));
  const widths = columns.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${widths.map((width, column) => pad(row[column] ?? '', width, column)).join(' | ')} |`;
  const rule = `| ${widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`;
  const [head = [], ...body] = cells;
  const table = [line(head), rule, ...body.map(line)].join('\n');
  return [`### ${title}`, table, ...(notes ?? [])].join('\n\n');
}

/** Three significant digits, and never fewer than the whole number has. */
export function renderCell(cell: Cell): string {
  if (typeof cell === 'string') return cell;
  if (cell === undefined || !Number.isFinite(cell)) return '-';
  if (cell === 0) return '0';
  const whole = Math.floor(Math.log10(Math.abs(cell))) + 1;
  return cell.toFixed(Math.min(3, Math.max(0, 3 - whole)));
}

/** A row for each group; every column with how it is computed from the group's items. */
export function groupTable<Item>(
  title: string,
  groups: readonly [label: string, ReadonlyMap<unknown, readonly Item[]>],
  columns: Readonly<Record<string, (items: readonly Item[]) => Cell>>,
  notes: readonly string[] = [],
): Table {
  const [label, items] = groups;
  return {
    title,
    columns: [label, ...Object.keys(columns)],
    rows: [...items].map(([name, some]) => [
      String(name),
      ...Object.values(columns).map((compute) => compute(some)),
    ]),
    notes,
  };
}

function pad(text: string, width: number, column: number): string {
  return column === 0 ? text.padEnd(width) : text.padStart(width);
}
