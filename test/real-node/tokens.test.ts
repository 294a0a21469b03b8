import { createPublicKey, verify, type webcrypto } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import {
  Connection,
  connectionFromSecret,
  isUnauthorized,
  KubeClient,
  type KubeObject,
  resource,
  resources,
} from '../../kube/index.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { at } from '../harness/checker/view.ts';
import { namespace } from '../harness/manifests.ts';
import { patienceMs, patiently, patientRequests, poll } from '../harness/poll.ts';
import { type Tenant, World } from '../harness/world.ts';
import {
  connects,
  idlePod,
  inPod,
  noRouteToHost,
  shellInPod,
  untilNamesResolve,
  untilReady,
} from './suite/pods.ts';

const account = '/var/run/secrets/kubernetes.io/serviceaccount';
const client = { namespace: 'shop', name: 'client' };
const curl = `curl -s -m 20 --cacert ${account}/ca.crt`;
const bearer = `-H "Authorization: Bearer $(cat ${account}/token)"`;
/** The shortest life that can be asked for: renewed after seven minutes. */
const shortest = 600;

interface Claims {
  iss: string;
  exp: number;
  iat: number;
  'kubernetes.io': {
    namespace: string;
    pod: { name: string; uid: string };
    serviceaccount: { name: string };
  };
}

