import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { type KubeObject, resources } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import { checkNodes, checkServiceRange, checkStorage, checkVersion } from './cluster-checks.ts';
import { runCaptured } from './testing/captured.ts';

const node = (ready: string, spec: object = {}): KubeObject => ({
  metadata: { name: 'n' },
  spec,
  status: { conditions: [{ type: 'Ready', status: ready }] },
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
    ['room for the pool', checkServiceRange(['10.96.0.0/16', 'fd00::/108'], [node('True')]), 'ok'],
    ['services in the pool', checkServiceRange(['10.0.0.0/8'], []), 'missing'],
    [
      'pods in the pool',
      checkServiceRange(['10.96.0.0/16'], [node('True', { podCIDRs: ['10.112.3.0/24'] })]),
      'missing',
    ],
    ['no ServiceCIDRs', checkServiceRange(undefined, []), 'warn'],
  ])('%s', (_, finding, state) => {
    expect(finding.state).toBe(state);
    expect(finding.remedy === undefined).toBe(state === 'ok');
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
    expect(world.server.requests.every(({ verb }) => !['update', 'patch', 'delete'].includes(verb))).toBe(
      true,
    );
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
