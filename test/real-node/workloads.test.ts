import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resource, resources } from '../../kube/index.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { at } from '../harness/checker/view.ts';
import { deployment, namespace, pod, secret, service, statefulSet } from '../harness/manifests.ts';
import { patienceMs, patiently } from '../harness/poll.ts';
import { type Tenant, World } from '../harness/world.ts';
import { storageClassName } from './addons.ts';
import {
  hasSaid,
  idlePod,
  inPod,
  onNode,
  script,
  server,
  shellInPod,
  untilReady,
  web,
} from './suite/pods.ts';

const ns = 'shop';
const jobs = resource('batch', 'v1', 'jobs', 'Job', true);

describe('workloads', () => {
  let world: World;
  let tenant: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant('workloads');
    await tenant.apply(namespace(ns));
  });

  afterAll(() => world?.close());

  const podsOf = async (app: string): Promise<KubeObject[]> =>
    (await tenant.client.list(resources.pods, { namespace: ns, labelSelector: `app=${app}` })).items;
  const k = (...args: string[]): Promise<string> => tenant.kubectl('-n', ns, ...args);

  it('a StatefulSet with a claim keeps its data over the death of its pod', async () => {
    await tenant.apply(
      service(ns, 'db', { clusterIP: 'None' }),
      statefulSet(ns, 'db', 1, {
        template: {
          metadata: { labels: { app: 'db' } },
          spec: {
            terminationGracePeriodSeconds: 1,
            containers: [
              script('date +%s%N >> /data/starts; touch /tmp/said; exec sleep 3600', {
                readinessProbe: hasSaid,
                volumeMounts: [{ name: 'data', mountPath: '/data' }],
              }),
            ],
          },
        },
        volumeClaimTemplates: [
          {
            metadata: { name: 'data' },
            spec: {
              accessModes: ['ReadWriteOnce'],
              storageClassName,
              resources: { requests: { storage: '1Gi' } },
            },
          },
        ],
      }),
    );
    await k('rollout', 'status', 'statefulset/db', patiently);
    const ref = { namespace: ns, name: 'db-0' };
    const before = (await tenant.client.get(resources.pods, ref)).metadata.uid;
    await shellInPod(tenant, ref, 'echo precious > /data/kept');
    const first = await inPod(tenant, ref, 'cat', '/data/starts');
    await k('delete', 'pod', 'db-0', patiently);
    await tenant.until(
      { resource: resources.pods, namespace: ns, name: 'db-0', what: 'another db-0' },
      ([found]) => found !== undefined && found.metadata.uid !== before,
    );
    await untilReady(tenant, ns, 'db-0');
    expect(await inPod(tenant, ref, 'cat', '/data/kept')).toBe('precious');
    const starts = (await inPod(tenant, ref, 'cat', '/data/starts')).split('\n');
    expect(starts).toEqual([first, expect.stringMatching(/^\d+$/)]);
    const claim = await tenant.client.get(resources.persistentVolumeClaims, {
      namespace: ns,
      name: 'data-db-0',
    });
    expect(at(claim, 'status', 'phase')).toBe('Bound');
    await world.expectAgreement(undefined, patienceMs);
  });

  it('goes with its claim: volume and data are removed in the super cluster, too', async () => {
    const claim = { namespace: ns, name: 'data-db-0' };
    const volume = at<string>(
      await tenant.client.get(resources.persistentVolumeClaims, claim),
      'spec',
      'volumeName',
    );
    await k('delete', 'statefulset', 'db', patiently);
    await k('delete', 'pvc', 'data-db-0', patiently);
    await tenant.untilGone(resources.persistentVolumes, { name: volume ?? '' });
    await world.superCluster.untilGone(resources.persistentVolumes, { name: volume ?? '' });
  });

  itInTestAll(
    'a Job runs its pods to the end, tries again those that fail, and a CronJob makes Jobs',
    async () => {
      const job = (name: string, line: string, spec: object = {}): KubeObject => ({
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: { namespace: ns, name },
        spec: {
          ...spec,
          template: {
            metadata: { labels: { app: name } },
            spec: { restartPolicy: 'Never', containers: [script(line)] },
          },
        },
      });
      await tenant.apply(
        job('sum', 'echo $((6 * 7))', { completions: 3, parallelism: 2 }),
        job('hopeless', 'exit 5', {
          backoffLimit: 3,
          podFailurePolicy: {
            rules: [
              { action: 'FailJob', onExitCodes: { containerName: 'main', operator: 'In', values: [5] } },
            ],
          },
        }),
        {
          apiVersion: 'batch/v1',
          kind: 'CronJob',
          metadata: { namespace: ns, name: 'tick' },
          spec: {
            schedule: '* * * * *',
            jobTemplate: {
              spec: {
                template: {
                  metadata: { labels: { app: 'tick' } },
                  spec: { restartPolicy: 'Never', containers: [script('echo tock')] },
                },
              },
            },
          },
        },
      );
      await k('wait', 'job/sum', '--for=condition=Complete', patiently);
      const pods = await podsOf('sum');
      expect(pods.map((each) => at(each, 'status', 'phase'))).toEqual([
        'Succeeded',
        'Succeeded',
        'Succeeded',
      ]);
      for (const { metadata } of pods) expect(await k('logs', metadata.name ?? '')).toBe('42');
      await k('wait', 'job/hopeless', '--for=condition=Failed', patiently);
      const failed = await tenant.client.get(jobs, { namespace: ns, name: 'hopeless' });
      expect(at<{ reason: string }[]>(failed, 'status', 'conditions')?.map(({ reason }) => reason)).toContain(
        'PodFailurePolicy',
      );
      expect(await podsOf('hopeless')).toHaveLength(1);
      // Within the minute, and a while to run.
      const made = await tenant.until(
        {
          resource: jobs,
          namespace: ns,
          what: 'the first Job of the CronJob to be complete',
        },
        (found) =>
          found.find(
            (each) =>
              each.metadata.ownerReferences?.[0]?.name === 'tick' && at(each, 'status', 'succeeded') === 1,
          ),
      );
      expect(await k('logs', `job/${made.metadata.name}`)).toBe('tock');
      await k('delete', 'cronjob', 'tick', patiently);
    },
  );

  it('a pod that is deleted runs its preStop hook and is given its time, whole', async () => {
    await tenant.apply(
      pod(ns, 'witness', { containers: [server(['netexec', '--http-port=8080'])] }),
      pod(ns, 'graceful', {
        terminationGracePeriodSeconds: 20,
        containers: [
          script(
            'trap "echo asked; sleep 1; echo leaving; exit 0" TERM; echo here; while :; do sleep 0.1; done',
            {
              lifecycle: {
                preStop: { exec: { command: ['sh', '-c', 'echo prepared > /proc/1/fd/1; sleep 2'] } },
              },
            },
          ),
        ],
      }),
    );
    await untilReady(tenant, ns, 'graceful');
    const following = execa(
      inject('stack').kubectl,
      ['--kubeconfig', tenant.kubeconfigFile, '-n', ns, 'logs', '-f', 'graceful'],
      { buffer: false, timeout: patienceMs },
    );
    const lines: string[] = [];
    for await (const line of following) {
      lines.push(line);
      if (line === 'here') await k('delete', 'pod', 'graceful', '--wait=false');
    }
    expect(lines).toEqual(['here', 'prepared', 'asked', 'leaving']);
    await tenant.untilGone(resources.pods, { namespace: ns, name: 'graceful' });
  });

  itInTestAll(
    'a pod waits for a Secret that its tenant does not have, and gets that of the tenant and of nobody else',
    async () => {
      const superNamespaces = await world.superCluster.client.list(resources.namespaces, {
        labelSelector: `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=${ns}`,
      });
      const superNamespace = superNamespaces.items[0]?.metadata.name ?? '';
      await world.superCluster.apply(secret(superNamespace, 'absent', { whose: 'operator' }));
      const reading = (optional: boolean) => ({
        env: [{ name: 'WHOSE', valueFrom: { secretKeyRef: { name: 'absent', key: 'whose', optional } } }],
      });
      const text = 'echo "${WHOSE:-none}" > /tmp/whose; touch /tmp/said; exec sleep 3600';
      const reader = (name: string, optional: boolean) =>
        pod(ns, name, {
          terminationGracePeriodSeconds: 1,
          containers: [script(text, { readinessProbe: hasSaid, ...reading(optional) })],
        });
      await tenant.apply(reader('optional', true), reader('waiting', false));
      await untilReady(tenant, ns, 'optional');
      expect(await inPod(tenant, { namespace: ns, name: 'optional' }, 'cat', '/tmp/whose')).toContain('none');
      await tenant.until(
        { resource: resources.events, namespace: ns, what: 'the missing Secret to be named' },
        (events) =>
          events.some(
            (event) =>
              at(event, 'involvedObject', 'name') === 'waiting' &&
              String(event['message']).includes('secret "absent" not found'),
          ),
      );
      await tenant.apply(secret(ns, 'absent', { whose: 'tenant' }));
      await untilReady(tenant, ns, 'waiting');
      expect(await inPod(tenant, { namespace: ns, name: 'waiting' }, 'cat', '/tmp/whose')).toContain(
        'tenant',
      );
      // The checker takes what the operator has put there for a difference.
      await k('delete', 'pod/optional', 'pod/waiting', 'secret/absent', patiently);
      await world.superCluster.kubectl('-n', superNamespace, 'delete', 'secret', 'absent');
      await world.expectAgreement(undefined, patienceMs);
    },
  );

  it('a pod that will not go is gone at once when that is forced, on both sides', async () => {
    await tenant.apply(
      pod(ns, 'stubborn', {
        terminationGracePeriodSeconds: 120,
        containers: [script('trap "" TERM; while :; do sleep 1; done')],
      }),
    );
    await untilReady(tenant, ns, 'stubborn');
    await k('delete', 'pod', 'stubborn', '--wait=false');
    await tenant.until(
      { resource: resources.pods, namespace: ns, name: 'stubborn', what: 'the pod to be going' },
      ([found]) => found?.metadata.deletionTimestamp !== undefined,
    );
    await k('delete', 'pod', 'stubborn', '--grace-period=0', '--force', patiently);
    await world.expectAgreement(undefined, patienceMs);
  });

  const version = (text: string, healthy = true): KubeObject => {
    const asked = healthy ? { httpGet: { path: '/healthz', port: 8080 } } : { exec: { command: ['false'] } };
    // Leaves the network time to hear that it is going, and that it is there: Kubernetes promises neither that nodes
    // have taken an endpoint out before its pod is told to end, nor that an engine lets others reach a pod as soon as it
    // is ready, where NetworkPolicies select them, as they do by default (sync rule `tenant-isolation`).
    return deployment(ns, 'web', 2, {
      terminationGracePeriodSeconds: 30,
      containers: [
        web({
          env: [{ name: 'VERSION', value: text }],
          lifecycle: { preStop: { sleep: { seconds: 15 } } },
          readinessProbe: { ...asked, initialDelaySeconds: 5, periodSeconds: 1, timeoutSeconds: 10 },
        }),
      ],
    });
  };

  it('a rolling update with readiness answers every request', async () => {
    await tenant.apply(version('one'), service(ns, 'web'), idlePod(ns, 'customer'));
    await k('rollout', 'status', 'deployment/web', patiently);
    await untilReady(tenant, ns, 'customer');
    const customer = { namespace: ns, name: 'customer' };
    const address = (await k('get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIP}')).trim();
    // The nodes hear of a Service a moment after its pods are ready.
    await shellInPod(
      tenant,
      customer,
      `until curl -s -m 20 -o /dev/null http://${address}/hostname; do sleep 0.05; done`,
    );
    await shellInPod(
      tenant,
      customer,
      `(while [ ! -e /tmp/stop ]; do curl -s -m 20 -o /dev/null -w '%{http_code} %{errormsg}\\n' http://${address}/hostname; sleep 0.05; done > /tmp/answers; touch /tmp/done) > /dev/null 2>&1 &`,
    );
    await tenant.apply(version('two'));
    await k('rollout', 'status', 'deployment/web', patiently);
    await tenant.until(
      { resource: resources.pods, namespace: ns, labelSelector: 'app=web', what: 'the old pods to be gone' },
      (pods) => pods.length === 2,
    );
    const answers = await shellInPod(
      tenant,
      customer,
      'touch /tmp/stop; while [ ! -e /tmp/done ]; do sleep 0.1; done; sort /tmp/answers | uniq -c',
    );
    expect(answers.trim()).toMatch(/^\d+ 200$/);
    await k('delete', 'deployment', 'web', patiently);
  });

  itInTestAll('a rolling update waits for a pod that does not get ready', async () => {
    await tenant.apply(version('two'));
    await k('rollout', 'status', 'deployment/web', patiently);
    await tenant.apply(version('three', false));
    const late = await tenant.tryKubectl(['-n', ns, 'rollout', 'status', 'deployment/web', '--timeout=8s']);
    expect(late.exitCode).toBe(1);
    const ready = (await podsOf('web')).filter((each) =>
      at<{ type: string; status: string }[]>(each, 'status', 'conditions')?.some(
        ({ type, status }) => type === 'Ready' && status === 'True',
      ),
    );
    expect(ready).toHaveLength(2);
    await k('rollout', 'undo', 'deployment/web');
    await k('rollout', 'status', 'deployment/web', patiently);
    await k('delete', 'deployment', 'web', patiently);
  });

  itInTestAll('pods with a spread constraint are spread over both nodes, each tenant by itself', async () => {
    const neighbour = await world.createTenant('spreading');
    await neighbour.apply(namespace(ns));
    const spread = (hostname: boolean): object => ({
      maxSkew: 1,
      topologyKey: hostname ? 'kubernetes.io/hostname' : 'topology.kubernetes.io/zone',
      whenUnsatisfiable: 'DoNotSchedule',
      labelSelector: { matchLabels: { app: 'spread' } },
    });
    // All of the neighbour's on one node: if they counted, ours could not be spread evenly.
    await neighbour.apply(
      deployment(ns, 'spread', 4, {
        ...onNode('node-1'),
        containers: [server(['pause'])],
      }),
    );
    await neighbour.kubectl('-n', ns, 'rollout', 'status', 'deployment/spread', patiently);
    await tenant.apply(
      deployment(ns, 'spread', 4, {
        topologySpreadConstraints: [spread(true), spread(false)],
        containers: [server(['pause'])],
      }),
    );
    await k('rollout', 'status', 'deployment/spread', patiently);
    const nodes = (await podsOf('spread')).map((each) => at<string>(each, 'spec', 'nodeName'));
    expect(nodes.sort()).toEqual(['node-1', 'node-1', 'node-2', 'node-2']);
    await world.expectAgreement(undefined, patienceMs);
    await world.deleteTenant('spreading');
  });

  it('containers that die, that are killed for memory, and that are unhealthy, are told of as they are', async () => {
    // A busy machine takes its time for a probe; that is no illness.
    const isWell = { exec: { command: ['test', '-e', '/tmp/well'] }, periodSeconds: 1, timeoutSeconds: 20 };
    await tenant.apply(
      pod(ns, 'greedy', {
        restartPolicy: 'Never',
        containers: [
          script('tail /dev/zero', {
            resources: { limits: { memory: '64Mi' }, requests: { memory: '16Mi' } },
          }),
        ],
      }),
      pod(ns, 'sick', {
        containers: [
          script('touch /tmp/well; exec sleep 3600', {
            startupProbe: { ...isWell, failureThreshold: 60 },
            livenessProbe: { ...isWell, failureThreshold: 1 },
          }),
        ],
      }),
    );
    const ended = await tenant.until(
      { resource: resources.pods, namespace: ns, name: 'greedy', what: 'the container to be killed' },
      ([found]) =>
        at<{ state?: { terminated?: { exitCode: number } } }[]>(
          found ?? {},
          'status',
          'containerStatuses',
        )?.[0]?.state?.terminated,
    );
    // The reason is a matter of luck: with cgroups of version 1 the runtime may hear of the exit first.
    expect(ended.exitCode).toBe(137);
    await untilReady(tenant, ns, 'sick');
    await shellInPod(tenant, { namespace: ns, name: 'sick' }, 'rm /tmp/well');
    await k('wait', 'pod/sick', '--for=jsonpath={.status.containerStatuses[0].restartCount}=1', patiently);
    await tenant.until(
      { resource: resources.events, namespace: ns, what: 'the event of the failed liveness probe' },
      (events) =>
        events.some(
          (event) =>
            at(event, 'involvedObject', 'name') === 'sick' &&
            event['reason'] === 'Unhealthy' &&
            String(event['message']).includes('Liveness probe failed'),
        ),
    );
    expect(await k('describe', 'pod', 'sick')).toContain('Liveness probe failed');
    await world.expectAgreement(undefined, patienceMs);
  });
});
