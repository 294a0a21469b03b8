import { expect, it } from 'vitest';
import { defaultPolicy } from '../../api/policy.ts';
import { resources } from '../../kube/index.ts';
import { Bench } from './testing/bench.ts';

const ref = { namespace: 'shop', name: 'web' };

it('a Service becomes no ExternalName while an Ingress leads to it, be its deletion held (sync rule `ingresses`)', async () => {
  const policy = { ...defaultPolicy, ingressHosts: ['*.blue.example'] };
  await using bench = await Bench.start({ tenant: { syncIngresses: true, policy } });
  bench.namespace('shop');
  const offered = bench.have('super', resources.ingressClasses, {
    metadata: { name: 'nginx', labels: { 'skerry.dev/public': 'true' } },
    spec: { controller: 'x' },
  });
  bench.have('tenant', resources.ingressClasses, {
    metadata: { name: 'nginx', annotations: { 'skerry.dev/uid': offered.metadata.uid ?? '' } },
    spec: { controller: 'x' },
  });
  const ports = [{ port: 80, protocol: 'TCP', targetPort: 80 }];
  const service = bench.have('tenant', resources.services, {
    metadata: ref,
    spec: { type: 'ClusterIP', clusterIP: '10.112.4.20', clusterIPs: ['10.112.4.20'], ports },
  });
  const backend = { service: { name: 'web', port: { number: 80 } } };
  bench.have('tenant', resources.ingresses, {
    metadata: ref,
    spec: {
      ingressClassName: 'nginx',
      rules: [{ host: 'a.blue.example', http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } }],
    },
  });
  const showAll = (): void => {
    for (const resource of [resources.services, resources.ingresses])
      for (const object of bench.super.server.list(resource)) bench.show('super', resource, object);
  };
  await bench.reconcile('services', 'web', 'shop');
  showAll();
  await bench.reconcile('ingresses', 'web', 'shop');
  showAll();
  const inSuper = { namespace: bench.shop, name: 'web' };
  expect(bench.super.server.get(resources.ingresses, inSuper)).toBeDefined();

  // The tenant's own way to hold deletions.
  bench.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
  bench.tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'another' } });
  bench.hide('tenant', resources.services, service);
  const spec = { type: 'ExternalName', externalName: 'metadata.google.internal', ports };
  const elsewhere = { ...service, metadata: { ...ref, uid: service.metadata.uid ?? '' }, spec };
  bench.show('tenant', resources.services, bench.server('tenant', resources.services, elsewhere));
  await bench.reconcile('services', 'web', 'shop');
  await bench.reconcile('ingresses', 'web', 'shop');
  expect(bench.super.server.get(resources.ingresses, inSuper)).toBeDefined();
  expect(bench.super.server.get(resources.services, inSuper)?.['spec']).toMatchObject({ type: 'ClusterIP' });

  const ingress = bench.super.server.get(resources.ingresses, inSuper);
  bench.super.server.remove(resources.ingresses, inSuper);
  if (ingress !== undefined) bench.hide('super', resources.ingresses, ingress);
  await bench.reconcile('services', 'web', 'shop');
  expect(bench.super.server.get(resources.services, inSuper)?.['spec']).toMatchObject({
    type: 'ExternalName',
  });
});
