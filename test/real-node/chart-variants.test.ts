import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectionFromSecret, resources } from '../../kube/index.ts';
import { scriptRunBy } from '../../scripts/docs-commands.ts';
import { isInRange } from '../../vc-manager/os/network.ts';
import { whyNoEngine } from '../docker/engine/engine.ts';
import { provideSkerryArchives, repository, skerryImage } from '../docker/images/index.ts';
import type { RunResult } from '../harness/cluster.ts';
import { helmErrors } from '../harness/helm.ts';
import { service } from '../harness/manifests.ts';
import { patiently, poll } from '../harness/poll.ts';
import { pageOf } from '../harness/reader.ts';
import { cliOutput } from '../harness/stack.ts';
import { type Tenant, World } from '../harness/world.ts';
import { type ClusterInfo, stackOf } from './cluster/cluster-info.ts';
import { startCluster, stopCluster } from './cluster/start-cluster.ts';
import { ChartRelease, removeSkerry } from './suite/chart-release.ts';
import { ServiceRoutes } from './suite/kubernetes-world.ts';
import { importImage, shellInPod, untilReady, webPod } from './suite/pods.ts';

/** Of k3s. */
const serviceRange = '10.43.0.0/16';
const bindingName = 'servicecidrs.deny';

/** As the documentation of Kubernetes has it for clusters whose ranges nobody may add to. */
const noServiceRanges = [
  {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name: 'servicecidrs.deny' },
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: ['networking.k8s.io'],
            apiVersions: ['v1', 'v1beta1'],
            operations: ['CREATE', 'UPDATE'],
            resources: ['servicecidrs'],
          },
        ],
      },
      validations: [{ expression: "object.metadata.name == 'kubernetes'" }],
    },
  },
  {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata: { name: bindingName },
    spec: { policyName: 'servicecidrs.deny', validationActions: ['Deny'] },
  },
];
const someRange = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  metadata: { name: 'some' },
  spec: { cidrs: ['10.200.0.0/24'] },
};

/** As docs/gateway.md says for people outside of the cluster. */
const domain = 'tenants.example.com';
const nodePort = 30_443;

const here = 'test/real-node/chart-variants.test.ts';
const upTimeoutMs = 600_000;
const missing = whyNoEngine(process.env);
const because = missing === undefined ? '' : ` (skipped: ${missing})`;

