import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  Connection,
  type ConnectionOptions,
  KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';
import { DriverError } from '../drivers/errors.ts';
import { EtcdError } from '../etcd/errors.ts';
import { condition, World } from './testing/world.ts';

describe('a step that fails', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.start();
  });
  afterEach(() => world.end());

  it('is told with reason and remedy, and tried again', async () => {
    let down = true;
    world.datastore.beforeEnsure = () => {
      if (down) throw new EtcdError('Unreachable', 'The datastore cannot be reached. Check that it runs.');
    };
    world.run();
    world.create('a');
    const failing = await world.untilReason('a', 'DatastoreReady', 'Unreachable');
    expect(condition(failing, 'DatastoreReady')).toMatchObject({
      status: 'False',
      message: expect.stringContaining('Check that it runs'),
    });
    expect(condition(failing, 'Ready')).toMatchObject({ status: 'False', reason: 'Unreachable' });
    expect(failing.status?.phase).toBe('Provisioning');
    down = false;
    const { status } = await world.untilReady('a');
    expect(status?.conditions?.every(({ status }) => status === 'True')).toBe(true);
  });

  it('of one component is told in the condition of that component', async () => {
    world.driver.beforeEnsure = () => {
      throw new DriverError('KeepsExiting', 'it has exited 5 times', {
        id: 'x',
        component: 'kube-controller-manager',
      });
    };
    world.run();
    world.create('a');
    const failing = await world.untilReason('a', 'ControllerManagerReady', 'KeepsExiting');
    expect(condition(failing, 'APIServerReady')?.reason).not.toBe('KeepsExiting');
  });

  it('for a lasting reason makes the phase Failed, until the spec changes', async () => {
    world.run();
    world.create('a', { version: '1.99' });
    const failed = await world.until('a', ({ status }) => status?.phase === 'Failed');
    expect(condition(failed, 'APIServerReady')).toMatchObject({
      status: 'False',
      reason: 'UnsupportedVersion',
      message: expect.stringContaining('1.36.3'),
    });
    expect(failed.status?.observedGeneration).toBe(1);
    world.edit('a', { version: '1.36' });
    expect((await world.untilReady('a')).status?.phase).toBe('Ready');
  });

  it('does not overwrite a Secret that somebody else has made', async () => {
    const data = { x: 'eQ==' };
    const ref = { namespace: 'team', name: 'b-kubeconfig' };
    world.superCluster.put(resources.secrets, { metadata: ref, data });
    world.run();
    world.create('b');
    const b = await world.untilReason('b', 'CertificatesReady', 'SecretNotOurs');
    expect(b.status?.phase).toBe('Failed');
    expect(condition(b, 'Ready')?.message).toContain('delete secret b-kubeconfig');
    await world.delete('b');
    await world.untilGone('b');
    expect(world.superCluster.get(resources.secrets, ref)?.['data']).toEqual(data);
  });

  it('does not adopt the Secrets of an earlier VirtualCluster of that name', async () => {
    const ownerReferences = [
      { apiVersion: 'skerry.dev/v1alpha1', kind: 'VirtualCluster', name: 'a', uid: 'earlier' },
    ];
    const labels = { [labelKeys.virtualCluster]: 'a' };
    const ref = { namespace: 'team', name: 'a-kubeconfig' };
    world.superCluster.put(resources.secrets, { metadata: { ...ref, labels, ownerReferences } });
    world.run();
    world.create('a');
    await world.untilReason('a', 'CertificatesReady', 'SecretNotOurs');
    world.superCluster.remove(resources.secrets, ref);
    world.edit('a', { weight: 2 });
    await world.untilReady('a');
  });

  it('makes no second set of authorities for a control plane that has lost its own', async () => {
    const operator = world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    await operator.stop();
    const ref = { namespace: 'skerry-system', name: `tenant-${status?.id}-pki` };
    const lost = world.superCluster.remove(resources.secrets, ref);
    world.run();
    const vc = await world.untilReason('a', 'CertificatesReady', 'PkiLost');
    expect(condition(vc, 'Ready')?.message).toContain('Restore the Secret from a backup');
    expect(world.superCluster.get(resources.secrets, ref)).toBeUndefined();
    world.superCluster.put(resources.secrets, lost as KubeObject);
    world.edit('a', { extraNames: ['api.example.org'] });
    await world.untilReady('a');
  });

  it('passes over a slice whose first address the super cluster has given away', async () => {
    const parentRef = { resource: 'services', namespace: 'shop', name: 'web' };
    world.superCluster.put(resources.ipAddresses, { metadata: { name: '10.112.0.10' }, spec: { parentRef } });
    world.run();
    world.create('a');
    expect((await world.untilReady('a')).status?.serviceCIDR).toBe('10.112.4.0/22');
    expect(world.superCluster.list(resources.ipAddresses).map(({ metadata }) => metadata.name)).toEqual([
      '10.112.0.10',
      '10.112.4.1',
      '10.112.4.10',
    ]);
  });

  it('keeps a slice in use and names who has its address', async () => {
    const operator = world.run();
    world.create('a');
    await world.untilReady('a');
    await operator.stop();
    const parentRef = { resource: 'services', namespace: 'shop', name: 'web' };
    world.superCluster.remove(resources.ipAddresses, { name: '10.112.0.1' });
    world.superCluster.put(resources.ipAddresses, { metadata: { name: '10.112.0.1' }, spec: { parentRef } });
    world.run();
    const failing = await world.untilReason('a', 'ServiceSliceReady', 'AddressTaken');
    expect(condition(failing, 'ServiceSliceReady')?.message).toContain('services/shop/web');
    expect(failing.status?.serviceCIDR).toBe('10.112.0.0/22');
  });

  it("accepts that the tenant's own Service has taken a reserved address over", async () => {
    const operator = world.run();
    const { metadata } = world.create('a');
    await world.untilReady('a');
    await operator.stop();
    const labels = { [labelKeys.tenant]: metadata.uid ?? '' };
    world.superCluster.put(resources.services, { metadata: { namespace: 'x', name: 'kubernetes', labels } });
    const parentRef = { resource: 'services', namespace: 'x', name: 'kubernetes' };
    world.superCluster.remove(resources.ipAddresses, { name: '10.112.0.1' });
    world.superCluster.put(resources.ipAddresses, { metadata: { name: '10.112.0.1' }, spec: { parentRef } });
    const calls = world.driver.ensured.length;
    world.run();
    await world.superCluster.until(() => world.driver.ensured.length > calls);
    expect(condition(await world.untilReady('a'), 'ServiceSliceReady')?.status).toBe('True');
  });

  const acceptedRanges = (): unknown[] =>
    world.tenant.list(resources.serviceCidrs).map(({ spec }) => (spec as { cidrs: string[] }).cidrs);

  it('reserves nothing where the super cluster assigns addresses, and has the tenant accept them', async () => {
    world.superCluster.inject({
      verb: 'list',
      plural: 'servicecidrs',
      times: 1000,
      fault: { kind: 'status', code: 404, reason: 'NotFound' },
    });
    world.superCluster.put(resources.services, {
      metadata: { namespace: 'default', name: 'kubernetes' },
      spec: { clusterIP: '10.43.0.1' },
    });
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    expect(status).toMatchObject({ serviceIPMode: 'assigned', serviceCIDR: '10.112.0.0/22' });
    expect(world.superCluster.list(resources.ipAddresses)).toEqual([]);
    expect(acceptedRanges()).toEqual([['10.43.0.0/16']]);
  });

  it('lets the super cluster assign addresses where a policy there refuses the pool', async () => {
    const superRange = { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.43.0.0/16', 'fd00::/108'] } };
    world.superCluster.put(resources.serviceCidrs, superRange);
    world.superCluster.inject({
      verb: 'create',
      plural: 'servicecidrs',
      times: 1000,
      fault: { kind: 'status', code: 422, reason: 'Invalid', message: "Policy 'x' denied request: none" },
    });
    world.run();
    world.create('a');
    expect((await world.untilReady('a')).status).toMatchObject({ serviceIPMode: 'assigned' });
    expect(acceptedRanges()).toEqual([['10.43.0.0/16']]);
    // What the tenant makes of it stays.
    const [accepted] = world.tenant.list(resources.serviceCidrs);
    world.tenant.put(resources.serviceCidrs, { ...accepted, spec: { cidrs: ['10.0.0.0/8'] } } as KubeObject);
    const published = (): number =>
      world.tenant.requests.filter(({ verb, plural }) => verb === 'get' && plural === 'endpointslices')
        .length;
    const before = published();
    world.edit('a', { weight: 2 });
    await world.tenant.until(() => published() > before);
    expect(acceptedRanges()).toEqual([['10.0.0.0/8']]);
  });

  it('lets the super cluster assign addresses while it deletes the pool of an earlier installation', async () => {
    const superRange = { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.43.0.0/16'] } };
    world.superCluster.put(resources.serviceCidrs, superRange);
    world.superCluster.put(resources.serviceCidrs, {
      metadata: {
        name: 'skerry-tenants',
        deletionTimestamp: '2026-01-01T00:00:00Z',
        finalizers: ['networking.k8s.io/service-cidr-finalizer'],
      },
      spec: { cidrs: ['10.112.0.0/12'] },
    });
    world.run();
    world.create('a');
    expect((await world.untilReady('a')).status).toMatchObject({ serviceIPMode: 'assigned' });
    expect(acceptedRanges()).toEqual([['10.43.0.0/16']]);
  });

  it('waits for rights to make the pool', async () => {
    world.superCluster.inject({
      verb: 'create',
      plural: 'servicecidrs',
      times: 1,
      fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'User "m" cannot create resource' },
    });
    world.run();
    world.create('a');
    expect((await world.untilReady('a')).status).toMatchObject({ serviceIPMode: 'slice' });
    expect(acceptedRanges()).toEqual([]);
  });

  it("refuses an id that is another VirtualCluster's, and removes nothing of the other", async () => {
    world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    world.create('thief', {}, { annotations: { [annotationKeys.id]: status?.id ?? '' } });
    const refused = await world.untilReason('thief', 'Ready', 'IdInUse');
    expect(refused.metadata.finalizers).toBeUndefined();
    await world.delete('thief');
    await world.untilGone('thief');
    expect(await world.driver.list()).toEqual([status?.id]);
    // Also when it brings the finalizer along.
    world.create(
      'thief',
      {},
      { annotations: { [annotationKeys.id]: status?.id ?? '' }, finalizers: ['skerry.dev/control-plane'] },
    );
    await world.untilReason('thief', 'Ready', 'IdInUse');
    await world.delete('thief');
    await world.untilGone('thief');
    expect(await world.driver.list()).toEqual([status?.id]);
    expect([...world.datastore.tenants]).toEqual([status?.id]);
  });

  it('gives what is left under an id only to a VirtualCluster that has its key', async () => {
    const first = world.run();
    world.create('a');
    const { status } = await world.untilReady('a');
    const id = status?.id ?? '';
    await first.stop();
    const pki = world.secretOf('a', 'pki') as KubeObject;
    // As after the loss of the super cluster's data: control plane and keys are there, the object is not.
    world.superCluster.remove(resources.virtualClusters, { namespace: 'team', name: 'a' });
    for (const { metadata } of world.superCluster.list(resources.secrets))
      if (metadata.labels?.[labelKeys.virtualCluster] === 'a')
        world.superCluster.remove(resources.secrets, { ...metadata, name: metadata.name ?? '' });
    world.run();
    const annotations = { [annotationKeys.id]: id };
    world.create('thief', {}, { annotations, finalizers: ['skerry.dev/control-plane'] });
    await world.untilReason('thief', 'Ready', 'IdNotProven');
    await world.delete('thief');
    await world.untilGone('thief');
    expect(await world.driver.list()).toEqual([id]);
    expect([...world.datastore.tenants]).toEqual([id]);
    // A key of another tenant proves nothing.
    world.create('b');
    await world.untilReady('b');
    const other = world.secretOf('b', 'pki') as KubeObject;
    const beside = (secret: KubeObject, name: string): void => {
      const labels = { 'skerry.dev/virtualcluster': name };
      world.superCluster.put(resources.secrets, {
        ...secret,
        metadata: { namespace: 'team', name: `${name}-pki`, labels, annotations },
      });
    };
    beside(other, 'thief');
    world.create('thief', {}, { annotations });
    await world.untilReason('thief', 'Ready', 'IdNotProven');
    // Nor is it the thief's when it is restored: it bears the name of the other.
    const { namespace, name, labels } = pki.metadata;
    const marks = { annotations: pki.metadata.annotations ?? {}, labels: labels ?? {} };
    world.superCluster.put(resources.secrets, {
      ...pki,
      metadata: { namespace, name, ...marks },
    } as KubeObject);
    world.create('second', {}, { annotations });
    await world.untilReason('second', 'Ready', 'IdNotProven');
    world.create('a', {}, { annotations });
    expect((await world.untilReady('a')).status?.id).toBe(id);
    const authority = (secret: KubeObject | undefined) =>
      (secret?.['data'] as Record<string, string> | undefined)?.['client-ca.key'];
    expect(authority(world.secretOf('a', 'pki'))).toBe(authority(pki));
  });

  it('takes the id that a restored VirtualCluster brings along', async () => {
    world.run();
    world.create('a', {}, { annotations: { [annotationKeys.id]: 'restored01' } });
    expect((await world.untilReady('a')).status?.id).toBe('restored01');
    world.create('b', {}, { annotations: { [annotationKeys.id]: '../etc' } });
    await world.untilReason('b', 'Ready', 'InvalidId');
  });

  it('while it is deleted keeps the object until it has succeeded', async () => {
    let stuck = true;
    world.driver.beforeRemove = (id) => {
      if (stuck)
        throw new DriverError('CannotWrite', 'the directory could not be removed. Check permissions.', {
          id,
        });
    };
    world.run();
    world.create('a');
    await world.untilReady('a');
    await world.delete('a');
    const failing = await world.untilReason('a', 'Ready', 'CannotWrite');
    expect(failing.status?.phase).toBe('Deleting');
    stuck = false;
    await world.untilGone('a');
  });

  it('does not stop others', async () => {
    world.driver.beforeEnsure = ({ labels }) => {
      if (labels['skerry.dev/virtualcluster'] === 'bad') throw new Error('always');
    };
    world.run();
    world.create('bad');
    world.create('good');
    await world.untilReady('good');
    await world.untilReason('bad', 'Ready', 'InternalError');
  });
});

