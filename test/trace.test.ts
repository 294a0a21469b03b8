import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { DifferenceReport } from '../api/difference-report.ts';
import { type Condition, findCondition, type KubeObject, resources } from '../kube/index.ts';
import { container, pod } from './harness/manifests.ts';
import { syncerMetric } from './harness/metrics.ts';
import { poll } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

interface Traced {
  source: string;
  state: string;
  node: string;
  uid: string;
  totalMs: number;
  shares: Record<string, number>;
  steps: { name: string; atMs: number }[];
  spans: { name: string; tookMs: number }[];
}

describe('the way of a pod', () => {
  let world: World;
  let tenant: Tenant;
  let created: KubeObject;

  const trace = (...args: string[]) =>
    world.cli(['trace', 'web', '-n', 'traced', '-t', tenant.name, ...args]);

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant('traced');
    // A pod that the syncer finds there when it comes is not traced.
    await world.expectAgreement([tenant]);
    created = await tenant.client.create(resources.pods, pod('traced', 'web'));
    await tenant.until(
      { resource: resources.pods, namespace: 'traced', name: 'web', what: 'the pod to be ready' },
      ([web]) => {
        const { conditions } = (web?.['status'] ?? {}) as { conditions?: Condition[] };
        return findCondition(conditions, 'Ready')?.status === 'True';
      },
    );
  });

  afterAll(() => world?.close());

  it('is traced step by step, in order, and vc-manager shows it', async () => {
    const traced = await poll(
      'the syncer to see the pod as ready too, and to have brought its tokens',
      async () => {
        const { stdout, stderr } = await trace('-o', 'json');
        if (stdout === '') throw new Error(stderr);
        const told = JSON.parse(stdout) as Traced;
        // On simulated nodes, nobody waits for the tokens.
        return told.state === 'ready' && told.steps.some(({ name }) => name === 'tokensWritten') && told;
      },
    );
    const at = Object.fromEntries(traced.steps.map(({ name, atMs }) => [name, atMs]));
    const inOrder = (...steps: string[]): void => {
      expect(Object.keys(at)).toEqual(expect.arrayContaining(steps));
      const times = steps.map((step) => at[step]);
      expect(times).toEqual(times.toSorted((a, b) => Number(a) - Number(b)));
    };
    inOrder('seen', 'queued', 'taken', 'createSent', 'created', 'scheduled', 'ready', 'statusSent', 'told');
    inOrder('scheduled', 'bindingSent', 'bound', 'tokensWritten');
    inOrder('scheduled', 'running', 'ready');
    inOrder('bound', 'told');
    const superPod = await world.superCluster.client.list(resources.pods, {
      labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=traced`,
    });
    const [node] = superPod.items.map(({ spec }) => (spec as { nodeName: string }).nodeName);
    expect(traced).toMatchObject({ source: 'syncer', uid: created.metadata.uid, node });
    const { skerry = 0, scheduler = 0, kubelet = 0 } = traced.shares;
    expect(skerry + scheduler + kubelet).toBeCloseTo(traced.totalMs, 0);

    const { stdout, stderr, exitCode } = await trace();
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    expect(stdout).toMatch(/^Shares: +Skerry .* ms \(\d+ %\), scheduler .*, kubelet /m);
    for (const { name } of traced.spans) expect(stdout).toMatch(new RegExp(`^${name} +.*█`, 'm'));
  });

  it('is among the slowest pods of its tenant, and counted in the metrics', async () => {
    const of = `default/${tenant.name}`;
    const { stdout, exitCode } = await world.cli(['trace', '-t', of, '-n', 'traced', '--slowest', '5']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^traced +web +\d/m);
    expect(stdout).toMatch(/^schedule +scheduler +\d+ +\d/m);
    const count = 'skerry_syncer_pod_ready_seconds_count';
    expect(await syncerMetric(world.stateDir, count, { tenant: of })).toBeGreaterThanOrEqual(1);
    expect(
      await syncerMetric(world.stateDir, 'skerry_syncer_pod_step_seconds_count', { step: 'schedule' }),
    ).toBeGreaterThanOrEqual(1);
  });

  it('is told from the objects where no syncer can be asked', async () => {
    const { stdout, stderr, exitCode } = await trace('--syncer', 'http://127.0.0.1:2', '-o', 'json');
    expect(exitCode).toBe(0);
    expect(stderr).toContain('what the objects themselves say');
    const told = JSON.parse(stdout) as Traced;
    expect(told).toMatchObject({ source: 'objects', state: 'ready', uid: created.metadata.uid });
    expect(told.totalMs % 1_000).toBe(0);
    expect(told.spans.map(({ name }) => name)).toEqual(['create', 'schedule', 'start']);
  });

  it('is one thing; what differs between both sides, and why, vc-manager shows too', async () => {
    const diff = async () => {
      const { stdout, stderr } = await world.cli(['diff', tenant.name, '-o', 'json']);
      if (stdout === '') throw new Error(stderr);
      return JSON.parse(stdout) as DifferenceReport;
    };
    await poll('both sides to agree', async () => (await diff()).total === 0);
    await tenant.client.create(
      resources.pods,
      pod('traced', 'root', { containers: [container({ securityContext: { privileged: true } })] }),
    );
    // Namespaces of suites before may be on their way out, and differ meanwhile.
    const refused = await poll('the difference to be seen', async () =>
      (await diff()).differences.find(({ name }) => name === 'root'),
    );
    expect(refused).toMatchObject({ kind: 'pods', namespace: 'traced', is: 'refused' });
    expect(refused.why).toContain('privileged');
  });
});
