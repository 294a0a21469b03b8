import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { isNotFound, type KubeObject, type Resource, resources } from '../kube/index.ts';
import { freePort } from '../kube/testing/free-port.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { packageChart } from '../scripts/release.ts';
import { defaultVersions } from '../vc-manager/binaries/index.ts';
import { etcdServerArguments } from '../vc-manager/etcd/server-arguments.ts';
import { loadRights, type PolicyRule, programs } from '../vc-manager/rights.ts';
import { at } from './harness/checker/view.ts';
import { type HelmResult, helmErrors, provideHelm, runHelm } from './harness/helm.ts';
import { patiently, poll } from './harness/poll.ts';
import { runCli } from './harness/stack.ts';
import { World } from './harness/world.ts';

const root = join(import.meta.dirname, '..');
const chart = join(root, 'deploy', 'chart');
const everything = [
  ...['--set', 'metrics.podMonitor.enabled=true', '--set', 'metrics.dashboard.enabled=true'],
  ...['--set', 'redis.secretName=redis', '--set', 'redis.caKey=ca.pem'],
  ...['--set', 'priorityClassName=system-cluster-critical'],
  ...['--set', 'snapshots.existingClaim=snapshots', '--set', 'snapshots.identitySecret=snapshot-key'],
  ...['--set', 'snapshots.recipients[0]=age1test', '--set', 'snapshots.credentialsSecret=bucket'],
  ...['--set', 'image.registry=registry.example', '--set', 'imagePullSecrets[0].name=pull'],
  ...['--set', 'nodeSelector.disk=fast', '--set', 'tolerations[0].operator=Exists'],
  ...['--set', 'gateway.enabled=true', '--set', 'gateway.domain=tenants.example.com'],
  ...['--set', 'gateway.pods.address=192.0.2.30'],
  ...['--set', 'dashboard.url=https://skerry.example.com', '--set', 'dashboard.tlsSecret=dashboard-tls'],
  ...['--set', 'dashboard.oidc.issuer=https://login.example.com', '--set', 'dashboard.oidc.clientId=skerry'],
  ...['--set', 'dashboard.oidc.groups[0]=operators', '--set', 'dashboard.oidc.clientSecret=dashboard-oidc'],
  ...['--set', 'dashboard.trustedProxies[0]=10.1.0.0/16'],
  ...['--set', 'networkPolicies.metricsFrom[0].purpose=monitoring'],
  ...[
    '--set',
    'syncer.customResources[0].group=example.com',
    '--set',
    'syncer.customResources[0].resources[0]=widgets',
  ],
  ...['--set', 'syncer.nodeLabels[0]=example.com/', '--set', 'syncer.protectedCIDRs[0]=192.0.2.0/24'],
];

