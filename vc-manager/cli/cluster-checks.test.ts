import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { type KubeObject, resources } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import {
  checkNetworkPolicies,
  checkNodes,
  checkServiceRange,
  checkStorage,
  checkVersion,
} from './cluster-checks.ts';
import { runCaptured } from './testing/captured.ts';

const node = (ready: string, spec: object = {}, addresses: readonly string[] = []): KubeObject => ({
  metadata: { name: 'n' },
  spec,
  status: {
    conditions: [{ type: 'Ready', status: ready }],
    addresses: addresses.map((address) => ({ type: 'InternalIP', address })),
  },
});
const storageClass = (name: string, isDefault = ''): KubeObject => ({
  metadata: { name, annotations: { 'storageclass.kubernetes.io/is-default-class': isDefault } },
});

describe('what doctor thinks of a cluster', () => {
  it.each([
    ['the oldest version that will do', checkVersion('v1.29.0'), 'ok'],
    ['a version with a suffix', checkVersion('v1.33.2+k3s1'), 'ok'],
    ['an old version', checkVersion('v1.28.9'), 'missing'],
    ['a node', checkNodes([node('True'), node('False')]), 'ok'],
    ['only nodes that are cordoned', checkNodes([node('True', { unschedulable: true })]), 'missing'],
    ['a default class', checkStorage([storageClass('a'), storageClass('b', 'true')]), 'ok'],
    ['no default class', checkStorage([storageClass('a')]), 'missing'],
    ['no class', checkStorage([]), 'missing'],
    ['room for the pool', checkServiceRange({ services: ['10.96.0.0/16', 'fd00::/108'] }), 'ok'],
    ["k3s' ranges", checkServiceRange({ services: ['10.43.0.0/16'], pods: ['10.42.0.7/32'] }), 'ok'],
    ['services in the pool', checkServiceRange({ services: ['10.0.0.0/8'] }), 'missing'],
    [
      'ranges of pods in the pool',
      checkServiceRange({ nodes: [node('True', { podCIDRs: ['10.112.3.0/24'] })] }),
      'missing',
    ],
    ['a pod in the pool', checkServiceRange({ pods: ['10.113.0.9/32'] }), 'missing'],
    ['a node in the pool', checkServiceRange({ nodes: [node('True', {}, ['10.120.0.9', 'n'])] }), 'missing'],
    ['no range to be had', checkServiceRange({ refusal: 'it has none' }), 'warn'],
    [
      'an engine for policies',
      checkNetworkPolicies({ groups: [{ name: 'cilium.io' }] }, [
        node('True', { podCIDRs: ['10.1.0.0/24'] }),
      ]),
      'ok',
    ],
    [
      'an engine that gives pods addresses of its own',
      checkNetworkPolicies({ groups: [{ name: 'crd.k8s.amazonaws.com' }] }, [node('True')]),
      'warn',
    ],
    ['no known engine for policies', checkNetworkPolicies({ groups: [{ name: 'apps' }] }), 'warn'],
  ])('%s', (_, finding, state) => {
    expect(finding.state).toBe(state);
    expect(finding.remedy === undefined).toBe(state === 'ok');
  });

  it('names a range that is free', () => {
    const finding = checkServiceRange({ services: ['10.112.0.0/12'], pods: ['10.144.0.1/32'] });
    expect(finding.remedy).toContain('--set manager.servicePool=10.160.0.0/12,');
    expect(checkServiceRange({ services: ['10.0.0.0/8'] }).remedy).toContain('servicePool=RANGE');
  });

  describe('whose policies refuse', () => {
    interface Finding {
      name: string;
      state: string;
      detail: string;
    }
    /** What doctor finds by name when creating a kind is answered so. */
    const findings = async (
      plural: string,
      message: string,
    ): Promise<(name: string) => Finding | undefined> => {
      await using world = await FakeApiServerWithFile.start();
      world.server.put(resources.serviceCidrs, {
        metadata: { name: 'kubernetes' },
        spec: { cidrs: ['10.43.0.0/16'] },
      });
      const fault = { kind: 'status', code: 403, reason: 'Forbidden', message } as const;
      world.server.inject({ verb: 'create', plural, times: 10, fault });
      const args = ['doctor', '--super-kubeconfig', world.file, '-o', 'json'];
      const { stdout } = await runCaptured(args, { HOME: world.directory });
      const all = JSON.parse(stdout) as Finding[];
      return (name) => all.find((each) => each.name === name);
    };
    const denied = `"x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`;

    it.each([
      ['a range for tenants', 'servicecidrs', 'service addresses of tenants', 'warn'],
      ['namespaces', 'namespaces', 'policies', 'missing'],
      ['pods', 'pods', 'policies', 'warn'],
    ])('%s', async (_, plural, name, state) => {
      const find = await findings(plural, denied);
      expect(find(name)).toMatchObject({ state, detail: expect.stringContaining(denied) });
      const others = ['service addresses of tenants', 'Pod Security', 'policies'].filter(
        (each) => each !== name,
      );
      expect(others.map((each) => find(each)?.state)).toEqual(['ok', 'ok']);
    });

    it('nothing, where Pod Security is enforced, and says which level', async () => {
      const find = await findings(
        'pods',
        '"x" is forbidden: violates PodSecurity "restricted:latest": hostNetwork',
      );
      expect(find('Pod Security')).toMatchObject({
        state: 'ok',
        detail: expect.stringContaining('restricted'),
      });
      expect(find('policies')?.state).toBe('ok');
    });

    it('nothing that can be told, where a webhook cannot be tried', async () => {
      const find = await findings('namespaces', 'admission webhook "w" does not support dry run');
      expect(find('policies')?.state).toBe('ok');
    });
  });

  it('knows the range of Services where there are no ServiceCIDRs', async () => {
    await using world = await FakeApiServerWithFile.start();
    const fault = { kind: 'status', code: 404, reason: 'NotFound' } as const;
    world.server.inject({ verb: 'list', plural: 'servicecidrs', times: 1, fault });
    world.server.put(resources.services, {
      metadata: { namespace: 'default', name: 'kubernetes' },
      spec: { clusterIP: '10.112.0.1' },
    });
    const args = ['doctor', '--super-kubeconfig', world.file];
    const { stdout } = await runCaptured(args, { HOME: world.directory });
    expect(stdout).toMatch(
      /^MISSING +service addresses of tenants +.* overlaps 10\.112\.0\.0\/12 of the Services/m,
    );
  });

  it('is told before an install, and changes nothing', async () => {
    await using world = await FakeApiServerWithFile.start();
    world.server.put(resources.nodes, node('True'));
    world.server.put(resources.storageClasses, storageClass('local'));
    const args = ['doctor', '--super-kubeconfig', world.file];
    const { exitCode, stdout, stderr } = await runCaptured(args, { HOME: world.directory });
    expect([exitCode, stderr]).toEqual([1, '']);
    expect(stdout).toMatch(/^ok +nodes +1 of 1 ready/m);
    expect(stdout).toMatch(/^MISSING +storage/m);
    expect(stdout).toContain('--set etcd.storage.className=local');
    const writes = world.server.requests.filter(
      ({ method, plural, query }) =>
        method !== 'GET' && plural !== 'selfsubjectaccessreviews' && query.get('dryRun') !== 'All',
    );
    expect(writes).toEqual([]);
  });
});

class FakeApiServerWithFile implements AsyncDisposable {
  readonly server: FakeApiServer;
  readonly directory: string;

  private constructor(server: FakeApiServer, directory: string) {
    this.server = server;
    this.directory = directory;
  }

  static async start(): Promise<FakeApiServerWithFile> {
    const server = await FakeApiServer.start();
    const world = new FakeApiServerWithFile(server, await mkdtemp(join(tmpdir(), 'skerry-doctor-')));
    const kubeconfig = {
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server: server.url } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    };
    await writeFile(world.file, stringify(kubeconfig));
    return world;
  }

  get file(): string {
    return join(this.directory, 'super.kubeconfig');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}
