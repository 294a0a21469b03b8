import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import { at } from './harness/checker/view.ts';
import { bulk, claim, configMap, deployment, namespace, pod, secret, service } from './harness/manifests.ts';
import { kill } from './harness/processes.ts';
import { type Tenant, World } from './harness/world.ts';

const name = 'keeper';

describe('snapshots of a tenant', () => {
  let world: World;
  let tenant: Tenant;
  let file: string;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant(name);
    await tenant.apply(namespace('shop'), deployment('shop', 'web', 2));
    await tenant.apply(configMap('shop', 'settings', { colour: 'blue' }));
    await tenant.apply(secret('shop', 'password', { word: 'swordfish' }));
    await untilRunning(2);
  });
  afterAll(() => world?.close());

  const untilRunning = (count: number): Promise<KubeObject[]> =>
    tenant.until({ resource: resources.pods, namespace: 'shop', what: `${count} pods to run` }, (pods) => {
      const running = pods.filter(({ status }) => at(status, 'phase') === 'Running');
      return running.length === count && pods.length === count && running;
    });
  const superPods = async (): Promise<string[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
    const { items } = await world.superCluster.client.list(resources.pods, { labelSelector });
    return items.map(({ metadata }) => metadata.uid ?? '').sort();
  };
  const cli = async (...args: string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await world.cli(args);
    expect(exitCode, stderr).toBe(0);
    return stdout.trim();
  };
  const until = (what: string, is: (vc: VirtualCluster) => boolean): Promise<VirtualCluster> =>
    world.superCluster.until<VirtualCluster, VirtualCluster>(
      { resource: resources.virtualClusters, namespace: 'default', name, what },
      ([vc]) => vc !== undefined && is(vc) && vc,
    );

  it('are copied to a file, and put it back to what it had, Secrets too, and its pods run on, though the manager is killed meanwhile', async () => {
    const before = await superPods();
    file = join(world.stateDir, 'copied.snapshot');
    expect(await cli('snapshot', name, '--file', file)).toMatch(/copied.snapshot: [0-9]+ entries/);

    await tenant.kubectl('delete', 'configmap', 'settings', '-n', 'shop');
    await tenant.kubectl('delete', 'secret', 'password', '-n', 'shop');
    await tenant.apply(namespace('later'), configMap('later', 'new', { is: 'new' }));
    await tenant.kubectl('scale', 'deployment', 'web', '-n', 'shop', '--replicas=3');
    await untilRunning(3);

    const restoring = cli('restore', name, '--from', file, '--wait', '--yes');
    await until('the data to be replaced', ({ status }) => status?.restore !== undefined);
    await kill(await world.process('vc-manager'));
    await until(
      'it to be ready again',
      // Named as in the manager's store, into which the file was copied.
      ({ status }) =>
        status?.phase === 'Ready' && status.restored?.from === 'default/keeper/copied-copied.snapshot',
    );
    expect(await restoring).toMatch(/^keeper is put back to default\/keeper\/copied-copied.snapshot$/m);
    expect(await tenant.kubectl('get', 'cm', 'settings', '-n', 'shop', '-o', 'jsonpath={.data.colour}')).toBe(
      'blue',
    );
    expect(
      await tenant.kubectl('get', 'secret', 'password', '-n', 'shop', '-o', 'jsonpath={.data.word}'),
    ).toBe(Buffer.from('swordfish').toString('base64'));
    await expect(tenant.kubectl('get', 'namespace', 'later')).rejects.toThrow(/not found/);
    await untilRunning(2);
    await world.superCluster.until(
      {
        resource: resources.pods,
        labelSelector: `skerry.dev/tenant=${tenant.uid}`,
        what: 'the pods of then',
      },
      (pods) => pods.length === before.length,
    );
    expect(await superPods()).toEqual(before);
    await world.expectAgreement([tenant]);
    expect(await cli('snapshot', name, '--list')).toMatch(/BeforeRestore/);
  });

  it('change nothing when their file is damaged', async () => {
    const { resourceVersion } = (await tenant.client.get(resources.namespaces, { name: 'shop' })).metadata;
    await truncate(file, (await stat(file)).size - 100);
    const refused = await world.cli(['restore', name, '--from', file, '--wait', '--yes']);
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr).toMatch(/the snapshot .* is damaged/);
    expect((await tenant.client.get(resources.namespaces, { name: 'shop' })).metadata.resourceVersion).toBe(
      resourceVersion,
    );
  });

  itInTestAll('are taken although the manager is killed meanwhile, and what it had begun goes', async () => {
    const much = bulk('shop');
    await Promise.all(much.map((each) => tenant.client.create(resources.configMaps, each)));
    const manager = await world.process('vc-manager');
    const begun = until('it to be begun', ({ status }) => status?.snapshots?.begun !== undefined);
    const taking = cli('snapshot', name, '--wait');
    const { status: before } = await begun;
    await kill(manager);
    const taken = await taking;
    expect(taken).not.toBe(before?.snapshots?.begun);
    const { status } = await until('its job to end', ({ status }) => status?.jobs?.current === undefined);
    expect(status?.jobs?.history?.[0]).toMatchObject({
      ...{ id: before?.jobs?.current?.id, kind: 'snapshot' },
      ...{ result: 'Succeeded', attempts: 2 },
    });
    expect(status?.snapshots?.begun).toBeUndefined();
    const kept = status?.snapshots?.kept?.map((each) => each.name);
    expect(kept).toContain(taken);
    const files = (await readdir(join(world.stateDir, 'snapshots', 'default', name)))
      .filter((each) => each.endsWith('.snapshot') && !each.startsWith('copied-'))
      .map((each) => `default/${name}/${each}`);
    expect(files.sort()).toEqual(kept?.sort());
    const names = much.map(({ metadata }) => metadata.name ?? '');
    await tenant.kubectl('delete', 'configmap', '-n', 'shop', ...names);
  });

  it('make a new tenant, with addresses, pods and an identity of its own, beside the one that they are of', async () => {
    await tenant.apply(pod('shop', 'bare'), service('shop', 'web'), claim('shop', 'data'), {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name: 'refuses-all' },
      webhooks: [
        {
          name: 'refuses.example.com',
          clientConfig: { url: 'https://127.0.0.1:9/never' },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['services'] }],
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
        },
      ],
    });
    const running = (of: Tenant): Promise<KubeObject[]> =>
      of.until({ resource: resources.pods, namespace: 'shop', what: 'three pods to run' }, (pods) => {
        const all = pods.filter(({ status }) => at(status, 'phase') === 'Running');
        return all.length === 3 && pods.length === 3 && all;
      });
    const before = await running(tenant);
    const snapshot = await cli('snapshot', name, '--wait');
    expect(snapshot).toMatch(/^default\/keeper\/.*\.snapshot$/);
    const copy = await world.createTenant('copy', '--from', snapshot);
    const after = await running(copy);
    expect(after.map(({ metadata }) => metadata.name)).toContain('bare');
    const uids = before.map(({ metadata }) => metadata.uid);
    expect(after.filter(({ metadata }) => uids.includes(metadata.uid))).toEqual([]);
    const addressOf = async (of: Tenant): Promise<unknown> =>
      at(await of.client.get(resources.services, { namespace: 'shop', name: 'web' }), 'spec', 'clusterIP');
    expect(await addressOf(copy)).not.toBe(await addressOf(tenant));
    const secretOf = (of: Tenant): Promise<string> =>
      of.kubectl('get', 'secret', 'password', '-n', 'shop', '-o', 'jsonpath={.data.word}');
    expect(await secretOf(copy)).toBe(await secretOf(tenant));
    expect(await copy.kubectl('get', 'validatingwebhookconfigurations', '-o', 'name')).toMatch(/refuses-all/);
    const identity = async (of: Tenant) =>
      (await of.client.get(resources.namespaces, { name: 'kube-system' })).metadata.uid;
    expect(await identity(copy)).not.toBe(await identity(tenant));
    await world.expectAgreement([tenant, copy]);
    expect((await running(tenant)).map(({ metadata }) => metadata.uid).sort()).toEqual(uids.sort());

    const ref = { namespace: 'default', name: 'copy' };
    const removal = { spec: { restoreFrom: null } };
    await expect(
      world.superCluster.client.patch(resources.virtualClusters, ref, removal, { type: 'merge' }),
    ).rejects.toThrow('spec.restoreFrom cannot be removed once it is set');

    const foreign = await world.cli(['restore', 'copy', '--from', snapshot, '--wait', '--yes']);
    expect(foreign.stderr).toMatch(/it is of another tenant, default\/keeper/);
    const deleted = await cli('delete', name, '--snapshot-first', '--yes');
    expect(deleted).toMatch(/keeper is kept as default\/keeper\//);
  });
});
