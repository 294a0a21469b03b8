import { X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { CurrentJob, EndedJob } from '../api/job-status.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import {
  Connection,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  Reflector,
  type ReflectorProblem,
  resources,
  Store,
} from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import type { SteadyClient } from '../scripts/bench/steady-client.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import {
  ageCertificates,
  changePki,
  servedCertificate,
  tenantSecret,
  tenantSecretRef,
} from './harness/certificates.ts';
import { at } from './harness/checker/view.ts';
import { processesOf } from './harness/managers.ts';
import { namespace, pod } from './harness/manifests.ts';
import { patientRequests, poll } from './harness/poll.ts';
import { isAlive, kill, send, suspendComponent } from './harness/processes.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { expectAllServed, whileAsked } from './harness/steady-load.ts';
import { type Tenant, World } from './harness/world.ts';

const name = 'renewed';
const weekLong = ['syncer', 'manager'];
const ofTheControlPlane = [
  'apiserver',
  'kubelet-client',
  'front-proxy-client',
  'controller-manager',
  'admin',
];

describe('the certificates of a control plane', () => {
  let world: World;
  let tenant: Tenant;
  /** Of a service account, given out before the first renewal. */
  let holder: KubeClient;
  let before: KubeObject;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant(name);
    await tenant.apply(namespace('shop'), pod('shop', 'web'));
    before = await runningPod('web');
    const token = (await tenant.kubectl('create', 'token', 'default', '-n', 'shop')).trim();
    const reader = ['create', 'clusterrolebinding', 'reader', '--clusterrole=view'];
    await tenant.kubectl(...reader, '--serviceaccount=shop:default');
    const { server, ca } = connectionFromSecret(tenant.kubeconfig);
    holder = new KubeClient(new Connection({ server, ca, token, ...patientRequests }));
  });

  afterAll(async () => {
    await holder?.connection.close();
    await world?.close();
  });

  const runningPod = (pod: string): Promise<KubeObject> =>
    tenant.until(
      { resource: resources.pods, namespace: 'shop', name: pod, what: `${pod} to run` },
      ([found]) => at(found, 'status', 'phase') === 'Running' && found,
    );

  const until = <R>(what: string, answer: (vc: VirtualCluster) => R | undefined | false): Promise<R> =>
    world.superCluster.until<R, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: 'default', name, what },
      ([vc]) => (vc === undefined ? undefined : answer(vc)),
    );

  const latest = async (): Promise<string> => {
    const { status } = await world.virtualCluster(name);
    return status?.jobs?.history?.[0]?.id ?? '';
  };

  /** The end of a renewal that was not there before. */
  const ended = (earlier: string): Promise<EndedJob> =>
    until('the end of a renewal', ({ status }) => {
      const [last] = status?.jobs?.history ?? [];
      return status?.phase === 'Ready' && last?.kind === 'renewal' && last.id !== earlier && last;
    });

  const underWay = (what: string, isIt: (job: CurrentJob) => boolean): Promise<CurrentJob> =>
    until(what, ({ status }) => {
      const current = status?.jobs?.current;
      return current?.kind === 'renewal' && isIt(current) && current;
    });

  const renew = async (...options: string[]): Promise<void> => {
    const { exitCode, stderr } = await world.cli(['certificates', 'renew', name, ...options]);
    expect(exitCode, stderr).toBe(0);
  };

  const serial = (pki: Record<string, string>, leaf: string): string =>
    new X509Certificate(pki[`${leaf}.crt`] ?? '').serialNumber;

  /** Nobody asks for anything: time goes by while the manager is away. */
  const timeGoesBy = async (leafs: readonly string[], damage: Record<string, string> = {}): Promise<void> => {
    const manager = await world.process('vc-manager');
    send(manager, 'SIGSTOP');
    try {
      await ageCertificates(world, tenant, leafs);
      await changePki(world, tenant, damage);
    } finally {
      await kill(manager);
    }
  };

  /** What was handed out before is as good as what is handed out now, and nothing has happened to pods. */
  const nothingLost = async (): Promise<void> => {
    const { uid, resourceVersion } = (await runningPod('web')).metadata;
    expect({ uid, resourceVersion }).toEqual({
      uid: before.metadata.uid,
      resourceVersion: before.metadata.resourceVersion,
    });
    await holder.get(resources.pods, { namespace: 'shop', name: 'web' });
    const old = await tenant.kubectl('get', 'pod', 'web', '-n', 'shop');
    expect(old).toContain('Running');
    const served = await servedCertificate(tenant);
    const pki = await tenantSecret(world, tenant, 'pki');
    expect(served.serialNumber).toBe(serial(pki, 'apiserver'));
    expect(served.verify(new X509Certificate(pki['serving-ca.crt'] ?? '').publicKey)).toBe(true);
    for (const [which, leaf] of [
      ['kubeconfig', 'admin'],
      ['syncer', 'syncer'],
    ] as const) {
      const { cert = '' } = connectionFromSecret(
        (await tenantSecret(world, tenant, which))['kubeconfig'] ?? '',
      );
      expect(new X509Certificate(cert).serialNumber).toBe(serial(pki, leaf));
    }
  };

  /** A client may be refused while the one API server is started anew: once the job has succeeded it is served. */
  const served = async (client: SteadyClient): Promise<void> => {
    const since = client.elapsedMs;
    await client.answered(20);
    expect(client.failures.filter(({ at }) => at > since)).toEqual([]);
  };

  it('that live a week are renewed when they are due, without anybody asking; clients notice nothing', async () => {
    const was = await tenantSecret(world, tenant, 'pki');
    const processes = await processesOf(world, tenant);
    const client = await whileAsked(tenant.kubeconfig, 'the week-long certificates', async () => {
      const earlier = await latest();
      await timeGoesBy(weekLong);
      expect(await ended(earlier)).toMatchObject({ result: 'Succeeded', attempts: 1 });
    });
    expectAllServed(client);
    expect(await processesOf(world, tenant)).toEqual(processes);
    const is = await tenantSecret(world, tenant, 'pki');
    for (const leaf of weekLong) expect(serial(is, leaf)).not.toBe(serial(was, leaf));
    for (const leaf of ofTheControlPlane) expect(serial(is, leaf)).toBe(serial(was, leaf));
    await nothingLost();
    // The syncer has taken up its own.
    await tenant.apply(pod('shop', 'after'));
    await runningPod('after');
  });

  itInTestAll('are all renewed when they are due', async () => {
    const was = await servedCertificate(tenant);
    // One API server, which serves until another one has taken its place.
    const client = await whileAsked(tenant.kubeconfig, 'all certificates', async (client) => {
      const earlier = await latest();
      await timeGoesBy([...weekLong, ...ofTheControlPlane]);
      expect(await ended(earlier)).toMatchObject({ result: 'Succeeded', attempts: 1 });
      await served(client);
    });
    expectAllServed(client, 1);
    expect((await servedCertificate(tenant)).serialNumber).not.toBe(was.serialNumber);
    await nothingLost();
  });

  it('are renewed at once on request, as a job that is shown and remembered; a manager that is killed meanwhile goes on where it was', async () => {
    const was = await tenantSecret(world, tenant, 'pki');
    const earlier = await latest();
    let issued: Record<string, string> = {};
    const client = await whileAsked(tenant.kubeconfig, 'the manager killed meanwhile', async (client) => {
      const [stateDir, id, component] = [world.stateDir, tenant.id, 'kube-apiserver'];
      const beside = await world.process(component, tenant);
      // That step must not end before its manager is killed.
      const holding = suspendComponent({ stateDir, id, component, beside });
      const renewing = renew('--wait');
      const goOn = await holding;
      const killed = async (): Promise<string> => {
        const { id } = await underWay('its step', ({ step }) => step === 'control-plane');
        // The one that runs serves on.
        await client.served(5);
        expect(isAlive(beside)).toBe(true);
        await kill(await world.process('vc-manager'));
        return id;
      };
      const job = await killed().finally(goOn);
      issued = await tenantSecret(world, tenant, 'pki');
      expect(await ended(earlier)).toMatchObject({ id: job, result: 'Succeeded', attempts: 2 });
      await renewing;
      expect(isAlive(beside)).toBe(false);
      await served(client);
    });
    expectAllServed(client, 1);
    for (const leaf of [...weekLong, ...ofTheControlPlane, 'etcd-client'])
      expect(serial(issued, leaf)).not.toBe(serial(was, leaf));
    for (const authority of ['client-ca', 'serving-ca', 'front-proxy-ca', 'kubelet-client-ca'])
      expect(issued[`${authority}.crt`]).toBe(was[`${authority}.crt`]);
    expect(issued['service-account.key']).toBe(was['service-account.key']);
    // Not issued a second time.
    expect(await tenantSecret(world, tenant, 'pki')).toEqual(issued);
    await nothingLost();
    const { stdout } = await world.cli(['jobs', name, '-o', 'json']);
    expect(JSON.parse(stdout)[0]).toMatchObject({ tenant: name, kind: 'renewal', state: 'Succeeded' });
    expect((await world.cli(['jobs', name])).stdout).toMatch(/renewed +renewal +Succeeded/);
    const { status } = await world.virtualCluster(name);
    expect(Date.parse(status?.certificatesDue ?? '')).toBeGreaterThan(Date.now());
  });

  itInTestAll(
    'stay as they are while an authority is damaged, and are renewed when it is restored',
    async () => {
      const processes = await processesOf(world, tenant);
      const was = await tenantSecret(world, tenant, 'pki');
      const earlier = await latest();
      const client = await whileAsked(tenant.kubeconfig, 'a damaged authority', async () => {
        await timeGoesBy(weekLong, { 'serving-ca.key': 'damaged' });
        const { message } = await underWay('it to fail', (job) => job.failing === true);
        expect(message).toContain('serving-ca');
        await changePki(world, tenant, { 'serving-ca.key': was['serving-ca.key'] ?? '' });
        const retried = await world.cli(['jobs', 'retry', name]);
        expect(retried.exitCode, retried.stderr).toBe(0);
        expect((await ended(earlier)).result).toBe('Succeeded');
      });
      expectAllServed(client);
      expect(await processesOf(world, tenant)).toEqual(processes);
      expect((await tenantSecret(world, tenant, 'pki'))['serving-ca.crt']).toBe(was['serving-ca.crt']);
      await nothingLost();
    },
  );

  itInTestAll(
    'stay as they are while their Secret cannot be written, until that is over or the job is cancelled',
    async () => {
      const processes = await processesOf(world, tenant);
      const was = await tenantSecret(world, tenant, 'pki');
      await world.superCluster.apply(...noWritesTo(tenantSecretRef(tenant, 'pki').name));
      try {
        await poll('the policy to count', () => isRefused());
        const client = await whileAsked(tenant.kubeconfig, 'a Secret that is not writable', async () => {
          await renew();
          const { message, step } = await underWay(
            'its third attempt',
            (job) => job.attempts > 2 && job.failing === true,
          );
          expect([step, message]).toEqual(['certificates', expect.stringContaining('kept as it is')]);
          // In the moment in which it tries again it runs.
          const shown = /renewal +(Retrying +certificates|Running) .*/;
          expect((await world.cli(['jobs', name])).stdout).toMatch(shown);
          expect((await world.cli(['describe', name])).stdout).toMatch(shown);
          const cancelled = await world.cli(['jobs', 'cancel', name]);
          expect(cancelled.exitCode, cancelled.stderr).toBe(0);
          await until('it to be Ready', ({ status }) => status?.phase === 'Ready');
        });
        expectAllServed(client);
      } finally {
        await world.superCluster.kubectl(
          'delete',
          'validatingadmissionpolicy,validatingadmissionpolicybinding',
          policy,
        );
        await poll('the policy to be gone', async () => !(await isRefused()));
      }
      const { status } = await world.virtualCluster(name);
      expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'renewal', result: 'Cancelled' });
      expect(await tenantSecret(world, tenant, 'pki')).toEqual(was);
      expect(await processesOf(world, tenant)).toEqual(processes);
      await nothingLost();
    },
  );

  it('end with their authorities, which are renewed without a failed request of who follows the Secret, though the manager is killed in each stage', async () => {
    const was = await tenantSecret(world, tenant, 'pki');
    const follow = async (client: SteadyClient, end: AbortSignal): Promise<void> => {
      const { namespace, name } = tenantSecretRef(tenant, 'kubeconfig');
      let { kubeconfig } = await tenantSecret(world, tenant, 'kubeconfig');
      const store = new Store<KubeObject & { data?: Record<string, string> }>();
      store.subscribe(({ type, object: { data } }) => {
        const is = Buffer.from(data?.['kubeconfig'] ?? '', 'base64').toString();
        if (type === 'deleted' || is === kubeconfig) return;
        kubeconfig = is;
        client.use(connectionFromSecret(is));
      });
      const fieldSelector = `metadata.name=${name}`;
      const superCluster = world.superCluster.client;
      const resource = resources.secrets;
      const onProblem = ({ error }: ReflectorProblem): void => console.error(error);
      await new Reflector({
        ...{ client: superCluster, resource, store, namespace, fieldSelector, onProblem },
      }).run(end);
    };
    const tokensOf = async (): Promise<string | undefined> => {
      const secrets = await world.superCluster.client.list<KubeObject & { data?: Record<string, string> }>(
        resources.secrets,
        { labelSelector: 'skerry.dev/token=true' },
      );
      const secret = secrets.items.find(
        ({ metadata }) =>
          metadata.name === 'skerry-token-web' && metadata.labels?.['skerry.dev/tenant'] === tenant.uid,
      );
      return secret?.data?.['token-0'];
    };
    const token = await tokensOf();
    expect(token).toBeDefined();
    const client = await whileAsked(tenant.kubeconfig, 'new authorities', async (client) => {
      const end = new AbortController();
      const following = follow(client, end.signal);
      await using _ = {
        [Symbol.asyncDispose]: async () => {
          end.abort();
          await following;
        },
      };
      const words = { NAME: name, 'overlap 10m': 'overlap 8s', 'timeout 1h': 'timeout 200s' };
      const script = scriptRunBy(
        pageOf('docs/certificates.md'),
        'test/renewal.test.ts',
        'vc-manager certificates renew',
        words,
      );
      const renewing = Reader.of(world).run('docs/certificates.md', script);
      for (const stage of ['distribute', 'overlap'] as const) {
        await until(`the stage ${stage}`, ({ status }) => status?.authorities?.stage === stage);
        await kill(await world.process('vc-manager'));
      }
      await until(
        'the new authorities to sign',
        ({ status }) => status?.authorities?.stage === 'overlap' && status.authorities.until !== undefined,
      );
      // What was handed out before is still good, and pods get what is good later.
      const old = new KubeClient(
        new Connection({ ...connectionFromSecret(tenant.kubeconfig), ...patientRequests }),
      );
      await old.get(resources.pods, { namespace: 'shop', name: 'web' });
      await old.connection.close();
      await holder.get(resources.pods, { namespace: 'shop', name: 'web' });
      await poll('the token of the pod to be renewed', async () => (await tokensOf()) !== token);
      expect((await renewing).stdout).toMatch(/renewed +authority-renewal +Succeeded/);
      await served(client);
    });
    expectAllServed(client, 3);
    const is = await tenantSecret(world, tenant, 'pki');
    for (const authority of ['client-ca', 'serving-ca', 'front-proxy-ca', 'kubelet-client-ca'])
      expect(serial(is, authority)).not.toBe(serial(was, authority));
    const { kubeconfig = '' } = await tenantSecret(world, tenant, 'kubeconfig');
    const followed = connectionFromSecret(kubeconfig);
    const of = async (options: object): Promise<unknown> => {
      const { server, ca = '' } = followed;
      const connection = new Connection({ server, ca, ...options, ...patientRequests });
      return new KubeClient(connection)
        .raw('GET', '/api/v1/namespaces/shop/pods/web')
        .then(
          () => 'served',
          (error: Error & { code?: unknown }) => error.code,
        )
        .finally(() => void connection.close());
    };
    const { cert = '', key = '' } = connectionFromSecret(tenant.kubeconfig);
    expect(await of({ cert, key })).toBe(401);
    expect(await of({ token: Buffer.from(token ?? '', 'base64').toString() })).toBe(401);
    expect(await of({ cert: followed.cert, key: followed.key })).toBe('served');
    // Authenticated; the service account may read pods by the binding of this suite.
    const renewed = Buffer.from((await tokensOf()) ?? '', 'base64').toString();
    expect(await of({ token: renewed })).toBe('served');
    // Nothing has happened to pods, and kubelets are reached with what is new.
    const { uid, resourceVersion } = before.metadata;
    const web = await new KubeClient(new Connection({ ...followed, ...patientRequests })).get(
      resources.pods,
      {
        namespace: 'shop',
        name: 'web',
      },
    );
    expect(web.metadata).toMatchObject({ uid, resourceVersion });
    const { stdout } = await world.cli(['certificates', 'show', name]);
    expect(stdout).toMatch(/client-ca +authority +2/);
  });

  const policy = 'kept-as-it-is';

  const isRefused = async (): Promise<boolean> => {
    const secret = tenantSecretRef(tenant, 'pki');
    const attempt = [
      '-n',
      secret.namespace,
      'annotate',
      'secret',
      secret.name,
      'tried=1',
      '--dry-run=server',
    ];
    return (await world.superCluster.tryKubectl(attempt)).exitCode !== 0;
  };

  const noWritesTo = (secret: string): object[] => [
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name: policy },
      spec: {
        matchConstraints: {
          resourceRules: [
            {
              apiGroups: [''],
              apiVersions: ['v1'],
              operations: ['UPDATE'],
              resources: ['secrets'],
              resourceNames: [secret],
            },
          ],
        },
        validations: [{ expression: 'false', message: 'this Secret is kept as it is' }],
      },
    },
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name: policy },
      spec: { policyName: policy, validationActions: ['Deny'] },
    },
  ];
});
