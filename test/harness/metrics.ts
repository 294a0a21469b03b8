import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A number that the stack's syncer counts for one set of labels; 0 if it has not counted it yet. */
export async function syncerMetric(
  stateDir: string,
  name: string,
  labels: Readonly<Record<string, string>>,
): Promise<number> {
  const text = await metricsText(stateDir, 'vc-syncer');
  const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  const line = text
    .split('\n')
    .find((each) => each.startsWith(`${name}{`) && wanted.every((label) => each.includes(label)));
  return Number(line?.split(' ').at(-1) ?? 0);
}

/** All that a component of the stack exposes, as text. */
export async function metricsText(stateDir: string, component: 'vc-syncer' | 'vc-gateway'): Promise<string> {
  const record = await readFile(join(stateDir, 'stack', 'run', `${component}.json`), 'utf8');
  const { ports } = JSON.parse(record) as { ports: { name: string; port: number }[] };
  const port = ports.find((each) => each.name === 'metrics')?.port;
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
}
