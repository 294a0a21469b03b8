import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import type { PodReport } from '../api/pod-report.ts';
import { type KubeObject, resources } from '../kube/index.ts';
import { fastClock } from '../kube/testing/fast-clock.ts';
import { freePort } from '../kube/testing/free-port.ts';
import { createTestCertificates, startFakeCluster } from '../kube/testing/index.ts';
import { SyncerMetrics } from './observability/syncer-metrics.ts';
import { defaultOptions } from './settings.ts';
import { Syncer } from './syncer.ts';
import { DirectoryWorld } from './tenants/testing/directory-world.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

async function servingCertificate(): Promise<KubeObject> {
  const { server, ca } = await createTestCertificates();
  return {
    metadata: { namespace: 'skerry-system', name: 'skerry-kubelet-proxy' },
    data: { 'tls.crt': base64(server.cert), 'tls.key': base64(server.key), 'ca.crt': base64(ca) },
  };
}

describe('the syncer', () => {
  it('waits for its certificate, serves a tenant, shows its metrics, and leaves nothing behind', async () => {
    await using world = await DirectoryWorld.start(undefined, { serves: false });
    const port = await freePort();
    const syncer = new Syncer(
      {
        ...defaultOptions,
        metrics: { host: '127.0.0.1', port },
        kubelet: { host: '127.0.0.1', port: 0, advertise: '127.0.0.1' },
      },
      {
        superConnection: world.super.server.connectionOptions,
        metrics: new SyncerMetrics(),
        clock: fastClock(50),
        logger: pino({ level: 'silent' }),
      },
    );
    const stop = new AbortController();
    const running = syncer.run(stop.signal);
    const blue = await world.make('blue');
    blue.server.put(resources.namespaces, { metadata: { name: 'shop' } });
    world.super.server.put(resources.nodes, {
      metadata: { name: 'n1', labels: { 'skerry.dev/simulated': 'true' } },
    });
    await world.super.server.until(() =>
      world.super.server.requests.some(
        ({ plural, namespace }) => plural === 'secrets' && namespace === 'skerry-system',
      ),
    );
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
    world.super.server.put(resources.secrets, await servingCertificate());

    await world.says('blue', 'Synced', 'True', 'Joined');
    await world.super.server.until(() => world.objectsOf('blue', resources.namespaces).length === 2);
    await blue.server.until(() => blue.server.get(resources.nodes, { name: 'n1' }) !== undefined);
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(metrics).toContain('skerry_syncer_tenants 1');
    expect(metrics).toMatch(/skerry_syncer_queue_depth\{tenant="acme\/blue"/);
    expect(metrics).toMatch(/^skerry_syncer_kubelet_connections 0$/m);

    blue.server.put(resources.pods, {
      metadata: { namespace: 'shop', name: 'web' },
      spec: { containers: [{ name: 'main', image: 'busybox' }] },
      status: { phase: 'Pending' },
    });
    await world.super.server.until(() => world.objectsOf('blue', resources.pods).length === 1);
    const [superPod] = world.objectsOf('blue', resources.pods);
    world.super.server.put(resources.pods, {
      ...superPod,
      metadata: superPod?.metadata ?? {},
      spec: { ...(superPod?.['spec'] as object), nodeName: 'n1' },
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
    });
    const question = `http://127.0.0.1:${port}/debug/pods?tenant=acme/blue&namespace=shop&name=web`;
    const trace = async (): Promise<PodReport> => (await (await fetch(question)).json()) as PodReport;
    await expect.poll(async () => (await trace()).state).toBe('ready');
    expect((await trace()).steps.map(({ name }) => name)).toEqual([
      ...['seen', 'queued', 'taken', 'createSent', 'created', 'scheduled', 'running', 'ready'],
      ...['bindingSent', 'bound', 'statusSent', 'told'],
    ]);
    const after = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    for (const step of ['queue', 'prepare', 'create', 'schedule', 'start', 'bind', 'status'])
      expect(after).toContain(`skerry_syncer_pod_step_seconds_count{step="${step}"} 1`);
    expect(after).toContain('skerry_syncer_pod_ready_seconds_count{tenant="acme/blue"} 1');

    stop.abort(new Error('enough'));
    await running;
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
    await world.super.server.until(() => world.super.server.openConnections <= 1);
  });

  it('says so when it cannot start', async () => {
    await using cluster = await startFakeCluster();
    const port = Number(new URL(cluster.server.url).port);
    const syncer = new Syncer(
      { ...defaultOptions, metrics: { host: '127.0.0.1', port } },
      {
        superConnection: cluster.server.connectionOptions,
        metrics: new SyncerMetrics(),
        clock: fastClock(50),
        logger: pino({ level: 'silent' }),
      },
    );
    await expect(syncer.run(new AbortController().signal)).rejects.toThrow(String(port));
  });
});
