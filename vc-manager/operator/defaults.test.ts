import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Entry } from '../etcd/keyspace.ts';
import type { Services } from './services.ts';
import { fillDefaults } from './steps/defaults.ts';
import type { Tenant } from './tenant.ts';
import { fastPace, World } from './testing/world.ts';

const entry = (key: string, value = 'v'): Entry => ({ key, value: Buffer.from(value) });

describe('what a new API server creates first', () => {
  let world: World;
  /** What its API server writes when it starts. */
  let written: readonly Entry[];
  /** By tenant, what its API server has found there. */
  let found: Record<string, string[]>;
  beforeEach(async () => {
    world = await World.start(fastPace(10));
    written = [entry('clusterroles/admin'), entry('flowschemas/exempt'), entry('namespaces/kube-system')];
    found = {};
    world.driver.beforeEnsure = ({ id }) => {
      const { entries } = world.datastore;
      found[id] ??= (entries.get(id) ?? []).map(({ key }) => key);
      entries.set(id, [...written]);
    };
    world.run();
  });
  afterEach(() => world.end());

  const made = async (name: string, spec: object = {}): Promise<string[] | undefined> => {
    world.create(name, spec);
    const { status } = await world.untilReady(name);
    return found[status?.id ?? ''];
  };

  it('is in the datastore of the next ones before they start, without what tells clusters apart', async () => {
    expect(await made('first')).toEqual([]);
    written = [entry('clusterroles/of-a-tenant')];
    expect(await made('second')).toEqual(['clusterroles/admin', 'flowschemas/exempt']);
    expect(await made('third')).toEqual(['clusterroles/admin', 'flowschemas/exempt']);
  });

  it('is not taken from a datastore that was in use before', async () => {
    world.datastore.usage.keys = 1;
    await made('restored');
    world.datastore.usage.keys = 0;
    expect(await made('next')).toEqual([]);
  });

  it.each([true, false])('is taken only where authorities are new too: %s', async (hasNewPki) => {
    const choice = { version: '1.36.3', template: { metadata: { name: 'v1-36' } } };
    const required = (value: unknown): unknown => value;
    const stub = { vc: {}, id: 'a', wasStarted: false, hasNewPki, beganEmpty: false, choice, required };
    const tenant = stub as unknown as Tenant;
    const { datastore } = world;
    await fillDefaults.run(tenant, { datastore, defaults: new Map() } as unknown as Services);
    expect(tenant.beganEmpty).toBe(hasNewPki);
  });

  it('is not taken where it is encrypted, with a key of one tenant', async () => {
    written = [entry('clusterroles/admin', 'k8s:enc:secretbox:v1:key1:')];
    await made('first');
    expect(await made('second')).toEqual([]);
  });

  it('is of the same template only', async () => {
    await made('first');
    expect(await made('older', { template: 'v1-35' })).toEqual([]);
  });
});
