import { expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { resources } from '../../kube/index.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';

const ref = { namespace: 'shop', name: 'web' };

it('a Service becomes no ExternalName while an Ingress leads to it, be its deletion held (sync rule `ingresses`)', async () => {
  const policy = { ...defaultPolicy, ingressHosts: ['*.blue.example'] };
  await using harness = await ReconcilerHarness.start({ tenant: { syncIngresses: true, policy } });
  harness.namespace('shop');
  const offered = harness.have('super', resources.ingressClasses, {
    metadata: { name: 'nginx', labels: { 'skerry.dev/public': 'true' } },
    spec: { controller: 'x' },
  });
  harness.have('tenant', resources.ingressClasses, {
    metadata: { name: 'nginx', annotations: { 'skerry.dev/uid': offered.metadata.uid ?? '' } },
    spec: { controller: 'x' },
  });
  const ports = [{ port: 80, protocol: 'TCP', targetPort: 80 }];
  const service = harness.have('tenant', resources.services, {
    metadata: ref,
    spec: { type: 'ClusterIP', clusterIP: '10.112.4.20', clusterIPs: ['10.112.4.20'], ports },
  });
  const backend = { service: { name: 'web', port: { number: 80 } } };
  harness.have('tenant', resources.ingresses, {
    metadata: ref,
    spec: {
      ingressClassName: 'nginx',
      rules: [{ host: 'a.blue.example', http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } }],
    },
  });
  const showAll = (): void => {
    for (const resource of [resources.services, resources.ingresses])
      for (const object of harness.super.server.list(resource)) harness.show('super', resource, object);
  };
  await harness.reconcile('services', 'web', 'shop');
  showAll();
  await harness.reconcile('ingresses', 'web', 'shop');
  showAll();
  const inSuper = { namespace: harness.shop, name: 'web' };
  expect(harness.super.server.get(resources.ingresses, inSuper)).toBeDefined();

  // The tenant's own way to hold deletions.
  harness.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
  harness.tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'another' } });
  harness.hide('tenant', resources.services, service);
  const spec = { type: 'ExternalName', externalName: 'metadata.google.internal', ports };
  const elsewhere = { ...service, metadata: { ...ref, uid: service.metadata.uid ?? '' }, spec };
  harness.show('tenant', resources.services, harness.server('tenant', resources.services, elsewhere));
  await harness.reconcile('services', 'web', 'shop');
  await harness.reconcile('ingresses', 'web', 'shop');
  expect(harness.super.server.get(resources.ingresses, inSuper)).toBeDefined();
  expect(harness.super.server.get(resources.services, inSuper)?.['spec']).toMatchObject({
    type: 'ClusterIP',
  });

  const ingress = harness.super.server.get(resources.ingresses, inSuper);
  harness.super.server.remove(resources.ingresses, inSuper);
  if (ingress !== undefined) harness.hide('super', resources.ingresses, ingress);
  await harness.reconcile('services', 'web', 'shop');
  expect(harness.super.server.get(resources.services, inSuper)?.['spec']).toMatchObject({
    type: 'ExternalName',
  });
});
