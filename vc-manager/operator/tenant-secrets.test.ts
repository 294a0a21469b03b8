import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  Connection,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';
import { verifyCopy } from './tenant-secrets.ts';
import { condition, jobRequests, World } from './testing/world.ts';

let world: World;
beforeEach(async () => {
  world = await World.start();
});
afterEach(() => world.end());

const { annotate } = jobRequests(() => world);
const dataOf = (secret: KubeObject | undefined): Record<string, string> =>
  Object.fromEntries(
    Object.entries((secret?.['data'] ?? {}) as Record<string, string>).map(([key, value]) => [
      key,
      Buffer.from(value, 'base64').toString(),
    ]),
  );
const encoded = (text: string): string => Buffer.from(text).toString('base64');
const inTeam = (): KubeObject[] =>
  world.superCluster.list(resources.secrets).filter(({ metadata }) => metadata.namespace === 'team');
const namesInTeam = (): (string | undefined)[] => inTeam().map(({ metadata }) => metadata.name);

/** A Secret in the owner's namespace that says that it is this VirtualCluster's. */
function plant(vc: VirtualCluster, name: string, data: Record<string, string>): void {
  const owner = {
    apiVersion: 'skerry.dev/v1alpha1',
    kind: 'VirtualCluster',
    name: 'a',
    uid: vc.metadata.uid ?? '',
  };
  const metadata = {
    namespace: 'team',
    name,
    labels: { [labelKeys.virtualCluster]: 'a' },
    annotations: { [annotationKeys.id]: vc.status?.id ?? '' },
    ownerReferences: [owner],
  };
  world.superCluster.put(resources.secrets, {
    metadata,
    type: 'Opaque',
    data: Object.fromEntries(Object.entries(data).map(([key, value]) => [key, encoded(value)])),
  });
}

/** As a version before this one leaves a tenant: all Secrets beside the VirtualCluster. */
function asEarlierVersion(vc: VirtualCluster): void {
  for (const which of ['pki', 'syncer'] as const) {
    const secret = world.secretOf('a', which) as KubeObject;
    plant(vc, `a-${which}`, dataOf(secret));
    world.superCluster.remove(resources.secrets, {
      namespace: 'skerry-system',
      name: secret.metadata.name ?? '',
    });
  }
  const syncerSecret = {
    name: 'a-syncer',
    key: 'kubeconfig',
    version: vc.status?.syncerSecret?.version ?? '',
  };
  world.superCluster.put(resources.virtualClusters, {
    ...vc,
    status: { ...vc.status, syncerSecret },
  } as KubeObject);
}

describe('in its namespace the owner of a VirtualCluster', () => {
  it('finds the kubeconfig of the admin and no other key', async () => {
    world.run();
    world.create('a');
    await world.untilReady('a');
    expect(namesInTeam()).toEqual(['a-kubeconfig']);
    const found = inTeam()
      .map((secret) => JSON.stringify(dataOf(secret)))
      .join();
    const pki = dataOf(world.secretOf('a', 'pki'));
    const keys = Object.entries(pki).filter(([name]) => name.endsWith('.key') || name === 'encryption.json');
    expect(keys.map(([name]) => name)).toEqual(
      expect.arrayContaining(['client-ca.key', 'etcd-client.key', 'encryption.json', 'syncer.key']),
    );
    const lines = (text: string): string => JSON.stringify(text).slice(1, -1);
    const admin = connectionFromSecret(dataOf(inTeam()[0])['kubeconfig'] ?? '').key;
    // The control: the key that the owner is meant to have is found by the same comparison.
    expect(admin).toBe(pki['admin.key']);
    for (const [name, key] of keys)
      if (name !== 'admin.key') {
        expect(found, name).not.toContain(lines(key));
        expect(found, name).not.toContain(encoded(key));
      }
  });

  it('changes nothing by Secrets under the names of earlier versions', async () => {
    const first = world.run();
    world.create('a');
    const vc = await world.untilReady('a');
    const pki = dataOf(world.secretOf('a', 'pki'));
    const syncer = dataOf(world.secretOf('a', 'syncer'));
    await first.stop();
    world.create('b');
    world.run();
    await world.untilReady('b');
    const others = dataOf(world.secretOf('b', 'pki'));
    plant(vc, 'a-pki', others);
    plant(vc, 'a-syncer', { kubeconfig: syncer['kubeconfig']?.replace('127.0.0.1', '192.0.2.66') ?? '' });
    world.edit('a', { weight: 7 });
    await world.until('a', ({ status }) => status?.observedGeneration === 2);
    expect(dataOf(world.secretOf('a', 'pki'))).toEqual(pki);
    expect(dataOf(world.secretOf('a', 'syncer'))).toEqual(syncer);
    // Not even in place of one that is lost.
    plant(vc, 'a-pki', others);
    const ref = { namespace: 'skerry-system', name: `tenant-${vc.status?.id}-pki` };
    world.superCluster.remove(resources.secrets, ref);
    world.edit('a', { weight: 8 });
    const lost = await world.untilReason('a', 'CertificatesReady', 'PkiLost');
    expect(condition(lost, 'Ready')?.message).toContain(`${ref.namespace}/${ref.name}`);
    await world.delete('a');
    await world.untilGone('a');
    expect(namesInTeam()).toEqual(['b-kubeconfig']);
  });

  it('cannot hand authorities to a VirtualCluster that is made', async () => {
    world.run();
    world.create('b');
    await world.untilReady('b');
    const own = dataOf(world.secretOf('b', 'pki'));
    const id = 'chosen0001';
    const labels = { [labelKeys.virtualCluster]: 'a' };
    const annotations = { [annotationKeys.id]: id };
    world.superCluster.put(resources.secrets, {
      metadata: { namespace: 'team', name: 'a-pki', labels, annotations },
      data: Object.fromEntries(Object.entries(own).map(([key, value]) => [key, encoded(value)])),
    });
    world.create('a', {}, { annotations });
    expect((await world.untilReady('a')).status?.id).toBe(id);
    expect(dataOf(world.secretOf('a', 'pki'))['client-ca.key']).not.toBe(own['client-ca.key']);
  });
});

