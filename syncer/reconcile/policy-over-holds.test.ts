import { describe, expect, it } from 'vitest';
import { defaultPolicy, type TenantPolicy } from '../../api/policy.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { ingressKind } from '../kinds/ingresses.ts';
import { serviceKind } from '../kinds/services/services.ts';
import { Bench } from './testing/bench.ts';
import { resyncOf } from './testing/resync-of.ts';

const policy = { ...defaultPolicy, ingressHosts: ['*.blue.example'], externalIPs: true };
const start = (): Promise<Bench> => Bench.start({ tenant: { syncIngresses: true, policy } });
const own = (spec: object, uid = 't1'): KubeObject => ({
  metadata: { namespace: 'shop', name: 'web', uid },
  spec,
});

function tighten({ state }: Bench, change: Partial<TenantPolicy>): void {
  state.updateInfo({ ...state.info, policy: { ...state.info.policy, ...change } });
}

/** An Ingress in the super cluster, of which the tenant does not say anything. */
function ingress(bench: Bench, annotations: Record<string, string> = {}): void {
  bench.namespace('shop');
  const metadata = { name: 'nginx', labels: { 'skerry.dev/public': 'true' } };
  bench.have('super', resources.ingressClasses, { metadata, spec: { controller: 'x' } });
  const rules = [{ host: 'a.blue.example' }];
  const original = own({ ingressClassName: 'nginx', rules });
  original.metadata.annotations = annotations;
  bench.have('super', resources.ingresses, ingressKind.toSuper(original, bench.state.context()));
}

const inSuper = (bench: Bench, plural: 'ingresses' | 'services' | 'endpointSlices'): KubeObject | undefined =>
  bench.super.server.get(resources[plural], { namespace: bench.shop, name: 'web' });

/** Ways in which a tenant keeps the syncer from carrying over that something is gone. */
const holds: Readonly<Record<string, (bench: Bench) => void>> = {
  'whose server is another one': ({ tenant }) => {
    tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'another' } });
  },
  'that has said that the super cluster ran backwards': ({ state }) => {
    state.frozen = 'SuperClusterRanBackwards';
  },
  'that has lost too much at once': (bench) => {
    for (let index = 0; index < 30; index++) {
      const original = { metadata: { name: `x-${index}`, namespace: 'shop', uid: `x-${index}` } };
      bench.have('super', resources.configMaps, bench.superOf(original));
    }
  },
  'whose server does not say who it is': ({ tenant }) => {
    tenant.server.inject({ name: 'kube-system', times: 10, fault: { kind: 'status', code: 500 } });
  },
  'whose server has what it does not list': (bench) => {
    bench.server('tenant', resources.ingresses, own({}));
  },
};

describe.each(Object.entries(holds))('a tenant %s (sync rule `policy-over-holds`)', (_, hold) => {
  it('keeps an Ingress of a host that it may have, and loses it with the host', async () => {
    await using bench = await start();
    ingress(bench);
    hold(bench);
    await bench.reconcile('ingresses', 'web', 'shop');
    expect(inSuper(bench, 'ingresses')).toBeDefined();

    tighten(bench, { ingressHosts: ['*.green.example'] });
    hold(bench);
    await bench.reconcile('ingresses', 'web', 'shop');
    expect(inSuper(bench, 'ingresses')).toBeUndefined();
  });
});

