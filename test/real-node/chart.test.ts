import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { findCondition, type KubeObject, type Resource, resources } from '../../kube/index.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { freePort } from '../../kube/testing/free-port.ts';
import { scriptRunBy } from '../../scripts/docs-commands.ts';
import { defaultVersions } from '../../vc-manager/binaries/index.ts';
import { RedisServer, whyNoRedis } from '../../vc-manager/jobs/testing/redis-server.ts';
import { whyNoEngine } from '../docker/engine/engine.ts';
import { provideSkerryArchives, repository, skerryImage } from '../docker/images/index.ts';
import type { Cluster } from '../harness/cluster.ts';
import { helmErrors } from '../harness/helm.ts';
import { configMap, namespace, pod, service } from '../harness/manifests.ts';
import { patiently, poll } from '../harness/poll.ts';
import { kill, type ProcessIdentity, send } from '../harness/processes.ts';
import { pageOf } from '../harness/reader.ts';
import { chartRightsFaults } from '../harness/rights.ts';
import { Sleeper } from '../harness/sleeper.ts';
import { type Tenant, World } from '../harness/world.ts';
import { type ClusterInfo, stackOf } from './cluster/cluster-info.ts';
import { startCluster, stopCluster } from './cluster/start-cluster.ts';
import { ChartRelease, removeSkerry } from './suite/chart-release.ts';
import { ServiceRoutes } from './suite/kubernetes-world.ts';
import {
  connects,
  hasSaid,
  importImage,
  noRouteToHost,
  processOfPod,
  script,
  shellInPod,
  untilNamesResolve,
  untilReady,
  webPod,
} from './suite/pods.ts';

interface Template extends KubeObject {
  spec: { components: { name: string; args: Record<string, string>; replicas?: number }[] };
}

/** A ControlPlaneTemplate as the packaged one, but its API servers, of which there are two, do not know a flag. */
async function brokenTemplate({ superCluster }: World): Promise<KubeObject> {
  // The manager makes it, and leads only some time after it is ready.
  const { spec } = await superCluster.until<Template, Template>(
    { resource: resources.controlPlaneTemplates, name: 'v1-36', what: 'the template of the manager' },
    ([template]) => template,
  );
  return {
    apiVersion: 'skerry.dev/v1alpha1',
    kind: 'ControlPlaneTemplate',
    metadata: { name: 'broken' },
    spec: {
      ...spec,
      components: spec.components.map((component) =>
        component.name === 'kube-apiserver'
          ? { ...component, replicas: 2, args: { ...component.args, 'no-such-flag': 'true' } }
          : component,
      ),
    },
  };
}

const here = 'test/real-node/chart.test.ts';
const upTimeoutMs = 600_000;
const image = 'registry.example.com/skerry:0.1.0';
const nodePort = 30_443;
const claim = 'snapshots';
/** With a gateway at a port of the node `address`, as docs/gateway.md says for people outside of the cluster. */
function valuesFor(address: string): string[] {
  return [
    ...['image.registry=registry.example.com', 'redis.secretName=skerry-redis'],
    ...['enabled=true', 'domain=tenants.example.com', `address=${address}`, 'replicas=1', 'drainSeconds=1']
      .concat('service.type=NodePort', `service.nodePort=${nodePort}`)
      .map((each) => `gateway.${each}`),
  ].flatMap((each) => ['--set', each]);
}
const shellPod = pod('default', 'web', {
  containers: [script('echo hello; touch /tmp/said; exec sleep 3600', { readinessProbe: hasSaid })],
});
const missing = whyNoRedis() ?? whyNoEngine(process.env);
const because = missing === undefined ? '' : ` (skipped: ${missing})`;