describe('the Secrets of a tenant of an earlier version', () => {
  it('are moved without a change to its control plane', async () => {
    const maker = world.run();
    world.create('a');
    const vc = await world.untilReady('a');
    await maker.stop();
    const pki = dataOf(world.secretOf('a', 'pki'));
    asEarlierVersion(vc);
    expect(namesInTeam()).toEqual(expect.arrayContaining(['a-pki', 'a-syncer']));
    world.driver.ensured.length = 0;
    world.run();
    const after = await world.until('a', ({ status }) => status?.syncerSecret?.namespace !== undefined);
    expect(after.status?.syncerSecret).toEqual(vc.status?.syncerSecret);
    expect(dataOf(world.secretOf('a', 'pki'))).toEqual(pki);
    expect(namesInTeam()).toEqual(['a-kubeconfig']);
    expect(world.driver.ensured).toEqual(
      world.driver.ensured.map(() => world.driver.plans.get(vc.status?.id ?? '')),
    );
  });

  it('are kept while something else is where they are to go', async () => {
    const maker = world.run();
    world.create('a');
    const vc = await world.untilReady('a');
    await maker.stop();
    asEarlierVersion(vc);
    const name = `tenant-${vc.status?.id}-pki`;
    world.superCluster.put(resources.secrets, {
      metadata: {
        namespace: 'skerry-system',
        name,
        annotations: { [annotationKeys.id]: vc.status?.id ?? '', [annotationKeys.tenantName]: 'team/other' },
      },
    });
    world.run();
    await world.untilReason('a', 'CertificatesReady', 'SecretNotOurs');
    expect(namesInTeam()).toEqual(expect.arrayContaining(['a-pki', 'a-syncer']));
    world.superCluster.remove(resources.secrets, { namespace: 'skerry-system', name });
    annotate('a', annotationKeys.retryJob, 'now');
    await world.until('a', ({ status }) => status?.syncerSecret?.namespace !== undefined);
    expect(namesInTeam()).toEqual(['a-kubeconfig']);
  });

  it('are not taken for copied when something else is stored', async () => {
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const client = new KubeClient(new Connection(world.superCluster.connectionOptions));
    const tenant = { id: status?.id, key: 'team/a', signal: new AbortController().signal } as Tenant;
    const services = { client, settings: { namespace: 'skerry-system' } } as Services;
    const pki = dataOf(world.secretOf('a', 'pki'));
    await verifyCopy(tenant, services, 'pki', pki);
    for (const other of [
      { ...pki, more: 'x' },
      { ...pki, 'client-ca.key': 'x' },
    ])
      await expect(verifyCopy(tenant, services, 'pki', other)).rejects.toMatchObject({
        code: 'SecretNotCopied',
      });
    await client.connection.close();
  });

  it('are removed by the next manager when one dies after the copy', async () => {
    const maker = world.run();
    world.create('a');
    const vc = await world.untilReady('a');
    await maker.stop();
    const pki = world.secretOf('a', 'pki') as KubeObject;
    asEarlierVersion(vc);
    world.superCluster.put(resources.secrets, pki);
    // What the owner writes there meanwhile counts no more.
    plant(vc, 'a-pki', { 'client-ca.key': 'mine' });
    world.run();
    await world.until('a', ({ status }) => status?.syncerSecret?.namespace !== undefined);
    expect(dataOf(world.secretOf('a', 'pki'))).toEqual(dataOf(pki));
    expect(namesInTeam()).toEqual(['a-kubeconfig']);
  });
});
