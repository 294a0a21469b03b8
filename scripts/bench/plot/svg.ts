export interface Plot {
  /** Part of a file name. */
  name: string;
  svg: string;
}

export const width = 720;
export const height = 360;
export const frame = { left: 70, right: 688, top: 44, bottom: 300 } as const;

/** Told apart without colour too: legends name them in the order in which they are drawn. */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#56b4e9', '#7f7f7f', '#000000'];

export function colour(index: number): string {
  return colours[index % colours.length] ?? '#000000';
}

export function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

export interface TextOptions {
  anchor?: 'start' | 'middle' | 'end';
  size?: number;
  bold?: boolean;
  rotate?: boolean;
}

export function text(x: number, y: number, content: string, options: TextOptions = {}): string {
  const { anchor = 'start', size = 12, bold = false, rotate = false } = options;
  const weight = bold ? ' font-weight="bold"' : '';
  const turned = rotate ? ` transform="rotate(-90 ${fixed(x)} ${fixed(y)})"` : '';
  return `<text x="${fixed(x)}" y="${fixed(y)}" text-anchor="${anchor}" font-size="${size}"${weight}${turned}>${escaped(content)}</text>`;
}

export function rule(x1: number, y1: number, x2: number, y2: number): string {
  return `<line class="rule" x1="${fixed(x1)}" y1="${fixed(y1)}" x2="${fixed(x2)}" y2="${fixed(y2)}"/>`;
}

/** Names with their colours, in rows below the plot. */
export function legend(names: readonly string[]): string {
  let x: number = frame.left;
  let y = 346;
  return names
    .map((name, index) => {
      const needed = 28 + name.length * 7;
      if (x + needed > width) {
        x = frame.left;
        y += 16;
      }
      const entry = `<rect x="${fixed(x)}" y="${y - 9}" width="12" height="10" fill="${colour(index)}"/>${text(x + 17, y, name)}`;
      x += needed;
      return entry;
    })
    .join('\n');
}

/** A whole document, on a page of its own colour. */
export function document(title: string, parts: readonly string[]): string {
  const style =
    'text{font-family:system-ui,sans-serif;fill:#24292f}.rule{stroke:#d0d7de}.line{fill:none;stroke-width:1.6}.page{fill:#ffffff}';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height + 16}" width="${width}" height="${height + 16}" role="img">
<title>${escaped(title)}</title>
<style>${style}</style>
<rect class="page" width="100%" height="100%"/>
${text(frame.left, 24, title, { size: 15, bold: true })}
${parts.filter((part) => part !== '').join('\n')}
</svg>
`;
}

export function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}
