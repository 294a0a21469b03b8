import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { execa } from 'execa';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { connectionFromSecret, resources } from '../../kube/index.ts';
import { isBroad, itInTestAll } from '../../kube/testing/broad.ts';
import { scriptRunBy } from '../../scripts/docs-commands.ts';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../vc-manager/binaries/index.ts';
import { ProcessDriver } from '../../vc-manager/drivers/process/process-driver.ts';
import { egressFilterProblem } from '../../vc-manager/os/egress-filter.ts';
import { startAttackerServer, tenantEgress } from '../harness/attacker-server.ts';
import { answerTo, renewAll, revokeAllCredentials } from '../harness/certificates.ts';
import { at } from '../harness/checker/view.ts';
import {
  createFromPool,
  moveUnderLoad,
  processesOf,
  type ReplaceManager,
  serverVersion,
  snapshotWithManagerKilled,
  upgradeAndRollBack,
  upgradeUnderLoad,
  withManagerKilled,
} from '../harness/managers.ts';
import { patienceMs, poll } from '../harness/poll.ts';
import { pageOf, Reader } from '../harness/reader.ts';
import { upgradableBuilds } from '../harness/real-builds.ts';
import { Sleeper } from '../harness/sleeper.ts';
import { makeRunDirectory, removeRun, runCli, stateDirOf } from '../harness/stack.ts';
import { expectAllServed, whileAsked } from '../harness/steady-load.ts';
import { until } from '../harness/until.ts';
import { type Tenant, World } from '../harness/world.ts';
import { type Containers, openContainers, RedisContainer } from './containers/containers.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { mustDocker } from './engine/engine.ts';
import { withControlPlaneImages, withKubernetesImages, withRedisImage } from './images/index.ts';

const { signal } = new AbortController();
const isConfined = egressFilterProblem() === undefined;

const here = 'test/docker/compose-manager.test.ts';
/** Each kill takes until the job of the one that was killed counts as abandoned in Redis. */
const thoughItIsKilled = isBroad ? ', though it is killed meanwhile' : '';

