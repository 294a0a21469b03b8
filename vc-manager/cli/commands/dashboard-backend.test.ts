import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import type { Action, Backend } from '../../../dashboard/backend.ts';
import { Connection, KubeClient, renderKubeconfig, resources, systemClock } from '../../../kube/index.ts';
import { FakeApiServer, FakeClock } from '../../../kube/testing/index.ts';
import { packageRoot } from '../../../program/package-root.ts';
import { namespaceOf } from '../../drivers/kubernetes/types.ts';
import { CliError } from '../errors.ts';
import { dashboardBackend } from './dashboard-backend.ts';

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
      onProblem: () => undefined,
    });
  });
  afterEach(async () => {
    await client.connection.close();
    await server.stop();
  });

  const put = (vc: Pick<VirtualCluster, 'spec' | 'status'>): void => {
    server.put(resources.virtualClusters, { metadata: { ...ref }, ...vc });
  };
  const both = () => ({ person: client, program: client });
  const act = (action: Action) => backend.act(both(), ref, action, signal);
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

  it('leaves an event that says who has taken a kubeconfig, and none for its own reads', async () => {
    const kubeconfigSecret = { name: 'blue-kubeconfig', key: 'kubeconfig' };
    put({ status: { ...ready, kubeconfigSecret } });
    const made = { clusterName: 'a', server: 'https://192.0.2.1', ca: 'ca', user: 'u', cert: 'c', key: 'k' };
    const data = { kubeconfig: Buffer.from(renderKubeconfig(made)).toString('base64') };
    server.put(resources.secrets, { metadata: { ...ref, name: kubeconfigSecret.name }, data });
    client.raw = async () => ({ status: { userInfo: { username: 'skerry:dashboard' } } });
    const vc = server.get(resources.virtualClusters, ref) as VirtualCluster;
    expect(await backend.kubeconfig(client, vc, signal)).toContain(made.server);
    expect(server.list(resources.events)).toEqual([]);
    for (const user of ['jane@example.com', 'skerry:dashboard'])
      expect(await backend.operatorKubeconfig(client, vc, { user, signal })).toContain(made.server);
    const messages = server.list(resources.events).map((event) => event['message']);
    expect(messages).toHaveLength(2);
    expect(messages).toEqual(
      expect.arrayContaining([
        "jane@example.com (as skerry:dashboard) has taken the stored kubeconfig of the tenant's administrators.",
        "skerry:dashboard has taken the stored kubeconfig of the tenant's administrators.",
      ]),
    );
  });

  it('deletes nothing that is protected, and no other tenant of that name', async () => {
    put({ spec: { deletionProtection: true }, status: ready });
    await expect(act({ do: 'delete', uid: 'x' })).rejects.toThrow('is protected from deletion');
    await expect(backend.preview(both(), ref, { do: 'delete', uid: 'x' }, signal)).rejects.toThrow(
      'is protected',
    );
    put({ status: ready });
    await expect(act({ do: 'delete', uid: 'another' })).rejects.toMatchObject({ code: 409 });
    const { text } = await backend.preview(both(), ref, { do: 'delete', uid: 'x' }, signal);
    expect(text).toContain('there is no way back');
    expect(text).not.toContain('dry run');
    const uid = server.get(resources.virtualClusters, ref)?.metadata.uid ?? '';
    await act({ do: 'delete', uid });
    expect(server.get(resources.virtualClusters, ref)).toBeUndefined();
  });

  describe('where a snapshot is wanted first', () => {
    const taken = () => annotations()[annotationKeys.snapshot];
    const isThere = () => server.get(resources.virtualClusters, ref) !== undefined;
    const remove = (asked = signal): Promise<string> => {
      const uid = server.get(resources.virtualClusters, ref)?.metadata.uid ?? '';
      return backend.act(both(), ref, { do: 'delete', uid, snapshotFirst: true }, asked);
    };
    const kept = {
      name: 'teams/blue/new.snapshot',
      at: '2026-01-01T00:00:00.000Z',
      reason: 'Requested',
    } as const;
    const size = { kubernetes: '1.36.3', entries: 3, bytes: 99 };

    it('deletes once it is kept', async () => {
      put({ status: ready });
      const removing = remove();
      await expect.poll(taken).toBeDefined();
      expect(isThere()).toBe(true);
      put({ status: { ...ready, snapshots: { taken: taken() ?? '', kept: [{ ...kept, ...size }] } } });
      expect(await removing).toBe('blue is being deleted, and kept as teams/blue/new.snapshot');
      expect(isThere()).toBe(false);
    });

    it('deletes nothing where none is kept, and says why', async () => {
      put({ status: ready });
      const removing = remove();
      await expect.poll(taken).toBeDefined();
      const time = '2026-01-01T00:00:00.000Z';
      const job = { kind: 'snapshot', id: 's', attempts: 1, startedAt: time, finishedAt: time } as const;
      const history = [{ ...job, result: 'Failed', message: 'there is no store' } as const];
      put({ status: { ...ready, snapshots: { taken: taken() ?? '' }, jobs: { history } } });
      await expect(removing).rejects.toThrow('there is no snapshot of blue: there is no store');
      expect(isThere()).toBe(true);
    });

    it('deletes nothing that has nothing to keep, and no other tenant of that name', async () => {
      put({ status: { phase: 'Provisioning' } });
      await expect(remove()).rejects.toThrow('there is nothing to keep');
      const action = { do: 'delete', uid: 'x', snapshotFirst: true } as const;
      await expect(backend.preview(both(), ref, action, signal)).rejects.toThrow('there is nothing to keep');
      put({ status: ready });
      await expect(act(action)).rejects.toMatchObject({ code: 409 });
      expect([taken(), isThere()]).toEqual([undefined, true]);
    });

    it('deletes nothing when the browser goes meanwhile, nor when it takes too long', async () => {
      const clock = new FakeClock();
      backend = dashboardBackend({
        ...{ clock, stateDir: '/nowhere', systemNamespace: 'skerry-system' },
        onProblem: () => undefined,
      });
      put({ status: ready });
      const gone = new AbortController();
      const left = remove(gone.signal);
      await expect.poll(taken).toBeDefined();
      gone.abort(new Error('the browser has gone'));
      await expect(left).rejects.toThrow('the browser has gone');
      const late = expect(remove()).rejects.toThrow('nothing was deleted');
      await clock.untilSleeping();
      await clock.advance(50_000);
      await late;
      expect(isThere()).toBe(true);
    });
  });

  it('creates what was asked for, and says no to what is not valid before the API server is asked', async () => {
    await act({ do: 'create', weight: 3, podSecurity: 'restricted', deletionProtection: true });
    expect(server.get(resources.virtualClusters, ref)?.['spec']).toEqual({
      weight: 3,
      policy: { podSecurity: 'restricted' },
      deletionProtection: true,
    });
    await expect(act({ do: 'create' })).rejects.toThrow('exists already in namespace teams');
    const upper = backend.act(both(), { namespace: 'teams', name: 'Upper' }, { do: 'create' }, signal);
    await expect(upper).rejects.toThrow('lower case');
  });

  it('asks for no more than the role of the documentation, as somebody who has just that', async () => {
    const others = await FakeApiServer.start();
    const program = new KubeClient(new Connection(others.connectionOptions));
    const syncer = createServer((_, answer) => {
      answer.end(JSON.stringify({ known: 0, ready: 0, spans: [], pods: [], namespace: 'shop', name: 'web' }));
    });
    await new Promise<void>((resolve) => syncer.listen(0, '127.0.0.1', resolve));
    try {
      others.put(resources.leases, {
        metadata: {
          ...{ namespace: 'skerry-system', name: 'shard-0', labels: { [labelKeys.component]: 'vc-syncer' } },
          annotations: {
            [annotationKeys.metricsAddress]: `http://127.0.0.1:${(syncer.address() as AddressInfo).port}`,
          },
        },
        spec: { holderIdentity: 'vc-syncer-0' },
      });
      const [id, name] = ['abcdefghij', 'kube-apiserver'];
      const labels = { [labelKeys.id]: id, [labelKeys.component]: name };
      others.put(resources.namespaces, { metadata: { name: namespaceOf(id), labels } });
      const set = { metadata: { namespace: namespaceOf(id), name, labels }, spec: { replicas: 0 } };
      others.put(resources.statefulSets, set);
      const status = { ...ready, id, driver: 'kubernetes' } as const;
      put({ status });
      const vc = { metadata: { ...ref, uid: 'x' }, status };
      await backend.events(client, vc, signal);
      await backend.versions(client, signal);
      const superCluster = { person: client, program };
      expect(await backend.trace(superCluster, vc, { namespace: 'shop', name: 'web' }, signal)).toMatchObject(
        { source: 'syncer', name: 'web' },
      );
      expect(await backend.slowest(program, vc, signal)).toMatchObject({ known: 0 });
      expect(await backend.components(program, vc, signal)).toMatchObject([{ name }]);
      const upgrade = { do: 'upgrade', version: '1.36.3' } as const;
      await expect(backend.preview(superCluster, ref, upgrade, signal)).rejects.toThrow(
        'has no control plane template',
      );

      const text = await readFile(join(packageRoot(), 'docs', 'dashboard.md'), 'utf8');
      const role = parse(/```yaml\n([^`]*name: skerry-viewer[^`]*)```/.exec(text)?.[1] ?? '') as {
        rules: { resources: string[]; verbs: string[] }[];
      };
      const isGranted = ({ plural, verb }: (typeof server.requests)[number]) =>
        role.rules.some(({ resources: of, verbs }) => of.includes(plural) && verbs.includes(verb));
      const asked = server.requests.map(({ verb, plural }) => `${verb} ${plural}`);
      expect(server.requests.filter((each) => !isGranted(each))).toEqual([]);
      expect(asked).toContain('list events');
    } finally {
      await program.connection.close();
      await others.stop();
      await new Promise((resolve) => syncer.close(resolve));
    }
  });

  it('lists the pods that a tenant has in the super cluster by their names in the tenant, up to a bound', async () => {
    const vc = { metadata: { ...ref, uid: 'x' }, status: ready };
    const superPod = (name: string, tenant: string): void => {
      const labels = { [labelKeys.tenant]: tenant, [labelKeys.namespace]: 'shop' };
      server.put(resources.pods, {
        metadata: {
          namespace: 'blue-shop-0123456789abcdef',
          name,
          labels,
        },
        spec: { nodeName: 'node-1' },
        status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
      });
    };
    superPod('web', 'x');
    superPod('theirs', 'another');
    expect(await backend.pods(client, vc, signal)).toEqual({
      listed: [
        {
          ...{ namespace: 'shop', name: 'web', phase: 'Running', isReady: true },
          ...{ createdAt: expect.stringMatching(/^\d{4}-/), node: 'node-1' },
        },
      ],
      isCut: false,
    });
    for (let each = 0; each < 200; each++) superPod(`web-${each}`, 'x');
    const { listed, isCut } = await backend.pods(client, vc, signal);
    expect([listed.length, isCut]).toEqual([200, true]);
  });

  it("lists a tenant's own pods without their nodes, and no text without an end", async () => {
    server.put(resources.pods, {
      metadata: { namespace: 'shop', name: 'web' },
      spec: { nodeName: 'node-1' },
      status: { phase: 'x'.repeat(10_000) },
    });
    const { listed } = await backend.ownPods(client, signal);
    expect(listed).toEqual([
      {
        namespace: 'shop',
        name: 'web',
        phase: expect.any(String),
        isReady: false,
        createdAt: expect.any(String),
      },
    ]);
    expect(JSON.stringify(listed).length).toBeLessThan(1_000);
  });

  it('answers with a status that fits', () => {
    expect(backend.explain(new CliError('Conflict', 'no'))).toEqual({ status: 409, message: 'no' });
    expect(backend.explain(new CliError('NotFound', 'no')).status).toBe(404);
    expect(backend.explain(new CliError('InvalidArgument', 'no')).status).toBe(400);
    expect(backend.explain(new Error('odd')).status).toBe(500);
  });

  it('names the conditions that are wrong, and why, and none that is no problem', () => {
    const condition = (type: string, reason: string) => ({ type, reason, status: 'False' as const });
    const conditions = [
      condition('Synced', 'Unreachable'),
      condition('NetworkPoliciesEnforced', 'NotSynced'),
      condition('TenantsIsolated', 'NoEngine'),
      condition('Ready', 'Unreachable'),
    ];
    expect(backend.assess({ metadata: ref, status: { conditions } } as VirtualCluster)).toMatchObject({
      problems: ['Unreachable'],
      failing: ['Ready', 'Synced'],
    });
  });

  it('knows no log of a component that a control plane does not have, and names the tenant', async () => {
    const id = 'abcdefghij';
    const labels = { [labelKeys.id]: id, [labelKeys.component]: 'kube-apiserver' };
    server.put(resources.namespaces, { metadata: { name: namespaceOf(id), labels } });
    const set = { namespace: namespaceOf(id), name: 'kube-apiserver', labels };
    server.put(resources.statefulSets, { metadata: set, spec: { replicas: 0 } });
    const vc = { metadata: { ...ref }, status: { ...ready, id, driver: 'kubernetes' } } as const;
    const asked = { component: 'scheduler', lines: 1, signal };
    const error: unknown = await backend.logs(client, vc, asked).catch((thrown: unknown) => thrown);
    const { status, message } = backend.explain(error);
    expect([status, message]).toEqual([
      404,
      expect.stringMatching(/^blue has no log of a component scheduler/),
    ]);
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
