import { parseArgs } from 'node:util';
import type { Browser } from 'playwright-core';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { startBrowser } from '../dashboard/testing/browser.ts';
import { type DashboardWorld, dashboardWorld } from '../dashboard/testing/dashboard-world.ts';
import { resources, systemClock } from '../kube/index.ts';
import { renderTable } from '../scripts/bench/markdown.ts';
import { median } from '../scripts/bench/statistics.ts';
import { dashboardBackend } from '../vc-manager/cli/commands/dashboard-backend.ts';

/*
 * `npm run bench:dashboard`: how long the dashboard takes to show its first picture and the first row of its table, in a
 * headless Chromium with an empty cache, over a fake super cluster with `--tenants` tenants (default 1,000). Medians of
 * `--repeats` (default 5) after one that does not count. A table on stdout.
 */

interface Visit {
  /** From navigation, in ms. */
  firstPaint: number;
  firstRow: number;
  /** Bytes as they are sent, without headers. */
  page: number;
  data: number;
}

/** Tells when the table has its first row, painted. In the browser, before anything of the page. */
const watch = `window.firstRow = new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    if (document.querySelector('tbody tr') === null) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  }).observe(document, { childList: true, subtree: true });
})`;

const figures = `(async () => {
  const firstRow = await window.firstRow;
  const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
  const bytes = (isData) => loaded
    .filter(({ name }) => new URL(name).pathname.startsWith('/api/') === isData)
    .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0);
  const firstPaint = performance.getEntriesByName('first-contentful-paint')[0].startTime;
  return { firstPaint, firstRow, page: bytes(false), data: bytes(true) };
})()`;

function tenant(index: number): VirtualCluster {
  const lastTransitionTime = '2026-01-01T00:00:00Z';
  const usage = { pods: index % 40, services: 3, nodes: 2, cpu: `${index}m`, memory: `${index}Mi` };
  return {
    metadata: { namespace: `team-${index % 50}`, name: `tenant-${index}` },
    status: {
      ...{ id: `id${index}`, phase: 'Ready', version: '1.36.3', driver: 'kubernetes', usage },
      certificatesDue: '2027-01-01T00:00:00Z',
      conditions: (['Ready', 'Synced'] as const).map((type) => ({
        ...{ type, status: 'True', reason: type, message: 'all is well', lastTransitionTime },
      })),
    },
  };
}

async function visits(browser: Browser, world: DashboardWorld, repeats: number): Promise<Visit[]> {
  const first = await browser.newContext();
  const opened = await first.newPage();
  await opened.goto(world.dashboard.link());
  await opened.getByRole('navigation', { name: 'Views' }).waitFor();
  const storageState = await first.storageState();
  await first.close();
  const seen: Visit[] = [];
  for (let each = 0; each <= repeats; each++) {
    const context = await browser.newContext({ storageState, viewport: { width: 1_280, height: 900 } });
    const page = await context.newPage();
    await page.addInitScript(watch);
    await page.goto(`${world.origin}/#/tenants`);
    seen.push(await page.evaluate<Visit>(figures));
    await context.close();
  }
  return seen.slice(1);
}

const { values } = parseArgs({
  options: { tenants: { type: 'string', default: '1000' }, repeats: { type: 'string', default: '5' } },
});
const [tenants, repeats] = [Number(values.tenants), Number(values.repeats)];
if (![tenants, repeats].every((each) => Number.isInteger(each) && each > 0))
  throw new Error('--tenants and --repeats take whole numbers from 1');
const backend = dashboardBackend({
  ...{ clock: systemClock, stateDir: '/', systemNamespace: 'skerry-system' },
  onProblem: (error, what) => console.error(what, error),
});
const browser = await startBrowser();
const world = await dashboardWorld({ backend });
try {
  for (const { metadata } of world.superCluster.api.list(resources.virtualClusters))
    world.superCluster.api.remove(resources.virtualClusters, metadata as { namespace: string; name: string });
  for (let index = 0; index < tenants; index++)
    world.superCluster.api.put(resources.virtualClusters, tenant(index));
  const seen = await visits(browser, world, repeats);
  const of = (name: keyof Visit): number => median(seen.map((each) => each[name]));
  const table = {
    title: `The dashboard with ${tenants} tenants, median of ${repeats}`,
    columns: ['', 'first picture, ms', 'first row, ms', 'page, kB', 'data, kB'],
    rows: [['cold cache', of('firstPaint'), of('firstRow'), of('page') / 1_000, of('data') / 1_000]],
  };
  process.stdout.write(`${renderTable(table)}\n`);
} finally {
  await browser.close();
  await world.close();
}
