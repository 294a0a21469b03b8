import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../kube/index.ts';
import { at } from './harness/checker/view.ts';
import { claim, pod } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

describe('volumes', () => {
  let world: World;
  let tenant: Tenant;
  let volume: string;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant('volumes');
  });

  afterAll(() => world?.close());

  const claimIs = (what: string, answer: (claim: KubeObject) => boolean | undefined): Promise<KubeObject> =>
    tenant.until(
      { resource: resources.persistentVolumeClaims, namespace: 'volumes', name: 'data', what },
      ([found]) => (found !== undefined && answer(found) ? found : undefined),
    );

  it('a claim is bound, and its volume is shown in the tenant with the claim of the tenant', async () => {
    await tenant.apply(
      claim('volumes', 'data'),
      pod('volumes', 'user', {
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
      }),
    );
    const bound = await claimIs('the claim to be bound', (found) => at(found, 'status', 'phase') === 'Bound');
    volume = at<string>(bound, 'spec', 'volumeName') ?? '';
    await world.expectAgreement();
    const shown = await tenant.client.get(resources.persistentVolumes, { name: volume });
    expect(at(shown, 'spec', 'claimRef')).toMatchObject({
      namespace: 'volumes',
      name: 'data',
      uid: bound.metadata.uid,
    });
    expect(at(shown, 'status', 'phase')).toBe('Bound');
    await tenant.kubectl('-n', 'volumes', 'wait', 'pod/user', '--for=condition=Ready', patiently);
  });

  it('grows on both sides', async () => {
    await tenant.kubectl(
      ...['-n', 'volumes', 'patch', 'pvc', 'data', '--type=merge', '-p'],
      JSON.stringify({ spec: { resources: { requests: { storage: '3Gi' } } } }),
    );
    await claimIs('the claim to grow', (found) => at(found, 'status', 'capacity', 'storage') === '3Gi');
    await world.expectAgreement();
    const grown = await world.superCluster.client.get(resources.persistentVolumes, { name: volume });
    expect(at(grown, 'spec', 'capacity', 'storage')).toBe('3Gi');
  });

  it('goes on both sides with its claim, but not before the pod that uses it', async () => {
    await tenant.kubectl('-n', 'volumes', 'delete', 'pvc', 'data', '--wait=false');
    const going = await claimIs(
      'the claim to be going',
      ({ metadata }) => metadata.deletionTimestamp !== undefined,
    );
    expect(going.metadata.finalizers).toContain('kubernetes.io/pvc-protection');
    await tenant.kubectl('-n', 'volumes', 'delete', 'pod', 'user', patiently);
    await tenant.untilGone(resources.persistentVolumeClaims, { namespace: 'volumes', name: 'data' });
    await tenant.untilGone(resources.persistentVolumes, { name: volume });
    await world.superCluster.untilGone(resources.persistentVolumes, { name: volume });
    await world.expectAgreement();
  });

  it('of a class that is not published are refused with an event, and the class is not shown', async () => {
    const { client } = world.superCluster;
    const name = 'keep-unpublished';
    await client.create(resources.storageClasses, {
      metadata: { name },
      provisioner: 'skerry.dev/simulated',
    });
    try {
      await tenant.apply(claim('volumes', 'forbidden', { storageClassName: name }));
      const message = await tenant.until(
        { resource: resources.events, namespace: 'volumes', what: 'a warning on the claim' },
        (events) =>
          events
            .filter(
              (event) => at(event, 'involvedObject', 'name') === 'forbidden' && event['type'] === 'Warning',
            )
            .map((event) => String(event['message']))[0],
      );
      expect(message).toContain(name);
      await world.expectAgreement();
      expect(await tenant.find(resources.storageClasses, { name })).toBeUndefined();
      const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=volumes`;
      const { items } = await client.list(resources.persistentVolumeClaims, { labelSelector });
      expect(items).toEqual([]);
    } finally {
      await client.delete(resources.storageClasses, { name });
    }
  });

  it('a class that is published later is shown, and put back when the tenant deletes or edits it', async () => {
    const { client } = world.superCluster;
    const name = 'keep-published';
    await client.create(resources.storageClasses, {
      metadata: { name, labels: { 'skerry.dev/public': 'true' } },
      provisioner: 'skerry.dev/simulated',
    });
    const question = { resource: resources.storageClasses, name, what: 'the class to be shown' };
    const first = await tenant.until(question, ([found]) => found?.metadata.uid);
    await tenant.kubectl('delete', 'storageclass', name);
    await tenant.until(question, ([found]) => found !== undefined && found.metadata.uid !== first);
    await tenant.kubectl(
      'patch',
      'storageclass',
      name,
      '--type=merge',
      '-p',
      '{"allowVolumeExpansion":true}',
    );
    await world.expectAgreement();
    await client.delete(resources.storageClasses, { name });
    await tenant.untilGone(resources.storageClasses, { name });
    await world.expectAgreement();
  });
});
