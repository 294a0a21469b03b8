import { pino } from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import type { TenantState } from '../reconcile/tenant-state.ts';
import type { PodTraces } from './pod-traces.ts';
import { observeEngine, SyncerMetrics } from './syncer-metrics.ts';

describe('syncer metrics', () => {
  let metrics: SyncerMetrics;

  beforeEach(() => {
    metrics = new SyncerMetrics();
  });

  /** The samples, without comments; only those that contain the text. */
  async function samples(containing = '', of = metrics): Promise<string[]> {
    const text = await of.render();
    return text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#') && line.includes(containing));
  }

  describe('SyncerMetrics', () => {
    it('measures wait and service time in seconds, by tenant and kind', async () => {
      metrics.waited('ns/a', 'pods', 30);
      metrics.waited('ns/a', 'pods', 3_000);
      metrics.served('ns/a', 'services', 4);
      expect(await samples('queue_wait_seconds_sum')).toEqual([
        'skerry_syncer_queue_wait_seconds_sum{tenant="ns/a",kind="pods"} 3.03',
      ]);
      expect(await samples('le="0.1",tenant="ns/a",kind="pods"')).toEqual([
        'skerry_syncer_queue_wait_seconds_bucket{le="0.1",tenant="ns/a",kind="pods"} 1',
      ]);
      expect(await samples('service_seconds_count')).toEqual([
        'skerry_syncer_service_seconds_count{tenant="ns/a",kind="services"} 1',
      ]);
    });

    it('asks for the depth of the queue when it is read, and forgets what is gone', async () => {
      let depths = [{ tenant: 'uid-a', live: 3, background: 2, delayed: 1, processing: 4 }];
      metrics.collectFrom(
        () => depths,
        (uid) => uid.replace('uid-', 'ns/'),
      );
      expect(await samples('queue_depth')).toEqual([
        'skerry_syncer_queue_depth{tenant="ns/a",state="live"} 3',
        'skerry_syncer_queue_depth{tenant="ns/a",state="background"} 2',
        'skerry_syncer_queue_depth{tenant="ns/a",state="delayed"} 1',
        'skerry_syncer_queue_depth{tenant="ns/a",state="processing"} 4',
      ]);
      depths = [];
      expect(await samples('queue_depth')).toEqual([]);
    });

    it('shows what tenants have of what their quotas limit, and forgets what is limited no more', async () => {
      let usage = [
        { tenant: 'ns/a', resource: 'pods', used: 3, limit: 10 },
        { tenant: 'ns/a', resource: 'requests.cpu', used: 0.5, limit: 2 },
      ];
      metrics.addTenant('ns/a');
      metrics.collectQuotasFrom(() => usage);
      expect(await samples('skerry_tenant_quota')).toEqual([
        'skerry_tenant_quota_used{tenant="ns/a",resource="pods"} 3',
        'skerry_tenant_quota_used{tenant="ns/a",resource="requests.cpu"} 0.5',
        'skerry_tenant_quota_limit{tenant="ns/a",resource="pods"} 10',
        'skerry_tenant_quota_limit{tenant="ns/a",resource="requests.cpu"} 2',
      ]);
      usage = [];
      expect(await samples('skerry_tenant_quota')).toEqual([]);
    });

    it('has no series of limits of what does not exist, under whatever name an owner has made them', async () => {
      const limit = (resource: string, used: number) => ({ tenant: 'ns/a', resource, used, limit: 1 });
      metrics.addTenant('ns/a');
      metrics.collectQuotasFrom(() => [
        limit('secrets', 0),
        limit('count/made-up', 0),
        limit('made-up.storageclass.storage.k8s.io/requests.storage', 0),
        limit('count/pods', 1),
      ]);
      expect(await samples('skerry_tenant_quota_limit')).toEqual([
        'skerry_tenant_quota_limit{tenant="ns/a",resource="secrets"} 1',
        'skerry_tenant_quota_limit{tenant="ns/a",resource="count/pods"} 1',
      ]);
    });

    it('shows when the first authority and certificate of a tenant expires', async () => {
      const expiries = [
        { tenant: 'ns/a', kind: 'authority', atMs: 9_000 },
        { tenant: 'ns/a', kind: 'certificate', atMs: 5_000 },
        { tenant: 'ns/a', kind: 'certificate', atMs: 4_000 },
        { tenant: 'ns/a', kind: 'certificate', atMs: 6_000 },
      ];
      metrics.addTenant('ns/a');
      metrics.collectExpiriesFrom(() => expiries);
      const name = 'skerry_tenant_certificate_expiry_timestamp_seconds';
      expect(await samples(name)).toEqual([
        `${name}{tenant="ns/a",kind="authority"} 9`,
        `${name}{tenant="ns/a",kind="certificate"} 4`,
      ]);
      expiries.length = 0;
      expect(await samples(name)).toEqual([]);
    });

    it('counts API calls by side, verb, resource and code, and tells calls without an answer apart', async () => {
      metrics.apiCall('super', { verb: 'create', resource: 'pods', status: 201, durationMs: 5 });
      metrics.apiCall('super', { verb: 'create', resource: 'pods', status: 201, durationMs: 5 });
      metrics.apiCall('tenant', { verb: 'get', resource: 'pods', status: 0, durationMs: 30_000 });
      expect(await samples('api_calls_total')).toEqual([
        'skerry_syncer_api_calls_total{side="super",verb="create",resource="pods",code="201"} 2',
        'skerry_syncer_api_calls_total{side="tenant",verb="get",resource="pods",code="none"} 1',
      ]);
      expect(await samples('api_call_seconds_count')).toHaveLength(2);
    });

    it('has few codes, whatever statuses a server answers with', async () => {
      for (let status = 200; status < 1_000; status += 1) {
        metrics.apiCall('tenant', { verb: 'get', resource: 'pods', status, durationMs: 5 });
        metrics.reconcileError('ns/a', 'pods', String(status));
      }
      for (const code of ['ECONNREFUSED', 'transient403']) metrics.reconcileError('ns/a', 'pods', code);
      const codes = async (name: string): Promise<string[]> =>
        (await samples(name)).map((line) => /code="(\w+)"/.exec(line)?.[1] ?? line);
      const calls = await codes('api_calls_total');
      expect(calls).toEqual(expect.arrayContaining(['200', '404', '409', '503', '4xx', '5xx', 'other']));
      expect(calls.length).toBeLessThan(25);
      const errors = await codes('reconcile_errors_total');
      expect(errors.toSorted()).toEqual([...calls, 'ECONNREFUSED', 'transient403'].toSorted());
    });

    it('does not take the life of a watch for the duration of a call', async () => {
      metrics.apiCall('super', { verb: 'watch', resource: 'pods', status: 200, durationMs: 300_000 });
      expect(await samples('api_calls_total')).toHaveLength(1);
      expect(await samples('api_call_seconds')).toEqual([]);
    });

    it('counts objects, tenants, errors, reflector problems and drift', async () => {
      metrics.collectObjectsFrom(() => [
        { side: 'tenant', kind: 'pods', count: 7 },
        { side: 'tenant', kind: 'pods', count: 2 },
        { side: 'super', kind: 'pods', count: 8 },
      ]);
      metrics.addTenant('ns/a');
      metrics.addTenant('ns/b');
      metrics.removeTenant('ns/b');
      metrics.reconcileError('ns/a', 'pods', '422');
      metrics.reflectorProblem('ns/a', 'pods', 'watch');
      metrics.reflectorProblem('super', 'nodes', 'list');
      metrics.drift('ns/a', 'pods', 'missing-in-super', 3);
      metrics.resynced('ns/a');
      metrics.resyncTook(30);
      metrics.fencedWrite();
      expect((await samples()).filter((line) => !line.includes('_bucket{'))).toEqual([
        'skerry_syncer_reconcile_errors_total{tenant="ns/a",kind="pods",code="422"} 1',
        'skerry_syncer_drift_findings_total{tenant="ns/a",kind="pods",finding="missing-in-super"} 3',
        'skerry_syncer_resyncs_total{tenant="ns/a"} 1',
        'skerry_syncer_resync_seconds_sum 0.03',
        'skerry_syncer_resync_seconds_count 1',
        'skerry_syncer_reflector_problems_total{source="ns/a",resource="pods",phase="watch"} 1',
        'skerry_syncer_reflector_problems_total{source="super",resource="nodes",phase="list"} 1',
        'skerry_syncer_fenced_writes_total 1',
        'skerry_syncer_tenants 1',
        'skerry_syncer_objects{side="tenant",kind="pods"} 9',
        'skerry_syncer_objects{side="super",kind="pods"} 8',
      ]);
    });

    it('removes every series of a tenant, and no other', async () => {
      const fill = (tenant: string) => {
        metrics.addTenant(tenant);
        metrics.waited(tenant, 'pods', 1);
        metrics.served(tenant, 'pods', 1);
        metrics.served(tenant, 'secrets', 1);
        metrics.reconcileError(tenant, 'pods', '409');
        metrics.reconcileError(tenant, 'pods', '500');
        metrics.drift(tenant, 'pods', 'orphan');
        metrics.reflectorProblem(tenant, 'pods', 'list');
      };
      fill('ns/b');
      const before = await samples();
      fill('ns/a');
      expect(await samples('ns/a')).not.toEqual([]);
      metrics.removeTenant('ns/a');
      expect(await samples()).toEqual(before);
    });

    it('starts from zero when a tenant comes back', async () => {
      metrics.reconcileError('ns/a', 'pods', '500');
      metrics.removeTenant('ns/a');
      metrics.reconcileError('ns/a', 'pods', '500');
      expect(await samples('errors_total')).toEqual([
        'skerry_syncer_reconcile_errors_total{tenant="ns/a",kind="pods",code="500"} 1',
      ]);
    });

    it('adds up the tenants beyond the limit, and gives a freed label to the next', async () => {
      metrics = new SyncerMetrics({ maxTenants: 1 });
      for (const tenant of ['ns/a', 'ns/b', 'ns/c']) metrics.reconcileError(tenant, 'pods', '500');
      metrics.collectFrom(() =>
        ['ns/a', 'ns/b', 'ns/c'].map((tenant) => ({
          tenant,
          live: 2,
          background: 0,
          delayed: 0,
          processing: 0,
        })),
      );
      expect(await samples('errors_total')).toEqual([
        'skerry_syncer_reconcile_errors_total{tenant="ns/a",kind="pods",code="500"} 1',
        'skerry_syncer_reconcile_errors_total{tenant="other",kind="pods",code="500"} 2',
      ]);
      expect(await samples('state="live"')).toEqual([
        'skerry_syncer_queue_depth{tenant="ns/a",state="live"} 2',
        'skerry_syncer_queue_depth{tenant="other",state="live"} 4',
      ]);
      metrics.removeTenant('ns/b');
      expect(await samples('tenant="other",kind')).toHaveLength(1);
      metrics.removeTenant('ns/a');
      metrics.reconcileError('ns/d', 'pods', '500');
      expect(await samples('tenant="ns/d"')).toHaveLength(1);
    });

    it('reserves no label for a tenant that is gone while the queue still finishes its work', async () => {
      metrics = new SyncerMetrics({ maxTenants: 1 });
      metrics.addTenant('ns/a');
      metrics.removeTenant('ns/a');
      metrics.collectFrom(() => [{ tenant: 'ns/a', live: 0, background: 0, delayed: 0, processing: 1 }]);
      expect(await samples('state="processing"')).toHaveLength(1);
      metrics.reconcileError('ns/b', 'pods', '500');
      expect(await samples('tenant="ns/b"')).toHaveLength(1);
    });

    it('shares nothing with another instance', async () => {
      const another = new SyncerMetrics();
      metrics.addTenant('ns/a');
      expect(await samples('tenants', another)).toEqual(['skerry_syncer_tenants 0']);
    });
  });
});