describe('tokens in pods', () => {
  let world: World;
  let tenant: Tenant;
  let uid: string;
  let node: unknown;
  let shortToken: string;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant('tokens');
    await tenant.apply(namespace('shop'));
    const token = (path: string, more: object = {}): object => ({ serviceAccountToken: { path, ...more } });
    await tenant.apply(
      idlePod('shop', 'client', {
        containers: [
          {
            name: 'main',
            image: 'registry.k8s.io/e2e-test-images/agnhost:2.63.0',
            volumeMounts: [{ name: 'tokens', mountPath: '/tokens' }],
          },
        ],
        volumes: [
          {
            name: 'tokens',
            projected: {
              sources: [
                token('vault', { audience: 'vault', expirationSeconds: 7200 }),
                token('short', { expirationSeconds: shortest }),
              ],
            },
          },
        ],
      }),
    );
    await untilReady(tenant, 'shop', 'client');
    await untilNamesResolve(tenant, client);
    const own = await tenant.client.get(resources.pods, client);
    uid = own.metadata.uid ?? '';
    node = at(own, 'spec', 'nodeName');
    shortToken = await inPod(tenant, client, 'cat', '/tokens/short');
  });

  afterAll(() => world?.close());

  const review = (kube: KubeClient, token: string, audiences: string[] = []): Promise<KubeObject> =>
    kube.create(resource('authentication.k8s.io', 'v1', 'tokenreviews', 'TokenReview', false), {
      metadata: {},
      spec: { token, audiences },
    });
  const isShort = (token: string): boolean => claimsOf(token).exp - claimsOf(token).iat === shortest;
  const claimsOf = (token: string): Claims =>
    JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Claims;

  it("open the tenant's own API server at https://kubernetes.default.svc, as the pod's service account", async () => {
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
    const answer = await shellInPod(
      tenant,
      client,
      `${curl} ${bearer} -H 'Content-Type: application/json' -d '${JSON.stringify(review)}' ` +
        'https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews',
    );
    expect(at(JSON.parse(answer), 'status', 'userInfo')).toMatchObject({
      username: 'system:serviceaccount:shop:default',
      extra: {
        'authentication.kubernetes.io/pod-name': ['client'],
        'authentication.kubernetes.io/pod-uid': [uid],
        'authentication.kubernetes.io/node-name': [node],
      },
    });
  });

  it('may do there what the service account may, and nothing else', async () => {
    const pods = 'https://kubernetes.default.svc/api/v1/namespaces/shop/pods';
    const status = `${curl} ${bearer} -o /dev/null -w '%{http_code}'`;
    expect(await shellInPod(tenant, client, `${status} ${pods}`)).toBe('403');
    await tenant.kubectl(
      ...['-n', 'shop', 'create', 'rolebinding', 'reader'],
      ...['--clusterrole=view', '--serviceaccount=shop:default'],
    );
    // Authorization hears of the binding by a watch.
    await expect.poll(() => shellInPod(tenant, client, `${status} ${pods}`)).toBe('200');
    const names = JSON.parse(await shellInPod(tenant, client, `${curl} ${bearer} ${pods}`)) as {
      items: KubeObject[];
    };
    expect(names.items.map(({ metadata }) => [metadata.namespace, metadata.name])).toEqual([
      ['shop', 'client'],
    ]);
    expect(await shellInPod(tenant, client, `${status} https://kubernetes.default.svc/api/v1/secrets`)).toBe(
      '403',
    );
  });

  it('are shown at the gateway: a pod wakes its tenant up, while CoreDNS lets it sleep', async () => {
    const { ports } = JSON.parse(await readFile(join(world.stateDir, 'skerry.json'), 'utf8')) as {
      ports: { gatewayMetrics: number };
    };
    const refused = async (): Promise<boolean> => {
      const page = await fetch(`http://127.0.0.1:${ports.gatewayMetrics}/metrics`);
      return /reason="background",tenant="default\/tokens"} [1-9]/.test(await page.text());
    };
    const phase = async (): Promise<unknown> =>
      at(await world.superCluster.client.get(resources.virtualClusters, tenant.ref), 'status', 'phase');
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=shop`;
    const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
    const there = { ...client, namespace: items[0]?.metadata.namespace ?? '' };
    expect((await world.cli(['sleep', 'tokens', '--wait'])).exitCode).toBe(0);
    await poll('CoreDNS to have come again', refused);
    expect(await phase()).toBe('Asleep');
    // Through the tenant's API server it would be this test that wakes it.
    const pods = 'https://kubernetes.default.svc/api/v1/namespaces/shop/pods';
    // A busy machine takes its time to start an API server.
    const patient = `${curl} -m 180`;
    expect(await shellInPod(world.superCluster, there, `${patient} ${bearer} ${pods}`)).toContain('"client"');
    // It is let in when the API server is ready, a moment before the manager says so.
    await poll('the tenant to be Ready', async () => (await phase()) === 'Ready');
    // The syncer joins it a moment later, and lets nobody into its pods before.
    const exec = ['-n', client.namespace, 'exec', client.name, '--', 'true'];
    const isJoined = async (): Promise<boolean> => (await tenant.tryKubectl(exec)).exitCode === 0;
    await poll('the syncer to let its admin into a pod', isJoined);
  });

  it('get 401 at the super cluster', async () => {
    const { server, ca = '' } = connectionFromSecret(inject('stack').superKubeconfig);
    // A pod does not even get there (sync rule `tenant-isolation`).
    const { hostname, port } = new URL(server);
    expect(await connects(tenant, client, hostname, Number(port))).toBe(noRouteToHost);
    const token = await inPod(tenant, client, 'cat', `${account}/token`);
    const connection = new Connection({ server, ca, token, ...patientRequests });
    const answer = await new KubeClient(connection)
      .raw('GET', '/api/v1/namespaces/default/pods')
      .catch((error: unknown) => error);
    await connection.close();
    expect(isUnauthorized(answer)).toBe(true);
    for (const path of [`${account}/token`, '/tokens/vault', '/tokens/short']) {
      const token = await inPod(tenant, client, 'cat', path);
      const answered = await review(world.superCluster.client, token);
      expect(at(answered, 'status', 'authenticated'), path).not.toBe(true);
    }
  });

  it('for another audience pass its review, and get 401 at the tenant’s API server', async () => {
    const token = await inPod(tenant, client, 'cat', '/tokens/vault');
    expect(at(await review(tenant.client, token, ['vault']), 'status')).toMatchObject({
      authenticated: true,
      audiences: ['vault'],
    });
    const opened = await shellInPod(
      tenant,
      client,
      `${curl} -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $(cat /tokens/vault)" https://kubernetes.default.svc/api`,
    );
    expect(opened).toBe('401');
  });

  it('verify as certificates do: the CA in the pod is that of the tenant', async () => {
    const inTenant = await tenant.client.get(resources.configMaps, {
      namespace: 'shop',
      name: 'kube-root-ca.crt',
    });
    expect(await inPod(tenant, client, 'cat', `${account}/ca.crt`)).toBe(
      String(at(inTenant, 'data', 'ca.crt')).trimEnd(),
    );
    const { ca } = connectionFromSecret(tenant.kubeconfig);
    expect(String(at(inTenant, 'data', 'ca.crt')).trim()).toBe(ca?.trim());
    expect(await inPod(tenant, client, 'cat', `${account}/namespace`)).toBe('shop');
  });

  it('name an issuer that publishes to pods the keys that they are signed with', async () => {
    const token = await inPod(tenant, client, 'cat', `${account}/token`);
    const get = async <T>(path: string): Promise<T> =>
      JSON.parse(
        await shellInPod(tenant, client, `${curl} ${bearer} https://kubernetes.default.svc${path}`),
      ) as T;
    const { issuer } = await get<{ issuer: string }>('/.well-known/openid-configuration');
    expect(claimsOf(token).iss).toBe(issuer);
    const [header = '', claims = '', signature = ''] = token.split('.');
    const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string };
    const { keys } = await get<{ keys: (webcrypto.JsonWebKey & { kid: string })[] }>('/openid/v1/jwks');
    const key = keys.find((each) => each.kid === kid);
    if (key === undefined) throw new Error(`${kid} is not among ${JSON.stringify(keys)}`);
    const publicKey = createPublicKey({ key, format: 'jwk' });
    const signed = Buffer.from(`${header}.${claims}`);
    const options = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const;
    expect(verify('sha256', signed, options, Buffer.from(signature, 'base64url'))).toBe(true);
  });

  /** The new token, as soon as the super cluster has it; then it is waited for in the pod. */
  async function renewed(timeoutMs?: number): Promise<string> {
    const found = await world.superCluster.until<string, KubeObject>(
      { ...tokenSecrets(), timeoutMs, what: 'a new token, before the old one ends' },
      (secrets) =>
        secrets
          .filter(({ metadata }) => metadata.name === 'skerry-token-client')
          .flatMap(({ data }) => Object.values(data as Record<string, string>))
          .map((encoded) => Buffer.from(encoded, 'base64').toString())
          .find((token) => claimsOf(token).exp > claimsOf(shortToken).exp && isShort(token)),
    );
    // The pod itself waits for it: kubelet tells nobody when it has written a file.
    const seen = await shellInPod(
      tenant,
      client,
      `for i in $(seq 1 50); do [ "$(cat /tokens/short)" = '${found}' ] && break; sleep 2; done; cat /tokens/short`,
    );
    expect(seen).toBe(found);
    expect(claimsOf(found)['kubernetes.io']).toMatchObject({ pod: { name: 'client', uid } });
    expect(at(await review(tenant.client, found), 'status', 'authenticated')).toBe(true);
    expect((await tenant.client.get(resources.pods, client)).metadata.uid).toBe(uid);
    return found;
  }

  const tokenSecrets = () => ({
    resource: resources.secrets,
    labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=shop`,
  });

  it('are renewed under the pod when they are due', async () => {
    const { items } = await world.superCluster.client.list<KubeObject>(resources.secrets, {
      labelSelector: tokenSecrets().labelSelector,
    });
    const secret = items.find(({ metadata }) => metadata.name === 'skerry-token-client');
    const { namespace = '', name = '', annotations } = secret?.metadata ?? {};
    // When that is, unit tests prove: here the time has come.
    const records = JSON.parse(annotations?.['skerry.dev/tokens'] ?? '[]') as object[];
    expect(records).toHaveLength(3);
    const due = records.map((record) => ({ ...record, renewAt: new Date(0).toISOString() }));
    await world.superCluster.client.patch(
      resources.secrets,
      { namespace, name },
      { metadata: { annotations: { 'skerry.dev/tokens': JSON.stringify(due) } } },
      { type: 'merge' },
    );
    shortToken = await renewed();
  });

  itInTestAll('are renewed under the pod by the clock, three minutes before they expire', () =>
    renewed((shortest - 120) * 1000),
  );

  it('are worth nothing when the pod is gone', async () => {
    const token = await inPod(tenant, client, 'cat', `${account}/token`);
    expect(at(await review(tenant.client, token), 'status', 'authenticated')).toBe(true);
    await tenant.kubectl('-n', 'shop', 'delete', 'pod', 'client', patiently);
    // An API server remembers for ten seconds what it has accepted, and nobody tells when it has forgotten.
    await poll(
      'the token to be refused',
      async () => at(await review(tenant.client, token), 'status', 'authenticated') !== true,
    );
    await world.expectAgreement(undefined, patienceMs);
  });
});
