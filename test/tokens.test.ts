import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import {
  Connection,
  connectionFromSecret,
  isUnauthorized,
  KubeClient,
  type KubeObject,
  resource,
  resources,
} from '../kube/index.ts';
import { runForAnnotation } from '../vc-manager/local-stack/simulated-nodes.ts';
import { claimsOf, sourceOf, tokenFilesOf } from './harness/checker/kinds/tokens.ts';
import { at, listAt } from './harness/checker/view.ts';
import type { Cluster } from './harness/cluster.ts';
import { container, job, pod } from './harness/manifests.ts';
import { patiently, patientRequests, poll } from './harness/poll.ts';
import { componentProcess, kill } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

const tokenReviews = resource('authentication.k8s.io', 'v1', 'tokenreviews', 'TokenReview', false);

interface TokenReview extends KubeObject {
  status?: {
    authenticated?: boolean;
    user?: { username?: string; extra?: Record<string, string[]> };
  };
}

describe('service account tokens (sync rule `pod-tokens`)', () => {
  let world: World;
  let tenant: Tenant;
  let neighbour: Tenant;
  const clients: KubeClient[] = [];

  beforeAll(async () => {
    world = new World(inject('stack'));
    [tenant, neighbour] = await world.sharedTenants('tokens');
    await tenant.apply(...robot);
    // It runs beside the first tests. A pod that has ended before its token was there gets none any more.
    await tenant.apply(
      pod('tokens', 'web', { serviceAccountName: 'robot' }),
      job('tokens', 'count', { [runForAnnotation]: '20s' }),
    );
    await running('web');
    await world.superCluster.until(
      {
        resource: resources.secrets,
        labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/token`,
        what: 'the tokens of the job',
      },
      (all) => all.filter(({ metadata }) => metadata.name?.startsWith('skerry-token-count-')).length === 2,
    );
    // The token comes by a way of its own.
    await world.expectAgreement([tenant]);
  });

  afterAll(async () => {
    await Promise.all(clients.map((client) => client.connection.close()));
    await world?.close();
  });

  const running = (name: string): Promise<KubeObject> =>
    tenant.until(
      { resource: resources.pods, namespace: 'tokens', name, what: `${name} to run` },
      ([own]) => at(own, 'status', 'phase') === 'Running' && own,
    );

  /** Somebody who has nothing but this token. */
  const holder = (cluster: Cluster, token: string): KubeClient => {
    const { server, ca } = connectionFromSecret(cluster.kubeconfig);
    const client = new KubeClient(new Connection({ server, ca, token, ...patientRequests }));
    clients.push(client);
    return client;
  };

  const superPod = async (name: string): Promise<KubeObject> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=tokens`;
    const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
    const found = items.find(({ metadata }) => metadata.name === name);
    if (found === undefined) throw new Error(`no pod ${name} in the super cluster`);
    return found;
  };

  const secrets = async (): Promise<KubeObject[]> =>
    (
      await world.superCluster.client.list(resources.secrets, {
        labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=tokens,skerry.dev/token`,
      })
    ).items;

  /** What a container finds in the files of tokens, by path, and the Secrets that they come from. */
  const files = async (name: string): Promise<Map<string, string>> => {
    const own = await tenant.client.get(resources.pods, { namespace: 'tokens', name });
    const there = await superPod(name);
    const found = new Map<string, string>();
    for (const file of tokenFilesOf(own)) {
      const source = sourceOf(there, file);
      const ref = { namespace: there.metadata.namespace ?? '', name: source?.name ?? '' };
      const secret = await world.superCluster.client.get(resources.secrets, ref);
      const value = at<string>(secret, 'data', source?.key ?? '') ?? '';
      found.set(file.path, Buffer.from(value, 'base64').toString());
    }
    return found;
  };

  const token = async (name: string): Promise<string> => (await files(name)).get('token') ?? '';

  const review = async (cluster: Cluster, of: string): Promise<TokenReview['status']> => {
    const asked = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      metadata: {},
      spec: { token: of },
    };
    return (await cluster.client.create<TokenReview>(tokenReviews, asked)).status;
  };

  const refused = (client: KubeClient): Promise<boolean> =>
    client.list(resources.pods, { namespace: 'tokens' }).then(
      () => false,
      (error: unknown) => {
        if (isUnauthorized(error)) return true;
        throw error;
      },
    );

  it("opens the tenant's API server with the rights of the service account, and no other", async () => {
    const own = await token('web');
    const inTenant = holder(tenant, own);
    const { items } = await inTenant.list(resources.pods, { namespace: 'tokens' });
    expect(items.map(({ metadata }) => metadata.name)).toContain('web');
    await expect(inTenant.list(resources.secrets, { namespace: 'tokens' })).rejects.toMatchObject({
      code: 403,
    });
    expect(await refused(holder(world.superCluster, own))).toBe(true);
    expect(await refused(holder(neighbour, own))).toBe(true);
    expect((await review(world.superCluster, own))?.authenticated).not.toBe(true);
  });

  it('is bound to the pod, names its node, lives as long as admission asks for, and is what any cluster would give', async () => {
    const own = await token('web');
    const t = await tenant.client.get(resources.pods, { namespace: 'tokens', name: 'web' });
    const { metadata } = t;
    expect(await review(tenant, own)).toMatchObject({
      authenticated: true,
      user: {
        username: 'system:serviceaccount:tokens:robot',
        extra: {
          'authentication.kubernetes.io/pod-name': ['web'],
          'authentication.kubernetes.io/pod-uid': [metadata.uid],
          'authentication.kubernetes.io/node-name': [at(t, 'spec', 'nodeName')],
        },
      },
    });
    // Reported as an hour, signed for a year, so that programs which read it once go on working.
    const claims = claimsOf(own);
    expect((claims?.['kubernetes.io'].warnafter ?? 0) - (claims?.iat ?? 0)).toBe(3607);
    expect((claims?.exp ?? 0) - (claims?.iat ?? 0)).toBeGreaterThan(300 * 86_400);
  });

  it('comes with the audience, the life and the path that the pod asks for', async () => {
    const sources = [
      { serviceAccountToken: { path: 'vault/token', audience: 'vault', expirationSeconds: 7200 } },
      { serviceAccountToken: { path: 'short', expirationSeconds: 600 } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      { downwardAPI: { items: [{ path: 'namespace', fieldRef: { fieldPath: 'metadata.namespace' } }] } },
    ];
    const mounted = container({ volumeMounts: [{ name: 'mixed', mountPath: '/mixed' }] });
    await tenant.apply(
      pod('tokens', 'many', {
        serviceAccountName: 'robot',
        volumes: [{ name: 'mixed', projected: { sources } }],
        containers: [mounted],
        initContainers: [{ ...mounted, name: 'first' }],
      }),
    );
    await running('many');
    await world.expectAgreement([tenant]);
    const found = await files('many');
    expect([...found.keys()].toSorted()).toEqual(['short', 'token', 'vault/token']);
    const vault = claimsOf(found.get('vault/token') ?? '');
    expect(vault?.aud).toEqual(['vault']);
    expect((vault?.exp ?? 0) - (vault?.iat ?? 0)).toBe(7200);
    const short = claimsOf(found.get('short') ?? '');
    expect((short?.exp ?? 0) - (short?.iat ?? 0)).toBe(600);
  });

  it('is none for a pod that does not want one', async () => {
    await tenant.apply(pod('tokens', 'bare', { automountServiceAccountToken: false }));
    await running('bare');
    expect((await secrets()).map(({ metadata }) => metadata.name)).not.toContain('skerry-token-bare');
  });

  it('is put back when somebody in the super cluster changes or deletes it', async () => {
    const { namespace = '' } = (await superPod('web')).metadata;
    const ref = { namespace, name: 'skerry-token-web' };
    const { client } = world.superCluster;
    const data = { 'token-0': 'bm9uc2Vuc2U=', more: 'bW9yZQ==' };
    await client.patch(resources.secrets, ref, { data }, { type: 'merge' });
    await world.expectAgreement([tenant]);
    const mended = await client.get(resources.secrets, ref);
    expect(Object.keys(mended['data'] as object)).toEqual(['token-0']);
    await client.delete(resources.secrets, ref);
    await world.expectAgreement([tenant]);
    expect(await refused(holder(tenant, await token('web')))).toBe(false);
  });

  it('stays the same over a restart of the syncer', async () => {
    const before = await token('web');
    const process = await world.process('vc-syncer');
    await kill(process);
    await poll('another syncer', async () => {
      const now = await componentProcess(world.stateDir, 'stack', 'vc-syncer');
      return now !== undefined && now.pid !== process.pid;
    });
    await tenant.apply(pod('tokens', 'afterwards'));
    await running('afterwards');
    await world.expectAgreement([tenant]);
    expect(await token('web')).toBe(before);
  });

  it('stays with a pod that has finished', async () => {
    await tenant.kubectl('-n', 'tokens', 'wait', 'job/count', '--for=condition=Complete', patiently);
    await world.expectAgreement([tenant]);
    const names = (await secrets()).map(({ metadata }) => metadata.name ?? '');
    expect(names.filter((name) => name.startsWith('skerry-token-count-'))).toHaveLength(2);
  });

  it('is issued when the pod has its node; that it is refused is explained on the pod, until the account is back', async () => {
    const { client } = world.superCluster;
    const [node] = (await client.list(resources.nodes)).items;
    const ref = { name: node?.metadata.name ?? '' };
    const open = async (value: string | null): Promise<void> =>
      void (await client.patch(
        resources.nodes,
        ref,
        { metadata: { labels: { 'e2e.example/tokens': value } } },
        { type: 'merge' },
      ));
    await tenant.kubectl('-n', 'tokens', 'create', 'serviceaccount', 'passing');
    const nodeSelector = { 'e2e.example/tokens': 'open' };
    await tenant.apply(pod('tokens', 'orphan', { serviceAccountName: 'passing', nodeSelector }));
    await tenant.until(
      {
        resource: resources.pods,
        namespace: 'tokens',
        name: 'orphan',
        what: 'no node to be found for orphan',
      },
      ([own]) =>
        own !== undefined &&
        listAt(own, 'status', 'conditions').some(
          ({ type, status }) => type === 'PodScheduled' && status === 'False',
        ),
    );
    await world.expectAgreement([tenant]);
    expect((await secrets()).map(({ metadata }) => metadata.name)).not.toContain('skerry-token-orphan');
    await tenant.kubectl('-n', 'tokens', 'delete', 'serviceaccount', 'passing');
    await open('open');
    const message = await tenant.until(
      { resource: resources.events, namespace: 'tokens', what: 'a warning on orphan' },
      (events) => events.find((event) => event['reason'] === 'TokenRefused')?.['message'],
    );
    expect(message).toBe(
      'no new token of the service account passing: serviceaccounts "passing" not found; the pod waits for it',
    );
    expect((await secrets()).map(({ metadata }) => metadata.name)).not.toContain('skerry-token-orphan');
    await tenant.kubectl('-n', 'tokens', 'create', 'serviceaccount', 'passing');
    await poll('the token of orphan', async () =>
      (await secrets()).some(({ metadata }) => metadata.name === 'skerry-token-orphan'),
    );
    await world.expectAgreement([tenant]);
    expect(claimsOf(await token('orphan'))?.['kubernetes.io'].node?.name).toBe(ref.name);
    await open(null);
  });

  it('is void and gone with its pod', async () => {
    const inTenant = holder(tenant, await token('web'));
    await tenant.kubectl('-n', 'tokens', 'delete', 'pod', 'web', patiently);
    await world.expectAgreement([tenant]);
    expect((await secrets()).map(({ metadata }) => metadata.name)).not.toContain('skerry-token-web');
    // The server remembers for some seconds whom it has let in.
    await poll('the token to be void', () => refused(inTenant));
  });
});

const robot: KubeObject[] = [
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: 'tokens', name: 'robot' } },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { namespace: 'tokens', name: 'looker' },
    rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { namespace: 'tokens', name: 'looker' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'looker' },
    subjects: [{ kind: 'ServiceAccount', namespace: 'tokens', name: 'robot' }],
  },
];
