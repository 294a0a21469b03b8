/** The sum of all series of a metric that have these labels; 0 when there is none. */
export function metricSum(
  text: string,
  name: string,
  matches: (labels: ReadonlyMap<string, string>) => boolean = () => true,
): number {
  let sum = 0;
  for (const [labels, value] of series(text, name)) if (matches(labels)) sum += value;
  return sum;
}

/** The series of one metric: labels and value. */
function* series(text: string, name: string): Generator<[ReadonlyMap<string, string>, number]> {
  const line = new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm');
  for (const [, labelText = '', value] of text.matchAll(line)) {
    const labels = [...labelText.matchAll(/(\w+)="([^"]*)"/g)].map(
      ([, key = '', label = '']) => [key, label] as const,
    );
    yield [new Map(labels), Number(value)];
  }
}
