import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { renderKubeconfig, resources } from '../../kube/index.ts';
import { sharedTestCertificates } from '../../kube/testing/index.ts';
import { type Assets, loadAssets } from '../assets.ts';
import type { Action, Backend, TenantRef } from '../backend.ts';
import { Dashboard, type DashboardOptions } from '../dashboard.ts';
import { HttpError } from '../http.ts';
import type { ListedPod } from '../types.ts';
import { ReviewingServer } from './reviewing-server.ts';

/** A browser that keeps cookies, and knows who it is by the page's own requests. */
export class Browser {
  readonly #origin: string;
  readonly #cookies = new Map<string, string>();
  #csrf = '';
  /** Of the last answer. */
  headers = new Headers();

  constructor(origin: string) {
    this.#origin = origin;
  }

  get cookies(): ReadonlyMap<string, string> {
    return this.#cookies;
  }

  async request(
    method: string,
    path: string,
    init: RequestInit = {},
  ): Promise<{ status: number; body: string }> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(new URL(path, this.#origin), {
      method,
      redirect: 'manual',
      ...init,
      headers: { ...(cookie === '' ? {} : { cookie }), ...(init.headers as Record<string, string>) },
    });
    for (const each of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      if (value === '') this.#cookies.delete(name);
      else this.#cookies.set(name, value);
    }
    this.headers = response.headers;
    return { status: response.status, body: await response.text() };
  }

  async get<T = Record<string, unknown>>(path: string): Promise<{ status: number; body: T }> {
    const { status, body } = await this.request('GET', path);
    return { status, body: JSON.parse(body) as T };
  }

  async post<T = Record<string, unknown>>(
    path: string,
    body: object,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; body: T }> {
    const answer = await this.request('POST', path, {
      headers: { 'content-type': 'application/json', 'x-skerry-csrf': this.#csrf, ...headers },
      body: JSON.stringify(body),
    });
    return { status: answer.status, body: JSON.parse(answer.body) as T };
  }

  async signIn(body: object): Promise<number> {
    const { status } = await this.post('/api/sign-in', body);
    const session = await this.get<{ csrf?: string }>('/api/session');
    this.#csrf = session.body.csrf ?? '';
    return status;
  }
}

/** The same in all: to compress it takes longer than a test. */
let page: Promise<Assets> | undefined;

/** A dashboard over a super cluster with the tenants `a/blue`, `a/green` and `b/red`, of which `a/blue` has an API server. */
export async function dashboardWorld(options: Partial<DashboardOptions> = {}, wantedPort = 0) {
  const superCluster = await ReviewingServer.start();
  page ??= loadAssets(join(import.meta.dirname, '..', 'page'));
  const certificates = await sharedTestCertificates();
  const tenantServer = await ReviewingServer.start(certificates);
  superCluster.people.set('program', { name: 'skerry-manager', may: () => true });
  const acted: { ref: TenantRef; action: Action; as: string }[] = [];
  for (const [namespace, name] of [
    ['a', 'blue'],
    ['a', 'green'],
    ['b', 'red'],
  ] as const)
    superCluster.api.put(resources.virtualClusters, virtualCluster(namespace, name, tenantServer.url));
  const kubeconfig = renderKubeconfig({
    clusterName: 'blue',
    server: tenantServer.url,
    ca: certificates.ca,
    user: 'admin',
    cert: certificates.client.cert,
    key: certificates.client.key,
  });
  const report = {
    tenant: 'a/blue',
    namespace: 'shop',
    name: 'web',
    uid: '1',
    node: 'real-node-7',
    seenAt: '2026-01-01T00:00:00Z',
    state: 'ready' as const,
    totalMs: 10,
    shares: { skerry: 5, scheduler: 2, kubelet: 3 },
    steps: [],
    spans: [],
  };
  /** What the syncers' answers fail with. */
  const failing: { with?: Error | undefined } = {};
  /** What the syncers have measured. */
  const measured = { pods: [report] };
  const backend: Backend = {
    assess: ({ status }) => ({
      problems: [],
      failing: [],
      advice: ['Its logs: vc-manager logs blue'],
      quota: [{ resource: 'pods', used: '1', allowed: '4', share: 0.25 }],
      jobs: (status?.jobs?.history ?? []).map((job) => ({ ...job, state: job.result, holder: 'manager-0' })),
    }),
    events: async (client, { metadata }, signal) => {
      await client.list(resources.events, { namespace: metadata.namespace ?? '', signal });
      return [];
    },
    refusals: async (tenant, signal) => {
      await tenant.list(resources.events, { signal });
      const row = {
        at: '',
        type: 'Warning',
        reason: 'SyncRefused',
        object: 'Pod x',
        count: 1,
        message: 'no',
      };
      return { events: [row], isCut: false };
    },
    trace: async () => {
      if (failing.with !== undefined) throw failing.with;
      return { source: 'syncer', ...report };
    },
    slowest: async () => {
      if (failing.with !== undefined) throw failing.with;
      return { known: measured.pods.length, ready: measured.pods.length, spans: [], pods: measured.pods };
    },
    pods: async (client, _vc, signal) => {
      const { items } = await client.list(resources.pods, { signal });
      return { listed: items.map(({ metadata }) => listedPod(metadata.name, 'real-node-7')), isCut: false };
    },
    ownPods: async (tenant, signal) => {
      const { items } = await tenant.list(resources.pods, { signal });
      return { listed: items.map(({ metadata }) => listedPod(metadata.name)), isCut: false };
    },
    components: async () => [{ name: 'kube-apiserver', state: 'running', restarts: 2 }],
    logs: async (_client, _vc, { component, lines }) => [`${component} ${lines}`],
    kubeconfig: async (client, { metadata }, signal) => {
      const ref = { namespace: metadata.namespace ?? '', name: `${metadata.name}-kubeconfig` };
      if (metadata.name === 'blue') return kubeconfig;
      await client.get(resources.secrets, ref, { signal });
      return kubeconfig;
    },
    operatorKubeconfig: async (_client, _vc, { user }) => `# taken by ${user}\n${kubeconfig}`,
    versions: async () => ['1.36.3'],
    preview: async () => ({ text: 'all of it', isPossible: true, needsForce: false }),
    act: async ({ person }, ref, action, signal) => {
      const as = await person.raw('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {
        body: {},
        signal,
      });
      acted.push({
        ref,
        action,
        as: (as as { status: { userInfo: { username: string } } }).status.userInfo.username,
      });
      return `${ref.name} is asked`;
    },
    explain: (error) =>
      error instanceof HttpError
        ? { status: error.status, message: error.message }
        : { status: 500, message: error instanceof Error ? error.message : String(error) },
  };
  const all: DashboardOptions = {
    superCluster: superCluster.options('program'),
    backend,
    assets: await page,
    systemNamespace: 'skerry-system',
    holdBack: async () => undefined,
    ...options,
  };
  const dashboard = new Dashboard(all);
  const port = await dashboard.listen('127.0.0.1', wantedPort);
  const origin = `http://127.0.0.1:${port}`;
  const stop = new AbortController();
  const running = dashboard.run(stop.signal);
  return {
    ...{ dashboard, superCluster, tenantServer, acted, failing, measured, origin, port },
    options: all,
    browser: () => new Browser(origin),
    close: async () => {
      stop.abort();
      await running;
      await Promise.all([superCluster.stop(), tenantServer.stop()]);
    },
  };
}

