import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync, type WriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import { scriptRunBy } from '../../scripts/docs-commands.ts';
import { Binaries, defaultCacheDirectory } from '../../vc-manager/binaries/index.ts';
import { ensureManagerPki } from '../../vc-manager/pki/index.ts';
import { provideCompose, startEngine, whyNoEngine } from '../docker/engine/engine.ts';
import {
  provideControlPlaneArchives,
  provideEngineStore,
  withKubernetesImages,
} from '../docker/images/index.ts';
import { renewAll, revokeAllCredentials } from '../harness/certificates.ts';
import { at } from '../harness/checker/view.ts';
import {
  moveUnderLoad,
  serverVersion,
  snapshotWithManagerKilled,
  upgradeAndRollBack,
  upgradeUnderLoad,
} from '../harness/managers.ts';
import { configMap, pod } from '../harness/manifests.ts';
import { patiently } from '../harness/poll.ts';
import { send } from '../harness/processes.ts';
import { pageOf, Reader } from '../harness/reader.ts';
import { upgradableBuilds } from '../harness/real-builds.ts';
import { expectAllServed, whileAsked } from '../harness/steady-load.ts';
import { until } from '../harness/until.ts';
import { type Tenant, World } from '../harness/world.ts';
import { Cache } from './build/programs.ts';
import { type ClusterInfo, stackOf } from './cluster/cluster-info.ts';
import { startCluster, stopCluster } from './cluster/start-cluster.ts';
import { BridgeDatastore } from './suite/bridge-datastore.ts';
import { ServiceRoutes } from './suite/kubernetes-world.ts';
import {
  hasSaid,
  images,
  importImage,
  privateMemoryOf,
  processOfPod,
  untilReady,
  webPod,
} from './suite/pods.ts';

const program = join(import.meta.dirname, '..', '..', 'bin', 'vc-manager.js');

/** `vc-manager operator` as a process of its own, which tests end as they like. */
class KubernetesManager {
  readonly #child: ChildProcess;
  readonly #log: WriteStream;
  readonly #exited: Promise<unknown>;

  constructor(args: readonly string[], logFile: string, env: Readonly<Record<string, string>> = {}) {
    this.#log = createWriteStream(logFile, { flags: 'a' });
    this.#child = spawn(process.execPath, [program, 'operator', ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env, NODE_OPTIONS: '' },
    });
    this.#child.stdout?.pipe(this.#log, { end: false });
    this.#child.stderr?.pipe(this.#log, { end: false });
    this.#exited = once(this.#child, 'exit');
  }

  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill(signal);
      await this.#exited;
    }
    this.#log.end();
  }
}

const upTimeoutMs = 300_000;
const doubled = ['--tenant-replicas=2'];

/**
 * A super cluster of its own: its manager is halted, as two would work on the same VirtualClusters. The one under test
 * and the syncer run on this machine, which is led to service addresses by way of a node.
 */
