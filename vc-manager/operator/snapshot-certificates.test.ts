import { afterEach, beforeEach, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  ApiError,
  type KubeClient,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import type { Services } from './services.ts';
import { certificatesIn, confirmCertificates, pkiWith } from './snapshot-certificates.ts';
import type { Tenant } from './tenant.ts';

let cluster: FakeCluster;
beforeEach(async () => {
  cluster = await startFakeCluster();
});
afterEach(() => cluster[Symbol.asyncDispose]());

type State = 'claims' | 'has' | 'runs with';
const claim = pkiWith({ 'client-ca.crt': 'of the snapshot' });
const namespace = 'skerry-system';

function put(name: string, uid: string, state: State, changes: object = {}): VirtualCluster {
  putSecret(name, state);
  return cluster.server.put(resources.virtualClusters, {
    metadata: { namespace: 'team', name, uid, creationTimestamp: '2026-03-01T12:00:00Z', ...changes },
    spec: { restoreCertificates: true },
    status: {
      id: name,
      ...(state === 'runs with' && { version: '1.36.3' }),
      ...('phase' in changes && { phase: changes.phase }),
    },
  } as never) as VirtualCluster;
}

function putSecret(name: string, state: State): void {
  const data = state === 'claims' ? claim : { ...claim, 'snapshot-certificates': 'confirmed' };
  const annotations = { [annotationKeys.id]: name, [annotationKeys.tenantName]: `team/${name}` };
  cluster.server.put(resources.secrets, {
    metadata: { namespace, name: `tenant-${name}-pki`, annotations },
    data: Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    ),
  } as never);
}

const secretOf = (name: string) =>
  cluster.server.get(resources.secrets, { namespace, name: `tenant-${name}-pki` });

async function confirm(vc: VirtualCluster, state: State, client = cluster.client): Promise<string> {
  const name = vc.metadata.name ?? '';
  const tenant = {
    ...{ vc, id: name, key: `team/${name}`, uid: vc.metadata.uid, labels: {} },
    signal: new AbortController().signal,
  };
  const own = state === 'claims' ? claim : { ...claim, 'snapshot-certificates': 'confirmed' };
  const services = { client, settings: { namespace } };
  return confirmCertificates(tenant as never as Tenant, services as never as Services, own).then(
    () => 'gets them',
    (error: { code?: string }) => error.code ?? String(error),
  );
}

it.each<[State, State, string, string]>([
  ['claims', 'claims', 'gets them', 'CertificatesInUse'],
  ['has', 'claims', 'gets them', 'CertificatesInUse'],
  ['claims', 'has', 'CertificatesInUse', 'gets them'],
  ['has', 'has', 'gets them', 'CertificatesInUse'],
  ['claims', 'runs with', 'CertificatesInUse', ''],
  ['has', 'runs with', 'CertificatesInUse', ''],
])(
  'of two tenants, where the older %s the certificates of a snapshot and the other %s them, one gets them',
  async (older, younger, ofOlder, ofYounger) => {
    const one = put('one', '1', older);
    const other = put('other', '2', younger);
    if (ofYounger !== '') {
      // Each as if it came first.
      expect(await confirm(other, younger)).toBe(ofYounger);
      if (ofYounger === 'CertificatesInUse')
        expect(secretOf('other') === undefined).toBe(younger === 'claims');
      put('one', '1', older);
      put('other', '2', younger);
    }
    expect(await confirm(one, older)).toBe(ofOlder);
    if (ofOlder !== 'CertificatesInUse') return;
    expect(secretOf('one') === undefined).toBe(older === 'claims');
    if (older === 'claims' && ofYounger !== '') expect(await confirm(other, younger)).toBe('gets them');
  },
);

it('has one that has lost its status give way to nobody unseen', async () => {
  const { status: _, ...lost } = put('one', '1', 'has');
  const annotations = { [annotationKeys.id]: 'one' };
  cluster.server.put(resources.virtualClusters, { ...lost, metadata: { ...lost.metadata, annotations } });
  expect(await confirm(put('other', '2', 'claims'), 'claims')).toBe('CertificatesInUse');
});