async function lines(metrics: SyncerMetrics, part: string): Promise<string[]> {
  return (await metrics.render()).split('\n').filter((line) => !line.startsWith('#') && line.includes(part));
}

describe('metrics of pods', () => {
  it('add up how long each step takes, whoever the pod belongs to', async () => {
    const metrics = new SyncerMetrics();
    metrics.podStep('queue', 3);
    metrics.podStep('queue', 20_000);
    metrics.podStep('start', 700);
    expect(await lines(metrics, 'pod_step_seconds_count')).toEqual([
      'skerry_syncer_pod_step_seconds_count{step="queue"} 2',
      'skerry_syncer_pod_step_seconds_count{step="start"} 1',
    ]);
    expect(await lines(metrics, 'pod_step_seconds_sum{step="start"}')).toEqual([
      'skerry_syncer_pod_step_seconds_sum{step="start"} 0.7',
    ]);
    expect(await lines(metrics, 'le="0.005",step="queue"')).toEqual([
      'skerry_syncer_pod_step_seconds_bucket{le="0.005",step="queue"} 1',
    ]);
  });

  it('tell the tenants apart in the time until pods are ready, as many as have series of their own', async () => {
    const metrics = new SyncerMetrics({ maxTenants: 1 });
    metrics.podReady('ns/a', 40);
    metrics.podReady('ns/b', 40);
    metrics.podReady('ns/c', 40);
    const counts = () => lines(metrics, 'pod_ready_seconds_count');
    expect(await counts()).toEqual([
      'skerry_syncer_pod_ready_seconds_count{tenant="ns/a"} 1',
      'skerry_syncer_pod_ready_seconds_count{tenant="other"} 2',
    ]);
    metrics.removeTenant('ns/a');
    expect(await counts()).toEqual(['skerry_syncer_pod_ready_seconds_count{tenant="other"} 2']);
  });

  it('say how many wait for the scheduler, and nothing where nobody is kept back', async () => {
    const metrics = new SyncerMetrics({ maxTenants: 1 });
    let state: { size: number; tenants: object[] } | undefined;
    metrics.collectSchedulingFrom(
      () => state as never,
      (uid) => `ns/${uid}`,
    );
    expect(await lines(metrics, '_scheduling_')).toEqual([]);
    metrics.addTenant('ns/a');
    const counts = { parked: 3, scheduling: 2, refused: 1 };
    state = { size: 40, tenants: ['a', 'b', 'c'].map((tenant) => ({ tenant, ...counts })) };
    expect(await lines(metrics, '_scheduling_')).toEqual([
      'skerry_syncer_scheduling_window 40',
      'skerry_syncer_scheduling_pods{tenant="ns/a",state="parked"} 3',
      'skerry_syncer_scheduling_pods{tenant="ns/a",state="scheduling"} 2',
      'skerry_syncer_scheduling_pods{tenant="ns/a",state="refused"} 1',
      'skerry_syncer_scheduling_pods{tenant="other",state="parked"} 6',
      'skerry_syncer_scheduling_pods{tenant="other",state="scheduling"} 4',
      'skerry_syncer_scheduling_pods{tenant="other",state="refused"} 2',
    ]);
  });

  it('ask for a gauge whenever they are read', async () => {
    const metrics = new SyncerMetrics();
    let open = 3;
    metrics.gauge('skerry_syncer_kubelet_connections', 'Open.', () => open);
    expect(await lines(metrics, 'kubelet_connections')).toEqual(['skerry_syncer_kubelet_connections 3']);
    open = 0;
    expect(await lines(metrics, 'kubelet_connections')).toEqual(['skerry_syncer_kubelet_connections 0']);
  });
});

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
