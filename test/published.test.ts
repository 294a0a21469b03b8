import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { isNotFound, type KubeObject, type Resource, resource, resources } from '../kube/index.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { at } from './harness/checker/view.ts';
import { namespace, pod } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { type Tenant, World } from './harness/world.ts';

const published = { 'skerry.dev/public': 'true' };
const definitions = resources.customResourceDefinitions;
const widgets = resource('suite.example.com', 'v1', 'widgets', 'Widget', true);
const zones = resource('suite.example.com', 'v1', 'zones', 'Zone', false);
const gears = resource('suite.example.com', 'v1', 'gears', 'Gear', true);

describe('what the super cluster publishes', () => {
  let world: World;
  let tenant: Tenant;
  let neighbour: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    await removeOperatorsObjects();
    [tenant, neighbour] = await Promise.all([world.createTenant('public-a'), world.sharedTenant('public')]);
    await tenant.apply(namespace('public'));
  });

  afterAll(async () => {
    if (world === undefined) return;
    await removeOperatorsObjects();
    const own = ['priorityclass/public-mine', 'runtimeclass/public-runtime'];
    await neighbour?.tryKubectl(['delete', ...own, '--ignore-not-found']);
    await world.close();
  });

  const operatorsObjects: readonly (readonly [Resource, string])[] = [
    [resources.priorityClasses, 'public-batch'],
    [resources.priorityClasses, 'public-default'],
    [resources.runtimeClasses, 'public-runtime'],
    [resources.ingressClasses, 'public-ingress'],
    [resources.storageClasses, 'public-fast'],
    ...[widgets, zones, gears].map(({ plural, group }) => [definitions, `${plural}.${group}`] as const),
  ];

  const removeOperatorsObjects = async (): Promise<void> => {
    for (const [kind, name] of operatorsObjects) {
      await world.superCluster.client.delete(kind, { name }).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
    }
    // Definitions go when their objects have gone, and other suites look at which ones there are.
    for (const [kind, name] of operatorsObjects) await world.superCluster.untilGone(kind, { name });
  };

  const offer = (kind: Resource, name: string, parts: Record<string, unknown>): Promise<KubeObject> =>
    world.superCluster.client.create(kind, { metadata: { name, labels: published }, ...parts });

  const shown = (
    kind: Resource,
    name: string,
    where = tenant,
    answer: (object: KubeObject) => boolean = () => true,
  ): Promise<KubeObject> =>
    where.until({ resource: kind, name, what: `${kind.kind} ${name} to be shown` }, ([found]) =>
      found !== undefined && answer(found) ? found : undefined,
    );

  const told = (reason: string, name: string, where = tenant): Promise<string> =>
    where.until(
      { resource: resources.events, namespace: 'default', what: `the event ${reason} on ${name}` },
      (events) =>
        events
          .filter((event) => event['reason'] === reason && at(event, 'involvedObject', 'name') === name)
          .map((event) => String(event['message']))[0],
    );

  describe('as classes', () => {
    it('a PriorityClass is shown, is put back when the tenant deletes or edits it, and goes with its label', async () => {
      const name = 'public-batch';
      await offer(resources.priorityClasses, name, {
        value: 1000,
        preemptionPolicy: 'Never',
        description: 'x',
      });
      const first = await shown(resources.priorityClasses, name);
      expect(first).toMatchObject({ value: 1000, preemptionPolicy: 'Never' });
      await tenant.kubectl('delete', 'priorityclass', name);
      await shown(
        resources.priorityClasses,
        name,
        tenant,
        ({ metadata }) => metadata.uid !== first.metadata.uid,
      );
      await tenant.kubectl('patch', 'priorityclass', name, '--type=merge', '-p', '{"description":"mine"}');
      await world.expectAgreement();
    });

    it('a pod with that PriorityClass runs with it in the super cluster, and preempts nobody', async () => {
      const batch = pod('public', 'batch', { priorityClassName: 'public-batch' });
      await tenant.untilAdmitted(batch);
      await tenant.apply(batch);
      const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
      const superPod = await world.superCluster.until(
        { resource: resources.pods, labelSelector, what: 'the pod batch' },
        (pods) => pods.find(({ metadata }) => metadata.name === 'batch'),
      );
      expect(superPod['spec']).toMatchObject({
        priorityClassName: 'public-batch',
        priority: 1000,
        preemptionPolicy: 'Never',
      });
      await world.superCluster.kubectl('label', 'priorityclass', 'public-batch', 'skerry.dev/public-');
      await tenant.untilGone(resources.priorityClasses, { name: 'public-batch' });
      await world.expectAgreement();
    });

    it('the published default is the default of a tenant that has none, and of nobody who has one', async () => {
      const own = { metadata: { name: 'public-mine' }, value: 7, globalDefault: true };
      await neighbour.client.create(resources.priorityClasses, own);
      await offer(resources.priorityClasses, 'public-default', { value: 5, globalDefault: true });
      try {
        await shown(resources.priorityClasses, 'public-default');
        // The syncer hears of both by watches of their own.
        const isNoDefault = (copy: KubeObject): boolean => copy['globalDefault'] !== true;
        await shown(resources.priorityClasses, 'public-default', neighbour, isNoDefault);
        await world.expectAgreement([neighbour]);
        const plain = pod('public', 'plain');
        await tenant.untilAdmitted(
          plain,
          (made) => at(made, 'spec', 'priorityClassName') === 'public-default',
        );
        await tenant.apply(plain);
        const made = await tenant.client.get(resources.pods, { namespace: 'public', name: 'plain' });
        expect(made['spec']).toMatchObject({ priorityClassName: 'public-default', priority: 5 });
        const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
        const superPod = await world.superCluster.until(
          { resource: resources.pods, labelSelector, what: 'the pod plain' },
          (pods) => pods.find(({ metadata }) => metadata.name === 'plain'),
        );
        expect(superPod['spec']).toMatchObject({ priorityClassName: 'public-default', priority: 5 });
        // As soon as the tenant's own steps back, the published one is the default there as well.
        await neighbour.kubectl('delete', 'priorityclass', 'public-mine');
        await shown(
          resources.priorityClasses,
          'public-default',
          neighbour,
          (each) => each['globalDefault'] === true,
        );
        await world.expectAgreement();
      } finally {
        await world.superCluster.client.delete(resources.priorityClasses, { name: 'public-default' });
      }
    });

    it('an IngressClass and a RuntimeClass are shown without what they say of the super cluster', async () => {
      await offer(resources.ingressClasses, 'public-ingress', {
        spec: { controller: 'example.com/ingress', parameters: { kind: 'Node', name: 'sim-0' } },
      });
      const scheduling = { nodeSelector: { 'example.com/kata': 'true' } };
      await offer(resources.runtimeClasses, 'public-runtime', { handler: 'kata', scheduling });
      const ingressClass = await shown(resources.ingressClasses, 'public-ingress');
      expect(ingressClass['spec']).toEqual({ controller: 'example.com/ingress' });
      expect((await shown(resources.runtimeClasses, 'public-runtime'))['scheduling']).toBeUndefined();
      await world.expectAgreement();
      await world.superCluster.client.delete(resources.runtimeClasses, { name: 'public-runtime' });
      for (const each of [tenant, neighbour])
        await each.untilGone(resources.runtimeClasses, { name: 'public-runtime' });
    });

    it('a name that the tenant has taken already is left alone, with an event', async () => {
      const own = { metadata: { name: 'public-runtime' }, handler: 'mine' };
      await neighbour.client.create(resources.runtimeClasses, own);
      await offer(resources.runtimeClasses, 'public-runtime', { handler: 'kata' });
      expect(await told('NameConflict', 'public-runtime', neighbour)).toContain('left alone');
      await shown(resources.runtimeClasses, 'public-runtime');
      const { handler } = await neighbour.client.get(resources.runtimeClasses, { name: 'public-runtime' });
      expect(handler).toBe('mine');
    });
  });

  describe('as definitions', () => {
    it('a CustomResourceDefinition that is labelled, as a StorageClass, can be used in every tenant, and follows changes of its schema', async () => {
      const { client } = world.superCluster;
      await client.create(definitions, {
        metadata: { name: 'widgets.suite.example.com' },
        ...definition(widgets),
      });
      await client.create(resources.storageClasses, {
        metadata: { name: 'public-fast' },
        provisioner: 'suite.example.com/fast',
      });
      const words = { 'storageclass fast': 'storageclass public-fast', 'widgets.': 'widgets.suite.' };
      const page = pageOf('docs/operating.md');
      const script = scriptRunBy(page, 'test/published.test.ts', 'kubectl label storageclass', words);
      await Reader.of(world).run('docs/operating.md', script);
      await shown(resources.storageClasses, 'public-fast');
      for (const each of [tenant, neighbour])
        await shown(definitions, 'widgets.suite.example.com', each, isEstablished);
      for (const each of [tenant, neighbour]) await each.untilServed('suite.example.com/v1', 'widgets');
      await neighbour.apply(widget('local', { size: 1 }));
      await world.superCluster.kubectl(
        ...['patch', 'crd', 'widgets.suite.example.com', '--type=json', '-p'],
        JSON.stringify([
          {
            op: 'add',
            path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour',
            value: { type: 'string', default: 'blue' },
          },
        ]),
      );
      await world.expectAgreement();
      // The tenant's server takes the definition up a moment after it stands there.
      const spec = async (): Promise<unknown> =>
        (await neighbour.client.get(widgets, { namespace: 'public', name: 'local' }))['spec'];
      await expect.poll(spec).toEqual({ size: 1, colour: 'blue' });
    });

    it('its objects go down for a tenant that has opted in, and a controller there tells their status', async () => {
      await optIn(tenant, 'widgets.suite.example.com');
      await tenant.apply(widget('one', { size: 3 }));
      const superWidget = await counterpart('one');
      expect(superWidget['spec']).toEqual({ size: 3, colour: 'blue' });
      await world.superCluster.client.patch(
        widgets,
        refOf(superWidget),
        {
          status: {
            observedGeneration: superWidget.metadata.generation,
            address: `one.${superWidget.metadata.namespace}.svc`,
          },
        },
        { type: 'merge', subresource: 'status' },
      );
      const answered = await ownWidget('one', (each) => at(each, 'status', 'address') !== undefined);
      expect(answered['status']).toEqual({
        address: 'one.public.svc',
        observedGeneration: answered.metadata.generation,
      });
      await tenant.kubectl(
        '-n',
        'public',
        'patch',
        'widget',
        'one',
        '--type=merge',
        '-p',
        '{"spec":{"size":4}}',
      );
      await counterpart('one', (each) => at(each, 'spec', 'size') === 4);
      const { items } = await world.superCluster.client.list(widgets);
      expect(items.map(({ metadata }) => metadata.name)).toEqual(['one']);
      await world.expectAgreement();
    });

    it('the version that objects are stored in may change: they are synced in the new one', async () => {
      const { spec } = await world.superCluster.client.get(definitions, {
        name: 'widgets.suite.example.com',
      });
      const [v1] = at<Record<string, unknown>[]>(spec, 'versions') ?? [];
      const versions = [
        { ...v1, storage: false },
        { ...v1, name: 'v2' },
      ];
      await world.superCluster.client.patch(
        definitions,
        { name: 'widgets.suite.example.com' },
        { spec: { versions } },
        { type: 'merge' },
      );
      await shown(
        definitions,
        'widgets.suite.example.com',
        tenant,
        (each) => at<string[]>(each, 'status', 'storedVersions')?.includes('v2') === true,
      );
      await tenant.kubectl(
        '-n',
        'public',
        'patch',
        'widget',
        'one',
        '--type=merge',
        '-p',
        '{"spec":{"size":5}}',
      );
      await counterpart('one', (each) => at(each, 'spec', 'size') === 5);
      await tenant.untilServed('suite.example.com/v2', 'widgets');
      await tenant.apply({ ...widget('two', { size: 2 }), apiVersion: 'suite.example.com/v2' });
      await counterpart('two');
    });

    it('a tenant that deletes its copy gets it back, and the super objects wait for the operator', async () => {
      const names = Array.from({ length: 40 }, (_, index) => `many-${index}`);
      await tenant.apply(...names.map((name) => widget(name, { size: 1 })));
      const count = (answer: (count: number) => boolean): Promise<boolean> =>
        world.superCluster.until(
          {
            resource: widgets,
            labelSelector: `skerry.dev/tenant=${tenant.uid}`,
            what: 'the number of widgets',
          },
          (found) => answer(found.length),
        );
      await count((present) => present === 42);
      const before = await shown(definitions, 'widgets.suite.example.com');
      await tenant.kubectl('delete', 'crd', 'widgets.suite.example.com', patiently);
      await shown(
        definitions,
        'widgets.suite.example.com',
        tenant,
        (each) => each.metadata.uid !== before.metadata.uid && isEstablished(each),
      );
      const held = await world.superCluster.until(
        { resource: resources.virtualClusters, ...tenant.ref, what: 'deletions to be held' },
        ([vc]) => condition(vc, 'DeletionHeld', 'True'),
      );
      await count((present) => present === 42);
      const answer = /skerry\.dev\/confirm-deletions=(\S+)/.exec(held)?.[1] ?? '';
      await world.superCluster.kubectl(
        ...['-n', tenant.ref.namespace, 'annotate', '--overwrite', 'virtualcluster', tenant.ref.name],
        `skerry.dev/confirm-deletions=${answer}`,
      );
      await count((present) => present === 0);
      await world.expectAgreement();
    });

    it('a tenant that opts out keeps its objects, and the super cluster loses them', async () => {
      await tenant.apply(widget('three', { size: 3 }));
      await counterpart('three');
      await optIn(tenant);
      await world.superCluster.until(
        { resource: widgets, what: 'the widgets to go' },
        (found) => found.length === 0,
      );
      await ownWidget('three');
    });

    it('what cannot be synced is told in a condition', async () => {
      await offer(definitions, 'zones.suite.example.com', definition(zones));
      await optIn(tenant, 'zones.suite.example.com', 'absent.suite.example.com');
      // What it says first may be of a moment at which not everything had been seen.
      await world.superCluster.until(
        { resource: resources.virtualClusters, ...tenant.ref, what: 'a condition that names both' },
        ([vc]) => {
          const why = condition(vc, 'CustomResourcesSynced', 'False') ?? '';
          return (
            why.includes('zones.suite.example.com is not namespaced') &&
            why.includes('absent.suite.example.com is not published')
          );
        },
      );
    });

    it('is kept while a tenant uses it after it was published, and goes where nobody does', async () => {
      const label = (name: string, value: string): Promise<string> =>
        world.superCluster.kubectl('label', '--overwrite', 'crd', name, `skerry.dev/public=${value}`);
      await label('zones.suite.example.com', 'false');
      await tenant.untilGone(definitions, { name: 'zones.suite.example.com' });
      await neighbour.kubectl('-n', 'public', 'delete', 'widget', 'local');
      await label('widgets.suite.example.com', 'false');
      await neighbour.untilGone(definitions, { name: 'widgets.suite.example.com' });
      expect(await told('StillUsed', 'widgets.suite.example.com')).toContain('stays');
      await ownWidget('three');
      await tenant.kubectl('-n', 'public', 'delete', 'widget', 'three');
      // Sooner than the syncer would look again by itself.
      await tenant.kubectl('annotate', 'crd', 'widgets.suite.example.com', 'suite.example.com/look=again');
      await tenant.untilGone(definitions, { name: 'widgets.suite.example.com' });
    });

    it('that converts by a webhook is served in one version, and nobody calls that webhook', async () => {
      const spec = definition(gears).spec;
      const [v1] = spec.versions;
      const clientConfig = { service: { namespace: 'nowhere', name: 'nobody', path: '/convert' } };
      await offer(definitions, 'gears.suite.example.com', {
        spec: {
          ...spec,
          versions: [{ ...v1, name: 'v1beta1', storage: false }, v1],
          conversion: { strategy: 'Webhook', webhook: { clientConfig, conversionReviewVersions: ['v1'] } },
        },
      });
      const copy = await shown(definitions, 'gears.suite.example.com', tenant, isEstablished);
      expect(at<{ name: string }[]>(copy, 'spec', 'versions')?.map(({ name }) => name)).toEqual(['v1']);
      expect(at(copy, 'spec', 'conversion')).toEqual({ strategy: 'None' });
      expect(await told('VersionsNotOffered', 'gears.suite.example.com')).toContain('v1beta1');
      await world.expectAgreement();
    });
  });

  /** As the operator does it. */
  const optIn = async ({ ref }: Tenant, ...customResources: string[]): Promise<void> => {
    const patch = { spec: { sync: { customResources } } };
    await world.superCluster.client.patch(resources.virtualClusters, ref, patch, { type: 'merge' });
  };

  const counterpart = (
    name: string,
    answer: (object: KubeObject) => boolean = () => true,
  ): Promise<KubeObject> =>
    world.superCluster.until(
      { resource: widgets, labelSelector: `skerry.dev/tenant=${tenant.uid}`, what: `the widget ${name}` },
      (found) => found.find((each) => each.metadata.name === name && answer(each)),
    );

  const ownWidget = (
    name: string,
    answer: (object: KubeObject) => boolean = () => true,
  ): Promise<KubeObject> =>
    tenant.until({ resource: widgets, namespace: 'public', name, what: `the widget ${name}` }, ([found]) =>
      found !== undefined && answer(found) ? found : undefined,
    );
});

