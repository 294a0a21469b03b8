import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import type { Action, Backend } from '../../../dashboard/backend.ts';
import { Connection, KubeClient, resources, systemClock } from '../../../kube/index.ts';
import { FakeApiServer } from '../../../kube/testing/index.ts';
import { CliError } from '../errors.ts';
import { dashboardBackend } from './backend.ts';

const ref = { namespace: 'teams', name: 'blue' };
const ready = { phase: 'Ready', version: '1.36.3', identities: { tenant: 'x' } } as const;

describe('what the dashboard does', () => {
  let server: FakeApiServer;
  let client: KubeClient;
  let backend: Backend;
  const { signal } = new AbortController();

  beforeEach(async () => {
    server = await FakeApiServer.start();
    client = new KubeClient(new Connection(server.connectionOptions));
    backend = dashboardBackend({
      clock: systemClock,
      stateDir: '/nowhere',
      systemNamespace: 'skerry-system',
    });
  });
  afterEach(async () => {
    await client.connection.close();
    await server.stop();
  });

  const put = (vc: Pick<VirtualCluster, 'spec' | 'status'>): void => {
    server.put(resources.virtualClusters, { metadata: { ...ref }, ...vc });
  };
  const act = (action: Action) => backend.act(client, ref, action, signal);
  const annotations = () => server.get(resources.virtualClusters, ref)?.metadata.annotations ?? {};

  it.each([
    ['sleep', 'skerry.dev/sleep'],
    ['snapshot', 'skerry.dev/snapshot'],
    ['renew', 'skerry.dev/renew-certificates'],
    ['retry', 'skerry.dev/retry-job'],
    ['wake', 'skerry.dev/wake'],
  ] as const)('%s asks the manager as the command does', async (what, annotation) => {
    put({ status: ready });
    await act({ do: what });
    expect(annotations()[annotation]).toMatch(/^\d{4}-\d\d-\d\dT/);
  });

  it.each([
    [{ do: 'sleep' }, 'it can sleep when it is'],
    [{ do: 'snapshot' }, 'there is nothing to keep'],
    [{ do: 'wake' }, 'is not asleep, but Provisioning'],
    [{ do: 'upgrade' }, 'has no version yet'],
    [{ do: 'cancel' }, 'nothing is under way'],
  ] as const)('refuses %j of a tenant that is being made, as the command does', async (action, why) => {
    put({ status: { phase: 'Provisioning' } });
    await expect(act(action)).rejects.toThrow(why);
    expect(annotations()).toEqual({});
  });

  it('cancels the job that is under way, and no later one', async () => {
    const current = {
      kind: 'snapshot',
      id: 'job-7',
      startedAt: '2026-03-01T00:00:00Z',
      attempts: 1,
    } as const;
    put({ status: { ...ready, jobs: { current } } });
    await act({ do: 'cancel' });
    expect(annotations()['skerry.dev/cancel-job']).toBe('job-7');
  });

  it('deletes nothing that is protected, and no other tenant of that name', async () => {
    put({ spec: { deletionProtection: true }, status: ready });
    await expect(act({ do: 'delete', uid: 'x' })).rejects.toThrow('is protected from deletion');
    await expect(backend.preview(client, ref, { do: 'delete', uid: 'x' }, signal)).rejects.toThrow(
      'is protected',
    );
    put({ status: ready });
    await expect(act({ do: 'delete', uid: 'another' })).rejects.toMatchObject({ code: 409 });
    const { text } = await backend.preview(client, ref, { do: 'delete', uid: 'x' }, signal);
    expect(text).toContain('there is no way back');
    const uid = server.get(resources.virtualClusters, ref)?.metadata.uid ?? '';
    await act({ do: 'delete', uid });
    expect(server.get(resources.virtualClusters, ref)).toBeUndefined();
  });

  it('creates what was asked for, and says no to what is not valid before the API server is asked', async () => {
    await act({ do: 'create', weight: 3, podSecurity: 'restricted', deletionProtection: true });
    expect(server.get(resources.virtualClusters, ref)?.['spec']).toEqual({
      weight: 3,
      policy: { podSecurity: 'restricted' },
      deletionProtection: true,
    });
    await expect(act({ do: 'create' })).rejects.toThrow('exists already in namespace teams');
    const upper = backend.act(client, { namespace: 'teams', name: 'Upper' }, { do: 'create' }, signal);
    await expect(upper).rejects.toThrow('lower case');
  });

  it('answers with a status that fits', () => {
    expect(backend.explain(new CliError('Conflict', 'no'))).toEqual({ status: 409, message: 'no' });
    expect(backend.explain(new CliError('NotFound', 'no')).status).toBe(404);
    expect(backend.explain(new CliError('InvalidArgument', 'no')).status).toBe(400);
    expect(backend.explain(new Error('odd')).status).toBe(500);
  });

  it('says of a job what it is, and not again whose', () => {
    const current = {
      kind: 'snapshot',
      id: 'job-7',
      startedAt: '2026-03-01T00:00:00Z',
      attempts: 1,
    } as const;
    const { jobs } = backend.assess({ metadata: ref, status: { jobs: { current } } });
    expect(jobs).toEqual([
      { kind: 'snapshot', id: 'job-7', state: 'Running', startedAt: '2026-03-01T00:00:00Z', attempts: 1 },
    ]);
  });
});