describe.skipIf(missing !== undefined)(`the Helm chart on a hardened cluster of real nodes${because}`, () => {
  const directory = mkdtempSync(join(tmpdir(), 'skerry-chart-'));
  const place = join(directory, 'cluster');
  let cluster: ClusterInfo;
  let world: World;
  let release: ChartRelease;
  let redis: RedisServer;
  let routes: ServiceRoutes;
  let values: string[];

  beforeAll(async () => {
    const tell = (line: string): void => console.log(line);
    const { runtime: archive } = await provideSkerryArchives(tell);
    cluster = await startCluster({
      directory: place,
      nodes: 1,
      withDns: true,
      // Of k3s.
      serviceRange: '10.43.0.0/16',
      podSecurity: 'restricted',
      tell,
    });
    world = new World(await stackOf(cluster));
    release = await ChartRelease.prepare(world);
    const [node] = cluster.nodes;
    if (node === undefined) throw new Error('the cluster has no node');
    routes = new ServiceRoutes(node);
    values = valuesFor(node.address);
    [redis] = await Promise.all([
      RedisServer.start({ host: cluster.address, password: 'from-a-secret' }),
      importImage(cluster, archive, { from: `docker.io/library/${skerryImage}`, to: image }),
      removeSkerry(world),
    ]);
  }, upTimeoutMs);

  afterAll(async () => {
    await routes?.close();
    // The tenants go with the cluster.
    await world?.superCluster.close();
    release?.close();
    await redis?.stop();
    await stopCluster(place);
    rmSync(directory, { recursive: true, force: true });
    rmSync(`${place}.log`, { force: true });
  });

  const create = (name: string, spec: object = {}): Promise<void> =>
    world.superCluster.apply({
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'VirtualCluster',
      metadata: { name, namespace: 'default' },
      spec,
    });
  const virtualCluster = <R>(
    name: string,
    what: string,
    answer: (vc: VirtualCluster) => R | undefined | false,
  ): Promise<R> =>
    world.superCluster.until<R, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: 'default', name, what, timeoutMs: 300_000 },
      ([vc]) => (vc === undefined ? undefined : answer(vc)),
    );
  const untilTenantIsReady = (name: string): Promise<true> =>
    virtualCluster(
      name,
      'it to be ready',
      ({ status }) => findCondition(status?.conditions, 'Ready')?.status === 'True',
    );
  /** With a way from this machine. */
  const openTenant = async (name: string): Promise<Tenant> => {
    const tenant = await world.openTenant(name);
    await routes.add(tenant.virtualCluster.status?.advertisedAddress ?? '');
    return tenant;
  };
  const controlPlaneOf = async ({ id }: Tenant): Promise<unknown[]> =>
    (await world.superCluster.client.list(resources.pods, { namespace: `skerry-tenant-${id}` })).items.map(
      ({ metadata, status }) => [
        metadata.uid,
        (status as { containerStatuses: { restartCount: number }[] }).containerStatuses[0]?.restartCount,
      ],
    );
  const namesIn = async ({ id }: Tenant, resource: Resource): Promise<string[]> => {
    const { items } = await world.superCluster.client.list(resource, { namespace: `skerry-tenant-${id}` });
    return items.map(({ metadata }) => metadata.name ?? '').sort();
  };
  const sleeperOf = (tenant: Tenant): Sleeper =>
    new Sleeper(world, tenant, () => namesIn(tenant, resources.pods));
  const namesOf = async (what: string): Promise<string[]> =>
    (await world.superCluster.kubectl('-n', release.namespace, 'get', what, '-o', 'name')).split('\n').sort();

  const untilUninstalled = async (): Promise<void> => {
    expect(helmErrors(await release.uninstall('--wait', patiently))).toEqual([]);
    for (const component of ['manager', 'syncer', 'gateway', 'etcd'] as const)
      await release.untilPods(component, 'its pods to go', (pods) => pods.length === 0);
  };

  const documented = (page: string, beginning: string, words: Record<string, string> = {}): string =>
    scriptRunBy(pageOf(page), here, beginning, words);

  /** While a command of the documentation forwards a port, which is another one on this machine. */
  const whileForwarded = async <R>(
    command: string,
    port: string,
    ask: (url: string) => Promise<R>,
  ): Promise<R> => {
    const own = await freePort();
    const forwarding = release.reader.start(command.replace(port, `${own}:${port}`));
    try {
      for await (const line of createInterface({ input: forwarding.stdout }))
        if (line.startsWith('Forwarding from 127.0.0.1')) return await ask(`http://127.0.0.1:${own}`);
      throw new Error((await forwarding).all);
    } finally {
      forwarding.kill('SIGINT');
      await forwarding;
    }
  };

  it('says which Secret it lacks, and runs as soon as that is there', async () => {
    const install = documented('docs/kubernetes-install.md', 'helm install skerry deploy/chart', {
      'registry.example.com/team': 'registry.example.com',
    });
    const { stderr } = await release.reader.run('install', `${install} ${values.join(' ')}`, repository);
    expect(helmErrors({ exitCode: 0, stdout: '', stderr })).toEqual([]);
    // The kubelet has other words for it before it has heard of any Secret.
    await release.untilPods('manager', 'a pod that says that it lacks its Secret', (pods) =>
      pods
        .map(({ status }) => status?.containerStatuses?.[0]?.state?.waiting)
        .some(
          (waiting) =>
            waiting?.reason === 'CreateContainerConfigError' &&
            waiting.message === 'secret "skerry-redis" not found',
        ),
    );
    const url = `--from-literal=url=${redis.url}`;
    await world.superCluster.kubectl(
      ...['-n', release.namespace, 'create', 'secret', 'generic', 'skerry-redis', url],
    );
    await release.untilRolledOut();
    for (const component of ['manager', 'syncer'] as const) {
      const pods = await release.pods(component);
      const restarts = pods.map(({ status }) => status?.containerStatuses?.[0]?.restartCount);
      expect([component, restarts]).toEqual([component, [0, 0]]);
    }
  });

  it('serves the dashboard from each manager, which knows the sessions of the others', async () => {
    const { namespace: system } = release;
    const [first, second] = (await release.pods('manager')).map(({ metadata }) => metadata.name ?? '');
    /** A request from within a pod, where it listens; `print` makes a text of the answer. */
    const ask = (pod: string | undefined, path: string, init: object, print: string): Promise<string> => {
      const request = `fetch('http://127.0.0.1:8480${path}', ${JSON.stringify(init)})`;
      const program = `${request}.then(async (answer) => console.log(${print}))`;
      return world.superCluster.kubectl('-n', system, 'exec', `${pod}`, '--', 'node', '-e', program);
    };
    const token = (await world.superCluster.kubectl('-n', system, 'create', 'token', 'default')).trim();
    const headers = { 'content-type': 'application/json' };
    const signIn = { method: 'POST', headers, body: JSON.stringify({ token }) };
    const cookie = (await ask(first, '/api/sign-in', signIn, 'answer.headers.getSetCookie()[0]')).trim();
    const session = await ask(second, '/api/session', { headers: { cookie } }, 'await answer.text()');
    expect(JSON.parse(session)).toMatchObject({ user: `system:serviceaccount:${system}:default` });

    const [forward = '', create = ''] = documented(
      'docs/dashboard.md',
      'kubectl -n skerry-system port-forward',
      { SERVICEACCOUNT: 'default' },
    ).split('\n');
    const { stdout } = await release.reader.run('docs/dashboard.md', create);
    const body = JSON.stringify({ token: stdout.trim() });
    const signedIn = await whileForwarded(forward, '8480', (url) =>
      fetch(`${url}/api/sign-in`, { method: 'POST', headers, body }),
    );
    expect(signedIn.status).toBe(200);
  });

  it('has a gateway whose log and metrics can be read', async () => {
    const [logs = '', forward = ''] = documented('docs/gateway.md', 'kubectl -n skerry-system logs').split(
      '\n',
    );
    expect((await release.reader.run('docs/gateway.md', logs)).stdout).toMatch(/^\[pod\/skerry-gateway-/);
    const metrics = await whileForwarded(forward, '10454', async (url) =>
      (await fetch(`${url}/metrics`)).text(),
    );
    expect(metrics).toContain('refused_total');
  });

  it('makes a tenant whose pods run, tell their logs, and reach their own API server', async () => {
    // The manager that leads makes the definitions, some time after it is ready.
    await world.superCluster.untilServed('skerry.dev/v1alpha1', 'virtualclusters');
    await create('first');
    // Looked at below.
    await world.superCluster.apply(await brokenTemplate(world));
    await create('broken', { template: 'broken', dns: 'none' });
    // With an etcd of its own, so that what that takes is done with these rights, too.
    await create('second', { template: 'v1-36-own-etcd', dns: 'none' });
    await untilTenantIsReady('first');
    const tenant = await openTenant('first');
    expect(tenant.virtualCluster.status).toMatchObject({ driver: 'kubernetes', serviceIPMode: 'slice' });
    expect(tenant.virtualCluster.status?.jobs?.history).toMatchObject([{ result: 'Succeeded' }]);
    await tenant.apply(configMap('default', 'kept', { a: '1' }), shellPod);
    await untilReady(tenant, 'default', 'web');
    expect(await tenant.kubectl('logs', 'web')).toContain('hello');
    const web = { namespace: 'default', name: 'web' };
    await untilNamesResolve(tenant, web);
    // As every client does that runs in a cluster.
    const secrets = '/var/run/secrets/kubernetes.io/serviceaccount';
    const ask = `curl -s -m 20 --cacert ${secrets}/ca.crt -H "Authorization: Bearer $(cat ${secrets}/token)" https://kubernetes.default.svc/version`;
    expect(await shellInPod(tenant, web, ask)).toContain(defaultVersions.kubernetes);
  });

  it('lets pods read metrics, but for those of tenants, and nothing else of Skerry', async () => {
    const enforced = { 'pod-security.kubernetes.io/enforce': 'privileged' };
    await world.superCluster.apply(
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'watching', labels: enforced } },
      webPod('watching', 'operator'),
      // Of the tenants' range, as Kubernetes may choose for any Service.
      service('watching', 'operator', { clusterIP: '10.127.255.254' }),
    );
    await untilReady(world.superCluster, 'watching', 'operator');
    const tenant = await openTenant('first');
    const ports = { etcd: [2379, 2380, 2381], manager: [10_452], syncer: [10_250, 10_451] };
    const heard = async (): Promise<Record<string, string[]>> => {
      const found: Record<string, string[]> = {};
      for (const [component, each] of Object.entries(ports)) {
        const [pod] = await release.pods(component as keyof typeof ports);
        const address = pod?.status?.podIP ?? '';
        for (const port of each)
          found[`${component} ${port}`] = await Promise.all([
            connects(world.superCluster, { namespace: 'watching', name: 'operator' }, address, port),
            connects(tenant, { namespace: 'default', name: 'web' }, address, port),
          ]);
      }
      return found;
    };
    const metricsOnly = ['connected', noRouteToHost];
    // Policies are taken over by and by, and nobody tells when.
    await expect.poll(heard).toEqual({
      'etcd 2379': [noRouteToHost, noRouteToHost],
      'etcd 2380': [noRouteToHost, noRouteToHost],
      'etcd 2381': metricsOnly,
      'manager 10452': metricsOnly,
      'syncer 10250': [noRouteToHost, noRouteToHost],
      'syncer 10451': metricsOnly,
    });
  });

  it("lets a tenant's API server dial the tenant's own pods and services, and nobody else's", async () => {
    const tenant = await openTenant('first');
    await tenant.apply(namespace('asked'), webPod('default', 'own'), service('default', 'own'));
    await untilReady(tenant, 'default', 'own');
    const answered = 'server gave HTTP response to HTTPS client';
    /** The API server hears this from where a webhook of the tenant's is said to be. */
    const hears = async (host: string, port: number, what: string): Promise<void> => {
      const name = `hook-${host}`;
      await tenant.apply(webhookAt(name, `https://${host}:${port}/`));
      const ask = async (): Promise<string> =>
        (await tenant.tryKubectl(['-n', 'asked', 'create', 'configmap', name])).stderr;
      const heard = new Set<string>();
      // A webhook that was deleted is asked for a moment longer.
      const has = (said: string): boolean =>
        [...heard].some((each) => each.includes(`//${host}:${port}/`) && each.includes(said));
      // Webhooks and endpoints are learned of in their own time; a wall stands from the beginning.
      await expect.poll(async () => heard.add(await ask()), { interval: 100 }).toSatisfy(() => has(what));
      if (what !== answered) expect([has(answered), ...heard]).toEqual([false, ...heard]);
      await tenant.kubectl('delete', 'validatingwebhookconfiguration', name);
    };
    const field = (of: Cluster, ns: string, what: string, path: string): Promise<string> =>
      of.kubectl('-n', ns, 'get', what, '-o', `jsonpath={${path}}`);
    const { superCluster } = world;
    await hears(await field(tenant, 'default', 'pod/own', '.status.podIP'), 8080, answered);
    await hears(await field(tenant, 'default', 'service/own', '.spec.clusterIP'), 80, answered);
    await hears(await field(superCluster, 'watching', 'pod/operator', '.status.podIP'), 8080, noRouteToHost);
    await hears(
      await field(superCluster, 'watching', 'service/operator', '.spec.clusterIP'),
      80,
      noRouteToHost,
    );
  });

  it('stops the pods of a control plane that sleeps, and starts them for its first request', async () => {
    const tenant = await openTenant('first');
    const services = await namesIn(tenant, resources.services);
    expect(services).not.toEqual([]);
    await sleeperOf(tenant).sleepAndWake('default', async () => {
      // What waits for it to wake up: its address, and sets that have no pods.
      expect(await namesIn(tenant, resources.services)).toEqual(services);
      const sets = { namespace: `skerry-tenant-${tenant.id}` };
      const { items } = await world.superCluster.client.list(resources.statefulSets, sets);
      expect(items.map(({ spec }) => (spec as { replicas?: number }).replicas)).toEqual(items.map(() => 0));
    });
    // Served again, as if nothing had been.
    await tenant.apply(webPod('default', 'later'));
    await untilReady(tenant, 'default', 'later');
  });

  itInTestAll(
    'goes on putting a tenant to sleep, and waking it, when the manager that is at it is killed',
    async () => {
      const sleeper = sleeperOf(await openTenant('first'));
      const processes = new Map(
        (await release.pods('manager')).map(({ metadata }) => [
          metadata.name ?? '',
          (): ProcessIdentity => processOfPod(metadata.uid ?? '', 'node'),
        ]),
      );
      await sleeper.outlastKills(async (holder) => {
        const process = processes.get(holder)?.();
        if (process === undefined) throw new Error(`${holder} is no manager of the release`);
        await kill(process);
      });
      await release.untilRolledOut();
    },
  );

  itInTestAll(
    'finishes, with the other manager, what the leading one was at when its pod was killed',
    async () => {
      const processes = new Map(
        (await release.pods('manager')).map(({ metadata }) => [
          metadata.name ?? '',
          processOfPod(metadata.uid ?? '', 'node'),
        ]),
      );
      const leader = await poll('one that leads', async () => {
        const found = await release.leader();
        return processes.has(found) && found;
      });
      const others = [...processes].filter(([name]) => name !== leader).map(([, process]) => process);
      // So that it is the one that leads which takes the job.
      for (const process of others) send(process, 'SIGSTOP');
      await create('third', { dns: 'none', template: 'v1-36-own-etcd' });
      const id = await virtualCluster('third', 'its job', ({ status }) => {
        const current = status?.jobs?.current;
        return current?.step === 'control-plane' && current.holder === leader && current.id;
      });
      // Hung, as when its node is: it hands nothing over.
      const killed = processes.get(leader);
      if (killed === undefined) throw new Error(`${leader} leads, and is no pod of the release`);
      send(killed, 'SIGSTOP');
      for (const process of others) send(process, 'SIGCONT');
      const since = performance.now();
      await world.superCluster.kubectl(
        ...['-n', release.namespace, 'delete', 'pod', leader, '--force', '--grace-period=0'],
      );
      await untilTenantIsReady('third');
      console.log(`usable ${((performance.now() - since) / 1000).toFixed(1)} s after its manager was killed`);
      const vc = await world.virtualCluster('third');
      expect(vc.status?.jobs?.history).toMatchObject([
        { id, kind: 'provision', result: 'Succeeded', attempts: 2 },
      ]);
      expect(await (await openTenant('third')).kubectl('get', 'namespaces')).toContain('kube-system');
      await release.untilRolledOut();
      expect(await release.leader()).not.toBe(leader);
    },
  );

  it('tells why a control plane does not come up', async () => {
    const message = await virtualCluster('broken', 'the reason', ({ status }) =>
      status?.conditions?.find(({ type, reason }) => type === 'Ready' && reason === 'KeepsExiting'),
    );
    expect(message.message).toContain('unknown flag: --no-such-flag');
    await untilTenantIsReady('second');
    // Their end is looked at below.
    await world.superCluster.kubectl('delete', 'vc', 'broken', 'second', '--wait=false');
  });

  itInTestAll('goes on as it was while an upgrade has no image, until that is taken back', async () => {
    expect(helmErrors(await release.upgrade(...values, '--set', 'image.tag=absent'))).toEqual([]);
    const pods = await release.untilPods('manager', 'a pod without an image', (all) => {
      const reasons = all.map(({ status }) => status?.containerStatuses?.[0]?.state?.waiting?.reason ?? '');
      return reasons.some((reason) => /^(ErrImagePull|ImagePullBackOff)$/.test(reason)) && all;
    });
    expect(pods.filter(({ status }) => status?.containerStatuses?.[0]?.ready).length).toBe(2);
    expect(helmErrors(await release.rollback())).toEqual([]);
    await release.untilRolledOut();
  });

  it('leaves tenants alone when it is uninstalled, and takes them over when it is installed again', async () => {
    const tenant = await openTenant('first');
    const before = await controlPlaneOf(tenant);
    await untilUninstalled();
    await world.superCluster.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: claim, namespace: release.namespace },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
    const options = [...values, '--set', `snapshots.existingClaim=${claim}`];
    expect((await release.install(...options)).exitCode).toBe(0);
    await release.untilRolledOut();
    await release.untilPods('etcd', 'etcd', ([pod]) => pod?.status?.containerStatuses?.[0]?.ready);
    await untilTenantIsReady('first');
    // That was said before its etcd was away: its API server finds it again in its own time.
    const isServed = async (): Promise<boolean> =>
      (await tenant.tryKubectl(['get', '--raw', '/readyz'])).exitCode === 0;
    await poll('the API server of first to be served again', isServed);
    expect(await tenant.kubectl('get', 'configmap', 'kept', '-o', 'jsonpath={.data.a}')).toBe('1');
    expect(await controlPlaneOf(tenant)).toEqual(before);
  });

  it('copies snapshots of a claim out, in and away by way of a manager, as docs/snapshots.md says, and puts a tenant back', async () => {
    const tenant = await openTenant('first');
    const taken = await world.cli(['snapshot', 'first', '--wait']);
    expect(taken.exitCode, taken.stderr).toBe(0);
    const name = taken.stdout.trim();
    expect(name).toMatch(/^default\/first\/\S+\.snapshot$/);
    await tenant.apply(configMap('default', 'later', { a: '1' }));
    const script = documented('docs/snapshots.md', 'STORE=', { 'team-blue': 'first', NAME: name });
    const { stdout, stderr } = await release.reader.run('docs/snapshots.md', script);
    const [, added = ''] = /^(default\/first\/copied-\S+)$/m.exec(stdout) ?? [];
    expect(stdout).toContain(`${name} is removed`);
    // What went in is what came out.
    const said = (of: string): string | undefined =>
      stderr
        .split('\n')
        .find((line) => line.startsWith(`${of}: `))
        ?.slice(of.length);
    expect(said(name)).toMatch(/^: \d+ bytes, sha256 [0-9a-f]{64}$/);
    expect(said(added)).toBe(said(name));
    const { exitCode } = await tenant.tryKubectl(['get', 'configmap', 'later']);
    expect(exitCode).not.toBe(0);
    expect(await tenant.kubectl('get', 'configmap', 'kept', '-o', 'jsonpath={.data.a}')).toBe('1');
    // It goes when nobody has it any more.
    await world.superCluster.kubectl('-n', release.namespace, 'delete', 'pvc', claim, '--wait=false');
  });

  const uninstall = (): string => documented('docs/kubernetes-install.md', 'kubectl delete virtualclusters');

  /** Types what the page says about removal. When it fails, or waits in vain, the error says what is being deleted. */
  const remove = async (script: string): Promise<string> => {
    try {
      return (await release.reader.runWithin(600, 'docs/kubernetes-install.md', script)).stdout;
    } catch (error) {
      const left = await world.superCluster
        .terminating()
        .catch((problem: unknown) => `what is left is not known: ${problem}`);
      throw new Error(`${(error as Error).message}\nbeing deleted:\n${left}`, { cause: error });
    }
  };

  it('leaves nothing of tenants that are deleted', async () => {
    const [deletion = ''] = uninstall().split('\n');
    await remove(deletion);
    expect((await world.superCluster.client.list(resources.virtualClusters)).items).toEqual([]);
    const own = { labelSelector: 'app.kubernetes.io/managed-by=skerry' };
    const { items } = await world.superCluster.client.list(resources.namespaces, own);
    expect(items.map(({ metadata }) => metadata.name)).toEqual([]);
    // Other Services may have one of the tenants' range, too.
    const ofTenants = { labelSelector: 'skerry.dev/tenant' };
    const addresses = await world.superCluster.client.list(resources.ipAddresses, ofTenants);
    expect(addresses.items.map(({ metadata }) => metadata.name)).toEqual([]);
  });

  it('leaves what docs/kubernetes-install.md says, and goes altogether by what that says', async () => {
    const [, rest = ''] = uninstall().split('\n');
    await remove(rest);
    await expect
      .poll(() => namesOf('all,pvc,serviceaccounts,roles,rolebindings,networkpolicies,pdb'))
      .toEqual(['persistentvolumeclaim/data-skerry-etcd-0', 'serviceaccount/default']);
    // That of tenants which lived for long enough.
    const isUsage = (name: string): boolean => name.startsWith('configmap/usage-');
    expect((await namesOf('secrets,configmaps')).filter((name) => !isUsage(name))).toEqual([
      'configmap/kube-root-ca.crt',
      'configmap/vc-syncer-shards',
      ...['etcd', 'kubelet-proxy', 'pki', 'redis'].map((name) => `secret/skerry-${name}`),
    ]);
    const { superCluster } = world;
    await remove(documented('docs/kubernetes-install.md', 'kubectl delete namespace skerry-system'));
    await superCluster.until(
      { resource: resources.persistentVolumes, what: 'the volume of etcd to be gone' },
      (left) => left.length === 0,
    );
    const policies = 'validatingadmissionpolicies,validatingadmissionpolicybindings';
    expect(await superCluster.kubectl('get', policies, '-o', 'name')).toBe('');
    const holders = await remove(documented('docs/kubernetes-install.md', 'kubectl get ipaddresses'));
    expect(holders).toMatch(/^\S+ +services\/watching\/operator$/);
    expect(await superCluster.find(resources.serviceCidrs, { name: 'skerry-tenants' })).toBeDefined();
    await superCluster.kubectl('-n', 'watching', 'delete', 'service', 'operator');
    await superCluster.untilGone(resources.serviceCidrs, { name: 'skerry-tenants' });
  });

  it('has roles that let manager and syncer do what they do, and no more', async () => {
    const userOf = (program: string): string =>
      `system:serviceaccount:${release.namespace}:skerry-${program}`;
    expect(await chartRightsFaults(world.stateDir, userOf)).toEqual([]);
  });
});

/** Asked about config maps of the namespace `asked`. */
function webhookAt(name: string, url: string): KubeObject {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name },
    webhooks: [
      {
        name: 'hook.example.com',
        clientConfig: { url },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'asked' } },
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        timeoutSeconds: 10,
      },
    ],
  };
}