function widget(name: string, spec: object): KubeObject {
  return {
    apiVersion: 'suite.example.com/v1',
    kind: 'Widget',
    metadata: { name, namespace: 'public' },
    spec,
  };
}

function definition({ group, plural, kind, version, namespaced }: Resource) {
  const properties = { size: { type: 'integer' } };
  const status = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  return {
    spec: {
      group,
      scope: namespaced ? 'Namespaced' : 'Cluster',
      names: { plural, singular: kind.toLowerCase(), kind },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: {
            openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties }, status } },
          },
        },
      ],
    },
  };
}

function isEstablished(object: KubeObject): boolean {
  const conditions = at<{ type: string; status: string }[]>(object, 'status', 'conditions') ?? [];
  return conditions.some(({ type, status }) => type === 'Established' && status === 'True');
}

/** The message of a condition that has this status. */
function condition(object: KubeObject | undefined, type: string, status: string): string | undefined {
  const conditions =
    at<{ type: string; status: string; message?: string }[]>(object, 'status', 'conditions') ?? [];
  return conditions.find((each) => each.type === type && each.status === status)?.message;
}

function refOf({ metadata }: KubeObject): { namespace: string; name: string } {
  return { namespace: metadata.namespace ?? '', name: metadata.name ?? '' };
}
