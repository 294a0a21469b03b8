import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Connection, KubeClient, type KubeObject, resources } from '../../kube/index.ts';
import { FakeApiServer } from '../../kube/testing/index.ts';
import {
  SimulatedProvisioner,
  type StoragePlanOptions,
  storagePlan,
  type Volume,
} from './simulated-storage.ts';

const claims = resources.persistentVolumeClaims;
const volumes = resources.persistentVolumes;
const ref = { namespace: 'default', name: 'data' };
const ours = { 'volume.kubernetes.io/storage-provisioner': 'skerry.dev/simulated' };

function claim(
  changes: { annotations?: Record<string, string>; storage?: string; volumeName?: string } = {},
): KubeObject {
  const { annotations = ours, storage = '1Gi', volumeName } = changes;
  return {
    metadata: { ...ref, annotations },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'simulated',
      resources: { requests: { storage } },
      ...(volumeName === undefined ? {} : { volumeName }),
    },
    status:
      volumeName === undefined ? { phase: 'Pending' } : { phase: 'Bound', capacity: { storage: '1Gi' } },
  };
}

describe('SimulatedProvisioner', () => {
  let server: FakeApiServer;
  let connection: Connection;
  let abort: AbortController;
  let running: Promise<void>;
  beforeEach(async () => {
    server = await FakeApiServer.start();
    server.put(resources.storageClasses, { metadata: { name: 'simulated' }, reclaimPolicy: 'Delete' });
    connection = new Connection(server.connectionOptions);
    abort = new AbortController();
    running = new SimulatedProvisioner({
      ...{ client: new KubeClient(connection), onProblem: () => undefined },
    }).run(abort.signal);
  });
  afterEach(async () => {
    abort.abort();
    await running;
    await connection.close();
    await server.stop();
  });

  const uid = () => server.get(claims, ref)?.metadata.uid;
  const volume = () => server.get(volumes, { name: `pvc-${uid()}` }) as Volume | undefined;

  it('makes a volume for a claim that waits for it, bound to that very claim', async () => {
    server.put(claims, claim());
    await server.until(() => volume() !== undefined);
    expect(volume()).toMatchObject({
      metadata: { labels: { 'skerry.dev/simulated': 'true' } },
      spec: {
        capacity: { storage: '1Gi' },
        claimRef: { ...ref, uid: uid() },
        storageClassName: 'simulated',
        persistentVolumeReclaimPolicy: 'Delete',
      },
    });
  });

  it('leaves the claims of other provisioners alone', async () => {
    server.put(claims, { ...claim(), metadata: { ...ref, name: 'other', annotations: {} } });
    server.put(claims, claim());
    await server.until(() => volume() !== undefined);
    expect(server.list(volumes)).toHaveLength(1);
  });

  it('tries again when the server fails', async () => {
    server.inject({ verb: 'create', plural: 'persistentvolumes', fault: { kind: 'status', code: 500 } });
    server.put(claims, claim());
    await server.until(() => volume() !== undefined);
  });

  it('lets a volume grow with its claim', async () => {
    server.put(claims, claim());
    await server.until(() => volume() !== undefined);
    server.put(claims, claim({ storage: '5Gi', volumeName: `pvc-${uid()}` }));
    const capacity = () =>
      (server.get(claims, ref)?.['status'] as { capacity?: { storage?: string } } | undefined)?.capacity
        ?.storage;
    await server.until(() => capacity() === '5Gi');
    expect(volume()?.spec?.capacity?.storage).toBe('5Gi');
  });

  it('deletes its own released volumes unless they are to be retained', async () => {
    const released = (name: string, changes: object, provisioner = 'skerry.dev/simulated') =>
      server.put(volumes, {
        metadata: { name, annotations: { 'pv.kubernetes.io/provisioned-by': provisioner } },
        spec: { persistentVolumeReclaimPolicy: 'Delete', ...changes },
        status: { phase: 'Released' },
      });
    released('kept', { persistentVolumeReclaimPolicy: 'Retain' });
    released('foreign', {}, 'example.com/other');
    released('gone', {});
    await server.until(() => server.get(volumes, { name: 'gone' }) === undefined);
    expect(
      server
        .list(volumes)
        .map((each) => each.metadata.name)
        .sort(),
    ).toEqual(['foreign', 'kept']);
  });
});

const pem = { certPem: 'certificate', keyPem: 'key' };

function environment(packageVersion: string | undefined): Record<string, string> | undefined {
  const options = {
    pki: { servingCa: pem, kwok: pem },
    ports: { 'super-cluster': 6443 },
    bindAddress: '127.0.0.1',
    packageVersion,
  };
  return storagePlan(options as unknown as StoragePlanOptions)[0]?.env;
}

describe('storagePlan', () => {
  it('differs between versions of this package, so that a new one is started', () => {
    expect(environment('1.2.3')).not.toEqual(environment('1.2.4'));
    expect(environment(undefined)).toEqual({});
  });
});
