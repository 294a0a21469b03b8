import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, type Resource, resources } from '../kube/index.ts';
import { at, listAt } from './harness/checker/view.ts';
import {
  configMap,
  container,
  deployment,
  endpointSlice,
  image,
  namespace,
  pod,
  secret,
  service,
} from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

const pool = 'policy.test/pool';

describe('what the policy of a tenant lets its pods and services do', () => {
  let world: World;
  /** Has been granted all that can be asked for. */
  let free: Tenant;
  /** Has what everybody has. */
  let plain: Tenant;
  /** Sees one node, under another name. */
  let kept: Tenant;
  let node: KubeObject;

  const grant = async (tenant: Tenant, spec: Record<string, unknown>): Promise<void> => {
    await world.superCluster.client.patch(resources.virtualClusters, tenant.ref, { spec }, { type: 'merge' });
    const { generation } = (await world.virtualCluster(tenant.name)).metadata;
    await world.superCluster.until(
      { resource: resources.virtualClusters, ...tenant.ref, what: `the policy of ${tenant.name}` },
      ([vc]) => Number(at(vc, 'status', 'observedGeneration')) >= Number(generation),
    );
  };

  beforeAll(async () => {
    world = new World(inject('stack'));
    await world.superCluster.apply({
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'VirtualClusterPolicy',
      metadata: { name: 'policy-test' },
      spec: {
        namespaces: ['default'],
        podSecurity: 'privileged',
        daemonSets: 'allow',
        volumeTypes: ['*'],
        externalIPs: true,
        loadBalancerOptions: true,
        endpointCIDRs: ['0.0.0.0/0'],
      },
    });
    const { items } = await world.superCluster.client.list(resources.nodes);
    node = items[0] as KubeObject;
    await world.superCluster.kubectl('label', 'node', node.metadata.name ?? '', `${pool}=blue`);
    await world.superCluster.apply(
      offered('scheduling.k8s.io/v1', 'PriorityClass', 'policy-gold', { value: 1000 }),
      offered('node.k8s.io/v1', 'RuntimeClass', 'policy-sandbox', {
        handler: 'sandbox',
        overhead: { podFixed: { cpu: '250m' } },
      }),
    );
    const ofPool = ['--hide-nodes', '--node-selector', `${pool}=blue`, '--daemon-sets', 'allow'];
    [[free, plain], kept] = await Promise.all([
      world.sharedTenants('policed'),
      world.createTenant('policy-c', ...ofPool),
    ]);
    await grant(free, {
      policy: {
        podSecurity: 'privileged',
        daemonSets: 'allow',
        volumeTypes: ['hostPath'],
        externalIPs: true,
        loadBalancerOptions: true,
        endpointCIDRs: ['0.0.0.0/0'],
      },
    });
    await kept.apply(namespace('policed'));
  });

  afterAll(async () => {
    try {
      await free?.tryKubectl(['delete', 'priorityclass', 'own', '--ignore-not-found']);
      await world?.close();
    } finally {
      const admin = new World(inject('stack'));
      const { superCluster } = admin;
      const gone = ['--ignore-not-found', '--wait=false'];
      await superCluster.tryKubectl(['delete', 'virtualclusterpolicy', 'policy-test', ...gone]);
      await superCluster.tryKubectl(['delete', 'priorityclass', 'policy-gold', ...gone]);
      await superCluster.tryKubectl(['delete', 'runtimeclass', 'policy-sandbox', ...gone]);
      await superCluster.tryKubectl(['label', 'node', '--all', `${pool}-`]);
      await admin.close();
    }
  });

  const marked = (tenant: Tenant): string => `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=policed`;

  const counterparts = async (tenant: Tenant, of: Resource = resources.pods): Promise<KubeObject[]> =>
    (await world.superCluster.client.list(of, { labelSelector: marked(tenant) })).items;

  const names = async (tenant: Tenant, of: Resource): Promise<unknown[]> =>
    (await counterparts(tenant, of)).map(({ metadata }) => metadata.name);

  const counterpart = (
    tenant: Tenant,
    name: string,
    of: Resource = resources.pods,
    holds: (found: KubeObject) => boolean = () => true,
  ): Promise<KubeObject> =>
    world.superCluster.until(
      { resource: of, labelSelector: marked(tenant), what: `${of.kind} ${name} of ${tenant.name}` },
      (objects) => objects.find((found) => found.metadata.name === name && holds(found)),
    );

  const running = (tenant: Tenant, name: string, inNamespace = 'policed'): Promise<KubeObject> =>
    tenant.until({ resource: resources.pods, namespace: inNamespace, name, what: `${name} to run` }, (pods) =>
      pods.find((found) => at(found, 'status', 'phase') === 'Running'),
    );

  const told = (tenant: Tenant, name: string, reason: string): Promise<string> =>
    tenant.until(
      { resource: resources.events, namespace: 'policed', what: `an event ${reason} on ${name}` },
      (events) =>
        events
          .filter((event) => at(event, 'involvedObject', 'name') === name && event['reason'] === reason)
          .map((event) => String(event['message']))[0],
    );

  it('pods of a DaemonSet run on every node, each on the one that it names', async () => {
    await free.apply(daemonSet('agent'));
    await free.kubectl('-n', 'policed', 'rollout', 'status', 'daemonset/agent', patiently);
    const { items } = await free.client.list(resources.nodes);
    const places = (await counterparts(free)).map((found) => at(found, 'spec', 'nodeName'));
    expect(places.toSorted()).toEqual(items.map(({ metadata }) => metadata.name).toSorted());
  });

  it('of hidden nodes too, on those that the tenant has', async () => {
    await kept.apply(daemonSet('agent'));
    await kept.kubectl('-n', 'policed', 'rollout', 'status', 'daemonset/agent', patiently);
    const [own, ...more] = (await kept.client.list(resources.pods, { namespace: 'policed' })).items;
    const [there] = await counterparts(kept);
    expect(more).toEqual([]);
    expect(at(there, 'spec', 'nodeName')).toBe(node.metadata.name);
    expect(JSON.stringify(own)).not.toContain(`"${node.metadata.name}"`);
  });

  it('pods stay within the pool of their tenant, and are told when they ask for other nodes', async () => {
    await kept.apply(
      pod('policed', 'inside'),
      pod('policed', 'outside', { nodeSelector: { [pool]: 'red' } }),
      pod('policed', 'curious', {
        containers: [
          container({ env: [{ name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }] }),
        ],
      }),
    );
    await running(kept, 'inside');
    const s = await counterpart(kept, 'inside');
    expect(at(s, 'spec', 'nodeSelector')).toEqual({ [pool]: 'blue' });
    expect(at(s, 'spec', 'nodeName')).toBe(node.metadata.name);
    expect(await told(kept, 'outside', 'NodesNotAllowed')).toContain(`${pool}=blue`);
    expect(await told(kept, 'curious', 'NotSupported')).toContain('spec.nodeName');
    expect(await names(kept, resources.pods)).not.toContain('outside');
    expect(await names(kept, resources.pods)).not.toContain('curious');
    const pending = await kept.client.get(resources.pods, { namespace: 'policed', name: 'outside' });
    expect(at(pending, 'status', 'phase')).toBe('Pending');
  });

  it('a privileged Deployment: a warning when it is applied, the reason on its pod, and in a trace', async () => {
    const containers = [container({ securityContext: { privileged: true } })];
    const input = JSON.stringify(deployment('policed', 'mighty', 1, { containers }));
    const apply = async (to: Tenant): Promise<string> => {
      const { exitCode, stderr } = await to.tryKubectl(['apply', '-f', '-'], { input });
      expect(exitCode, stderr).toBe(0);
      return stderr;
    };
    expect(await apply(plain)).toMatch(/Warning: would violate PodSecurity "baseline:latest": privileged/);
    const why = /privileged/;
    const [refused] = await plain.until(
      { resource: resources.pods, namespace: 'policed', what: 'the reason on the pod' },
      (pods) => {
        const found = pods.filter(
          ({ metadata, status }) =>
            metadata.name?.startsWith('mighty-') === true &&
            listAt({ status }, 'status', 'conditions').some(
              (each) =>
                each['type'] === 'PodScheduled' &&
                each['status'] === 'False' &&
                why.test(String(each['message'])),
            ),
        );
        return found.length > 0 && found;
      },
    );
    const name = refused?.metadata.name ?? '';
    const { stdout } = await world.cli(['trace', name, '-n', 'policed', '-t', plain.name]);
    expect(stdout).toMatch(/refused: .*privileged/);
    expect(await apply(free)).not.toMatch(/Warning/);
  });

  it('hostPath, and a privileged container that is added later', async () => {
    const hostPath = { path: '/var/log' };
    await free.apply(pod('policed', 'reader', { volumes: [{ name: 'logs', hostPath }] }));
    await running(free, 'reader');
    expect(at(await counterpart(free, 'reader'), 'spec', 'volumes', '0', 'hostPath')).toMatchObject(hostPath);
    const how = ['debug', 'reader', `--image=${image}`, '--profile=sysadmin', '--container=root'];
    await free.kubectl('-n', 'policed', ...how);
    const s = await counterpart(
      free,
      'reader',
      resources.pods,
      (found) => at(found, 'spec', 'ephemeralContainers') !== undefined,
    );
    expect(at(s, 'spec', 'ephemeralContainers', '0', 'securityContext', 'privileged')).toBe(true);
  });

  it('classes that are published, with what the super cluster makes of them', async () => {
    for (const name of ['priorityclass/policy-gold', 'runtimeclass/policy-sandbox'])
      await free.kubectl('wait', '--for=create', name, patiently);
    await free.kubectl('create', 'priorityclass', 'own', '--value=5000');
    const own = pod('policed', 'own', { priorityClassName: 'own' });
    await free.untilAdmitted(own);
    await free.apply(
      pod('policed', 'gold', { priorityClassName: 'policy-gold', runtimeClassName: 'policy-sandbox' }),
      own,
      pod('policed', 'system', { priorityClassName: 'system-node-critical' }),
    );
    for (const name of ['gold', 'own', 'system']) await running(free, name);
    const gold = (await counterpart(free, 'gold'))['spec'];
    expect(gold).toMatchObject({
      priorityClassName: 'policy-gold',
      priority: 1000,
      runtimeClassName: 'policy-sandbox',
      overhead: { cpu: '250m' },
    });
    for (const name of ['own', 'system']) {
      const { priorityClassName, priority } = (await counterpart(free, name))['spec'] as Record<
        string,
        unknown
      >;
      expect([priorityClassName, priority]).toEqual([undefined, 0]);
    }
    expect(await told(free, 'own', 'PriorityClassNotPublished')).toContain('own');
  });

  it('classes and images that the lists of a policy have, for this tenant and no other; what a refused pod refers to goes when the pod may', async () => {
    for (const tenant of [free, plain])
      await tenant.kubectl('wait', '--for=create', 'priorityclass/policy-gold', patiently);
    await grant(plain, { policy: { priorityClasses: [], imageRegistries: ['registry.example.com/team'] } });
    await plain.kubectl('wait', '--for=delete', 'priorityclass/policy-gold', patiently);
    await free.kubectl('get', 'priorityclass', 'policy-gold');

    const of = (name: string, from: string, fields = {}) =>
      pod('policed', name, { containers: [container({ image: `${from}/app:1`, ...fields })] });
    const envFrom = [{ configMapRef: { name: 'settings' } }, { secretRef: { name: 'key' } }];
    await plain.apply(
      configMap('policed', 'settings', { a: '1' }),
      secret('policed', 'key', { b: '2' }),
      of('stranger', 'registry.example.com', { envFrom }),
      of('member', 'registry.example.com/team'),
    );
    expect(await told(plain, 'stranger', 'NotSupported')).toContain('policy: imageRegistries');
    await running(plain, 'member');
    expect(await names(plain, resources.pods)).not.toContain('stranger');
    expect(await names(plain, resources.configMaps)).not.toContain('settings');
    expect(await names(plain, resources.secrets)).not.toContain('key');
    await grant(plain, { policy: null });
    await running(plain, 'stranger');
    expect(await names(plain, resources.configMaps)).toContain('settings');
    expect(await names(plain, resources.secrets)).toContain('key');
  });

  it('addresses of a Service', async () => {
    const options = {
      type: 'LoadBalancer',
      externalIPs: ['198.51.100.7'],
      loadBalancerIP: '198.51.100.8',
      loadBalancerSourceRanges: ['203.0.113.0/24'],
    };
    await free.apply(service('policed', 'edge', options));
    const s = await counterpart(free, 'edge', resources.services);
    expect(s['spec']).toMatchObject(options);
    await free.kubectl('-n', 'policed', 'patch', 'service', 'edge', '-p', '{"spec":{"externalIPs":null}}');
    await counterpart(
      free,
      'edge',
      resources.services,
      (found) => at(found, 'spec', 'externalIPs') === undefined,
    );
  });

  it('endpoints in the ranges of the policy, but never where nodes, API servers and other tenants are', async () => {
    const outside = '198.51.100.20';
    const nodeAddress = listAt<{ type: string; address: string }>(node, 'status', 'addresses')
      .filter(({ type }) => type === 'InternalIP')
      .map(({ address }) => address)[0];
    const foreign = await plain.client.get(resources.services, { namespace: 'default', name: 'kubernetes' });
    const refused = [
      nodeAddress,
      free.virtualCluster.status?.advertisedAddress,
      String(at(foreign, 'spec', 'clusterIP')),
    ].filter((address) => address !== undefined);
    const { selector: _selector, ...spec } = service('policed', 'db')['spec'] as Record<string, unknown>;
    await free.apply(
      { ...service('policed', 'db'), spec },
      endpointSlice('policed', 'db', [outside, ...refused]),
    );
    const s = await counterpart(free, 'db-1', resources.endpointSlices);
    expect(listAt(s, 'endpoints').map(({ addresses }) => addresses)).toEqual([[outside]]);
    const message = await told(free, 'db-1', 'EndpointNotAllowed');
    for (const address of refused) expect(message).toContain(address);
    // The tenant's own API server takes no link-local address; that the syncer would not either has a unit test.
    await expect(free.apply(endpointSlice('policed', 'metadata', ['169.254.169.254']))).rejects.toThrow(
      /link-local/,
    );
  });

  it('namespaceSelector in affinity follows namespaces, for pods that are to come and against those that run', async () => {
    const away = {
      affinity: {
        podAntiAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            {
              topologyKey: 'kubernetes.io/os',
              labelSelector: { matchLabels: { 'policy.test/noisy': 'very' } },
              namespaceSelector: { matchLabels: { 'policy.test/team': 'loud' } },
            },
          ],
        },
      },
    };
    const noisy = (inNamespace: string, name: string): KubeObject => ({
      ...pod(inNamespace, name),
      metadata: { namespace: inNamespace, name, labels: { 'policy.test/noisy': 'very' } },
    });
    const isUnschedulable = (of: Tenant, inNamespace: string, name: string): Promise<unknown> =>
      of.until(
        { resource: resources.pods, namespace: inNamespace, name, what: `${name} to find no node` },
        ([found]) => listAt(found, 'status', 'conditions').some(({ reason }) => reason === 'Unschedulable'),
      );
    await plain.apply(namespace('hall'), noisy('hall', 'drums'));
    await free.apply(namespace('hall'));
    await free.kubectl('label', 'namespace', 'hall', 'policy.test/team=loud');
    await free.apply(noisy('hall', 'drums'));
    await Promise.all([running(plain, 'drums', 'hall'), running(free, 'drums', 'hall')]);

    // Not yet in a namespace that matches, and what another tenant has does not count.
    await plain.apply(pod('policed', 'quiet', away));
    await running(plain, 'quiet');
    // Before the label: a scheduler that goes by that has heard of this one, too.
    await plain.apply({
      ...namespace('later'),
      metadata: { name: 'later', labels: { 'policy.test/team': 'loud' } },
    });
    await world.superCluster.until(
      {
        resource: resources.namespaces,
        what: 'later',
        labelSelector: `skerry.dev/tenant=${plain.uid},skerry.dev/namespace=later`,
      },
      ([found]) => Object.values(found?.metadata.labels ?? {}).includes('loud'),
    );
    await plain.kubectl('label', 'namespace', 'hall', 'policy.test/team=loud');
    await world.superCluster.until(
      {
        resource: resources.namespaces,
        what: 'the label of hall',
        labelSelector: `skerry.dev/tenant=${plain.uid}`,
      },
      (found) =>
        found.some(
          ({ metadata }) =>
            metadata.labels?.['skerry.dev/namespace'] === 'hall' &&
            Object.values(metadata.labels).includes('loud'),
        ),
    );
    await plain.apply(pod('policed', 'too-late', away));
    await isUnschedulable(plain, 'policed', 'too-late');
    // The one that runs keeps newcomers away, from a namespace that it cannot have known.
    await plain.apply(noisy('later', 'trumpet'));
    await isUnschedulable(plain, 'later', 'trumpet');
    await free.apply(noisy('hall', 'trumpet'));
    await running(free, 'trumpet', 'hall');
  });
});

/** An object of the super cluster that every tenant gets a copy of. */
function offered(
  apiVersion: string,
  kind: string,
  name: string,
  fields: Record<string, unknown>,
): KubeObject {
  return { apiVersion, kind, metadata: { name, labels: { 'skerry.dev/public': 'true' } }, ...fields };
}

function daemonSet(name: string): KubeObject {
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { namespace: 'policed', name },
    spec: {
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: { terminationGracePeriodSeconds: 1, containers: [container()] },
      },
    },
  };
}
