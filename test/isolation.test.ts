import 'reflect-metadata';
import { createHmac, sign, webcrypto, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { cryptoProvider, Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse, stringify } from 'yaml';
import {
  Connection,
  type ConnectionOptions,
  connectionFromSecret,
  isUnauthorized,
  KubeClient,
  type KubeObject,
  resource,
  resources,
} from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import { freePort } from '../kube/testing/free-port.ts';
import { grpcCall } from '../vc-manager/etcd/testing/grpc-client.ts';
import { egressFilterProblem } from '../vc-manager/os/egress-filter.ts';
import { createAuthority, issue } from '../vc-manager/pki/index.ts';
import { startAttackerServer } from './harness/attacker-server.ts';
import { Balancer } from './harness/balancer.ts';
import { tenantSecret } from './harness/certificates.ts';
import { at, listAt } from './harness/checker/view.ts';
import { datastoreEndpoint } from './harness/datastore.ts';
import { configMap, container, deployment, pod } from './harness/manifests.ts';
import { patienceMs, patiently, patientRequests, poll } from './harness/poll.ts';
import { expectAllServed, whileAsked } from './harness/steady-load.ts';
import { type Tenant, World } from './harness/world.ts';

const permissionDenied = 7;

describe('tenants are out of reach of each other', () => {
  let world: World;
  let one: Tenant;
  let other: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [one, other] = await world.sharedTenants('apart');
  });

  afterAll(async () => {
    for (const tenant of [one, other]) {
      const made = [
        'crd/gadgets.apart.example.com',
        'clusterrolebinding/viewer',
        'clusterrolebinding/holder',
        'csr/people',
      ];
      await tenant?.tryKubectl(['delete', ...made, '--ignore-not-found', '--wait=false']);
    }
    await world?.close();
  });

  /** The port of the stack's own. */
  const stackGateway = async (): Promise<number> => {
    const { ports } = JSON.parse(await readFile(join(world.stateDir, 'skerry.json'), 'utf8')) as {
      ports: { gateway: number };
    };
    return ports.gateway;
  };

  /** Beside the stack's own, and ready. To be ended. */
  const secondGateway = async () => {
    const [port, metrics] = [await freePort(), await freePort()];
    const files = join(world.stateDir, 'stack', 'files', 'vc-gateway');
    const gateway = execa(
      process.execPath,
      [
        join(import.meta.dirname, '..', 'bin', 'vc-gateway.js'),
        `--kubeconfig=${join(files, 'super-cluster.kubeconfig')}`,
        '--domain=tenants.skerry.internal',
        `--listen=127.0.0.1:${port}`,
        `--metrics-address=127.0.0.1:${metrics}`,
      ],
      { reject: false },
    );
    const page = (path: string) => fetch(`http://127.0.0.1:${metrics}${path}`).catch(() => undefined);
    await poll('the gateway to be ready', async () => (await page('/readyz'))?.ok).catch((error: unknown) => {
      gateway.kill('SIGTERM');
      throw error;
    });
    return { gateway, port, page };
  };

  it('CRDs of one, and their objects, are unknown to the other and to the super cluster', async () => {
    await one.apply(gadgetDefinition());
    await one.untilServed('apart.example.com/v1', 'gadgets');
    await one.apply({
      apiVersion: 'apart.example.com/v1',
      kind: 'Gadget',
      metadata: { namespace: 'apart', name: 'first' },
      spec: { size: 3 },
    });
    expect(await one.kubectl('-n', 'apart', 'get', 'gadgets', '-o', 'name')).toBe(
      'gadget.apart.example.com/first',
    );
    for (const cluster of [other, world.superCluster]) {
      const { exitCode, stderr } = await cluster.tryKubectl(['get', 'gadgets', '-A']);
      expect(exitCode, cluster.name).not.toBe(0);
      expect(stderr).toContain('the server doesn\'t have a resource type "gadgets"');
      // Not by kubectl, which fails while any group is not known yet, such as metrics.k8s.io.
      const { groups } = (await cluster.client.raw('GET', '/apis')) as { groups: { name: string }[] };
      expect(groups.map(({ name }) => name)).toContain('apps');
      expect(groups.map(({ name }) => name)).not.toContain('apart.example.com');
    }
    await other.apply(gadgetDefinition('Cluster'));
    expect(await one.kubectl('-n', 'apart', 'get', 'gadgets', '-o', 'name')).toBe(
      'gadget.apart.example.com/first',
    );
  });

  it('the super cluster has no CRDs but its own', async () => {
    const { items } = await world.superCluster.client.list(resources.customResourceDefinitions);
    expect(items.map(({ metadata }) => metadata.name).toSorted()).toEqual([
      'controlplanetemplates.skerry.dev',
      'virtualclusterpolicies.skerry.dev',
      'virtualclusters.skerry.dev',
    ]);
  });

  /** What a server answers to somebody who comes with these credentials: a UID for those it knows, else the error. */
  const knock = async (at: Tenant | World['superCluster'], credentials: Partial<ConnectionOptions>) => {
    const { server, ca = '' } = connectionFromSecret(at.kubeconfig);
    const connection = new Connection({ server, ca, ...credentials, ...patientRequests });
    try {
      return await new KubeClient(connection).raw('GET', '/api/v1/namespaces/kube-system');
    } catch (error) {
      return error;
    } finally {
      await connection.close();
    }
  };

  it('certificates of one are refused by the other and by the super cluster with 401', async () => {
    const { cert = '', key = '' } = connectionFromSecret(one.kubeconfig);
    expect(await knock(one, { cert, key })).toMatchObject({ metadata: { name: 'kube-system' } });
    for (const cluster of [other, world.superCluster]) {
      expect(isUnauthorized(await knock(cluster, { cert, key })), cluster.name).toBe(true);
    }
    const admin = connectionFromSecret(world.superCluster.kubeconfig);
    const foreign = { cert: admin.cert ?? '', key: admin.key ?? '' };
    expect(isUnauthorized(await knock(one, foreign))).toBe(true);
  });

  it('at the one address of the gateway each is reached by its name, and by its own credentials alone', async () => {
    const server = `https://127.0.0.1:${await stackGateway()}`;
    const { cert = '', key = '' } = connectionFromSecret(one.kubeconfig);
    const nameOf = (tenant: Tenant): string => tenant.virtualCluster.status?.gateway?.serverName ?? '';
    const through = (tlsServerName: string, at = one) => knock(at, { server, tlsServerName, cert, key });
    const { metadata } = (await through(nameOf(one))) as KubeObject;
    const own = await one.client.get(resources.namespaces, { name: 'kube-system' });
    expect(metadata.uid).toBe(own.metadata.uid);
    // The other one's API server is reached, and knows neither this certificate nor is it trusted by its owner.
    expect(isUnauthorized(await through(nameOf(other), other))).toBe(true);
    expect(String(await through(nameOf(other)))).toMatch(/certificate/);
    expect(String(await through(nameOf(one).replace(one.id, 'nobody00')))).toMatch(/unrecognized name/);
    const watching = execa(
      one.kubectlPath,
      [
        ...['--kubeconfig', one.kubeconfigFile, `--cache-dir=${one.kubeconfigFile}.cache`],
        ...[`--server=${server}`, `--tls-server-name=${nameOf(one)}`],
        ...['get', 'namespaces', '--watch', '--output=name'],
      ],
      { reject: false, buffer: false, timeout: patienceMs },
    );
    const seen: string[] = [];
    for await (const line of watching) {
      seen.push(line);
      if (line === 'namespace/apart') watching.kill();
    }
    expect(seen).toContain('namespace/apart');
  });

  it('a second gateway serves all tenants beside the first, and lets open connections end when it is told to', async () => {
    const { gateway, port, page } = await secondGateway();
    try {
      for (const tenant of [one, other]) {
        const { cert = '', key = '' } = connectionFromSecret(tenant.kubeconfig);
        const tlsServerName = tenant.virtualCluster.status?.gateway?.serverName ?? '';
        const server = `https://127.0.0.1:${port}`;
        expect(await knock(tenant, { server, tlsServerName, cert, key })).toMatchObject({
          metadata: { name: 'kube-system' },
        });
      }
      expect(await (await page('/metrics'))?.text()).toContain(
        `skerry_gateway_connections_total{tenant="default/${one.name}"} 1`,
      );
    } finally {
      gateway.kill('SIGTERM');
    }
    expect(await gateway).toMatchObject({ exitCode: 0 });
  });

  itInTestAll(
    'one of two gateways is killed, and no request of a client fails that reaches both by one address',
    async () => {
      const { gateway, port } = await secondGateway();
      const balancer = await Balancer.listen([port, await stackGateway()]);
      try {
        const config = parse(one.kubeconfig) as { clusters: { cluster: Record<string, string> }[] };
        Object.assign(config.clusters[0]?.cluster ?? {}, {
          server: `https://127.0.0.1:${balancer.port}`,
          'tls-server-name': one.virtualCluster.status?.gateway?.serverName,
        });
        const client = await whileAsked(stringify(config), 'one of two gateways killed', async (client) => {
          expect(balancer.taken[0]).toBeGreaterThan(0);
          gateway.kill('SIGKILL');
          await gateway;
          await client.answered(40);
        });
        expect(balancer.taken[1]).toBeGreaterThan(0);
        expectAllServed(client, 1);
      } finally {
        gateway.kill('SIGKILL');
        balancer.close();
      }
    },
  );

  it('so are tokens of its ServiceAccounts', async () => {
    await one.kubectl(
      'create',
      'clusterrolebinding',
      'viewer',
      '--clusterrole=cluster-admin',
      '--serviceaccount=apart:default',
    );
    const token = await one.kubectl('-n', 'apart', 'create', 'token', 'default');
    // Authorization hears of the binding by a watch.
    await expect.poll(() => knock(one, { token })).toMatchObject({ metadata: { name: 'kube-system' } });
    for (const cluster of [other, world.superCluster]) {
      expect(isUnauthorized(await knock(cluster, { token })), cluster.name).toBe(true);
    }
  });

  it('a certificate in the name of its admins by an authority of the same name but another key is refused with 401', async () => {
    const pki = await tenantSecret(world, one, 'pki');
    const authority = { certPem: pki['client-ca.crt'] ?? '', keyPem: pki['client-ca.key'] ?? '' };
    const forged = await createAuthority({ commonName: `skerry ${one.id} client CA` });
    expect(new X509Certificate(forged.certPem).subject).toBe(new X509Certificate(authority.certPem).subject);
    const admittedBy = async (issuer: typeof authority, chain = ''): Promise<unknown> => {
      const user = { commonName: 'skerry:admin', organizations: ['system:masters'] };
      const { certPem, keyPem } = await issue(issuer, { ...user, usage: ['client'] });
      return knock(one, { cert: certPem + chain, key: keyPem });
    };
    expect(await admittedBy(authority)).toMatchObject({ metadata: { name: 'kube-system' } });
    // With the authority beside it, too: what a client sends is no reason to trust it.
    for (const chain of ['', `\n${forged.certPem}`])
      expect(isUnauthorized(await admittedBy(forged, chain))).toBe(true);
  });

  it('so is a token with the claims of one of its ServiceAccounts that another key has signed, or none', async () => {
    await one.kubectl(
      ...['create', 'clusterrolebinding', 'holder', '--clusterrole=cluster-admin'],
      '--serviceaccount=apart:default',
    );
    const token = await one.kubectl('-n', 'apart', 'create', 'token', 'default');
    const [head = '', claims = '', signature = ''] = token.trim().split('.');
    const pki = await tenantSecret(world, one, 'pki');
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const header = JSON.parse(Buffer.from(head, 'base64url').toString()) as { alg: string; kid: string };
    const payload = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { iss: string; sub: string };
    expect(payload.sub).toBe('system:serviceaccount:apart:default');
    const signedBy = (key: string): string => {
      const made = sign('sha256', Buffer.from(`${head}.${claims}`), { key, dsaEncoding: 'ieee-p1363' });
      return `${head}.${claims}.${made.toString('base64url')}`;
    };
    // Authorization hears of the binding by a watch.
    await expect
      .poll(() => knock(one, { token: signedBy(pki['service-account.key'] ?? '') }))
      .toMatchObject({ metadata: { name: 'kube-system' } });
    const { keyPem } = await createAuthority({ commonName: payload.iss });
    const hashed = `${part({ ...header, alg: 'HS256' })}.${claims}`;
    const mac = createHmac('sha256', pki['service-account.pub'] ?? '')
      .update(hashed)
      .digest('base64url');
    const changed = part({ ...payload, sub: 'system:serviceaccount:kube-system:default' });
    const forged = {
      'by another key': signedBy(keyPem),
      'by none': `${part({ ...header, alg: 'none' })}.${claims}.`,
      'by the public key as a password': `${hashed}.${mac}`,
      'for other claims': `${head}.${changed}.${signature}`,
    };
    for (const [how, each] of Object.entries(forged))
      expect(isUnauthorized(await knock(one, { token: each })), how).toBe(true);
  });

  it('no certificate of system:masters can be asked for, as others can', async () => {
    const ask = async (name: string, subject: string): Promise<KubeObject> =>
      one.client.create(certificateRequests, {
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        metadata: { name },
        spec: {
          request: Buffer.from(await certificateRequest(subject)).toString('base64'),
          signerName: 'kubernetes.io/kube-apiserver-client',
          usages: ['client auth'],
        },
      });
    await expect(ask('masters', 'O=system:masters, CN=eve')).rejects.toThrow(/system:masters/);
    expect(await ask('people', 'O=people, CN=eve')).toMatchObject({ metadata: { name: 'people' } });
  });

  it('webhooks of a tenant get nowhere at the super cluster, the datastore or another tenant', async () => {
    const attacker = await startAttackerServer((body) => {
      const { request } = JSON.parse(body) as { request: { uid: string } };
      return JSON.stringify({
        apiVersion: 'admission.k8s.io/v1',
        kind: 'AdmissionReview',
        response: { uid: request.uid, allowed: false, status: { message: 'the attacker was here' } },
      });
    });
    // Not listed by the operator: any server of the machine.
    const unlisted = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    await once(unlisted, 'listening');
    let dialled = 0;
    unlisted.on('connection', () => dialled++);
    try {
      const foreign = connectionFromSecret(other.kubeconfig);
      const superCluster = connectionFromSecret(world.superCluster.kubeconfig);
      const targets = {
        attacker: { url: `https://127.0.0.1:${attacker.port}/`, ca: attacker.ca },
        unlisted: { url: `https://127.0.0.1:${(unlisted.address() as AddressInfo).port}/`, ca: attacker.ca },
        super: { url: `${superCluster.server}/api/v1/namespaces`, ca: superCluster.ca ?? '' },
        neighbour: { url: `${foreign.server}/api/v1/namespaces`, ca: foreign.ca ?? '' },
        datastore: {
          url: `${await datastoreEndpoint(world.stateDir)}/v3/kv/range`,
          ca: (await etcdIdentity()).ca,
        },
      };
      const webhooks = Object.entries(targets).map(([target, { url, ca }]) => ({
        name: `${target}.example.com`,
        clientConfig: { url, caBundle: Buffer.from(ca).toString('base64') },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
        objectSelector: { matchLabels: { target } },
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
        timeoutSeconds: 30,
      }));
      await one.apply({
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'ValidatingWebhookConfiguration',
        metadata: { name: 'stones' },
        webhooks,
      });
      const said = (target: string): Promise<string> =>
        poll(`the webhook ${target} to be called`, async () => {
          const input = JSON.stringify({
            ...configMap('apart', `to-${target}`),
            metadata: { namespace: 'apart', name: `to-${target}`, labels: { target } },
          });
          const { exitCode, stderr } = await one.tryKubectl(['create', '--dry-run=server', '-f', '-'], {
            input,
          });
          return exitCode === 0 ? undefined : stderr;
        });
      expect(await said('attacker')).toContain('the attacker was here');
      const isConfined = one.virtualCluster.status?.confinement?.includes('egress') === true;
      expect(isConfined).toBe(egressFilterProblem() === undefined);
      const refusal = 'connect: connection refused';
      // Where the way is open, it is the other side that refuses.
      for (const target of ['super', 'neighbour'])
        expect(await said(target)).toContain(isConfined ? refusal : 'failed to call webhook: Unauthorized');
      const answer = await said('unlisted');
      if (isConfined) expect(answer).toContain(refusal);
      expect(dialled > 0).toBe(!isConfined);
      // No answer at all: etcd ends a connection that comes without a client certificate.
      const ofDatastore = await said('datastore');
      expect(ofDatastore).toMatch(/failed to call webhook: Post "[^"]+": /);
      expect(ofDatastore).not.toContain(refusal);
      await one.kubectl('delete', 'validatingwebhookconfiguration', 'stones');
    } finally {
      await attacker.close();
      unlisted.close();
    }
  });

  it('aggregated APIs of a tenant are nowhere on the loopback of the machine', async () => {
    const slice = (address: string): KubeObject => ({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        namespace: 'apart',
        name: 'stone',
        labels: { 'kubernetes.io/service-name': 'stone' },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: [address] }],
      ports: [{ port: 443, protocol: 'TCP' }],
    });
    await expect(one.client.create(resources.endpointSlices, slice('127.0.0.1'))).rejects.toThrow(
      /loopback range/,
    );
    await one.client.create(resources.endpointSlices, slice('192.0.2.1'));
    await one.client.delete(resources.endpointSlices, { namespace: 'apart', name: 'stone' });
  });

  it('nobody is let in without credentials', async () => {
    for (const cluster of [one, world.superCluster])
      expect(isUnauthorized(await knock(cluster, {}))).toBe(true);
  });

  it('the etcd credentials of one open its own prefix and nothing else', async () => {
    const identity = await etcdIdentity();
    const endpoint = await datastoreEndpoint(world.stateDir);
    const range = async (from: string, to: string): Promise<number> =>
      (await grpcCall(endpoint, identity, 'KV/Range', { 1: from, 2: to })).status;
    expect(await range(`/tenants/${one.id}/`, `/tenants/${one.id}0`)).toBe(0);
    expect(await range(`/tenants/${other.id}/`, `/tenants/${other.id}0`)).toBe(permissionDenied);
    expect(await range(`/tenants/${one.id}/`, '/tenants0')).toBe(permissionDenied);
    expect(await range('\0', '\0')).toBe(permissionDenied);
    const remove = await grpcCall(endpoint, identity, 'KV/DeleteRange', {
      1: `/tenants/${other.id}/`,
      2: `/tenants/${other.id}0`,
    });
    expect(remove.status).toBe(permissionDenied);
  });

  it('a watch of whichever kind is served from a cache of the API server, and not from the datastore of all', async () => {
    const { client } = one;
    const { groups } = (await client.raw('GET', '/apis')) as {
      groups: { name: string; preferredVersion: { groupVersion: string } }[];
    };
    const served = [
      { group: '', path: '/api/v1' },
      ...groups
        // The syncer serves metrics, perhaps not yet; nothing of them can be watched.
        .filter(({ name }) => !name.endsWith('.example.com') && name !== 'metrics.k8s.io')
        .map(({ name, preferredVersion }) => ({
          // Events of both groups are one kind to a cache.
          group: name === 'events.k8s.io' ? '' : name,
          path: `/apis/${preferredVersion.groupVersion}`,
        })),
    ];
    const kinds = await Promise.all(
      served.map(async ({ group, path }) => {
        const list = (await client.raw('GET', path)) as { resources: { name: string; verbs: string[] }[] };
        const watched = list.resources.filter(({ verbs }) => verbs.includes('watch'));
        return watched.map(({ name }) => `group="${group}",resource="${name}"`);
      }),
    );
    expect(kinds.flat()).toContain('group="",resource="events"');
    const metrics = String(await client.raw('GET', '/metrics'));
    const isCached = (kind: string) =>
      metrics.includes(`\napiserver_watch_cache_initializations_total{${kind}}`);
    expect(kinds.flat().filter((kind) => !isCached(kind))).toEqual([]);
  });

  async function etcdIdentity(): Promise<{ ca: string; cert: string; key: string }> {
    const files = join(world.stateDir, 'control-planes', one.id, 'files', 'kube-apiserver');
    return {
      ca: await readFile(join(files, 'etcd-ca.crt'), 'utf8'),
      cert: await readFile(join(files, 'etcd-client.crt'), 'utf8'),
      key: await readFile(join(files, 'etcd-client.key'), 'utf8'),
    };
  }

  const superPods = async (tenant: Tenant): Promise<KubeObject[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
    return (await world.superCluster.client.list(resources.pods, { labelSelector })).items;
  };

  it.each([
    ['hostNetwork', { hostNetwork: true }],
    ['hostPID', { hostPID: true }],
    ['privileged', { containers: [container({ securityContext: { privileged: true } })] }],
    ['hostPath', { volumes: [{ name: 'host', hostPath: { path: '/' } }] }],
    ['SYS_ADMIN', { containers: [container({ securityContext: { capabilities: { add: ['SYS_ADMIN'] } } })] }],
    ['hostPort', { containers: [container({ ports: [{ containerPort: 80, hostPort: 80 }] })] }],
  ])('a pod with %s stays in the tenant, which is told why', async (what, spec) => {
    const name = `bad-${what.toLowerCase().replace('_', '-')}`;
    await one.client.create(resources.pods, pod('apart', name, spec));
    const message = await one.until(
      { resource: resources.events, namespace: 'apart', what: `a warning on ${name}` },
      (events) =>
        events
          .filter((event) => at(event, 'involvedObject', 'name') === name && event['type'] === 'Warning')
          .map((event) => String(event['message']))[0],
    );
    expect(message).toMatch(new RegExp(what, 'i'));
    await world.expectAgreement();
    expect((await superPods(one)).map(({ metadata }) => metadata.name)).not.toContain(name);
    expect(at(await one.client.get(resources.pods, { namespace: 'apart', name }), 'status', 'phase')).toBe(
      'Pending',
    );
  });

  it('even when the tenant says that its namespace may have such pods', async () => {
    await one.kubectl('label', 'namespace', 'apart', 'pod-security.kubernetes.io/enforce=privileged');
    await one.client.create(resources.pods, pod('apart', 'lifted', { hostNetwork: true }));
    await one.until(
      { resource: resources.events, namespace: 'apart', what: 'a warning on lifted' },
      (events) => events.some((event) => at(event, 'involvedObject', 'name') === 'lifted'),
    );
    await world.expectAgreement();
    const labelSelector = `skerry.dev/tenant=${one.uid},skerry.dev/namespace=apart`;
    const { items } = await world.superCluster.client.list(resources.namespaces, { labelSelector });
    expect(items[0]?.metadata.labels?.['pod-security.kubernetes.io/enforce']).toBe('baseline');
  });

  it('no pod of the super cluster holds a token', async () => {
    await one.apply(deployment('apart', 'web', 2, { serviceAccountName: 'default' }));
    await one.kubectl('-n', 'apart', 'rollout', 'status', 'deployment/web', patiently);
    const own = (await one.client.list(resources.pods, { namespace: 'apart', labelSelector: 'app=web' }))
      .items;
    const tokens = (found: readonly KubeObject[]): unknown[] =>
      found
        .flatMap((each) => listAt(each, 'spec', 'volumes'))
        .flatMap((volume) => listAt(volume, 'projected', 'sources'))
        .filter((source) => 'serviceAccountToken' in source);
    // The tenant's own API server asks for one in each of them.
    expect(tokens(own)).toHaveLength(2);
    const all = (await world.superCluster.client.list(resources.pods)).items;
    expect(all.length).toBeGreaterThanOrEqual(2);
    expect(tokens(all)).toEqual([]);
    for (const each of all) expect(at(each, 'spec', 'automountServiceAccountToken')).toBe(false);
    for (const account of (await world.superCluster.client.list(resources.serviceAccounts)).items) {
      if (account.metadata.labels?.['skerry.dev/tenant'] === undefined) continue;
      expect(account['automountServiceAccountToken'], account.metadata.name).toBe(false);
    }
  });
});

const certificateRequests = resource(
  'certificates.k8s.io',
  'v1',
  'certificatesigningrequests',
  'CertificateSigningRequest',
  false,
);

async function certificateRequest(name: string): Promise<string> {
  cryptoProvider.set(webcrypto as Crypto);
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = (await webcrypto.subtle.generateKey(algorithm, true, [
    'sign',
    'verify',
  ])) as webcrypto.CryptoKeyPair;
  const request = await Pkcs10CertificateRequestGenerator.create({ name, keys, signingAlgorithm: algorithm });
  return request.toString('pem');
}

function gadgetDefinition(scope = 'Namespaced'): KubeObject {
  const schema = {
    type: 'object',
    properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
  };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'gadgets.apart.example.com' },
    spec: {
      group: 'apart.example.com',
      scope,
      names: { plural: 'gadgets', singular: 'gadget', kind: 'Gadget' },
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
    },
  };
}
