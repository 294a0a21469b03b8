import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { resources } from '../kube/index.ts';
import { tenantSecret } from './harness/certificates.ts';
import { storedValue } from './harness/datastore.ts';
import { kill } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

const name = 'sealed';
const planted = 'planted-6c1f9a';

/** The API server is started anew three times, on a busy machine, and a manager before it. */
const rotationMs = 240_000;

describe('the Secrets of a tenant in the datastore', () => {
  let world: World;
  let tenant: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant(name);
    await tenant.kubectl('create', 'secret', 'generic', 'bank', `--from-literal=pin=${planted}`);
    await tenant.kubectl('create', 'configmap', 'leaflet', `--from-literal=text=${planted}`);
  });
  afterAll(() => world?.close());

  const stored = async (path: string): Promise<string> => {
    const { status } = await world.virtualCluster(name);
    return storedValue(inject('stack').stateDir, `/tenants/${status?.id}/${path}`);
  };
  const until = <R>(what: string, answer: (vc: VirtualCluster) => R | undefined | false): Promise<R> =>
    world.superCluster.until<R, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: 'default', name, what, timeoutMs: rotationMs },
      ([vc]) => (vc === undefined ? undefined : answer(vc)),
    );
  const read = async (): Promise<string> => {
    const pin = await tenant.kubectl('get', 'secret', 'bank', '-o', 'jsonpath={.data.pin}');
    return Buffer.from(pin, 'base64').toString();
  };

  it('cannot be read from its bytes, where other objects can', async () => {
    const { status } = await world.virtualCluster(name);
    expect(await stored('configmaps/default/leaflet')).toContain(planted);
    const bytes = await stored('secrets/default/bank');
    expect(bytes).not.toContain(planted);
    expect(bytes).toContain(`k8s:enc:secretbox:v1:${status?.encryption?.key}:`);
    expect(await read()).toBe(planted);
  });

  it('are written anew with another key on request, though the manager is killed meanwhile', async () => {
    const before = await world.virtualCluster(name);
    const old = before.status?.encryption?.key;
    const { exitCode, stderr } = await world.cli(['rotate-encryption-key', name]);
    expect(exitCode, stderr).toBe(0);
    await until('the new key to write', ({ status }) => status?.encryption?.rotation === 'write');
    await kill(await world.process('vc-manager'));
    const after = await until(
      'the end of the rotation',
      ({ status }) => status?.jobs?.current === undefined && status?.jobs?.rotated !== undefined && status,
    );
    expect(after.encryption?.key).not.toBe(old);
    expect(after.encryption?.rotation).toBeUndefined();
    expect(await stored('secrets/default/bank')).toContain(`k8s:enc:secretbox:v1:${after.encryption?.key}:`);
    expect(await read()).toBe(planted);
    expect((await tenantSecret(world, tenant, 'pki'))['encryption.json']).not.toContain(`${old}`);
  });
});
