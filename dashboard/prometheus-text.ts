export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of these metrics, in Prometheus' text format. Lines that are none are left out. */
export function parseSamples(text: string, names: ReadonlySet<string>): Sample[] {
  const samples: Sample[] = [];
  for (const each of text.split('\n')) {
    const end = each.search(/[{ ]/);
    if (end < 0 || !names.has(each.slice(0, end))) continue;
    const [, name, labels = '', value] = line.exec(each) ?? [];
    if (name === undefined || value === undefined) continue;
    const pairs = [...labels.matchAll(label)].map(
      ([, key = '', text = '']) => [key, unescaped(text)] as const,
    );
    samples.push({ name, labels: Object.fromEntries(pairs), value: Number(value) });
  }
  return samples;
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_, character: string) => (character === 'n' ? '\n' : character));
}