it('has its Secret say that a tenant is the only one, before anything is started', async () => {
  const vc = put('one', '1', 'claims');
  expect(await confirm(vc, 'claims')).toBe('gets them');
  expect(await confirm(put('other', '0', 'claims'), 'claims')).toBe('CertificatesInUse');
});

const deleted = { deletionTimestamp: '2026-03-01T12:01:00Z' };
const cancelled = { phase: 'Cancelled' };

it.each([
  ['deleted', deleted],
  ['cancelled', cancelled],
])('waits for none that was %s while it claimed them, be it the younger or the older one', async (_, end) => {
  const one = put('one', '1', 'claims');
  put('other', '2', 'claims', end);
  expect(await confirm(one, 'claims')).toBe('gets them');
  // One that was cancelled may be begun anew.
  putSecret('other', 'claims');
  expect(await confirm(put('other', '2', 'claims'), 'claims')).toBe('CertificatesInUse');

  put('one', '1', 'claims', end);
  expect(await confirm(put('other', '2', 'claims'), 'claims')).toBe('gets them');
  expect(secretOf('one')).toBeUndefined();
});

it.each<[string, State, object, string]>([
  ['deleted before it got them', 'claims', deleted, 'gets them'],
  ['cancelled before it got them', 'claims', cancelled, 'gets them'],
  ['cancelled when it had them', 'has', cancelled, 'CertificatesInUse'],
  ['deleted when it ran', 'runs with', deleted, 'CertificatesInUse'],
  ['made', 'claims', {}, 'CertificatesInUse'],
])(
  'of a snapshot are there for a later tenant or not, where another one was %s',
  async (_, state, end, expected) => {
    const other = put('other', '2', state, end);
    const services = {
      ...{ client: cluster.client, settings: { namespace } },
      virtualClusters: { list: () => [other] },
    };
    // It has the id of the snapshot.
    const header = { certificates: { 'client-ca.crt': 'of the snapshot' }, id: 'other', identity: 'gone' };
    const tenant = { uid: '1', signal: new AbortController().signal };
    const found = certificatesIn(header as never, tenant as never as Tenant, services as never).then(
      () => 'gets them',
      (error: { code?: string }) => error.code ?? String(error),
    );
    expect(await found).toBe(expected);
  },
);

it.each([
  ['deleted', deleted],
  ['cancelled', cancelled],
])('leaves those that a tenant has got with it, when that was %s before it was started', async (_, end) => {
  put('one', '1', 'has', end);
  expect(await confirm(put('other', '2', 'claims'), 'claims')).toBe('CertificatesInUse');
});

it('is not confirmed by a manager that read an earlier claim of the same tenant', async () => {
  const vc = put('one', '1', 'claims');
  const client = new Proxy(cluster.client, {
    get: (target, name) => {
      if (name !== 'list') return (target[name as 'get'] as () => unknown).bind(target);
      return async (...args: Parameters<KubeClient['list']>) => {
        const list = await target.list(...args);
        // An older tenant took the claim, and another manager made a new one.
        cluster.server.remove(resources.secrets, { namespace, name: 'tenant-one-pki' });
        putSecret('one', 'claims');
        return list;
      };
    },
  });
  expect(await confirm(vc, 'claims', client)).toBe('CertificatesWanted');
  expect(secretOf('one')).toMatchObject({
    data: { 'snapshot-certificates': Buffer.from('claimed').toString('base64') },
  });
});

/** Calls of a client that are carried out in this process, each after its turn. */
function atOnce(turn: () => Promise<void>) {
  const { server } = cluster;
  const refuse = (code: number): never => {
    throw new ApiError(code, undefined, 'refused');
  };
  const existing = (
    resource: Resource,
    ref: ObjectRef,
    { uid, resourceVersion }: KubeObject['metadata'] = {},
  ) => {
    const object = server.get(resource, ref) ?? refuse(404);
    const { metadata } = object;
    const isOther = (resourceVersion ?? metadata.resourceVersion) !== metadata.resourceVersion;
    return isOther || (uid ?? metadata.uid) !== metadata.uid ? refuse(409) : object;
  };
  return {
    list: async (resource: Resource) => {
      await turn();
      return { items: server.list(resource) };
    },
    get: async (resource: Resource, ref: ObjectRef) => {
      await turn();
      return existing(resource, ref);
    },
    patch: async (resource: Resource, ref: ObjectRef, { metadata, ...fields }: KubeObject) => {
      await turn();
      return server.put(resource, { ...existing(resource, ref, metadata), ...fields });
    },
    delete: async (resource: Resource, ref: ObjectRef, options: KubeObject['metadata']) => {
      await turn();
      existing(resource, ref, options);
      server.remove(resource, ref);
    },
  };
}