it('logs what a reconcile throws outside of its steps, with the VirtualCluster and a code', async () => {
  const world = await World.start();
  const lines: string[] = [];
  let isBroken = true;
  world.run({
    logger: pino({ level: 'error' }, { write: (line) => void lines.push(line) }),
    connect: ({ beforeWrite = () => {} }) => {
      const connection = new Connection({ ...world.tenant.connectionOptions, beforeWrite });
      const close = connection.close.bind(connection);
      connection.close = async () => {
        await close();
        if (isBroken) throw new EtcdError('Unreachable', 'the connection was not closed');
      };
      return new KubeClient(connection);
    },
  });
  world.create('a');
  await expect
    .poll(() => lines.map((line) => JSON.parse(line) as unknown))
    .toContainEqual(expect.objectContaining({ virtualCluster: 'team/a', code: 'Unreachable' }));
  isBroken = false;
  await world.end();
});

it('has reading from one tenant rest, in all reconciles together, and from no other', async () => {
  const world = await World.start();
  const asked: ConnectionOptions[] = [];
  world.run({
    connect: (options) => {
      asked.push(options);
      return new KubeClient(new Connection({ ...world.tenant.connectionOptions, ...ofTests(options) }));
    },
  });
  const ofTests = ({ beforeWrite = () => {} }: ConnectionOptions) => ({ beforeWrite });
  world.create('a');
  await world.untilReady('a');
  const first = asked.length;
  world.edit('a', { weight: 2 });
  await expect.poll(() => asked.length).toBeGreaterThan(first);
  expect(new Set(asked.map(({ meter }) => meter)).size).toBe(1);
  expect(new Set(asked.map(({ answerMeter }) => answerMeter)).size).toBe(1);
  const ofA = asked.length;
  world.create('b');
  await world.untilReady('b');
  const over = new AbortController();
  for (const of of ['meter', 'answerMeter'] as const) {
    asked[0]?.[of]?.worked(60_000);
    const turn = asked[ofA - 1]?.[of]?.turn(over.signal);
    over.abort(new Error('it rests'));
    await expect(turn).rejects.toThrow('it rests');
    // Of another tenant.
    expect(
      asked.findLast(({ [of]: meter }) => meter !== asked[0]?.[of])?.[of]?.turn(undefined),
    ).toBeUndefined();
  }
  await world.end();
});
