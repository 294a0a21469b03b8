import { pino } from 'pino';
import { expect, it } from 'vitest';
import type { TenantState } from '../reconcile/tenant-state.ts';
import { observeEngine } from './observe.ts';
import type { PodTraces } from './pod-traces.ts';
import { SyncerMetrics } from './syncer-metrics.ts';

it('logs an error that no reconcile expects with its key and a stable code, and counts it', async () => {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const metrics = new SyncerMetrics();
  const { failed } = observeEngine(metrics, {} as PodTraces, logger);
  const tenant = { label: 'ns/a' } as TenantState;
  failed?.(tenant, { tenant: 'uid', kind: 'pods', namespace: 'shop', name: 'web' }, new Error('a defect'));

  expect(lines).toMatchObject([
    { level: 50, tenant: 'ns/a', kind: 'pods', namespace: 'shop', name: 'web', code: 'internal' },
  ]);
  expect(lines[0]?.['err']).toMatchObject({ message: 'a defect' });
  expect(await metrics.render()).toContain(
    'skerry_syncer_reconcile_errors_total{tenant="ns/a",kind="pods",code="internal"} 1',
  );
});