describe('the Helm chart', () => {
  let home: string;
  let program: string;

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'skerry-helm-'));
    program = await provideHelm((line) => console.log(line));
  });
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  const helm = (...args: string[]): Promise<HelmResult> => runHelm(program, args, { home });
  async function rendered(...args: string[]): Promise<KubeObject[]> {
    const { stdout, stderr, exitCode } = await helm(
      'template',
      'skerry',
      chart,
      '-n',
      'skerry-system',
      ...args,
    );
    expect([exitCode, stderr]).toEqual([0, '']);
    return parseAllDocuments(stdout)
      .map((document) => document.toJS() as KubeObject | null)
      .filter((object) => object !== null);
  }
  const find = (objects: readonly KubeObject[], kind: string, name: string): KubeObject => {
    const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
    if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
    return found;
  };
  interface Container {
    name: string;
    image: string;
    args: string[];
    ports: { name: string }[];
    resources: { requests?: Record<string, string> };
    [probe: string]: unknown;
  }
  const workloads = (objects: readonly KubeObject[]): KubeObject[] =>
    objects.filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet');
  const containerOf = (workload: KubeObject): Container =>
    at<Container[]>(workload, 'spec', 'template', 'spec', 'containers')?.[0] as Container;

  it('is packaged for a release with the image of its registry as its own', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'skerry-release-'));
    try {
      const registry = 'registry.example.com/team';
      const packed = await packageChart({ registry, version: '7.8.9' }, directory, program);
      const { stdout, exitCode } = await helm('template', 'skerry', packed, '-n', 'skerry-system');
      expect(exitCode).toBe(0);
      expect(stdout).toContain(`image: ${registry}/skerry:7.8.9`);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it('has nothing that lint minds', async () => {
    for (const more of [[], everything]) {
      const { exitCode, stdout, stderr } = await helm('lint', '--strict', chart, ...more);
      expect([exitCode, stdout + stderr]).toEqual([0, expect.stringContaining('0 chart(s) failed')]);
    }
  });

  it.each([
    ['a value that there is not', ['manager.replica=2'], 'replica'],
    ['a word for a number', ['syncer.replicas=many'], '/syncer/replicas'],
    ['a range that is none', ['manager.servicePool=10.0.0.0'], '/manager/servicePool'],
    ['a mode that there is not', ['syncer.networkPolicies=maybe'], '/syncer/networkPolicies'],
    ['an etcd that lets one tenant watch the keys of others', ['etcd.version=3.6.0'], '/etcd/version'],
    ['a gateway without a domain', ['gateway.enabled=true'], 'gateway.domain'],
    [
      'a node port that nobody knows',
      ['gateway.enabled=true', 'gateway.domain=a.example', 'gateway.service.type=NodePort'],
      'gateway.service.nodePort',
    ],
    ['a name where pods need an address', ['gateway.pods.address=a.example'], '/gateway/pods/address'],
    ['no datastore at all', ['etcd.enabled=false'], '/etcd/endpoint'],
    ['a container that asks for nothing', ['manager.resources=null'], '/manager'],
    ['an argument that is none', ['syncer.extraArgs[0]=workers'], '/syncer/extraArgs/0'],
  ])('refuses %s, and says where it stands', async (_, settings, where) => {
    const sets = settings.flatMap((setting) => ['--set', setting]);
    const { exitCode, stderr } = await helm('template', 'skerry', chart, ...sets);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain(where);
  });

  it('gives each program the rights that the tests run with', async () => {
    const objects = await rendered(...everything);
    for (const name of programs) {
      const rights = await loadRights(chart, name);
      const rules = (kind: string): PolicyRule[] =>
        find(objects, kind, `skerry-${name}`)['rules'] as PolicyRule[];
      expect(rules('ClusterRole')).toEqual([...rights.cluster, ...(rights.kubernetesDriver ?? [])]);
      if (rights.namespace !== undefined) expect(rules('Role')).toEqual(rights.namespace);
    }
  });

  it('starts etcd as the local stack does, but for addresses', async () => {
    const etcd = containerOf(find(await rendered(), 'StatefulSet', 'skerry-etcd'));
    expect(etcd.image).toBe(`registry.k8s.io/etcd:v${defaultVersions.etcd}`);
    const tls = '/etc/etcd/tls';
    const local = etcdServerArguments({
      name: 'etcd',
      dataDir: '/var/lib/etcd/data',
      clientPort: 2379,
      httpPort: 2378,
      peerPort: 2380,
      metricsPort: 2381,
      tls: {
        caFile: `${tls}/ca.crt`,
        certFile: `${tls}/tls.crt`,
        keyFile: `${tls}/tls.key`,
        serverName: 'etcd-server',
      },
    });
    const addresses =
      /^--(listen-client-urls|listen-client-http-urls|advertise-client-urls|listen-metrics-urls)=/;
    const others = (args: readonly string[]): string[] => args.filter((each) => !addresses.test(each)).sort();
    expect(others(etcd.args)).toEqual(others(local));
  });

  it('asks its programs for nothing that they do not know', async () => {
    const objects = await rendered(...everything);
    const helpOf = async (program: string): Promise<string> =>
      (await execa(process.execPath, [join(chart, '..', '..', 'bin', `${program}.js`), '--help'])).stdout;
    const help = {
      manager: (await runCli(home, ['operator', '--help'])).stdout,
      syncer: await helpOf('vc-syncer'),
      gateway: await helpOf('vc-gateway'),
    };
    for (const name of programs) {
      const workload = workloads(objects).find(
        (each) => each.metadata.name === `skerry-${name}`,
      ) as KubeObject;
      const options = containerOf(workload).args.map((argument) => argument.split('=')[0] ?? '');
      const globals = ['--kubeconfig', '--state-dir'];
      const unknown = options.filter((each) => !globals.includes(each) && !help[name].includes(`${each} `));
      expect([name, unknown]).toEqual([name, []]);
    }
  });

  it('probes every container, reserves room for it, and leaves no secret in its arguments', async () => {
    for (const workload of workloads(await rendered(...everything))) {
      const { name, args, ports, resources: asked, ...rest } = containerOf(workload);
      for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
        const port = at<string>(rest, probe, 'httpGet', 'port');
        expect([name, probe, ports.some((each) => each.name === port)]).toEqual([name, probe, true]);
      }
      // A slow node is given five minutes to start a program: nothing is gained when that begins anew before.
      const tries = { periodSeconds: 1, failureThreshold: 300, timeoutSeconds: 5 };
      expect([name, at(rest, 'startupProbe')]).toEqual([name, expect.objectContaining(tries)]);
      expect(Object.keys(asked.requests ?? {}).sort()).toEqual(['cpu', 'memory']);
      expect(args.filter((argument) => /password|redis:\/\/|token=/i.test(argument))).toEqual([]);
    }
  });

  it('takes away nobody who works before the next one is ready, but for one of two gateways in the network of nodes', async () => {
    const strategies = async (...values: string[]): Promise<object> => {
      const deployments = (await rendered(...everything, ...values)).filter(
        ({ kind }) => kind === 'Deployment',
      );
      return Object.fromEntries(
        deployments.map(({ metadata, spec }) => [metadata.name, at(spec, 'strategy', 'rollingUpdate')]),
      );
    };
    const surge = { maxSurge: 1, maxUnavailable: 0 };
    expect(await strategies('--set', 'gateway.pods.address=')).toEqual({
      'skerry-gateway': surge,
      'skerry-manager': surge,
    });
    expect(await strategies()).toEqual({
      'skerry-gateway': { maxSurge: 0, maxUnavailable: 1 },
      'skerry-manager': surge,
    });
  });

  it('gives managers the authority of a Redis server that speaks TLS', async () => {
    const manager = find(await rendered(...everything), 'Deployment', 'skerry-manager');
    expect(containerOf(manager)['env']).toContainEqual({
      name: 'NODE_EXTRA_CA_CERTS',
      value: '/etc/skerry-redis/ca.crt',
    });
    expect(at(manager, 'spec', 'template', 'spec', 'volumes')).toContainEqual({
      name: 'redis',
      secret: { secretName: 'redis', items: [{ key: 'ca.pem', path: 'ca.crt' }] },
    });
    const without = JSON.stringify(await rendered('--set', 'redis.secretName=redis'));
    expect(without).toContain('SKERRY_REDIS');
    expect(without).not.toContain('skerry-redis');
  });

  it('selects by labels that its pods have', async () => {
    const objects = await rendered(...everything);
    const pods = workloads(objects).map(
      (workload) =>
        at<Record<string, string>>(workload, 'spec', 'template', 'metadata', 'labels') as Record<
          string,
          string
        >,
    );
    const selectors = objects.flatMap((object) => {
      const spec = object['spec'] as Record<string, Record<string, unknown>> | undefined;
      const selector = spec?.['selector']?.['matchLabels'] ?? spec?.['podSelector']?.['matchLabels'];
      const plain = object.kind === 'Service' ? spec?.['selector'] : undefined;
      return selector === undefined && plain === undefined
        ? []
        : [
            {
              of: `${object.kind} ${object.metadata.name}`,
              labels: (selector ?? plain) as Record<string, string>,
            },
          ];
    });
    expect(selectors.length).toBeGreaterThan(10);
    for (const { of, labels } of selectors) {
      const chosen = pods.filter((pod) => Object.entries(labels).every(([key, value]) => pod[key] === value));
      expect([of, chosen.length]).toEqual([of, 1]);
    }
  });

  it.each([
    ['LoadBalancer', [], ':443', { port: 443 }],
    ['LoadBalancer', ['service.port=8443', 'address=203.0.113.7'], '203.0.113.7:8443', { port: 8443 }],
    ['NodePort', ['service.nodePort=30443', 'address=192.0.2.1'], '192.0.2.1:30443', { nodePort: 30443 }],
    ['NodePort', ['port=443', 'address=lb.example.com'], 'lb.example.com:443', { port: 443 }],
    ['ClusterIP', [], ':443', { port: 443 }],
  ])('has kubeconfigs name where a gateway behind a %s with %j is', async (type, values, where, port) => {
    const all = ['enabled=true', 'domain=tenants.example.com', `service.type=${type}`, ...values];
    const objects = await rendered(...all.flatMap((value) => ['--set', `gateway.${value}`]));
    const service = find(objects, 'Service', 'skerry-gateway');
    expect(service['spec']).toMatchObject({ type, ports: [{ targetPort: 'tenants', ...port }] });
    const manager = containerOf(find(objects, 'Deployment', 'skerry-manager'));
    expect(manager.args).toEqual(
      expect.arrayContaining([`--gateway=${where}`, '--gateway-domain=tenants.example.com']),
    );
    expect(containerOf(find(objects, 'Deployment', 'skerry-gateway')).args).toContain(
      '--domain=tenants.example.com',
    );
  });

  it('lets pods reach the gateway in the network of its nodes, and people by its Service', async () => {
    const values = ['enabled=true', 'domain=tenants.example.com', 'pods.address=192.0.2.30'];
    const gateway = [...values, 'nodeSelector.edge=yes'].flatMap((each) => ['--set', `gateway.${each}`]);
    const objects = await rendered('--set', 'nodeSelector.disk=fast', ...gateway);
    const manager = find(objects, 'Deployment', 'skerry-manager');
    expect(containerOf(manager).args).toEqual(
      expect.arrayContaining([
        '--gateway=:443',
        '--gateway-pod-address=192.0.2.30',
        '--gateway-ports=23000-23999',
        '--gateway-ports-for-pods',
      ]),
    );
    expect(at(manager, 'spec', 'template', 'spec')).toMatchObject({ nodeSelector: { disk: 'fast' } });
    const deployment = find(objects, 'Deployment', 'skerry-gateway');
    expect(at(deployment, 'spec', 'strategy', 'rollingUpdate')).toEqual({ maxSurge: 0, maxUnavailable: 1 });
    expect(at(deployment, 'spec', 'template', 'spec')).toMatchObject({
      hostNetwork: true,
      dnsPolicy: 'ClusterFirstWithHostNet',
      nodeSelector: { edge: 'yes' },
    });
    // Tenants reach nodes, and metrics name other tenants.
    const { args, ...rest } = containerOf(deployment);
    expect(args).toContain('--metrics-address=127.0.0.1:10454');
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
      expect(at(rest, probe, 'httpGet', 'host')).toBe('127.0.0.1');

    const without = await rendered(...gateway, '--set', 'gateway.pods.address=');
    expect(at(find(without, 'Deployment', 'skerry-gateway'), 'spec', 'template', 'spec')).not.toHaveProperty(
      'hostNetwork',
    );
    const { args: plain } = containerOf(find(without, 'Deployment', 'skerry-manager'));
    expect(plain.filter((each) => /gateway-p/.test(each))).toEqual([]);
  });

  it('lets the manager act for the groups that are named, and for nobody where none is', async () => {
    const { rules } = find(await rendered(...everything), 'ClusterRole', 'skerry-dashboard') as unknown as {
      rules: PolicyRule[];
    };
    const names = rules.map(({ resources: of, resourceNames }) => [of, resourceNames]);
    expect(names).toEqual([
      [['users'], ['skerry:dashboard']],
      [['groups'], ['oidc:operators']],
      [['userextras/skerry.dev/oidc-user'], undefined],
    ]);
    const oidc = [
      '--set',
      'dashboard.oidc.issuer=https://login.example.com',
      '--set',
      'dashboard.oidc.clientId=x',
    ];
    for (const [args, missing] of [
      [['--set', 'dashboard.url=https://skerry.example.com'], 'dashboard.oidc.groups'],
      [['--set', 'dashboard.oidc.groups[0]=operators'], 'dashboard.url'],
    ] as const) {
      const { exitCode, stderr } = await helm('template', 'skerry', chart, ...oidc, ...args);
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining(missing)]);
    }
  });

  it('leaves out what is switched off', async () => {
    const off = [
      ...['--set', 'etcd.enabled=false', '--set', 'etcd.endpoint=https://etcd.example:2379'],
      ...['--set', 'rbac.create=false', '--set', 'networkPolicies.enabled=false'],
      ...['--set', 'podDisruptionBudgets.enabled=false'],
    ];
    const objects = await rendered(...off);
    expect(new Set(objects.map(({ kind }) => kind))).toEqual(
      new Set(['ConfigMap', 'ServiceAccount', 'Service', 'Deployment', 'StatefulSet']),
    );
    const { args } = containerOf(find(objects, 'Deployment', 'skerry-manager'));
    expect(args).toContain('--etcd-endpoint=https://etcd.example:2379');
  });

  it('shows its rights by the command of the documentation', async () => {
    const page = readFileSync(join(root, 'docs/operating.md'), 'utf8');
    const words = { 'deploy/chart': chart };
    const [, ...args] = scriptRunBy(page, 'test/chart.test.ts', 'helm template', words).split(' ');
    const { exitCode, stdout, stderr } = await helm(...args);
    expect([exitCode, stderr]).toEqual([0, '']);
    const roles = parseAllDocuments(stdout).map((document) => document.toJS() as KubeObject);
    for (const name of ['skerry-manager', 'skerry-syncer'])
      expect(find(roles, 'ClusterRole', name)['rules']).not.toEqual([]);
  });

  describe('on an API server', () => {
    const namespace = 'skerry-chart';
    // Not the names that the local stack's own roles have.
    const release = 'suite-skerry';
    let world: World;
    const install = (command: 'install' | 'upgrade', ...args: string[]): Promise<HelmResult> =>
      runHelm(program, [command, release, chart, '-n', namespace, ...args], {
        home,
        kubeconfig: world.superCluster.kubeconfigFile,
      });
    const ofRelease = ['-l', `app.kubernetes.io/instance=${release}`, '-o', 'name'];
    const left = async (): Promise<string[]> => {
      const namespaced = 'all,configmap,secret,serviceaccount,role,rolebinding,pdb,networkpolicy,pvc';
      const found = [
        await world.superCluster.kubectl('-n', namespace, 'get', namespaced, ...ofRelease),
        await world.superCluster.kubectl('get', 'clusterrole,clusterrolebinding', ...ofRelease),
      ];
      return found.join('\n').split('\n').filter(Boolean);
    };

    beforeAll(async () => {
      world = new World(inject('stack'));
      // Of an earlier run, on a stack that outlived it.
      await removeNamespace(patiently);
      await world.superCluster.apply({
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: {
          name: namespace,
          labels: {
            'pod-security.kubernetes.io/enforce': 'restricted',
            'pod-security.kubernetes.io/warn': 'restricted',
          },
        },
      });
    });
    afterAll(async () => {
      if (world === undefined) return;
      await runHelm(program, ['uninstall', release, '-n', namespace, '--ignore-not-found'], {
        home,
        kubeconfig: world.superCluster.kubeconfigFile,
      });
      await removeNamespace('--wait=false');
      await world.close();
    });
    let healthPort = 0;
    const health = (path: string): Promise<number | undefined> =>
      fetch(`http://127.0.0.1:${healthPort}${path}`).then(
        ({ status }) => status,
        () => undefined,
      );
    const removeNamespace = async (...options: string[]): Promise<void> => {
      await world.superCluster.kubectl('delete', 'namespace', namespace, '--ignore-not-found', ...options);
    };

    it('is accepted as it is written, and under restricted pod security, without a warning', async () => {
      const { stdout } = await helm(
        'template',
        release,
        chart,
        '-n',
        namespace,
        '--set',
        'redis.secretName=redis',
        '--set',
        'redis.caKey=ca.pem',
      );
      const dryRun = ['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-'];
      const { exitCode, stderr } = await world.superCluster.tryKubectl(dryRun, { input: stdout });
      expect([exitCode, stderr]).toEqual([0, '']);
    });

    it('is not installed where etcd would wait for a volume for ever, and says what helps', async () => {
      const { client } = world.superCluster;
      const { items: classes } = await client.list(resources.storageClasses);
      const refusal = async (...args: string[]): Promise<string> => {
        const { exitCode, stderr } = await install('install', '--dry-run=server', ...args);
        return exitCode === 0 ? '' : stderr;
      };
      const removeClasses = async (): Promise<void> => {
        const { items } = await client.list(resources.storageClasses);
        for (const { metadata } of items)
          await client.delete(resources.storageClasses, { name: metadata.name ?? '' });
      };
      const createClasses = async (
        change: (annotations?: Record<string, string>) => object,
      ): Promise<void> => {
        for (const { metadata, ...rest } of classes) {
          const { name, labels = {}, annotations } = metadata;
          const wanted = { ...rest, metadata: { name: name ?? '', labels, ...change(annotations) } };
          await client.create(resources.storageClasses, wanted);
        }
      };
      const free = { metadata: { name: 'chart-test-free' } };
      /** As an earlier install leaves it. */
      const claim = { namespace, name: `data-${release}-etcd-0` };
      const createClaim = () =>
        client.create(resources.persistentVolumeClaims, {
          metadata: claim,
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
        });
      const removeClaim = async (): Promise<void> => {
        await client.delete(resources.persistentVolumeClaims, claim).catch(ignoreMissing);
        await world.superCluster.untilGone(resources.persistentVolumeClaims, claim);
      };
      const phaseOf = async (resource: Resource, name: string, phase: string): Promise<void> => {
        await world.superCluster.until(
          { resource, ...(resource.namespaced ? { namespace } : {}), name, what: `${name} to be ${phase}` },
          ([found]) => at(found, 'status', 'phase') === phase,
        );
      };
      try {
        await removeClasses();
        expect(await refusal()).toContain('this cluster has no StorageClass. Install a provisioner');
        expect(await refusal('--set', 'etcd.storage.className=fast')).toBe('');
        // Whoever installs without roles may not be allowed to ask.
        expect(await refusal('--set', 'rbac.create=false')).toBe('');
        await createClasses(() => ({}));
        const names = classes.map(({ metadata }) => metadata.name).sort();
        expect(await refusal()).toContain(`etcd.storage.className=NAME (there is ${names.join(', ')})`);
        // That of an install that waited for a volume itself.
        await createClaim();
        await phaseOf(resources.persistentVolumeClaims, claim.name, 'Pending');
        expect(await refusal()).toContain('etcd would wait for a volume');
        await removeClaim();
        await client.create(resources.persistentVolumes, {
          ...free,
          spec: {
            capacity: { storage: '1Gi' },
            accessModes: ['ReadWriteOnce'],
            hostPath: { path: '/nowhere' },
          },
        });
        await phaseOf(resources.persistentVolumes, free.metadata.name, 'Available');
        expect(await refusal()).toBe('');
        await createClaim();
        await phaseOf(resources.persistentVolumeClaims, claim.name, 'Bound');
        await phaseOf(resources.persistentVolumes, free.metadata.name, 'Bound');
        expect(await refusal()).toBe('');
      } finally {
        await removeClaim();
        await client.delete(resources.persistentVolumes, free.metadata).catch(ignoreMissing);
        await removeClasses();
        await createClasses((annotations) => ({ annotations }));
      }
      expect(await refusal()).toBe('');
    });

    it('is installed and upgraded, and its pods run', async () => {
      const first = await install('install', '--wait', patiently);
      expect(helmErrors(first)).toEqual([]);
      expect(first.stdout).toContain('"kind": "VirtualCluster"');
      expect(first.stdout).toContain('port-forward service/kube-apiserver');
      const gateway = ['--set', 'gateway.enabled=true', '--set', 'gateway.domain=tenants.example.com'];
      const { stdout } = await install('upgrade', '--dry-run=server', ...gateway);
      expect(stdout).toContain('which people reach at ID.tenants.example.com, port 443');
      expect(stdout).not.toContain('port-forward service/kube-apiserver');
      const second = await install('upgrade', '--wait', patiently, '--set', 'manager.replicas=3');
      expect(helmErrors(second)).toEqual([]);
      // A server may have shown helm the Deployment as it was before.
      await world.superCluster.until(
        { resource: resources.pods, namespace, what: 'six running pods' },
        (pods) => {
          const phases = pods.map((pod) => at<string>(pod, 'status', 'phase'));
          return phases.length === 6 && phases.every((phase) => phase === 'Running');
        },
      );
    });

    it('is upgraded as the documentation says, with the values that it has', async () => {
      const page = readFileSync(join(root, 'docs/kubernetes-install.md'), 'utf8');
      const words = {
        'skerry-system': namespace,
        'upgrade skerry': `upgrade ${release}`,
        'deploy/chart': chart,
      };
      const [, ...args] = scriptRunBy(page, 'test/chart.test.ts', 'helm upgrade', words).split(' ');
      const options = { home, kubeconfig: world.superCluster.kubeconfigFile };
      expect(helmErrors(await runHelm(program, args, options))).toEqual([]);
      const replicas = ['get', 'deployment', `${release}-manager`, '-o', 'jsonpath={.spec.replicas}'];
      expect(await world.superCluster.kubectl('-n', namespace, ...replicas)).toBe('3');
    });

    it('lets its ServiceAccounts do what they need, and no more', async () => {
      const can = async (who: string, ...what: string[]): Promise<string> => {
        const as = `--as=system:serviceaccount:${namespace}:${release}-${who}`;
        return (await world.superCluster.tryKubectl(['auth', 'can-i', as, ...what])).stdout;
      };
      expect(await can('syncer', 'create', 'pods', '-n', 'default')).toBe('yes');
      expect(await can('syncer', 'update', 'leases', '-n', namespace)).toBe('yes');
      expect(await can('syncer', 'update', 'leases', '-n', 'default')).toBe('no');
      expect(await can('syncer', 'create', 'clusterroles')).toBe('no');
      expect(await can('manager', 'create', 'statefulsets', '-n', 'default')).toBe('yes');
      expect(await can('manager', 'create', 'pods', '-n', 'default')).toBe('no');
      expect(await can('manager', 'update', 'customresourcedefinitions/other.example.com')).toBe('no');
    });

    it('has a manager that makes its Secrets with the rights of a manager, and tells how it is', async () => {
      healthPort = await freePort();
      const names = { pki: 'chart-test-pki', etcd: 'chart-test-etcd' };
      const refs = Object.values(names).map((name) => ({ namespace: 'skerry-system', name }));
      const standby = execa(
        process.execPath,
        [
          join(chart, '..', '..', 'bin', 'vc-manager.js'),
          'operator',
          `--kubeconfig=${join(world.stateDir, 'stack', 'files', 'vc-manager', 'super-cluster.kubeconfig')}`,
          `--state-dir=${join(home, 'state')}`,
          '--etcd-endpoint=https://skerry-etcd.skerry-system.svc:2379',
          `--pki-secret=${names.pki}`,
          `--etcd-secret=${names.etcd}`,
          '--kubelet-proxy-host=*.skerry-syncer.skerry-system.svc',
          `--health-address=127.0.0.1:${healthPort}`,
          '--identity=chart-test',
        ],
        { reject: false },
      );
      try {
        // Another one has the Lease: it gets so far and no further.
        await poll('it to wait', async () => (await health('/readyz')) === 200);
        const [pki, etcd] = await Promise.all(
          refs.map((ref) =>
            world.superCluster.until(
              { resource: resources.secrets, ...ref, what: ref.name },
              ([found]) => found,
            ),
          ),
        );
        expect(Object.keys(pki?.['data'] as object)).toContain('etcd-ca.key');
        const data = etcd?.['data'] as Record<string, string>;
        expect(Object.keys(data).sort()).toEqual(['ca.crt', 'tls.crt', 'tls.key']);
        const served = new X509Certificate(Buffer.from(data['tls.crt'] ?? '', 'base64'));
        expect(served.checkHost('skerry-etcd.skerry-system.svc')).toBe('skerry-etcd.skerry-system.svc');
        expect([await health('/healthz'), await health('/metrics'), await health('/nothing')]).toEqual([
          200, 200, 404,
        ]);
      } finally {
        standby.kill('SIGTERM');
        await standby;
        for (const ref of refs)
          await world.superCluster.client.delete(resources.secrets, ref).catch(ignoreMissing);
      }
    });

    it('leaves nothing when it is uninstalled but the volume of etcd', async () => {
      const uninstalled = await runHelm(
        program,
        ['uninstall', release, '-n', namespace, '--wait', patiently],
        { home, kubeconfig: world.superCluster.kubeconfigFile },
      );
      expect(helmErrors(uninstalled)).toEqual([]);
      await world.superCluster.until(
        { resource: resources.pods, namespace, what: 'the pods to go' },
        (pods) => pods.length === 0,
      );
      expect(await left()).toEqual([`persistentvolumeclaim/data-${release}-etcd-0`]);
    });
  });
});

function ignoreMissing(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
