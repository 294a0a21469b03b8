import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { at } from '../harness/checker/view.ts';
import type { Cluster } from '../harness/cluster.ts';
import { configMap, namespace, pod, service } from '../harness/manifests.ts';
import { patienceMs } from '../harness/poll.ts';
import { type Tenant, World } from '../harness/world.ts';
import { idlePod, inPod, server, shellInPod, untilReady } from './suite/pods.ts';

const ns = 'environment';
/** In the super cluster itself, to see what kubelet makes of the same without Skerry. */
const plain = 'environment-plain';

/** Services whose variables have every form there is. */
const services = (where: string): KubeObject[] => [
  service(where, 'foo-bar', { ports: [{ port: 8080, protocol: 'TCP' }] }),
  service(where, 'multi', {
    ports: [
      { name: 'web', port: 80, protocol: 'TCP' },
      { name: 'dns-udp', port: 53, protocol: 'UDP' },
    ],
  }),
  service(where, 'headless', { clusterIP: 'None' }),
  service(where, 'postgres', { ports: [{ port: 5432, protocol: 'TCP' }] }),
];

describe('the environment of a pod', () => {
  let world: World;
  let tenant: Tenant;
  /** First address of the tenant's slice. */
  let apiServer: string;
  let dns: string;

  beforeAll(async () => {
    world = new World(inject('stack'));
    const { superCluster } = world;
    [tenant] = await world.joinTenants(ns);
    const slice = tenant.virtualCluster.status?.serviceCIDR ?? '';
    apiServer = slice.replace(/0\/\d+$/, '1');
    dns = slice.replace(/0\/\d+$/, '10');
    await superCluster.apply(namespace(plain), ...services(plain));
    await tenant.apply(namespace(ns), ...services(ns));
    const fields = {
      containers: [
        server(['pause'], {
          env: [
            { name: 'KUBERNETES_SERVICE_PORT', value: '1234' },
            { name: 'FOO_BAR_PORT_8080_TCP_PROTO', value: 'mine' },
            { name: 'URL', value: '$(FOO_BAR_SERVICE_HOST):$(FOO_BAR_SERVICE_PORT)' },
            { name: 'SHELL_STYLE', value: '$$(FOO_BAR_SERVICE_HOST)' },
          ],
          envFrom: [{ configMapRef: { name: 'database' } }],
        }),
      ],
    };
    const database = { POSTGRES_PORT: '5433', POSTGRES_DB: 'shop' };
    for (const [cluster, where] of [
      [superCluster, plain],
      [tenant, ns],
    ] as const) {
      await cluster.apply(
        configMap(where, 'database', database),
        pod(where, 'linked', fields),
        pod(where, 'unlinked', { ...fields, enableServiceLinks: false }),
      );
    }
    await untilReady(tenant, ns, 'linked', 'unlinked');
    await untilReady(superCluster, plain, 'linked', 'unlinked');
  });

  afterAll(async () => {
    await world?.superCluster.client.delete(resources.namespaces, { name: plain });
    await world?.close();
  });

  const environment = async (cluster: Cluster, where: string, name: string): Promise<Map<string, string>> => {
    const text = await inPod(cluster, { namespace: where, name }, 'env');
    return new Map(
      text.split('\n').map((line) => [line.split('=', 1)[0] ?? '', line.slice(line.indexOf('=') + 1)]),
    );
  };

  /** Addresses differ between the two clusters: each becomes the name of its Service. */
  const named = async (
    cluster: Cluster,
    where: string,
    of: Map<string, string>,
  ): Promise<Map<string, string>> => {
    const { items } = await cluster.client.list(resources.services, { namespace: where });
    const addresses = items.map(
      (each) => [at<string>(each, 'spec', 'clusterIP') ?? '', each.metadata.name] as const,
    );
    const own = await cluster.client.get(resources.services, { namespace: 'default', name: 'kubernetes' });
    addresses.push([at<string>(own, 'spec', 'clusterIP') ?? '', 'kubernetes']);
    const translated = [...of].map(([key, value]) => {
      const found = addresses.find(
        ([address]) => address !== 'None' && new RegExp(`(^|/)${address}(:|$)`).test(value),
      );
      return [key, found === undefined ? value : value.replace(found[0], `<${found[1]}>`)] as const;
    });
    return new Map(translated.sort(([a], [b]) => (a < b ? -1 : 1)));
  };

  for (const name of ['linked', 'unlinked']) {
    it(`has, ${name} to services, exactly the variables that kubelet makes`, async () => {
      const ours = await named(tenant, ns, await environment(tenant, ns, name));
      const kubelets = await named(
        world.superCluster,
        plain,
        await environment(world.superCluster, plain, name),
      );
      expect(Object.fromEntries(ours)).toEqual(Object.fromEntries(kubelets));
      expect(ours.has('FOO_BAR_SERVICE_HOST')).toBe(name === 'linked');
    });
  }

  it("names the tenant's own API server, and lets the user's own values win", async () => {
    const variables = await environment(tenant, ns, 'linked');
    expect(variables.get('KUBERNETES_SERVICE_HOST')).toBe(apiServer);
    expect(variables.get('KUBERNETES_SERVICE_PORT')).toBe('1234');
    expect(variables.get('KUBERNETES_PORT_443_TCP')).toBe(`tcp://${apiServer}:443`);
    expect(variables.get('POSTGRES_PORT')).toBe('5433');
    expect(variables.get('POSTGRES_SERVICE_PORT')).toBe('5432');
    expect(variables.get('HEADLESS_SERVICE_HOST')).toBeUndefined();
    expect(variables.get('SHELL_STYLE')).toBe('$(FOO_BAR_SERVICE_HOST)');
    expect(variables.get('URL')).toMatch(/^\d+\.\d+\.\d+\.\d+:8080$/);
  });

  it("shows the tenant's namespace and UID by the downward API, in variables and in files", async () => {
    const field = (fieldPath: string): object => ({ fieldRef: { fieldPath } });
    await tenant.apply(
      pod(ns, 'downward', {
        containers: [
          server(['pause'], {
            env: [
              ...['namespace', 'uid', 'name'].map((key) => ({
                name: key.toUpperCase(),
                valueFrom: field(`metadata.${key}`),
              })),
              { name: 'NODE', valueFrom: field('spec.nodeName') },
              { name: 'IP', valueFrom: field('status.podIP') },
            ],
            volumeMounts: [{ name: 'about', mountPath: '/about' }],
          }),
        ],
        volumes: [
          {
            name: 'about',
            downwardAPI: {
              items: [
                { path: 'namespace', ...field('metadata.namespace') },
                { path: 'uid', ...field('metadata.uid') },
                { path: 'app', ...field("metadata.labels['app']") },
                { path: 'labels', ...field('metadata.labels') },
              ],
            },
          },
        ],
      }),
    );
    await untilReady(tenant, ns, 'downward');
    const { metadata, ...rest } = await tenant.client.get(resources.pods, {
      namespace: ns,
      name: 'downward',
    });
    const variables = await environment(tenant, ns, 'downward');
    expect(Object.fromEntries(variables)).toMatchObject({
      NAMESPACE: ns,
      UID: metadata.uid,
      NAME: 'downward',
      NODE: at(rest, 'spec', 'nodeName'),
      IP: at(rest, 'status', 'podIP'),
    });
    const read = (file: string): Promise<string> =>
      inPod(tenant, { namespace: ns, name: 'downward' }, 'cat', `/about/${file}`);
    expect([await read('namespace'), await read('uid'), await read('app')]).toEqual([
      ns,
      metadata.uid,
      'downward',
    ]);
    expect(await read('labels')).toContain('app="downward"');
    await tenant.kubectl('-n', ns, 'label', 'pod', 'downward', 'late=yes');
    const seen = await shellInPod(
      tenant,
      { namespace: ns, name: 'downward' },
      'for i in $(seq 1 50); do grep -q late /about/labels && break; sleep 2; done; cat /about/labels',
    );
    expect(seen).toContain('late="yes"');
  });

  it('resolves names by the DNS of the tenant, with what the pod itself asks for on top', async () => {
    const resolver = async (name: string, spec: object): Promise<string[]> => {
      await tenant.apply(idlePod(ns, name, { ...spec }));
      await untilReady(tenant, ns, name);
      return (await inPod(tenant, { namespace: ns, name }, 'cat', '/etc/resolv.conf')).split('\n');
    };
    const searches = `search ${ns}.svc.cluster.local svc.cluster.local cluster.local`;
    expect(await resolver('dns-first', {})).toEqual([searches, `nameserver ${dns}`, 'options ndots:5']);
    const own = {
      nameservers: ['10.9.9.9'],
      searches: ['mine.test'],
      options: [{ name: 'ndots', value: '2' }],
    };
    expect(await resolver('dns-merged', { dnsConfig: own })).toEqual([
      `${searches} mine.test`,
      `nameserver ${dns}`,
      'nameserver 10.9.9.9',
      'options ndots:2',
    ]);
    expect(await resolver('dns-none', { dnsPolicy: 'None', dnsConfig: own })).toEqual([
      'search mine.test',
      'nameserver 10.9.9.9',
      'options ndots:2',
    ]);
    expect(await resolver('dns-node', { dnsPolicy: 'Default' })).toEqual([
      `nameserver ${inject('cluster').address}`,
    ]);
  });

  it('has the host name that the pod asks for, and no trace of the super cluster in /etc/hosts', async () => {
    await tenant.apply(
      idlePod(ns, 'named', { hostname: 'worker', subdomain: 'team' }),
      idlePod(ns, 'qualified', { hostname: 'worker', subdomain: 'team', setHostnameAsFQDN: true }),
    );
    await untilReady(tenant, ns, 'named', 'qualified');
    const ask = (name: string, ...command: string[]): Promise<string> =>
      inPod(tenant, { namespace: ns, name }, ...command);
    expect(await ask('named', 'hostname')).toBe('worker');
    expect(await ask('qualified', 'hostname')).toBe(`worker.team.${ns}.svc.cluster.local`);
    for (const name of ['named', 'qualified']) {
      const hosts = await ask(name, 'cat', '/etc/hosts');
      expect(hosts).toContain('worker');
      expect(hosts).not.toContain(`default-${tenant.name}`);
    }
  });

  it('holds nothing that names the super cluster: neither its namespaces nor its addresses', async () => {
    const { items } = await world.superCluster.client.list(resources.namespaces, {
      labelSelector: `skerry.dev/tenant=${tenant.uid}`,
    });
    const seen = await shellInPod(
      tenant,
      { namespace: ns, name: 'linked' },
      'env; cat /etc/hosts /etc/resolv.conf; find /var/run/secrets -type f -exec cat {} +',
    );
    expect(items.length).toBeGreaterThan(0);
    for (const { metadata } of items) expect(seen).not.toContain(metadata.name);
    expect(seen).not.toContain('10.96.');
    await world.expectAgreement(undefined, patienceMs);
  });
});