describe('of a tenant whose deletions are stopped (sync rule `policy-over-holds`)', () => {
  const stopped = async (): Promise<Bench> => {
    const bench = await start();
    bench.state.frozen = 'TenantIdentity';
    bench.namespace('shop');
    return bench;
  };

  /** A running pod in the super cluster with an address. */
  const pod = (bench: Bench): KubeObject =>
    bench.have('super', resources.pods, {
      ...bench.superOf({ metadata: { namespace: 'shop', name: 'web', uid: 'p1' } }),
      status: { podIP: '10.244.1.7', podIPs: [{ ip: '10.244.1.7' }] },
    });

  it('a slice loses the address of a pod when that is gone, and nothing before', async () => {
    await using bench = await stopped();
    const there = pod(bench);
    bench.have('super', resources.endpointSlices, {
      ...bench.superOf(own({})),
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.244.1.7'] }],
    });
    expect(await bench.reconcile('endpointslices', 'web', 'shop')).toEqual({ is: 'held' });
    expect(inSuper(bench, 'endpointSlices')?.['endpoints']).toHaveLength(1);

    bench.hide('super', resources.pods, there);
    await bench.reconcile('endpointslices', 'web', 'shop');
    expect(inSuper(bench, 'endpointSlices')?.['endpoints']).toEqual([]);
  });

  it('a slice that lost its last address so is deleted as soon as deletions go on', async () => {
    await using bench = await stopped();
    const service = { metadata: { namespace: 'shop', name: 'web', uid: 's1' }, spec: {} };
    bench.have('tenant', resources.services, service);
    const labels = { 'kubernetes.io/service-name': 'web' };
    const slice = {
      metadata: { namespace: 'shop', name: 'web', uid: 't1', labels },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.244.1.7'] }],
    };
    bench.have('tenant', resources.endpointSlices, slice);
    // As an API server shows an empty list that it has stored.
    bench.have('super', resources.endpointSlices, { ...bench.superOf(slice), endpoints: null });
    expect(await bench.reconcile('endpointslices', 'web', 'shop')).toEqual({ is: 'held' });
    bench.state.frozen = undefined;
    await bench.reconcile('endpointslices', 'web', 'shop');
    expect(inSuper(bench, 'endpointSlices')).toBeUndefined();
  });

  it.each([
    ['is gone', undefined],
    ['is of no form that Kubernetes has', { ports: 'none' }],
  ])('a Service whose tenant object %s loses an option with the policy for it', async (_, said) => {
    await using bench = await stopped();
    const asked = own({ type: 'ClusterIP', ports: [{ port: 80 }], externalIPs: ['198.51.100.7'] });
    bench.have('super', resources.services, serviceKind.toSuper(asked, bench.state.context()));
    const compact = serviceKind.compact?.tenant;
    if (said !== undefined && compact !== undefined)
      bench.state.caches.store(resources.services).apply('ADDED', compact({ ...asked, spec: said }));
    await bench.reconcile('services', 'web', 'shop');
    expect(inSuper(bench, 'services')?.['spec']).toHaveProperty('externalIPs');

    tighten(bench, { externalIPs: false });
    await bench.reconcile('services', 'web', 'shop');
    expect(inSuper(bench, 'services')?.['spec']).not.toHaveProperty('externalIPs');
  });

  it.each([
    ['is gone', undefined],
    ['is none any more', { type: 'ClusterIP', ports: [{ port: 80 }] }],
  ])(
    'an Ingress waits for a Service that is an ExternalName in the cluster, while the tenant object of that %s',
    async (_, said) => {
      await using bench = await stopped();
      const metadata = { name: 'nginx', uid: 'c1', labels: { 'skerry.dev/public': 'true' } };
      bench.have('super', resources.ingressClasses, { metadata });
      const service = own({ type: 'ExternalName', externalName: 'metadata.internal' }, 's1');
      const there = bench.have(
        'super',
        resources.services,
        serviceKind.toSuper(service, bench.state.context()),
      );
      if (said !== undefined) bench.have('tenant', resources.services, { ...service, spec: said });
      const backend = { service: { name: 'web', port: { number: 80 } } };
      const paths = [{ path: '/', pathType: 'Prefix', backend }];
      const rules = [{ host: 'a.blue.example', http: { paths } }];
      bench.have('tenant', resources.ingresses, own({ ingressClassName: 'nginx', rules }));
      const copy = { name: 'nginx', annotations: { 'skerry.dev/uid': 'c1' } };
      bench.have('tenant', resources.ingressClasses, { metadata: copy });
      await bench.reconcile('ingresses', 'web', 'shop');
      expect(bench.asked('super')).toEqual([]);

      const touched = serviceKind.touches?.super?.(there, bench.state.context());
      expect(touched).toEqual([{ kind: 'ingresses', namespace: 'shop', name: 'web' }]);
      if (said === undefined) bench.hide('super', resources.services, there);
      else {
        const metadata = { ...there.metadata, resourceVersion: '1000' };
        bench.show('super', resources.services, { ...there, metadata, spec: said });
      }
      await bench.reconcile('ingresses', 'web', 'shop');
      expect(inSuper(bench, 'ingresses')?.['spec']).toHaveProperty('rules', rules);
    },
  );

  it('a Service that the tenant has no more loses options that are annotations, and none that others have put there', async () => {
    await using bench = await stopped();
    tighten(bench, { loadBalancerOptions: true });
    const asked = own({ type: 'LoadBalancer', ports: [{ port: 80 }] });
    const options = {
      'metallb.io/loadBalancerIPs': '198.51.100.7',
      'service.beta.kubernetes.io/load-balancer-source-ranges': '203.0.113.0/24',
    };
    asked.metadata.annotations = { ...options, note: 'mine' };
    const made = serviceKind.toSuper(asked, bench.state.context());
    const others = { 'metallb.io/address-pool': 'east' };
    made.metadata.annotations = { ...made.metadata.annotations, ...others };
    bench.have('super', resources.services, made);
    await bench.reconcile('services', 'web', 'shop');
    expect(inSuper(bench, 'services')?.metadata.annotations).toMatchObject({ ...options, ...others });

    tighten(bench, { loadBalancerOptions: false });
    await bench.reconcile('services', 'web', 'shop');
    const left = inSuper(bench, 'services');
    for (const key of Object.keys(options)) expect(left?.metadata.annotations).not.toHaveProperty([key]);
    expect(left?.metadata.annotations).toMatchObject({ ...others, note: 'mine' });
    // It is the object that is made without the options, so that nothing is left to do.
    const { annotations } = serviceKind.toSuper(asked, bench.state.context()).metadata;
    expect(left?.metadata.annotations).toEqual({ ...annotations, ...others });
  });

  it('an Ingress that the tenant has no more loses annotations that the operator has withdrawn', async () => {
    await using bench = await stopped();
    const key = 'nginx.ingress.kubernetes.io/rewrite-target';
    bench.state.updateInfo({ ...bench.state.info, ingressAnnotations: [key] });
    ingress(bench, { [key]: '/', note: 'mine' });
    await bench.reconcile('ingresses', 'web', 'shop');
    expect(inSuper(bench, 'ingresses')?.metadata.annotations).toMatchObject({ [key]: '/', note: 'mine' });

    bench.state.updateInfo({ ...bench.state.info, ingressAnnotations: [] });
    await bench.reconcile('ingresses', 'web', 'shop');
    const { annotations } = inSuper(bench, 'ingresses')?.metadata ?? {};
    expect(annotations).not.toHaveProperty([key]);
    expect(annotations).toMatchObject({ note: 'mine' });
  });

  const image = { name: 'main', image: 'busybox' };
  const privileged = { containers: [{ ...image, securityContext: { privileged: true } }] };
  /** A pod of the tenant as it stands in the super cluster, with `bound` in its spec there. */
  const podOf = (bench: Bench, spec: object, bound: object = {}): (() => KubeObject[]) => {
    const t = bench.have('tenant', resources.pods, own(spec));
    bench.have('super', resources.pods, bench.superOf(t, { spec: { ...spec, ...bound } }));
    return () =>
      bench.super.server
        .list(resources.pods)
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  };

  it('a pod goes that policy refuses and the super cluster has not bound', async () => {
    await using bench = await stopped();
    const there = podOf(bench, privileged);
    tighten(bench, { podSecurity: 'privileged' });
    await bench.reconcile('pods', 'web', 'shop');
    expect(there()).toHaveLength(1);
    tighten(bench, { podSecurity: 'baseline' });
    await bench.reconcile('pods', 'web', 'shop');
    expect(there()).toEqual([]);
  });

  it('a pod runs on that policy refuses and the super cluster has bound, though the tenant has not', async () => {
    await using bench = await stopped();
    const there = podOf(bench, privileged, { nodeName: 'n1' });
    tighten(bench, { podSecurity: 'baseline' });
    expect(await bench.reconcile('pods', 'web', 'shop')).toEqual({ is: 'held' });
    expect(there()).toHaveLength(1);
  });

  it.each([
    ['copy of its RuntimeClass', { runtimeClassName: 'kata' }],
    ['ConfigMap with a long name', { volumes: [{ name: 'v', configMap: { name: 'x'.repeat(253) } }] }],
  ])('no pod goes because the tenant does not show the %s', async (_, spec) => {
    await using bench = await stopped();
    const there = podOf(bench, { containers: [image], ...spec });
    expect(await bench.reconcile('pods', 'web', 'shop')).toEqual({ is: 'held' });
    expect(there()).toHaveLength(1);
  });

  it('nothing is touched in a super cluster that is not the right one', async () => {
    await using bench = await start();
    ingress(bench);
    tighten(bench, { ingressHosts: [] });
    bench.superIdentity.distrust('it shows its past');
    expect(await bench.reconcile('ingresses', 'web', 'shop')).toEqual({ is: 'held' });
    expect(inSuper(bench, 'ingresses')).toBeDefined();
  });

  it('a comparison of both sides finds what policy demands, and leaves the rest that is held', async () => {
    await using bench = await stopped();
    ingress(bench);
    await bench.reconcile('ingresses', 'web', 'shop');
    const found = async (): Promise<string[]> => {
      const { resync, queued } = resyncOf(bench);
      await resync.run(bench.state);
      return queued;
    };
    expect(await found()).not.toContain('ingresses/shop/web');
    tighten(bench, { ingressHosts: [] });
    expect(await found()).toContain('ingresses/shop/web');
  });
});