describe.skipIf(missing !== undefined)(
  `the packaged chart on a hardened cluster of other addresses${because}`,
  () => {
    const directory = mkdtempSync(join(tmpdir(), 'skerry-variants-'));
    const place = join(directory, 'cluster');
    let cluster: ClusterInfo;
    let world: World;
    let release: ChartRelease;
    let routes: ServiceRoutes;

    beforeAll(async () => {
      const tell = (line: string): void => console.log(line);
      const { runtime: archive } = await provideSkerryArchives(tell);
      cluster = await startCluster({
        directory: place,
        nodes: 1,
        withDns: true,
        serviceRange,
        podSecurity: 'restricted',
        tell,
      });
      world = new World(await stackOf(cluster));
      release = await ChartRelease.prepare(world);
      const [node] = cluster.nodes;
      if (node === undefined) throw new Error('the cluster has no node');
      routes = new ServiceRoutes(node);
      await Promise.all([
        importImage(cluster, archive, {
          from: `docker.io/library/${skerryImage}`,
          to: await release.pack('registry.example.com/team'),
        }),
        removeSkerry(world).then(() => world.superCluster.apply(...noServiceRanges)),
      ]);
      await untilRanges('refused', ({ stderr }) => stderr.includes('denied request'));
    }, upTimeoutMs);

    afterAll(async () => {
      await routes?.close();
      await world?.superCluster.close();
      release?.close();
      await stopCluster(place);
      rmSync(directory, { recursive: true, force: true });
      rmSync(`${place}.log`, { force: true });
    });

    const ofCluster = () => ({ '~/.kube/config': cluster.superKubeconfigFile });
    /** There is no registry: what would be pushed there is printed, and the chart that was packed for it is installed. */
    const packed = () => ({
      '--registry': '--dry-run --registry',
      'oci://registry.example.com/team/charts/skerry': release.chart,
    });
    const documented = (page: string, beginning: string, words: Record<string, string>) =>
      release.reader.run(page, scriptRunBy(pageOf(page), here, beginning, words), repository);

    const nodeAddress = (): string => cluster.nodes[0]?.address ?? '';

    /** API servers act on a policy some time after it is made or deleted. */
    const untilRanges = (what: string, is: (result: RunResult) => boolean): Promise<true> =>
      poll(`new ServiceCIDRs to be ${what}`, async () =>
        is(
          await world.superCluster.tryKubectl(['create', '--dry-run=server', '-f', '-'], {
            input: JSON.stringify(someRange),
          }),
        ),
      );

    /** As NOTES.txt says. */
    async function createTenant(name: string, spec: object = {}): Promise<Tenant> {
      await world.superCluster.apply({
        apiVersion: 'skerry.dev/v1alpha1',
        kind: 'VirtualCluster',
        metadata: { name, namespace: 'default' },
        spec,
      });
      await world.superCluster.kubectl('wait', `vc/${name}`, '--for=condition=Ready', '--timeout=5m');
      const tenant = await world.openTenant(name);
      await routes.add(tenant.virtualCluster.status?.advertisedAddress ?? '');
      return tenant;
    }

    it('is judged rightly before anything is installed', async () => {
      const out = await cliOutput(
        cluster.stateDir,
        ...['doctor', '--super-kubeconfig', cluster.superKubeconfigFile, '-o', 'json'],
      );
      const findings = JSON.parse(out) as { name: string; state: string; detail: string }[];
      const detail = (name: string): string => findings.find((each) => each.name === name)?.detail ?? '';
      expect(detail('service addresses of tenants')).toContain('servicecidrs.deny');
      expect(detail('Pod Security')).toContain('restricted');
      expect(findings.filter(({ state }) => state !== 'ok').map(({ name, state }) => [name, state])).toEqual([
        ['service addresses of tenants', 'warn'],
        // The engine of this harness has no API group.
        ['NetworkPolicies', 'warn'],
      ]);
      const { stdout } = await documented('docs/kubernetes-install.md', 'vc-manager doctor', ofCluster());
      expect(stdout).toContain('servicecidrs.deny');
    });

    it('runs without any value', async () => {
      const { stderr } = await documented('docs/kubernetes-install.md', 'npm run release', packed());
      expect(helmErrors({ exitCode: 0, stdout: '', stderr })).toEqual([]);
      // Once more, and nothing is changed.
      const again = { 'helm install': 'helm upgrade --install' };
      await documented('docs/quickstart.md', 'npx vc-manager doctor', {
        ...ofCluster(),
        ...packed(),
        ...again,
      });
      await release.untilRolledOut();
      // The manager that leads makes the definitions, some time after it is ready.
      await world.superCluster.untilServed('skerry.dev/v1alpha1', 'virtualclusters');
    });

    /** A pod runs, and its Service has an address of the range and leads to it. */
    async function untilServed(
      tenant: Tenant,
      range: string,
      host: (address: string) => string,
    ): Promise<void> {
      // Level restricted would not have this pod: namespaces of tenants enforce the level of their tenant.
      await tenant.apply(webPod('default', 'web'), service('default', 'web'));
      await untilReady(tenant, 'default', 'web');
      const address = await tenant.until<string>(
        { resource: resources.services, namespace: 'default', name: 'web', what: `an address of ${range}` },
        ([found]) => {
          const { clusterIP = '' } = (found?.['spec'] ?? {}) as { clusterIP?: string };
          return isInRange(clusterIP, range) && clusterIP;
        },
      );
      const ask = `curl -s -m 5 http://${host(address)}/hostname || true`;
      // Nodes hear of endpoints in their own time, and DNS starts later than the pod.
      await poll(
        'the Service to answer',
        async () => (await shellInPod(tenant, { namespace: 'default', name: 'web' }, ask)) === 'web',
      );
    }

    it('gives a tenant addresses of its own range where no other can be had', async () => {
      const tenant = await createTenant('first');
      expect(tenant.virtualCluster.status).toMatchObject({ serviceIPMode: 'assigned' });
      await untilServed(tenant, serviceRange, () => 'web.default.svc.cluster.local');
    });

    it('gives tenants ranges of their own as soon as it may, which is told when the manager starts', async () => {
      await world.superCluster.kubectl('delete', 'validatingadmissionpolicybinding', bindingName);
      await untilRanges('accepted', ({ exitCode }) => exitCode === 0);
      // Other arguments of the manager, so it is started anew.
      const byNodePort = [
        'service.type=NodePort',
        `service.nodePort=${nodePort}`,
        `address=${nodeAddress()}`,
      ];
      const values = ['enabled=true', `domain=${domain}`, ...byNodePort];
      const sets = values.flatMap((value) => ['--set', `gateway.${value}`]);
      expect(helmErrors(await release.upgrade(...sets))).toEqual([]);
      await world.superCluster.kubectl(
        ...['-n', release.namespace, 'rollout', 'status', 'deployment/skerry-gateway', patiently],
      );
      await world.superCluster.until(
        { resource: resources.serviceCidrs, name: 'skerry-tenants', what: 'the range of tenants' },
        ([found]) => found !== undefined,
      );
      const tenant = await createTenant('second', { dns: 'none' });
      const { serviceIPMode, serviceCIDR = '' } = tenant.virtualCluster.status ?? {};
      expect(serviceIPMode).toBe('slice');
      await untilServed(tenant, serviceCIDR, (address) => address);
    });

    it('leads clients outside of the pod network to a tenant by a port of the nodes', async () => {
      const tenant = await world.openTenant('second');
      expect(connectionFromSecret(tenant.kubeconfig)).toMatchObject({
        server: `https://${nodeAddress()}:${nodePort}`,
        tlsServerName: `${tenant.id}.${domain}`,
      });
      expect(await tenant.kubectl('get', 'namespaces', '-o', 'name')).toContain('namespace/kube-system');
    });

    it('is rid of all that helm has installed when that is uninstalled', async () => {
      expect(helmErrors(await release.uninstall('--wait', patiently))).toEqual([]);
      for (const component of ['manager', 'syncer', 'etcd'] as const)
        await release.untilPods(component, 'its pods to go', (pods) => pods.length === 0);
    });
  },
);
