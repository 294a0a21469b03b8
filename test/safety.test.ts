import { existsSync } from 'node:fs';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse, stringify } from 'yaml';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { findCondition, type KubeObject, resource, resources } from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { machineAddress } from '../vc-manager/os/network.ts';
import { type AttackerServer, startAttackerServer } from './harness/attacker-server.ts';
import { openDatastore } from './harness/datastore.ts';
import { footprint, noFootprint, tracesOf } from './harness/footprint.ts';
import { claim, configMap, deployment, namespace, service } from './harness/manifests.ts';
import { syncerMetric } from './harness/metrics.ts';
import { patiently, poll } from './harness/poll.ts';
import { componentProcess, kill, send } from './harness/processes.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { type Tenant, World } from './harness/world.ts';

const apiServices = resource('apiregistration.k8s.io', 'v1', 'apiservices', 'APIService', false);

const mirrored = [
  resources.namespaces,
  resources.pods,
  resources.services,
  resources.persistentVolumeClaims,
  resources.configMaps,
  resources.serviceAccounts,
];

describe('an empty answer is no order to delete', () => {
  let world: World;
  let emptied: Tenant;
  /** Its core API is another server's from the beginning: calls have to fail for long. */
  let hijacked: Tenant;
  /** Served whatever becomes of the others; but for a while, when its credentials are others. */
  let neighbour: Tenant;
  let attacker: AttackerServer;
  const before = new Map<Tenant, string[]>();
  let mendCredentials: () => Promise<unknown>;

  beforeAll(async () => {
    world = new World(inject('stack'));
    await strike();
  });

  afterAll(async () => {
    await attacker?.close();
    await world?.close();
  });

  /** Name and UID of everything that the super cluster has for a tenant and is not about to lose. */
  const belongings = async ({ uid }: Tenant): Promise<string[]> => {
    const labelSelector = `skerry.dev/tenant=${uid}`;
    const lists = await Promise.all(
      mirrored.map((resource) => world.superCluster.client.list(resource, { labelSelector })),
    );
    return lists
      .flatMap(({ items }) => items)
      .map(
        ({ metadata: { name, uid: own, deletionTimestamp } }) => `${name} ${own} ${deletionTimestamp ?? ''}`,
      )
      .toSorted();
  };

  const condition = (tenant: Tenant, type: string, status: string, reason?: string): Promise<string> =>
    world.superCluster.until<string, VirtualCluster>(
      {
        resource: resources.virtualClusters,
        ...tenant.ref,
        what: `condition ${type}=${status} ${reason ?? ''}`,
      },
      ([vc]) => {
        const found = findCondition(vc?.status?.conditions, type);
        if (found?.status !== status || (reason !== undefined && found.reason !== reason)) return undefined;
        return found.message ?? '';
      },
    );

  const annotate = (tenant: Tenant, annotations: Record<string, string>): Promise<KubeObject> =>
    world.superCluster.client.patch(
      resources.virtualClusters,
      tenant.ref,
      { metadata: { annotations } },
      { type: 'merge' },
    );

  /** Another process, which knows nothing but what it lists. */
  const restartSyncer = async (): Promise<void> => {
    const before = await world.process('vc-syncer');
    await kill(before);
    await poll('another syncer', async () => {
      const now = await componentProcess(world.stateDir, 'stack', 'vc-syncer');
      return now !== undefined && now.pid !== before.pid ? now : undefined;
    });
  };

  /** Another server answers for the tenant's core API; null: its own again. */
  const standIn = async (service: object | null): Promise<void> => {
    const spec = { service, insecureSkipTLSVerify: service === null ? null : true };
    await hijacked.client.patch(apiServices, { name: 'v1.' }, { spec }, { type: 'merge' });
  };

  /** Has the Secret that the syncer reads run a command, as whoever may write there could. */
  const bribe = async (command: readonly string[]): Promise<void> => {
    const { client } = world.superCluster;
    const { namespace: where = '', name = '' } =
      (await world.virtualCluster(neighbour.name)).status?.syncerSecret ?? {};
    const secret = { namespace: where, name };
    const { data } = await client.get<KubeObject & { data?: Record<string, string> }>(
      resources.secrets,
      secret,
    );
    const write = (kubeconfig: string) =>
      client.patch(resources.secrets, secret, { data: { kubeconfig } }, { type: 'merge' });
    const honestOne = data?.['kubeconfig'] ?? '';
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: command[0],
      args: command.slice(1),
      interactiveMode: 'Never',
    };
    const config = parse(Buffer.from(honestOne, 'base64').toString()) as { users: { user: object }[] };
    for (const user of config.users) user.user = { exec };
    await write(Buffer.from(stringify(config)).toString('base64'));
    mendCredentials = () => write(honestOne);
  };

  const strike = async (): Promise<void> => {
    attacker = await startAttackerServer(() => '{"kind":"List","apiVersion":"v1","items":"none"}');
    [hijacked, neighbour, emptied] = (await world.createTenants('hijacked', 'neighbour', 'emptied')) as [
      Tenant,
      Tenant,
      Tenant,
    ];
    await hijacked.apply(
      namespace('shop'),
      deployment('shop', 'web', 1),
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { namespace: 'shop', name: 'core' },
        spec: { ports: [{ name: 'https', port: 443 }] },
      },
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: {
          namespace: 'shop',
          name: 'core',
          labels: { 'kubernetes.io/service-name': 'core' },
        },
        addressType: 'IPv4',
        endpoints: [{ addresses: [machineAddress() ?? ''], conditions: { ready: true } }],
        ports: [{ name: 'https', port: attacker.port, protocol: 'TCP' }],
      },
    );
    await hijacked.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    await world.expectAgreement([hijacked]);
    for (const each of [hijacked, neighbour]) await condition(each, 'Synced', 'True', 'Joined');
    before.set(hijacked, await belongings(hijacked));
    await standIn({ namespace: 'shop', name: 'core', port: 443 });
    const isLying = () =>
      hijacked.client.raw('GET', '/api/v1/namespaces').then(
        (answer) => JSON.stringify(answer).includes('none'),
        () => false,
      );
    await poll('the core API to be another', isLying);
  };

  it('a tenant whose etcd prefix is emptied behind its back loses nothing in the super cluster', async () => {
    for (const each of [emptied, neighbour]) {
      await each.apply(
        namespace('shop'),
        deployment('shop', 'web', 3),
        service('shop', 'web'),
        claim('shop', 'data'),
      );
    }
    // Both sides agree as well on pods that are not yet made.
    for (const each of [emptied, neighbour])
      await each.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    await world.expectAgreement([emptied, neighbour]);
    const had = await belongings(emptied);
    before.set(emptied, had);
    expect(had.length).toBeGreaterThan(8);

    const datastore = await openDatastore(world.stateDir);
    expect(await datastore.countTenantKeys(emptied.id)).toBeGreaterThan(50);
    await datastore.replaceTenant(emptied.id, Readable.from([]), { attempt: 'emptied' });
    await datastore.close();
    const message = await condition(emptied, 'IdentityMismatch', 'True');
    expect(message).toContain('deletes');
    // Its controllers may have seen a pod go before they saw that nobody wants it any more, and made another one.
    expect(await belongings(emptied)).toEqual(expect.arrayContaining(had));
  });

  describe('a syncer that starts anew', () => {
    let refusal: string;

    beforeAll(async () => {
      const manager = await world.process('vc-manager');
      // It puts such a Secret right when it looks at the tenant again. Not killed: it would be started again.
      send(manager, 'SIGSTOP');
      try {
        await bribe(['touch', world.file('was-here')]);
        await restartSyncer();
        refusal = await condition(neighbour, 'Synced', 'False', 'CannotServe');
      } finally {
        send(manager, 'SIGCONT');
      }
    });

    it('runs nothing that a kubeconfig in a Secret names', async () => {
      expect(refusal).toContain('exec');
      expect(existsSync(world.file('was-here'))).toBe(false);
      await mendCredentials();
      await condition(neighbour, 'Synced', 'True', 'Joined');
    });

    it('keeps what the emptied tenant had, also when its server forgets everything; on purpose, it can be deleted as a whole', async () => {
      await kill(await world.process('kube-apiserver', emptied));
      await poll('the API server to be started again', () =>
        componentProcess(world.stateDir, emptied, 'kube-apiserver'),
      );
      // Whoever was its administrator is nobody now: the server itself is asked, and not for objects.
      const answers = () =>
        emptied.client.raw('GET', '/readyz').then(
          () => true,
          () => false,
        );
      await poll('the server to answer', answers);
      await neighbour.apply(namespace('later'), deployment('later', 'web', 1));
      await neighbour.kubectl('-n', 'later', 'rollout', 'status', 'deployment/web', patiently);
      await world.expectAgreement([neighbour]);
      await condition(emptied, 'IdentityMismatch', 'True');
      expect(await belongings(emptied)).toEqual(expect.arrayContaining(before.get(emptied) ?? []));

      const traces = tracesOf(emptied);
      await world.deleteTenant('emptied');
      expect(await footprint(world, traces)).toEqual(noFootprint);
      await world.expectAgreement([neighbour]);
    });

    it('keeps what a tenant has whose core API answers lies, says so, and serves the others', async () => {
      const message = await condition(hijacked, 'Synced', 'False', 'CallsFail');
      expect(message).toContain('the server sent no list');
      expect(await belongings(hijacked)).toEqual(before.get(hijacked));
      await neighbour.apply(namespace('beside'), deployment('beside', 'web', 1));
      await neighbour.kubectl('-n', 'beside', 'rollout', 'status', 'deployment/web', patiently);
      await world.expectAgreement([neighbour]);
      await standIn(null);
    });
  });

  it('a few, or a whole namespace, go without asking', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `piece-${index}`);
    await neighbour.apply(
      namespace('pieces'),
      ...names.map((name) => {
        const piece = configMap('pieces', name);
        piece.metadata.labels = { 'skerry.dev/sync': 'true' };
        return piece;
      }),
    );
    await world.expectAgreement([neighbour]);
    const isHeld = async (): Promise<boolean> => {
      const { status } = await world.virtualCluster(neighbour.name);
      return findCondition(status?.conditions, 'DeletionHeld')?.status === 'True';
    };
    await neighbour.kubectl('-n', 'pieces', 'delete', 'configmap', ...names.slice(0, 5));
    await world.expectAgreement([neighbour]);
    expect(await isHeld()).toBe(false);
    await neighbour.kubectl('delete', 'namespace', 'pieces', patiently);
    await world.expectAgreement([neighbour]);
    expect(await isHeld()).toBe(false);
  });

  it('many objects that nobody saw being deleted are kept until the operator says so', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `part-${index}`);
    await neighbour.apply(
      namespace('parts'),
      ...names.map((name) => {
        const part = configMap('parts', name, { name });
        part.metadata.labels = { 'skerry.dev/sync': 'true' };
        return part;
      }),
    );
    await world.expectAgreement([neighbour]);
    const parts = async (): Promise<number> =>
      (await belongings(neighbour)).filter((each) => /^part-\d+ \S+ $/.test(each)).length;
    expect(await parts()).toBe(40);

    const syncer = await world.process('vc-syncer');
    send(syncer, 'SIGSTOP');
    await Promise.all(
      names
        .slice(0, 30)
        .map((name) => neighbour.client.delete(resources.configMaps, { namespace: 'parts', name })),
    );
    await restartSyncer();
    const message = await condition(neighbour, 'DeletionHeld', 'True');
    expect(message).toMatch(/^30 of \d+ objects/);
    expect(await parts()).toBe(40);

    const hold = /skerry\.dev\/confirm-deletions=(\S+)/.exec(message)?.[1] ?? '';
    await annotate(neighbour, { 'skerry.dev/confirm-deletions': `not-${hold}` });
    // The syncer has seen that answer when it has seen what came after it.
    await neighbour.apply(namespace('after'), deployment('after', 'web', 1));
    await neighbour.kubectl('-n', 'after', 'rollout', 'status', 'deployment/web', patiently);
    expect(await parts()).toBe(40);
    // An identity that nobody asks about is accepted without effect.
    const { name: NAME, namespace: NAMESPACE } = neighbour.ref;
    const words = { NAMESPACE, NAME, VALUE: hold };
    const page = pageOf('docs/operating.md');
    const script = scriptRunBy(page, 'test/safety.test.ts', 'kubectl annotate --overwrite', words);
    await Reader.of(world).run('docs/operating.md', script);
    await condition(neighbour, 'DeletionHeld', 'False');
    await world.expectAgreement([neighbour]);
    expect(await parts()).toBe(10);
  });

  itInTestAll(
    'look-alikes without our marks stand as they were after the resync has come by, on both sides',
    async () => {
      const tenant = await world.createTenant('resynced');
      await tenant.apply(namespace('shop'), deployment('shop', 'web', 1));
      await world.expectAgreement([tenant]);
      const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=shop`;
      const { client } = world.superCluster;
      const { items } = await client.list(resources.namespaces, { labelSelector });
      const superNamespace = items[0]?.metadata.name ?? '';
      // One in the place of an object of the tenant's, one alone, one with our label and without our mark.
      const theirs: KubeObject[] = await Promise.all([
        client.create<KubeObject>(
          resources.configMaps,
          configMap(superNamespace, 'settings', { whose: 'the operator' }),
        ),
        client.create<KubeObject>(resources.configMaps, configMap(superNamespace, 'alone')),
        client.create<KubeObject>(resources.configMaps, {
          ...configMap(superNamespace, 'labelled'),
          metadata: {
            name: 'labelled',
            namespace: superNamespace,
            labels: { 'skerry.dev/tenant': tenant.uid, 'skerry.dev/namespace': 'shop' },
          },
        }),
      ]);
      const wanted = configMap('shop', 'settings', { whose: 'the tenant' });
      wanted.metadata.labels = { 'skerry.dev/sync': 'true' };
      await tenant.apply(wanted);
      const own: KubeObject = await tenant.client.create<KubeObject>(resources.nodes, {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'of-the-tenant', labels: { mine: '' } },
      });
      await tenant.until(
        { resource: resources.events, namespace: 'shop', what: 'the event NameConflict' },
        (events) => events.some(({ reason }) => reason === 'NameConflict'),
      );

      const rounds = () =>
        syncerMetric(world.stateDir, 'skerry_syncer_resyncs_total', { tenant: 'default/resynced' });
      const before = await rounds();
      await poll('the resync to come by', async () => (await rounds()) > before, { timeoutMs: 200_000 });
      // Whatever it has queued was served before this.
      await tenant.apply(namespace('after'), deployment('after', 'web', 1));
      await tenant.kubectl('-n', 'after', 'rollout', 'status', 'deployment/web', patiently);

      for (const { metadata, ...object } of theirs) {
        const { name = '', uid, resourceVersion } = metadata;
        const now = await client.get(resources.configMaps, { namespace: superNamespace, name });
        expect(now.metadata).toMatchObject({ uid, resourceVersion });
        expect(now['data']).toEqual(object['data']);
      }
      const still = await tenant.client.get(resources.nodes, { name: 'of-the-tenant' });
      expect(still.metadata.uid).toBe(own.metadata.uid);
      expect(still.metadata.labels).toEqual(own.metadata.labels);
    },
  );
});