describe('a manager with --driver kubernetes', () => {
  const directory = mkdtempSync(join(tmpdir(), 'skerry-kubernetes-manager-'));
  const place = join(directory, 'cluster');
  let cluster: ClusterInfo;
  let world: World;
  let datastore: BridgeDatastore;
  let routes: ServiceRoutes;
  let manager: KubernetesManager;
  /** Starts another one as the manager that was started last. */
  let startAgain: () => KubernetesManager;
  let tenant: Tenant;

  const startManager = (
    identity: string,
    options: readonly string[] = [],
    env?: Readonly<Record<string, string>>,
  ): KubernetesManager => {
    startAgain = () => startManager(identity, options, env);
    const [, , ...documented] = scriptRunBy(
      pageOf('docs/kubernetes-driver.md'),
      'test/real-node/kubernetes-manager.test.ts',
      'vc-manager operator',
      { 'https://skerry-etcd.skerry-system.svc:2379': datastore.endpoint },
    ).split(' ');
    return new KubernetesManager(
      [
        ...documented,
        `--kubeconfig=${cluster.superKubeconfigFile}`,
        `--state-dir=${join(directory, 'manager')}`,
        `--advertise-address=${cluster.address}`,
        '--dns=none',
        '--recheck=5s',
        `--identity=${identity}`,
        `--tenant-egress=${cluster.address}/32`,
        ...options,
      ],
      join(directory, `${identity}.log`),
      env,
    );
  };

  beforeAll(async () => {
    cluster = await startCluster({ directory: place, nodes: 1, tell: (line) => console.log(line) });
    world = new World(await stackOf(cluster));
    send(await world.process('vc-manager'), 'SIGSTOP');
    const pki = await ensureManagerPki(join(directory, 'manager', 'datastore', 'pki'), {
      etcdHosts: [cluster.address, '127.0.0.1', 'localhost'],
      kubeletProxyHosts: ['127.0.0.1', 'localhost', cluster.address],
      now: new Date(),
    });
    const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
    datastore = await BridgeDatastore.start({
      address: cluster.address,
      directory: join(directory, 'datastore'),
      pki,
      binaries,
    });
    const [node] = cluster.nodes;
    if (node === undefined) throw new Error('the cluster has no node');
    routes = new ServiceRoutes(node);
    manager = startManager('first');
    await untilLeading('first');
  }, upTimeoutMs);

  afterAll(async () => {
    await world?.close();
    await manager?.end();
    await routes?.close();
    await datastore?.close();
    await stopCluster(place);
    rmSync(directory, { recursive: true, force: true });
    rmSync(`${place}.log`, { force: true });
  });

  const replaceManager = async (): Promise<void> => {
    await manager.end('SIGKILL');
    manager = startAgain();
  };

  const untilLeading = (identity: string): Promise<true> =>
    until<true>(
      {
        client: world.superCluster.client,
        resource: resources.leases,
        namespace: 'skerry-system',
        name: 'skerry-vc-manager',
        what: `${identity} to lead`,
      },
      ([lease]) =>
        (lease?.['spec'] as { holderIdentity?: string } | undefined)?.holderIdentity === identity ||
        undefined,
    );

  /** Each component of the tenant's control plane runs twice, as it is wanted now. */
  const untilDoubled = (): Promise<true> =>
    until<true>(
      {
        client: world.superCluster.client,
        resource: resources.statefulSets,
        namespace: `skerry-tenant-${tenant.id}`,
        what: 'two of each component',
        timeoutMs: 300_000,
      },
      (sets) =>
        sets.every(
          ({ metadata, status }) =>
            at(status, 'observedGeneration') === metadata.generation &&
            at(status, 'readyReplicas') === 2 &&
            at(status, 'updatedReplicas') === 2,
        ) || undefined,
    );

  /** Leads this machine to the next API server that gets an address, as soon as it has one. */
  const leadToNext = async (): Promise<{ routed: Promise<void> }> => {
    const { client } = world.superCluster;
    const services = { labelSelector: 'skerry.dev/component=kube-apiserver' };
    const known = (await client.list(resources.services, services)).items.map(({ metadata }) => metadata.uid);
    const address = until<string>(
      { client, resource: resources.services, ...services, what: 'the Service of an API server' },
      (all) =>
        (
          all.find(({ metadata }) => !known.includes(metadata.uid))?.['spec'] as
            | { clusterIP: string }
            | undefined
        )?.clusterIP,
    );
    return { routed: address.then((found) => routes.add(found)) };
  };

  /** Creates a tenant, with a way to its address as soon as it has one. */
  const createTenant = async (name: string, ...options: string[]): Promise<Tenant> => {
    const { routed } = await leadToNext();
    const since = performance.now();
    const [made] = await Promise.all([world.createTenant(name, ...options), routed]);
    console.log(`${name}: create to usable ${((performance.now() - since) / 1000).toFixed(1)} s`);
    return made;
  };

  it('makes a tenant that can be used', async () => {
    tenant = await createTenant('blue');
    expect(tenant.virtualCluster.status).toMatchObject({ driver: 'kubernetes', datastore: 'shared' });
    await tenant.apply(
      pod('default', 'web', {
        containers: [
          {
            name: 'main',
            image: images.busybox,
            command: ['sh', '-c', 'echo hello; touch /tmp/said; sleep 3600'],
            readinessProbe: hasSaid,
          },
        ],
      }),
    );
    await tenant.kubectl('wait', '--for=condition=Ready', patiently, 'pod/web');
    expect(await tenant.kubectl('logs', 'web')).toContain('hello');
    const namespace = `skerry-tenant-${tenant.id}`;
    const { items } = await world.superCluster.client.list(resources.pods, { namespace });
    for (const { metadata } of items) {
      const name = metadata.labels?.['skerry.dev/component'] ?? '';
      const bytes = privateMemoryOf(processOfPod(metadata.uid ?? '', name));
      console.log(`${name}: ${Math.round(bytes / 1_000_000)} MB of its own`);
    }
  });

  it('has its logs and its state told by the command line', async () => {
    const logs = await world.cli(['logs', 'blue', '--tail', '3']);
    expect(logs.exitCode).toBe(0);
    expect(logs.stdout).toMatch(/^kube-apiserver {10}\| \S/m);
    const describe = await world.cli(['describe', 'blue']);
    expect(describe.stdout).toMatch(/Driver: +kubernetes/);
  });

  it('gives a new tenant pods that have waited for one', async () => {
    const { routed } = await leadToNext();
    await manager.end();
    manager = startManager('first', ['--warm=1']);
    const members = { resource: resources.virtualClusters, namespace: 'skerry-system' };
    const [member] = await Promise.all([
      world.superCluster.until<VirtualCluster, VirtualCluster>(
        { ...members, what: 'a control plane that waits', timeoutMs: 300_000 },
        (all) => all.find(({ status }) => status?.phase === 'Ready' && status.jobs?.current === undefined),
      ),
      routed,
    ]);
    const namespace = `skerry-tenant-${member.status?.id}`;
    const pods = async (): Promise<unknown[]> =>
      (await world.superCluster.client.list(resources.pods, { namespace })).items.map(
        ({ metadata, status }) => [metadata.uid, at(status, 'containerStatuses', '0', 'restartCount')],
      );
    const before = await pods();
    expect(before).toHaveLength(2);
    const since = performance.now();
    const quick = await world.createTenant('quick');
    console.log(`from the pool: create to usable ${((performance.now() - since) / 1000).toFixed(1)} s`);
    expect(quick.id).toBe(member.status?.id);
    expect(await quick.kubectl('get', 'namespaces')).toContain('kube-system');
    expect(await pods()).toEqual(before);
    await manager.end();
    manager = startManager('first');
    await world.superCluster.until({ ...members, what: 'all that wait to go' }, (all) => all.length === 0);
    await world.deleteTenant('quick');
  }, 900_000);

  it('renews all certificates with one API server, beside which another one is started', async () => {
    const client = await whileAsked(tenant.kubeconfig, 'all certificates, one API server', () =>
      renewAll(world, tenant),
    );
    expectAllServed(client, 1);
    expect(await tenant.kubectl('logs', 'web')).toContain('hello');
  }, 900_000);

  it.each(upgradableBuilds.slice(-1))(
    'changes the version of one API server between real builds, though it is killed meanwhile, and goes back from one that does not start: %s',
    async (from) => {
      for (const archive of await provideControlPlaneArchives(from)) await importImage(cluster, archive);
      const built = await createTenant('built', '--version', from);
      expect(await serverVersion(built)).toBe(`v${from}`);
      await upgradeAndRollBack(world, built);
      await upgradeUnderLoad(world, built, replaceManager);
      await world.deleteTenant('built');
    },
    900_000,
  );

  it('throws everybody out by new authorities, though it is killed meanwhile', async () => {
    tenant = await revokeAllCredentials(world, tenant, replaceManager);
    expect(await tenant.kubectl('get', 'pod', 'web', '-o', 'name')).toContain('pod/web');
  }, 900_000);

  it('takes a snapshot and puts it back, though it is killed in each', async () => {
    await manager.end();
    manager = startManager('first', [`--snapshot-store=${join(directory, 'snapshots')}`]);
    await snapshotWithManagerKilled(world, tenant, replaceManager);
    expect(await tenant.kubectl('logs', 'web')).toContain('hello');
  }, 900_000);

  it('adds replicas, and renews all certificates without a request that fails', async () => {
    await manager.end();
    manager = startManager('first', doubled);
    await untilDoubled();
    const client = await whileAsked(tenant.kubeconfig, 'all certificates, two API servers', () =>
      renewAll(world, tenant),
    );
    expectAllServed(client, 2);
    expect(await tenant.kubectl('logs', 'web')).toContain('hello');
    const { status } = await world.virtualCluster('blue');
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'renewal', result: 'Succeeded', attempts: 1 });
  }, 900_000);

  it('takes over from one that was killed, and replaces nothing', async () => {
    const namespace = `skerry-tenant-${tenant.id}`;
    const pods = async (): Promise<unknown[]> =>
      (await world.superCluster.client.list(resources.pods, { namespace })).items.map(
        ({ metadata }) => metadata.uid,
      );
    const before = await pods();
    await manager.end('SIGKILL');
    manager = startManager('second', doubled);
    await untilLeading('second');
    const green = await createTenant('green', '--template', 'v1-36-own-etcd');
    expect(green.virtualCluster.status).toMatchObject({ driver: 'kubernetes', datastore: 'own' });
    await green.apply(configMap('default', 'kept', { a: '1' }));
    expect(await pods()).toEqual(before);
  });

  it('leaves nothing of tenants that are deleted', async () => {
    const made = world.tenants;
    await Promise.all(made.map(({ name }) => world.deleteTenant(name)));
    for (const { id } of made) {
      expect(
        await world.superCluster.find(resources.namespaces, { name: `skerry-tenant-${id}` }),
      ).toBeUndefined();
    }
    expect(await datastore.admin.listTenants({ signal: new AbortController().signal })).toEqual({
      users: [],
      roles: [],
      prefixes: [],
    });
  });

  /** A manager that has both drivers makes a tenant with the first one, which goes into pods and back. */
  const moveIntoPodsAndBack = async (
    driver: 'process' | 'compose',
    env?: Readonly<Record<string, string>>,
  ): Promise<void> => {
    await manager.end();
    const identity = `of-${driver}`;
    manager = startManager(
      identity,
      [
        ...[`--driver=${driver}`, '--other-driver=kubernetes', '--port-range=21900-21999'],
        // The gateway of the stack takes up the port that each tenant gets.
        ...[`--gateway=${cluster.address}:443`, '--gateway-domain=tenants.skerry.internal'],
        '--gateway-ports=23800-23899',
      ],
      env,
    );
    await untilLeading(identity);
    let mover = await world.createTenant('mover');
    const before = mover.virtualCluster.status;
    expect(before).toMatchObject({ driver, gateway: { port: expect.any(Number) } });
    const web = { namespace: 'default', name: 'web' };
    await mover.apply(webPod('default', 'web'), configMap('default', 'kept', { a: '1' }));
    await untilReady(mover, 'default', 'web');
    const lives = async (): Promise<unknown[]> => {
      const labelSelector = `skerry.dev/tenant=${mover.uid}`;
      const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
      return items.map(({ metadata, status }) => [
        metadata.uid,
        at(status, 'containerStatuses', '0', 'restartCount'),
      ]);
    };
    const earlier = await lives();
    expect(earlier).toHaveLength(1);
    /** With its token, where its environment says that the API server is. */
    const ask =
      'cd /var/run/secrets/kubernetes.io/serviceaccount && curl -s -m 5 --cacert ca.crt ' +
      '-H "Authorization: Bearer $(cat token)" https://$KUBERNETES_SERVICE_HOST/version';
    const heardInPod = async (): Promise<string> =>
      (await mover.tryKubectl(['exec', web.name, '--', 'sh', '-c', ask])).stdout;
    const podReachesIt = (): Promise<void> =>
      expect.poll(heardInPod, { interval: 500 }).toContain('gitVersion');
    await podReachesIt();

    const move = async (where: string, command: string): Promise<void> => {
      const moving = () => reader.run('docs/move.md', command);
      await moveUnderLoad(world, mover, `to-${where}`, replaceManager, moving);
      expect(await mover.kubectl('get', 'configmap', 'kept', '-o', 'jsonpath={.data.a}')).toBe('1');
      await podReachesIt();
      expect(await lives()).toEqual(earlier);
      // With the address that it has now.
      mover = await world.openTenant('mover');
      await world.expectAgreement([mover]);
    };

    const reader = Reader.of(world);
    const page = pageOf('docs/move.md');
    const [toPods = '', back = ''] = scriptRunBy(
      page,
      'test/real-node/kubernetes-manager.test.ts',
      'vc-manager move',
      { 'team-blue': 'mover' },
    ).split('\n');
    const { routed } = await leadToNext();
    await Promise.all([move('kubernetes', toPods), routed]);
    const { status } = await world.virtualCluster('mover');
    expect(status).toMatchObject({ driver: 'kubernetes', advertisedPort: 443, gateway: before?.gateway });
    await move(driver, back.replace('--driver process', `--driver ${driver}`));
    const moved = (await world.virtualCluster('mover')).status;
    expect(moved).toMatchObject({ driver, gateway: before?.gateway });
    const place = { name: `skerry-tenant-${mover.id}` };
    expect(await world.superCluster.find(resources.namespaces, place)).toBeUndefined();
    await world.deleteTenant('mover');
  };

  it('takes a control plane from processes of this machine into pods and back, though it is killed meanwhile, and its pods run on', async () => {
    await moveIntoPodsAndBack('process');
  }, 900_000);

  const noEngine = whyNoEngine(process.env);

  it.skipIf(noEngine !== undefined)(
    `takes one from containers of this machine into pods and back${noEngine === undefined ? '' : ` (${noEngine})`}`,
    async () => {
      const tell = (line: string): void => console.log(line);
      const cache = new Cache({
        env: process.env,
        signal: new AbortController().signal,
        tell,
        room: 'docker',
      });
      const engine = await startEngine({
        directory: join(directory, 'engine'),
        compose: await provideCompose(cache),
        store: await provideEngineStore(tell),
        tell,
      });
      try {
        await withKubernetesImages(engine, tell);
        await moveIntoPodsAndBack('compose', engine.env);
      } finally {
        await manager.end();
        await engine.stop();
      }
    },
    1_800_000,
  );
});
