import { describe, expect, it } from 'vitest';
import { SyncerMetrics } from './syncer-metrics.ts';

async function lines(metrics: SyncerMetrics, part: string): Promise<string[]> {
  return (await metrics.render()).split('\n').filter((line) => !line.startsWith('#') && line.includes(part));
}

describe('metrics of pods', () => {
  it('add up how long each step takes, whoever the pod belongs to', async () => {
    const metrics = new SyncerMetrics();
    metrics.pods.step('queue', 3);
    metrics.pods.step('queue', 20_000);
    metrics.pods.step('start', 700);
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
    metrics.pods.ready('ns/a', 40);
    metrics.pods.ready('ns/b', 40);
    metrics.pods.ready('ns/c', 40);
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