export type DashboardWorld = Awaited<ReturnType<typeof dashboardWorld>>;

function listedPod(name = '', node?: string): ListedPod {
  const pod = { namespace: 'shop', name, phase: 'Running', isReady: true, createdAt: '' };
  return node === undefined ? pod : { ...pod, node };
}

function virtualCluster(namespace: string, name: string, server: string): VirtualCluster {
  const lastTransitionTime = '2026-01-01T00:00:00Z';
  const secret = 'what only operators know';
  return {
    metadata: {
      namespace,
      name,
      uid: createHash('sha256').update(`${namespace}/${name}`).digest('hex').slice(0, 8),
    },
    spec: { weight: 3 },
    status: {
      id: 'internal-id',
      phase: 'Ready',
      version: '1.36.3',
      endpoint: 'https://10.9.8.7:6443',
      gateway: { server, serverName: `${name}.tenants.test`, port: Number(new URL(server).port) },
      driver: 'process',
      usage: { pods: 4, nodes: 2 },
      certificatesDue: '2027-01-01T00:00:00Z',
      certificates: [
        { name: 'ca', kind: 'authority', expires: '2036-01-01T00:00:00.000Z' },
        { name: 'kube-apiserver', kind: 'certificate', expires: '2027-06-01T00:00:00.000Z' },
        { name: 'admin', kind: 'certificate', expires: '2027-05-01T00:00:00.000Z' },
      ],
      conditions: [
        { type: 'Ready', status: 'True', reason: 'Ready', message: secret, lastTransitionTime },
        { type: 'DeletionHeld', status: 'False', reason: 'None', message: secret, lastTransitionTime },
        {
          type: 'PolicyLimited',
          status: 'True',
          reason: 'PodSecurity',
          message: 'baseline it is',
          lastTransitionTime,
        },
        {
          type: 'VersionCurrent',
          status: 'False',
          reason: 'RolledBack',
          message: 'kube-apiserver of internal-id has exited: E1 --etcd-servers=https://10.9.8.7:2379',
          lastTransitionTime,
        },
        {
          type: 'Placed',
          status: 'True',
          reason: 'Moved',
          message: 'It was moved from process/shared to kubernetes/own.',
          lastTransitionTime,
        },
      ],
      snapshots: {
        kept: [
          {
            name: `${namespace}/${name}/2026.snapshot`,
            at: lastTransitionTime,
            reason: 'Requested',
            kubernetes: '1.36.3',
            entries: 1,
            bytes: 2,
          },
        ],
      },
      jobs: {
        history: (
          [
            { kind: 'version-change', id: 'job-3', result: 'Failed', target: '1.37.0' },
            { kind: 'move', id: 'job-2', result: 'Succeeded', target: 'kubernetes/own' },
            { kind: 'provision', id: 'job-1', result: 'Succeeded' },
          ] as const
        ).map((job) => ({
          ...job,
          startedAt: lastTransitionTime,
          finishedAt: lastTransitionTime,
          attempts: 1,
          message: secret,
        })),
      },
    },
  };
}