/** A local stack whose manager has been replaced by one with the driver `compose` and with its jobs in Redis. */
describeWithEngine('vc-manager operator --driver compose', (engine) => {
  const directory = makeRunDirectory();
  const stateDir = stateDirOf(directory);
  const managerLog = join(directory, 'manager.log');
  const engineEnv = { ...process.env, ...engine.env };
  let command: string[];
  let manager: ChildProcess | undefined;
  /** Of the manager, beside those that it has always. */
  let options: readonly string[] = [];
  let containers: Containers;
  let redis: RedisContainer;
  let world: World;
  let tenant: Tenant;
  let reader: Reader;
  /** What docs/snapshots.md says of certificates: to take a snapshot, to create a tenant of it, and to put it back. */
  let withCertificates: string[];

  beforeAll(async () => {
    await withKubernetesImages(engine);
    await withRedisImage(engine);
    containers = await openContainers(engine);
    redis = await RedisContainer.start(engine, containers, '20683');
    const up = ['up', '--detach', '--tenants', '0', '--nodes', '1', '--no-samples', '--unsafe-no-fsync'];
    const args = [...up, '--tenant-egress', tenantEgress];
    const { exitCode, stderr } = await runCli(stateDir, args, { timeoutMs: 600_000 });
    if (exitCode !== 0) throw new Error(`"vc-manager up" ended with ${exitCode}: ${stderr}`);
    const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
    const kubectl = await binaries.ensure(
      { name: 'kubectl', version: defaultVersions.kubernetes },
      { signal },
    );
    world = new World({
      stateDir,
      superKubeconfig: readFileSync(join(stateDir, 'super-cluster', 'admin.kubeconfig'), 'utf8'),
      kubectl: kubectl.path,
    });
    reader = Reader.of(world);
    const page = pageOf('docs/snapshots.md');
    withCertificates = scriptRunBy(page, here, 'vc-manager snapshot', { 'team-blue': 'boxed' }).split('\n');
    const { pid } = await world.process('vc-manager');
    command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
    const stack = new ProcessDriver({ root: stateDir, binaries });
    await stack.stop('stack', { components: ['vc-manager'], signal });
    await stack.close();
    manager = startManager();
  });

  afterAll(async () => {
    await world?.close();
    if (manager !== undefined) await end(manager, 'SIGTERM');
    await redis?.remove();
    await containers?.close();
    const left = await removeRun(directory);
    expect(left).toEqual([]);
  });

  function startManager(): ChildProcess {
    const [node = '', program = '', subcommand = '', ...args] = command;
    const taken = ['--kubeconfig=', '--etcd-endpoint=', '--state-dir='];
    const given = (option: string): string =>
      args.find((each) => each.startsWith(option))?.slice(option.length) ?? '';
    const [FILE = '', endpoint = '', state = ''] = taken.map(given);
    const words = { FILE, 'https://127.0.0.1:2379': endpoint, '/var/lib/skerry': state };
    const page = pageOf('docs/drivers.md');
    const [, , ...documented] = scriptRunBy(page, here, 'vc-manager operator', words).split(' ');
    const others = args.filter((each) => taken.every((option) => !each.startsWith(option)));
    const log = openSync(managerLog, 'a');
    const all = [...documented, ...others, `--redis=${redis.url}`, ...options];
    const started = spawn(node, [program, subcommand, ...all], {
      stdio: ['ignore', log, log],
      env: engineEnv,
    });
    closeSync(log);
    return started;
  }

  async function end(child: ChildProcess, how: NodeJS.Signals): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(how);
    await ended;
  }

  async function replaceManager(how: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await end(manager as ChildProcess, how);
    manager = startManager();
  }

  /** Absent where kills would take too long. */
  const killer = isBroad ? replaceManager : undefined;

  function containersOf(format: string, id = tenant.id): Promise<string> {
    const mine = ['--filter', `label=skerry.dev/id=${id}`];
    return mustDocker(engine, ['ps', '--all', '--no-trunc', ...mine, '--format', format]);
  }

  async function runningContainers(): Promise<string[]> {
    const lines = (await containersOf('{{.State}} {{.Names}}')).split('\n');
    return lines.filter((line) => line.startsWith('running '));
  }

  async function pidOf(component: string): Promise<number> {
    const name = `skerry-${tenant.id}-${component}-1`;
    return Number(await mustDocker(engine, ['inspect', '--format', '{{.State.Pid}}', name]));
  }

  it('makes a tenant that can be used, in two containers that may do nothing else', async () => {
    tenant = await world.createTenant('boxed', '--dns', 'none');
    expect(tenant.virtualCluster.status?.driver).toBe('compose');
    const project = `skerry-${tenant.id}`;
    expect((await containersOf('{{.Names}}')).split('\n').sort()).toEqual([
      `${project}-kube-apiserver-1`,
      `${project}-kube-controller-manager-1`,
    ]);
    const format =
      '{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.Privileged}} {{.HostConfig.SecurityOpt}} {{.HostConfig.Binds}}';
    const seen = await mustDocker(engine, [
      'inspect',
      '--format',
      format,
      `${project}-kube-controller-manager-1`,
    ]);
    const [user, ...rest] = seen.split(' ');
    expect(user).toMatch(isConfined ? /^65532:(1[89]|2[01])\d{8}$/ : /^65532:65532$/);
    expect(rest.join(' ')).toBe('true [ALL] false [no-new-privileges:true] []');
    const status = readFileSync(`/proc/${await pidOf('kube-apiserver')}/status`, 'utf8');
    expect(status).toMatch(/^Uid:\t65532\t65532/m);
    expect(status).toMatch(/^CapEff:\t0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  });

  it('runs a pod of the tenant', async () => {
    const pod = {
      metadata: { name: 'web', namespace: 'default' },
      spec: { containers: [{ name: 'web', image: 'example.test/web:1' }] },
    };
    const { client } = tenant;
    await client.create(resources.pods, pod);
    const question = { client, resource: resources.pods, namespace: 'default', name: 'web' };
    await until({ ...question, what: 'the pod to run' }, ([found]) => {
      const { phase } = (found?.['status'] ?? {}) as { phase?: string };
      return phase === 'Running';
    });
  });

  it('shows what runs and its logs by the usual commands', async () => {
    const described = await world.cli(['describe', 'boxed']);
    expect(described.stdout).toMatch(
      isConfined ? /Driver: +compose \(on its machine it may dial only/ : /Driver: +compose \(may dial any/,
    );
    const env = engine.env;
    const logs = await world.cli(['logs', 'boxed', 'kube-apiserver', '--tail', '3'], { env });
    expect(logs.stdout.trim().split('\n')).toHaveLength(3);
    const unknown = await world.cli(['logs', 'boxed', 'kube-proxy'], { env });
    expect(unknown.exitCode).not.toBe(0);
    expect(unknown.stderr).toContain('kube-controller-manager');
    const words = { '/var/lib/skerry': stateDir, abc123: tenant.id };
    const script = scriptRunBy(pageOf('docs/drivers.md'), here, 'docker compose ls', words);
    const { stdout } = await execa('bash', ['-Eeuc', script], { env: engineEnv });
    const components = ['kube-apiserver', 'kube-controller-manager'];
    // The list of projects names this one, and the other two commands each component.
    expect(stdout).toMatch(new RegExp(`^skerry-${tenant.id} +running\\(2\\)`, 'm'));
    for (const component of components)
      expect(stdout.split(`skerry-${tenant.id}-${component}-1`)).toHaveLength(3);
  });

  it('leaves the tenant to the engine when it is killed, and takes it over when it is back', async () => {
    const before = await pidOf('kube-apiserver');
    const client = await whileAsked(tenant.kubeconfig, 'the manager killed', async () => {
      await end(manager as ChildProcess, 'SIGKILL');
      const controllers = await pidOf('kube-controller-manager');
      // The engine names none while it starts a container; a signal to process 0 is one to this one.
      expect(controllers).toBeGreaterThan(0);
      process.kill(controllers, 'SIGKILL');
      // Nobody but the engine can start it again.
      await poll('the engine to start the controllers again', async () => {
        const now = await pidOf('kube-controller-manager');
        return now !== 0 && now !== controllers;
      });
      expect(await tenant.kubectl('get', 'pod', 'web', '-o', 'name')).toContain('pod/web');
      manager = startManager();
      await world.createTenant('second', '--dns', 'none');
    });
    expectAllServed(client);
    expect(await pidOf('kube-apiserver')).toBe(before);
    expect((await world.virtualCluster('boxed')).status?.phase).toBe('Ready');
  });

  it('stops the containers of a tenant that sleeps, and starts them for its first request', async () => {
    const sleeper = new Sleeper(world, tenant, runningContainers);
    await sleeper.sleepAndWake('default');
    await world.expectAgreement([tenant], patienceMs);
  });

  itInTestAll(
    'goes on putting a tenant to sleep, and waking it, where one that was killed has left off',
    async () => {
      const sleeper = new Sleeper(world, tenant, runningContainers);
      await sleeper.outlastKills(() => replaceManager());
      expect(await tenant.kubectl('get', 'pod', 'web', '-o', 'name')).toContain('pod/web');
    },
  );

  it.skipIf(!isConfined)(
    'has its API server dial what the operator lists, and nothing else here (only where root has nftables)',
    async () => {
      const listed = await startAttackerServer((body) => {
        const { request } = JSON.parse(body) as { request: { uid: string } };
        const response = { uid: request.uid, allowed: false, status: { message: 'reached' } };
        return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response });
      });
      let connections = 0;
      const unlisted = createServer((socket) => {
        connections += 1;
        socket.destroy();
      });
      await once(unlisted.listen(0, '0.0.0.0'), 'listening');
      try {
        const { endpoint = '' } = (await world.virtualCluster('second')).status ?? {};
        const targets = {
          listed: `https://127.0.0.1:${listed.port}`,
          unlisted: `https://127.0.0.1:${(unlisted.address() as AddressInfo).port}`,
          other: endpoint,
          super: connectionFromSecret(world.superCluster.kubeconfig).server,
          metadata: 'https://169.254.169.254',
        };
        await tenant.apply({
          apiVersion: 'admissionregistration.k8s.io/v1',
          kind: 'ValidatingWebhookConfiguration',
          metadata: { name: 'stones' },
          webhooks: Object.entries(targets).map(([target, url]) => ({
            name: `${target}.stones.example.com`,
            clientConfig: { url, caBundle: Buffer.from(listed.ca).toString('base64') },
            objectSelector: { matchLabels: { stone: target } },
            rules: [
              { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
            ],
            admissionReviewVersions: ['v1'],
            sideEffects: 'None',
          })),
        });
        const answerOf = (target: string): Promise<string> =>
          tenant.client
            .create(resources.configMaps, {
              metadata: { name: target, namespace: 'default', labels: { stone: target } },
            })
            .then(
              () => '',
              (error: Error) => error.message,
            );
        // All of them are known to the API server when the first is.
        await poll('the webhooks to be asked', async () => (await answerOf('listed')).includes('reached'));
        const { listed: _, ...closed } = targets;
        for (const target of Object.keys(closed))
          expect([target, await answerOf(target)]).toEqual([
            target,
            expect.stringContaining('connect: connection refused'),
          ]);
        expect(connections).toBe(0);
      } finally {
        await tenant.kubectl('delete', 'validatingwebhookconfiguration', 'stones', '--ignore-not-found');
        unlisted.close();
        await listed.close();
      }
    },
  );

  itInTestAll(
    'renews all certificates on request, with a new API server beside the old one and the same data, though it is killed meanwhile',
    async () => {
      const containers = async () => (await containersOf('{{.Names}}')).split('\n').sort();
      const before = await containers();
      const isServer = (name: string): boolean => name.includes('kube-apiserver');
      const client = await whileAsked(tenant.kubeconfig, 'all certificates renewed', async (client) => {
        const kill = { kind: 'renewal' as const, replace: replaceManager };
        await withManagerKilled(world, 'boxed', kill, () => renewAll(world, tenant));
        await client.served(20);
      });
      expectAllServed(client, 1);
      const after = await containers();
      expect(after.filter((name) => !isServer(name))).toEqual(before.filter((name) => !isServer(name)));
      expect(after.filter(isServer)).toHaveLength(1);
      expect(after.find(isServer)).not.toBe(before.find(isServer));
      expect(await tenant.kubectl('get', 'pod', 'web', '-o', 'name')).toContain('pod/web');
    },
  );

  for (const from of upgradableBuilds)
    itInTestAll(
      `changes the version of a tenant between real builds, with a new API server beside the old one, though it is killed meanwhile: ${from}`,
      async () => {
        await withControlPlaneImages(engine, from);
        const name = `build-${from.replaceAll('.', '-')}`;
        const built = await world.createTenant(name, '--version', from, '--dns', 'none');
        expect(await serverVersion(built)).toBe(`v${from}`);
        await upgradeAndRollBack(world, built);
        await upgradeUnderLoad(world, built, replaceManager);
        await world.deleteTenant(name);
      },
    );

  /** Creates a tenant, and does this while its containers are being started; gives how its job has ended. */
  async function disturbed(name: string, disturb: () => Promise<unknown>): Promise<unknown> {
    const look = {
      resource: resources.virtualClusters,
      namespace: 'default',
      name,
      what: 'its control plane',
    };
    // Asked for before there is anything to see, so that it cannot be over by then.
    const underWay = world.superCluster.until<true, VirtualCluster>(
      look,
      ([vc]) => vc?.status?.jobs?.current?.step === 'control-plane' || undefined,
    );
    const [created] = await Promise.all([world.cli(['create', name, '--dns', 'none']), underWay]);
    expect(created.exitCode).toBe(0);
    await disturb();
    await world.superCluster.until<true, VirtualCluster>(
      look,
      ([vc]) => (vc?.status?.phase === 'Ready' && vc.status.jobs?.current === undefined) || undefined,
    );
    const { status } = await world.virtualCluster(name);
    return status?.jobs?.history;
  }

  const said = (what: string, from: number): Promise<boolean> =>
    poll(what, () => readFileSync(managerLog, 'utf8').slice(from).includes(what));

  itInTestAll(
    'finishes what it is at when the container of Redis is paused, and says that it goes on alone',
    async () => {
      const since = readFileSync(managerLog, 'utf8').length;
      const client = await whileAsked(tenant.kubeconfig, 'Redis paused', async () => {
        const history = await disturbed('paused', () => redis.docker('pause'));
        expect(history).toMatchObject([{ kind: 'provision', result: 'Succeeded' }]);
        // A job that has not yet been given out makes the manager ask.
        await world.deleteTenant('paused');
        await said(
          'Redis cannot be used: it has not answered within 5 s: this manager does all the work itself',
          since,
        );
        await redis.docker('unpause');
        await said('Redis is there again: managers share the work', since);
      });
      expectAllServed(client);
    },
  );

  itInTestAll(
    'loses nothing when Redis is slow, nor when it is started again in the middle and is empty',
    async () => {
      const done = [{ kind: 'provision', result: 'Succeeded' }];
      expect(await disturbed('slowed', () => redis.ask('client', 'pause', '2000'))).toMatchObject(done);
      expect(await disturbed('emptied', () => redis.docker('restart'))).toMatchObject(done);
      await world.deleteTenant('slowed');
      await world.deleteTenant('emptied');
      // By way of the queue, which Redis had forgotten.
      await poll('jobs that are done by way of the queue', async () =>
        (await redis.ask('keys', 'bull:*:completed')).includes(':completed'),
      );
      expect((await world.virtualCluster('boxed')).status?.phase).toBe('Ready');
    },
  );

  itInTestAll(
    'gives a new tenant containers that have waited for one, though it is killed meanwhile',
    async () => {
      const { client } = world.superCluster;
      const warm = { name: 'kept-warm' };
      const packaged = await client.get(resources.controlPlaneTemplates, { name: 'v1-36' });
      const spec = { ...(packaged['spec'] as object), warm: 1 };
      await client.create(resources.controlPlaneTemplates, { metadata: warm, spec });
      const members = { resource: resources.virtualClusters, namespace: 'skerry-system' };
      const member = await world.superCluster.until<VirtualCluster, VirtualCluster>(
        { ...members, what: 'a control plane that waits' },
        (all) => all.find(({ status }) => status?.phase === 'Ready' && status.jobs?.current === undefined),
      );
      const seen = async (): Promise<string[]> =>
        (await containersOf('{{.ID}} {{.State}}', member.status?.id)).split('\n').sort();
      const before = await seen();
      expect(before).toEqual(Array(2).fill(expect.stringMatching(/^[0-9a-f]{64} running$/)));
      const named = ['--template', warm.name, '--dns', 'none'];
      const quick = await createFromPool(world, 'quick', named, replaceManager);
      // One is enough.
      await client.patch(resources.controlPlaneTemplates, warm, { spec: { warm: 0 } }, { type: 'merge' });
      expect(quick.id).toBe(member.status?.id);
      expect(await quick.kubectl('get', 'namespaces')).toContain('kube-system');
      expect(await seen()).toEqual(before);
      await world.deleteTenant('quick');
      await world.superCluster.until({ ...members, what: 'all that wait to go' }, (all) => all.length === 0);
      await client.delete(resources.controlPlaneTemplates, warm);
    },
  );

  it(`takes a tenant to processes and back while clients are at work${thoughItIsKilled}, and makes it anew, with its certificates, from an encrypted snapshot of there`, async () => {
    const identity = await generateX25519Identity();
    options = ['--other-driver=process', `--snapshot-recipient=${await identityToRecipient(identity)}`];
    const pods = async (): Promise<unknown[]> => {
      const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
      const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
      return items.map(({ metadata }) => metadata.uid).sort();
    };
    const before = await pods();
    expect(before).not.toEqual([]);
    const move = (driver: string, replace?: ReplaceManager): Promise<void> =>
      moveUnderLoad(world, tenant, `to-${driver}`, replace, async () => {
        const moved = await world.cli(['move', 'boxed', '--driver', driver, '--wait']);
        expect(moved.exitCode, moved.stderr).toBe(0);
        return moved;
      });
    await replaceManager('SIGTERM');
    await move('process', killer);
    expect(await containersOf('{{.Names}}')).toBe('');
    expect(await processesOf(world, tenant)).toHaveLength(2);
    expect(await pods()).toEqual(before);

    const [take = '', create = ''] = withCertificates;
    await reader.run('docs/snapshots.md', take);
    const file = join(reader.home, 'boxed.snapshot');
    expect(readFileSync(file, 'latin1')).toMatch(/^age-encryption.org\/v1\n/);
    await tenant.kubectl('create', 'configmap', 'later');
    // This manager has only the recipient.
    const refused = await world.cli(['restore', 'boxed', '--from', file, '--wait', '--yes']);
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr).toContain('--snapshot-identity-file');
    expect(await tenant.kubectl('get', 'configmap', 'later', '-o', 'name')).toContain('later');

    await move('compose');
    expect(await runningContainers()).toHaveLength(2);
    expect(await pods()).toEqual(before);
    await world.expectAgreement([tenant], patienceMs);

    const identityFile = world.file('identity.txt');
    writeFileSync(identityFile, `${identity}\n`, { mode: 0o600 });
    options = [...options, `--snapshot-identity-file=${identityFile}`];
    await replaceManager('SIGTERM');
    const { id, uid, kubeconfig } = tenant;
    await world.deleteTenant('boxed');
    await reader.run('docs/snapshots.md', create);
    tenant = await world.openTenant('boxed');
    expect(tenant.virtualCluster.status).toMatchObject({ id, driver: 'compose' });
    expect(tenant.uid).not.toBe(uid);
    const web = { resource: resources.pods, namespace: 'default', name: 'web', what: 'its pod to run' };
    await tenant.until(web, ([found]) => at(found, 'status', 'phase') === 'Running');
    // What was handed out by the one that is gone.
    expect(
      await answerTo({
        ...connectionFromSecret(kubeconfig),
        server: connectionFromSecret(tenant.kubeconfig).server,
      }),
    ).toBe(200);
  });

  itInTestAll(
    'throws everybody out by new authorities, until a snapshot with the old ones is put back, though it is killed in each',
    async () => {
      const [take = '', , putBack = ''] = withCertificates;
      await reader.run('docs/snapshots.md', `rm boxed.snapshot; ${take}`);
      const before = connectionFromSecret(tenant.kubeconfig);
      tenant = await revokeAllCredentials(world, tenant, replaceManager);
      const { cert, key } = connectionFromSecret(tenant.kubeconfig);
      const isReplaced = ({ status }: VirtualCluster): boolean => status?.restore !== undefined;
      const kill = { kind: 'restore' as const, is: isReplaced, replace: replaceManager };
      await withManagerKilled(world, 'boxed', kill, () => reader.run('docs/snapshots.md', putBack));
      expect([await answerTo(before), await answerTo({ ...before, cert, key })]).toEqual([200, 401]);
      tenant = await world.openTenant('boxed');
      await snapshotWithManagerKilled(world, tenant, replaceManager);
      await world.expectAgreement([tenant], patienceMs);
    },
  );

  it('leaves nothing of a tenant that is deleted', async () => {
    await Promise.all(['boxed', 'second'].map((name) => world.deleteTenant(name)));
    expect(await mustDocker(engine, ['volume', 'ls', '--quiet', '--filter', 'label=skerry.dev/id'])).toBe('');
    expect(await mustDocker(engine, ['ps', '--all', '--quiet', '--filter', 'label=skerry.dev/id'])).toBe('');
  });
});
