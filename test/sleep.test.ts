import { connect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { connectionFromSecret, type KubeObject, resources } from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import { at } from './harness/checker/view.ts';
import { evict } from './harness/evict.ts';
import { configMap, deployment, job, namespace } from './harness/manifests.ts';
import { poll } from './harness/poll.ts';
import { kill, processesOf } from './harness/processes.ts';
import { Sleeper } from './harness/sleeper.ts';
import { type Tenant, World } from './harness/world.ts';

const name = 'sleeper';

describe('a tenant that sleeps', () => {
  let world: World;
  let tenant: Tenant;
  let sleeper: Sleeper;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant(name);
    sleeper = new Sleeper(world, tenant, async () => processes());
    await tenant.apply(namespace('shop'), deployment('shop', 'web', 3));
    await untilRunning(3);
  });
  afterAll(() => world?.close());

  const untilRunning = (count: number): Promise<KubeObject[]> =>
    tenant.until({ resource: resources.pods, namespace: 'shop', what: `${count} pods to run` }, (pods) => {
      const running = pods.filter(({ status }) => at(status, 'phase') === 'Running');
      return running.length === count && running;
    });
  const processes = (): string[] =>
    [...processesOf(world.stateDir).values()].filter((each) => each.includes(`${tenant.id}/`));
  /** What a TLS client without a request gets to hear at the tenant's port of the gateway. */
  const said = (servername?: string): Promise<string> =>
    new Promise((resolve) => {
      const { port = 0 } = tenant.virtualCluster.status?.gateway ?? {};
      const ca = connectionFromSecret(tenant.kubeconfig).ca;
      const socket = connect({ host: '127.0.0.1', port, ca, ...(servername && { servername }) }, () => {
        resolve('connected');
        socket.destroy();
      });
      socket.on('error', ({ message }) => resolve(message));
    });

  it('has no process, keeps its pods, sleeps on for a client that asks to be left out, and wakes up for the first request, which is answered', async () => {
    const before = await sleeper.superPods();
    expect(processes()).toHaveLength(2);
    await sleeper.sleep();
    expect(await sleeper.superPods()).toEqual(before);
    const { stdout } = await world.cli(['list']);
    expect(stdout).toMatch(new RegExp(`${name} +Asleep .* -$`, 'm'));
    expect((await world.cli(['sleep', name])).stdout).toMatch(/asleep already/);

    // What pods have in place of an address of the API server itself; the machine has another one on the local stack.
    const { port, podAddress } = tenant.virtualCluster.status?.gateway ?? {};
    const labelSelector = `skerry.dev/tenant=${tenant.uid},kubernetes.io/service-name=kubernetes`;
    const { items } = await world.superCluster.client.list(resources.endpointSlices, { labelSelector });
    expect(items.map((slice) => at(slice, 'endpoints', '0', 'addresses'))).toEqual([[podAddress]]);
    expect(items.map((slice) => at(slice, 'ports', '0', 'port'))).toEqual([port]);
    const background = `background-${tenant.virtualCluster.status?.gateway?.serverName ?? ''}`;
    expect(await said(background)).toMatch(/alert internal error/);
    expect((await sleeper.untilPhase('Asleep')).status?.sleep?.since).toBeDefined();

    expect(await sleeper.podsByFirstRequest('shop')).toHaveLength(3);
    const woken = await sleeper.untilPhase('Ready');
    expect(woken.status?.sleep?.wokenBy).toBe('Connection');
    await world.superCluster.until(
      { resource: resources.events, namespace: 'default', what: 'the event Woken' },
      (all) => all.some((each) => each['reason'] === 'Woken' && at(each, 'involvedObject', 'name') === name),
    );
    const { stdout: described } = await world.cli(['describe', name]);
    expect(described).toMatch(/Woken: +\S+, a connection through the gateway/);
    expect(described).toMatch(/Woken +It was woken: a connection through the gateway/);
    expect(await said(background)).toBe('connected');
    // As pods come, which name no server.
    expect(await said()).toBe('connected');
    expect((await world.cli(['wake', name])).stdout).toMatch(/awake already/);
    // Served again, as if nothing had been.
    await tenant.kubectl('scale', 'deployment', 'web', '-n', 'shop', '--replicas=4');
    await untilRunning(4);
    expect(await sleeper.superPods()).toEqual(expect.arrayContaining(before));
    await world.expectAgreement([tenant]);
  });

  it('wakes up when a pod of it is evicted in the super cluster, as by a drain, and has another one', async () => {
    await sleeper.sleep();
    const before = await sleeper.superPods();
    const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
    const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
    const lost = items.find(({ metadata }) => metadata.name?.startsWith('web-'));
    const { uid = '' } = lost?.metadata ?? {};
    expect(await evict(world.superCluster.client, lost)).toBe(201);
    expect((await sleeper.untilPhase('Ready')).status?.sleep?.wokenBy).toBe('PodLost');
    await world.superCluster.until(
      { resource: resources.pods, labelSelector, what: 'another pod in its place' },
      (pods) =>
        pods.length >= before.length &&
        pods.every(({ metadata, status }) => metadata.uid !== uid && at(status, 'phase') === 'Running'),
    );
  });

  itInTestAll('wakes up when a token of a pod is about to end, and has it renewed', async () => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/token`;
    const tokens = { resource: resources.secrets, labelSelector };
    const records = ({ metadata }: KubeObject): { renewAt: string; expires: string }[] =>
      JSON.parse(metadata.annotations?.['skerry.dev/tokens'] ?? '[]');
    const isFresh = (secret: KubeObject): boolean =>
      Date.parse(records(secret)[0]?.renewAt ?? '') > Date.now();
    const [secret] = await world.superCluster.until(
      { ...tokens, what: 'its tokens' },
      (all) => all.length > 0 && all.every(isFresh) && all,
    );
    // Reported as an hour, signed for a year: nothing to wake up for.
    expect(Date.parse(records(secret as KubeObject)[0]?.expires ?? '')).toBeGreaterThan(
      Date.now() + 300 * 86_400_000,
    );
    await sleeper.sleep();
    const due = records(secret as KubeObject).map((record) => ({
      ...record,
      renewAt: new Date().toISOString(),
      expires: new Date(Date.now() + 60_000).toISOString(),
    }));
    const { namespace = '', name: secretName = '' } = secret?.metadata ?? {};
    await world.superCluster.client.patch(
      resources.secrets,
      { namespace, name: secretName },
      { metadata: { annotations: { 'skerry.dev/tokens': JSON.stringify(due) } } },
      { type: 'merge' },
    );
    expect((await sleeper.untilPhase('Ready')).status?.sleep?.wokenBy).toBe('TokenExpiring');
    await world.superCluster.until({ ...tokens, what: 'the token to be renewed' }, (all) =>
      all.every(isFresh),
    );
  });

  itInTestAll('falls asleep by itself when nobody is connected any more', async () => {
    const before = await sleeper.superPods();
    const spec = { sleep: { afterIdle: '1m' } };
    await world.superCluster.client.patch(resources.virtualClusters, tenant.ref, { spec }, { type: 'merge' });
    const reason = await sleeper.until(
      'it to be idle for a minute',
      ({ status }) => status?.phase === 'Asleep' && status.sleep?.reason,
      240_000,
    );
    expect(reason).toBe('Idle');
    // It may be just stopping it; another one goes on.
    await kill(await world.process('vc-manager'));
    await sleeper.until('all of it to be stopped', (vc) => vc.status?.sleep?.stopped);
    expect(processes()).toEqual([]);
    expect(await sleeper.superPods()).toEqual(before);
    expect(await sleeper.podsByFirstRequest('shop')).not.toEqual([]);
    await sleeper.untilPhase('Ready');
  });

  itInTestAll('falls asleep and wakes up although the manager is killed meanwhile', async () => {
    await sleeper.outlastKills(async () => kill(await world.process('vc-manager')));
  });

  itInTestAll('wakes up for a CronJob that is due, which then runs', async () => {
    // The minute after the next one: the next one may begin before the tenant is asleep.
    const due = new Date(Date.now() + 120_000);
    due.setUTCSeconds(0, 0);
    const { spec } = job('shop', 'due');
    await tenant.apply({
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata: { namespace: 'shop', name: 'due' },
      spec: {
        schedule: `${due.getUTCMinutes()} ${due.getUTCHours()} * * *`,
        timeZone: 'Etc/UTC',
        jobTemplate: { spec },
      },
    });
    await sleeper.sleep();
    const { status } = await world.virtualCluster(name);
    expect(Date.parse(status?.sleep?.dueAt ?? '')).toBe(due.getTime());
    expect(status?.sleep?.dueFor).toBe('CronJob shop/due');
    // Nobody asks it anything before that.
    const woken = await sleeper.untilPhase('Ready');
    expect(Date.parse(woken.status?.sleep?.wokenAt ?? '')).toBeGreaterThanOrEqual(due.getTime());
    expect(woken.status?.sleep).toMatchObject({ wokenBy: 'CronJobDue', wokenFor: 'CronJob shop/due' });
    await tenant.until({ resource: resources.jobs, namespace: 'shop', what: 'its Job' }, (jobs) =>
      jobs.some(({ metadata }) => metadata.ownerReferences?.some(({ name }) => name === 'due')),
    );
  });

  it('wakes up for a webhook of the super cluster, which it answers', async () => {
    await sleeper.sleep();
    const { ca = '' } = connectionFromSecret(tenant.kubeconfig);
    const url = `https://127.0.0.1:${tenant.virtualCluster.status?.gateway?.port}`;
    const labels = { webhook: name };
    await world.superCluster.apply({
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name },
      webhooks: [
        {
          name: 'sleeper.example.com',
          clientConfig: { url, caBundle: Buffer.from(ca).toString('base64') },
          objectSelector: { matchLabels: labels },
          rules: [
            { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] },
          ],
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          timeoutSeconds: 30,
        },
      ],
    });
    try {
      const input = JSON.stringify({ ...configMap('default', name), metadata: { name, labels } });
      const create = ['create', '--dry-run=server', '-f', '-'];
      // Its API server lets nobody in without credentials. Of a busy machine the first call waits for ten seconds in vain.
      await poll('its answer to the webhook', async () => {
        const { stderr } = await world.superCluster.tryKubectl(create, { input });
        return stderr.includes('failed to call webhook: Unauthorized');
      });
    } finally {
      await world.superCluster.kubectl('delete', 'validatingwebhookconfiguration', name);
    }
    expect((await sleeper.untilPhase('Ready')).status?.sleep?.wokenBy).toBe('Connection');
  });

  it('can be deleted', async () => {
    await sleeper.sleep();
    await world.deleteTenant(name);
    expect(await sleeper.superPods()).toEqual([]);
  });
});
