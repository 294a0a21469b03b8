import Table from 'cli-table3';

const nothing = {
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

/** Columns as kubectl prints them: no lines, three spaces apart, nothing after the last one. Ends with a newline. */
export function table(header: readonly string[] | undefined, rows: readonly (readonly string[])[]): string {
  const lines = new Table({
    chars: nothing,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  if (header !== undefined) lines.push([...header]);
  for (const row of rows) lines.push(row.map((cell) => cell.replaceAll('\n', ' ')));
  const text = lines.toString();
  return text === ''
    ? ''
    : `${text
        .split('\n')
        .map((line) => line.trimEnd())
        .join('\n')}\n`;
}
