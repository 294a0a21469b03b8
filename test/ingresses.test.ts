import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { isNotFound, type KubeObject, resources } from '../kube/index.ts';
import { at } from './harness/checker/view.ts';
import { secret, service } from './harness/manifests.ts';
import { type Tenant, World } from './harness/world.ts';

describe('ingresses', () => {
  let world: World;
  let tenant: Tenant;
  let neighbour: Tenant;
  const ceiling = { name: 'ingresses-suite' };
  const ingressClass = { name: 'ingresses-suite' };

  beforeAll(async () => {
    world = new World(inject('stack'));
    const { client } = world.superCluster;
    await removeOperatorsObjects();
    await client.create(resources.virtualClusterPolicies, {
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'VirtualClusterPolicy',
      metadata: ceiling,
      spec: { namespaces: ['default'], ingressHosts: ['*.example.com'] },
    });
    await client.create(resources.ingressClasses, {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'IngressClass',
      metadata: { ...ingressClass, labels: { 'skerry.dev/public': 'true' } },
      spec: { controller: 'example.com/shared' },
    });
    [tenant, neighbour] = await world.sharedTenants('front');
    await allow(tenant, 'shop.example.com', '*.apps.example.com');
    await allow(neighbour, 'other.example.com');
    for (const each of [tenant, neighbour]) await each.apply(service('front', 'web'));
  });

  afterAll(async () => {
    if (world === undefined) return;
    await removeOperatorsObjects();
    await world.close();
  });

  const removeOperatorsObjects = async (): Promise<void> => {
    const { client } = world.superCluster;
    const ifThere = (error: unknown): void => {
      if (!isNotFound(error)) throw error;
    };
    await client.delete(resources.virtualClusterPolicies, ceiling).catch(ifThere);
    await client.delete(resources.ingressClasses, ingressClass).catch(ifThere);
  };

  /** As the operator does it, and the manager lets them. */
  const allow = async ({ ref }: Tenant, ...ingressHosts: string[]): Promise<void> => {
    const patch = { spec: { sync: { ingresses: true }, policy: { ingressHosts } } };
    await world.superCluster.client.patch(resources.virtualClusters, ref, patch, { type: 'merge' });
    await world.superCluster.until(
      { resource: resources.virtualClusters, ...ref, what: 'the host names to be allowed' },
      ([vc]) => JSON.stringify(at(vc, 'status', 'policy', 'ingressHosts')) === JSON.stringify(ingressHosts),
    );
  };

  const ingress = (name: string, host: string, spec: object = {}, annotations = {}): KubeObject => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    metadata: { name, namespace: 'front', annotations },
    spec: {
      ingressClassName: ingressClass.name,
      rules: [
        {
          host,
          http: {
            paths: [
              {
                path: '/',
                pathType: 'Prefix',
                backend: { service: { name: 'web', port: { name: 'http' } } },
              },
            ],
          },
        },
      ],
      ...spec,
    },
  });

  const counterpart = async (name: string, of = tenant): Promise<KubeObject | undefined> => {
    const labelSelector = `skerry.dev/tenant=${of.uid}`;
    const { items } = await world.superCluster.client.list(resources.ingresses, { labelSelector });
    return items.find(({ metadata }) => metadata.name === name);
  };

  const warning = (of: Tenant, name: string, reason: string): Promise<string> =>
    of.until(
      { resource: resources.events, namespace: 'front', what: `a warning ${reason} on ${name}` },
      (events) =>
        events
          .filter((event) => at(event, 'involvedObject', 'name') === name && event['reason'] === reason)
          .map((event) => String(event['message']))[0],
    );

  it('go down with their certificate, and say in the tenant where they can be reached', async () => {
    const tls = [{ hosts: ['shop.example.com'], secretName: 'cert' }];
    await tenant.until(
      { resource: resources.ingressClasses, ...ingressClass, what: 'the published class' },
      (classes) => classes.length === 1,
    );
    await tenant.apply(
      secret('front', 'cert', { 'tls.crt': 'certificate' }),
      secret('front', 'unused'),
      ingress('web', 'shop.example.com', { tls }, { 'nginx.ingress.kubernetes.io/server-snippet': 'x' }),
    );
    await world.expectAgreement();
    const there = await counterpart('web');
    expect(there?.metadata.annotations).not.toHaveProperty(['nginx.ingress.kubernetes.io/server-snippet']);
    expect(await warning(tenant, 'web', 'NotSupported')).toContain('server-snippet');

    const { namespace: superNamespace = '', name = '' } = there?.metadata ?? {};
    const status = { loadBalancer: { ingress: [{ ip: '203.0.113.7' }] } };
    const ref = { namespace: superNamespace, name };
    await world.superCluster.client.patch(
      resources.ingresses,
      ref,
      { status },
      { type: 'merge', subresource: 'status' },
    );
    await tenant.until(
      { resource: resources.ingresses, namespace: 'front', name: 'web', what: 'an address' },
      ([own]) => at(own, 'status', 'loadBalancer', 'ingress', '0', 'ip') === '203.0.113.7',
    );
    await world.expectAgreement();
  });

  it('claim only host names that their tenant may have', async () => {
    await neighbour.apply(ingress('web', 'shop.example.com'), ingress('own', 'other.example.com'));
    expect(await warning(neighbour, 'web', 'HostNotAllowed')).toContain('shop.example.com');
    await world.expectAgreement();
    expect(await counterpart('web', neighbour)).toBeUndefined();
    expect(await counterpart('own', neighbour)).toBeDefined();

    // What is taken away from a tenant is no longer served.
    await allow(neighbour, 'another.example.com');
    await warning(neighbour, 'own', 'HostNotAllowed');
    await world.expectAgreement();
    expect(await counterpart('own', neighbour)).toBeUndefined();
  });

  it('go when their backend becomes a name of elsewhere, and when their class is published no longer', async () => {
    await tenant.apply(ingress('app', 'x.apps.example.com'));
    await world.expectAgreement();
    expect(await counterpart('app')).toBeDefined();
    await tenant.kubectl(
      ...['-n', 'front', 'patch', 'service', 'web', '--type=merge', '-p'],
      JSON.stringify({ spec: { type: 'ExternalName', externalName: 'metadata.internal' } }),
    );
    await warning(tenant, 'app', 'NotSupported');
    await world.expectAgreement();
    expect(await counterpart('app')).toBeUndefined();
    await tenant.kubectl(
      ...['-n', 'front', 'patch', 'service', 'web', '--type=merge', '-p'],
      JSON.stringify({ spec: { type: 'ClusterIP', externalName: null } }),
    );
    await world.expectAgreement();
    expect(await counterpart('app')).toBeDefined();

    const unpublish = { metadata: { labels: { 'skerry.dev/public': null } } };
    await world.superCluster.client.patch(resources.ingressClasses, ingressClass, unpublish, {
      type: 'merge',
    });
    await warning(tenant, 'app', 'IngressClassNotPublished');
    await world.expectAgreement();
    expect(await counterpart('app')).toBeUndefined();
  });
});