/** Each call of one of them waits until it is let through. */
class Turns {
  #through: (() => void) | undefined;
  #arrived = Promise.withResolvers<void>();
  isOver = false;
  readonly outcome: Promise<string>;

  constructor(work: (client: KubeClient, turn: () => Promise<void>) => Promise<string>) {
    const turn = (): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#through = resolve;
      this.#arrived.resolve();
      return promise;
    };
    const client = atOnce(turn) as never as KubeClient;
    this.outcome = work(client, turn).finally(() => {
      this.isOver = true;
      this.#arrived.resolve();
    });
  }

  async run(calls: number): Promise<void> {
    for (let done = 0; done < calls; done++) {
      await this.#arrived.promise;
      if (this.isOver) return;
      this.#arrived = Promise.withResolvers();
      this.#through?.();
    }
    await this.#arrived.promise;
  }
}

const maxCalls = 6;

it.each([
  ['', undefined],
  [', also where the younger is given up', 'other'],
  [', also where the older is given up', 'one'],
])('never has two get them, whichever calls of theirs come first%s', async (_, givenUp) => {
  const changesOf = (name: string): object => (name === givenUp ? deleted : {});
  const work =
    (name: string, uid: string) =>
    async (client: KubeClient, turn: () => Promise<void>): Promise<string> => {
      const { server } = cluster;
      for (let attempt = 0; ; attempt++) {
        await turn();
        if (secretOf(name) === undefined) putSecret(name, 'claims');
        const vc = server.get(resources.virtualClusters, { namespace: 'team', name }) as VirtualCluster;
        expect(vc.metadata.uid).toBe(uid);
        const outcome = await confirm(vc, 'claims', client);
        if (outcome !== 'CertificatesWanted' || attempt > 3) return outcome;
      }
    };
  const seen = new Set<string>();
  for (const isOtherFirst of [false, true])
    for (let first = 0; first <= maxCalls; first++)
      for (let second = 1; second <= maxCalls; second++) {
        for (const [name, uid] of [
          ['one', '1'],
          ['other', '2'],
        ] as const) {
          put(name, uid, 'claims', changesOf(name));
          cluster.server.remove(resources.secrets, { namespace, name: `tenant-${name}-pki` });
        }
        const one = new Turns(work('one', '1'));
        const other = new Turns(work('other', '2'));
        const [begins, follows] = isOtherFirst ? [other, one] : [one, other];
        await begins.run(first);
        await follows.run(second);
        await begins.run(Number.POSITIVE_INFINITY);
        await follows.run(Number.POSITIVE_INFINITY);
        const outcomes = `${await one.outcome}, ${await other.outcome}`;
        expect(outcomes).toMatch(/^(gets them, CertificatesInUse|CertificatesInUse, gets them)$/);
        seen.add(outcomes);
      }
  expect(seen.size).toBe(2);
});

it('of a snapshot are in use where the tenant of its id is, and not where another one shows its identity', async () => {
  const header = {
    certificates: { 'client-ca.crt': 'of the snapshot' },
    id: 'former',
    identity: 'uid-of-former',
  };
  const tenant = { uid: '1', signal: new AbortController().signal } as never as Tenant;
  const beside = (id: string, identity: string) => {
    const status = { id, identities: { tenant: identity } };
    const other = { metadata: { namespace: 'team', name: 'other', uid: '2' }, status };
    const services = {
      client: cluster.client,
      settings: { namespace },
      virtualClusters: { list: () => [other] },
    };
    return certificatesIn(header as never, tenant, services as never);
  };
  expect(await beside('another', 'uid-of-former')).toMatchObject({ 'client-ca.crt': 'of the snapshot' });
  await expect(beside('former', 'accepted')).rejects.toMatchObject({ code: 'CertificatesInUse' });
});
