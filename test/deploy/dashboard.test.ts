import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

interface Panel {
  id: number;
  title: string;
  type: string;
  description?: string;
  targets?: { expr: string }[];
}

interface Dashboard {
  panels: Panel[];
  templating: { list: { name: string; query: unknown }[] };
}

const root = join(import.meta.dirname, '..', '..');
const read = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8');
const dashboard = JSON.parse(read('deploy', 'grafana', 'skerry.json')) as Dashboard;
const graphs = dashboard.panels.filter(({ type }) => type !== 'row');

/** Every metric that the programs make, with its kind, as their code names it. */
function metricsOfTheCode(): Map<string, string> {
  const found = new Map<string, string>();
  for (const folder of ['syncer', 'vc-manager']) {
    for (const entry of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
      if (!entry.endsWith('.ts') || entry.endsWith('.test.ts')) continue;
      const text = read(folder, entry);
      for (const match of text.matchAll(
        /(Histogram|Counter|Gauge|gauge)\(\s*\{?\s*(?:name: )?'(skerry_\w+)'/g,
      ))
        found.set(match[2] ?? '', (match[1] ?? '').toLowerCase());
    }
  }
  return found;
}

/** Names of a process itself, by prom-client. */
const ofTheProcess = ['process_cpu_seconds_total', 'process_resident_memory_bytes'];

function namesIn(query: string): string[] {
  return query.match(/\b(?:skerry|process|nodejs)_\w+/g) ?? [];
}

describe('the Grafana dashboard', () => {
  const metrics = metricsOfTheCode();
  const served = new Set([
    ...ofTheProcess,
    ...[...metrics].flatMap(([name, kind]) =>
      kind === 'histogram' ? ['_bucket', '_sum', '_count'].map((end) => name + end) : [name],
    ),
  ]);

  it('asks for no metric that nobody serves', () => {
    const asked = graphs.flatMap(({ title, targets = [] }) =>
      targets.flatMap(({ expr }) => namesIn(expr).map((name) => ({ title, name }))),
    );
    expect(asked.filter(({ name }) => !served.has(name))).toEqual([]);
    const chosen = dashboard.templating.list.flatMap(({ query }) => namesIn(JSON.stringify(query)));
    expect(chosen.length).toBeGreaterThan(0);
    expect(chosen.filter((name) => !served.has(name))).toEqual([]);
  });

  it('shows every metric that there is', () => {
    const shown = graphs.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n');
    expect([...metrics.keys()].filter((name) => !shown.includes(name))).toEqual([]);
  });

  it('takes rates of what only grows, and of nothing else', () => {
    const grows = (name: string): boolean => /_(total|sum|count|bucket)$/.test(name);
    for (const { title, targets = [] } of graphs)
      for (const { expr } of targets)
        for (const name of namesIn(expr)) {
          const isRated = new RegExp(`(rate|increase)\\(${name}\\b`).test(expr);
          expect([title, name, isRated]).toEqual([title, name, grows(name)]);
        }
  });

  it('says of each panel what it shows', () => {
    expect(graphs.filter(({ description = '' }) => description === '').map(({ title }) => title)).toEqual([]);
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  });

  it('leaves nothing out of docs/metrics.md', () => {
    const documented = read('docs', 'metrics.md');
    expect([...metrics.keys()].filter((name) => !documented.includes(`\`${name}\``))).toEqual([]);
  });
});
