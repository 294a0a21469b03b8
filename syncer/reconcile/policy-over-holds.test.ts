import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import type { TenantPolicy } from '../../api/policy.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { ingressKind } from '../kinds/ingresses.ts';
import { serviceKind } from '../kinds/services/services.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';
import { resyncOf } from './testing/resync-of.ts';

const policy = { ...defaultPolicy, ingressHosts: ['*.blue.example'], externalIPs: true };
const start = (): Promise<ReconcilerHarness> =>
  ReconcilerHarness.start({ tenant: { syncIngresses: true, policy } });
const own = (spec: object, uid = 't1'): KubeObject => ({
  metadata: { namespace: 'shop', name: 'web', uid },
  spec,
});

function tighten({ state }: ReconcilerHarness, change: Partial<TenantPolicy>): void {
  state.updateInfo({ ...state.info, policy: { ...state.info.policy, ...change } });
}

/** An Ingress in the super cluster, of which the tenant does not say anything. */
function ingress(harness: ReconcilerHarness, annotations: Record<string, string> = {}): void {
  harness.namespace('shop');
  const metadata = { name: 'nginx', labels: { 'skerry.dev/public': 'true' } };
  harness.have('super', resources.ingressClasses, { metadata, spec: { controller: 'x' } });
  const rules = [{ host: 'a.blue.example' }];
  const original = own({ ingressClassName: 'nginx', rules });
  original.metadata.annotations = annotations;
  harness.have('super', resources.ingresses, ingressKind.toSuper(original, harness.state.context()));
}

const inSuper = (
  harness: ReconcilerHarness,
  plural: 'ingresses' | 'services' | 'endpointSlices',
): KubeObject | undefined =>
  harness.super.server.get(resources[plural], { namespace: harness.shop, name: 'web' });

/** Ways in which a tenant keeps the syncer from carrying over that something is gone. */
const holds: Readonly<Record<string, (harness: ReconcilerHarness) => void>> = {
  'whose server is another one': ({ tenant }) => {
    tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'another' } });
  },
  'that has said that the super cluster ran backwards': ({ state }) => {
    state.frozen = 'SuperClusterRanBackwards';
  },
  'that has lost too much at once': (harness) => {
    for (let index = 0; index < 30; index++) {
      const original = { metadata: { name: `x-${index}`, namespace: 'shop', uid: `x-${index}` } };
      harness.have('super', resources.configMaps, harness.superOf(original));
    }
  },
  'whose server does not say who it is': ({ tenant }) => {
    tenant.server.inject({ name: 'kube-system', times: 10, fault: { kind: 'status', code: 500 } });
  },
  'whose server has what it does not list': (harness) => {
    harness.server('tenant', resources.ingresses, own({}));
  },
};

describe.each(Object.entries(holds))('a tenant %s (sync rule `policy-over-holds`)', (_, hold) => {
  it('keeps an Ingress of a host that it may have, and loses it with the host', async () => {
    await using harness = await start();
    ingress(harness);
    hold(harness);
    await harness.reconcile('ingresses', 'web', 'shop');
    expect(inSuper(harness, 'ingresses')).toBeDefined();

    tighten(harness, { ingressHosts: ['*.green.example'] });
    hold(harness);
    await harness.reconcile('ingresses', 'web', 'shop');
    expect(inSuper(harness, 'ingresses')).toBeUndefined();
  });
});

describe('of a tenant whose deletions are stopped (sync rule `policy-over-holds`)', () => {
  const stopped = async (): Promise<ReconcilerHarness> => {
    const harness = await start();
    harness.state.frozen = 'TenantIdentity';
    harness.namespace('shop');
    return harness;
  };

  /** A running pod in the super cluster with an address. */
  const pod = (harness: ReconcilerHarness): KubeObject =>
    harness.have('super', resources.pods, {
      ...harness.superOf({ metadata: { namespace: 'shop', name: 'web', uid: 'p1' } }),
      status: { podIP: '10.244.1.7', podIPs: [{ ip: '10.244.1.7' }] },
    });

  it('a slice loses the address of a pod when that is gone, and nothing before', async () => {
    await using harness = await stopped();
    const there = pod(harness);
    harness.have('super', resources.endpointSlices, {
      ...harness.superOf(own({})),
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.244.1.7'] }],
    });
    expect(await harness.reconcile('endpointslices', 'web', 'shop')).toEqual({ is: 'held' });
    expect(inSuper(harness, 'endpointSlices')?.['endpoints']).toHaveLength(1);

    harness.hide('super', resources.pods, there);
    await harness.reconcile('endpointslices', 'web', 'shop');
    expect(inSuper(harness, 'endpointSlices')?.['endpoints']).toEqual([]);
  });

  it('a slice that lost its last address so is deleted as soon as deletions go on', async () => {
    await using harness = await stopped();
    const service = { metadata: { namespace: 'shop', name: 'web', uid: 's1' }, spec: {} };
    harness.have('tenant', resources.services, service);
    const labels = { 'kubernetes.io/service-name': 'web' };
    const slice = {
      metadata: { namespace: 'shop', name: 'web', uid: 't1', labels },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.244.1.7'] }],
    };
    harness.have('tenant', resources.endpointSlices, slice);
    // As an API server shows an empty list that it has stored.
    harness.have('super', resources.endpointSlices, { ...harness.superOf(slice), endpoints: null });
    expect(await harness.reconcile('endpointslices', 'web', 'shop')).toEqual({ is: 'held' });
    harness.state.frozen = undefined;
    await harness.reconcile('endpointslices', 'web', 'shop');
    expect(inSuper(harness, 'endpointSlices')).toBeUndefined();
  });

  it.each([
    ['is gone', undefined],
    ['is of no form that Kubernetes has', { ports: 'none' }],
  ])('a Service whose tenant object %s loses an option with the policy for it', async (_, said) => {
    await using harness = await stopped();
    const asked = own({ type: 'ClusterIP', ports: [{ port: 80 }], externalIPs: ['198.51.100.7'] });
    harness.have('super', resources.services, serviceKind.toSuper(asked, harness.state.context()));
    const compact = serviceKind.compact?.tenant;
    if (said !== undefined && compact !== undefined)
      harness.state.caches.store(resources.services).apply('ADDED', compact({ ...asked, spec: said }));
    await harness.reconcile('services', 'web', 'shop');
    expect(inSuper(harness, 'services')?.['spec']).toHaveProperty('externalIPs');

    tighten(harness, { externalIPs: false });
    await harness.reconcile('services', 'web', 'shop');
    expect(inSuper(harness, 'services')?.['spec']).not.toHaveProperty('externalIPs');
  });

  it.each([
    ['is gone', undefined],
    ['is none any more', { type: 'ClusterIP', ports: [{ port: 80 }] }],
  ])(
    'an Ingress waits for a Service that is an ExternalName in the cluster, while the tenant object of that %s',
    async (_, said) => {
      await using harness = await stopped();
      const metadata = { name: 'nginx', uid: 'c1', labels: { 'skerry.dev/public': 'true' } };
      harness.have('super', resources.ingressClasses, { metadata });
      const service = own({ type: 'ExternalName', externalName: 'metadata.internal' }, 's1');
      const there = harness.have(
        'super',
        resources.services,
        serviceKind.toSuper(service, harness.state.context()),
      );
      if (said !== undefined) harness.have('tenant', resources.services, { ...service, spec: said });
      const backend = { service: { name: 'web', port: { number: 80 } } };
      const paths = [{ path: '/', pathType: 'Prefix', backend }];
      const rules = [{ host: 'a.blue.example', http: { paths } }];
      harness.have('tenant', resources.ingresses, own({ ingressClassName: 'nginx', rules }));
      const copy = { name: 'nginx', annotations: { 'skerry.dev/uid': 'c1' } };
      harness.have('tenant', resources.ingressClasses, { metadata: copy });
      await harness.reconcile('ingresses', 'web', 'shop');
      expect(harness.asked('super')).toEqual([]);

      const touched = serviceKind.touches?.super?.(there, harness.state.context());
      expect(touched).toEqual([{ kind: 'ingresses', namespace: 'shop', name: 'web' }]);
      if (said === undefined) harness.hide('super', resources.services, there);
      else {
        const metadata = { ...there.metadata, resourceVersion: '1000' };
        harness.show('super', resources.services, { ...there, metadata, spec: said });
      }
      await harness.reconcile('ingresses', 'web', 'shop');
      expect(inSuper(harness, 'ingresses')?.['spec']).toHaveProperty('rules', rules);
    },
  );

  it('a Service that the tenant has no more loses options that are annotations, and none that others have put there', async () => {
    await using harness = await stopped();
    tighten(harness, { loadBalancerOptions: true });
    const asked = own({ type: 'LoadBalancer', ports: [{ port: 80 }] });
    const options = {
      'metallb.io/loadBalancerIPs': '198.51.100.7',
      'service.beta.kubernetes.io/load-balancer-source-ranges': '203.0.113.0/24',
    };
    asked.metadata.annotations = { ...options, note: 'mine' };
    const made = serviceKind.toSuper(asked, harness.state.context());
    const others = { 'metallb.io/address-pool': 'east' };
    made.metadata.annotations = { ...made.metadata.annotations, ...others };
    harness.have('super', resources.services, made);
    await harness.reconcile('services', 'web', 'shop');
    expect(inSuper(harness, 'services')?.metadata.annotations).toMatchObject({ ...options, ...others });

    tighten(harness, { loadBalancerOptions: false });
    await harness.reconcile('services', 'web', 'shop');
    const left = inSuper(harness, 'services');
    for (const key of Object.keys(options)) expect(left?.metadata.annotations).not.toHaveProperty([key]);
    expect(left?.metadata.annotations).toMatchObject({ ...others, note: 'mine' });
    // It is the object that is made without the options, so that nothing is left to do.
    const { annotations } = serviceKind.toSuper(asked, harness.state.context()).metadata;
    expect(left?.metadata.annotations).toEqual({ ...annotations, ...others });
  });

  it('an Ingress that the tenant has no more loses annotations that the operator has withdrawn', async () => {
    await using harness = await stopped();
    const key = 'nginx.ingress.kubernetes.io/rewrite-target';
    harness.state.updateInfo({ ...harness.state.info, ingressAnnotations: [key] });
    ingress(harness, { [key]: '/', note: 'mine' });
    await harness.reconcile('ingresses', 'web', 'shop');
    expect(inSuper(harness, 'ingresses')?.metadata.annotations).toMatchObject({ [key]: '/', note: 'mine' });

    harness.state.updateInfo({ ...harness.state.info, ingressAnnotations: [] });
    await harness.reconcile('ingresses', 'web', 'shop');
    const { annotations } = inSuper(harness, 'ingresses')?.metadata ?? {};
    expect(annotations).not.toHaveProperty([key]);
    expect(annotations).toMatchObject({ note: 'mine' });
  });

  const image = { name: 'main', image: 'busybox' };
  const privileged = { containers: [{ ...image, securityContext: { privileged: true } }] };
  /** A pod of the tenant as it stands in the super cluster, with `bound` in its spec there. */
  const podOf = (harness: ReconcilerHarness, spec: object, bound: object = {}): (() => KubeObject[]) => {
    const t = harness.have('tenant', resources.pods, own(spec));
    harness.have('super', resources.pods, harness.superOf(t, { spec: { ...spec, ...bound } }));
    return () =>
      harness.super.server
        .list(resources.pods)
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  };

  it('a pod goes that policy refuses and the super cluster has not bound', async () => {
    await using harness = await stopped();
    const there = podOf(harness, privileged);
    tighten(harness, { podSecurity: 'privileged' });
    await harness.reconcile('pods', 'web', 'shop');
    expect(there()).toHaveLength(1);
    tighten(harness, { podSecurity: 'baseline' });
    await harness.reconcile('pods', 'web', 'shop');
    expect(there()).toEqual([]);
  });

  it('a pod runs on that policy refuses and the super cluster has bound, though the tenant has not', async () => {
    await using harness = await stopped();
    const there = podOf(harness, privileged, { nodeName: 'n1' });
    tighten(harness, { podSecurity: 'baseline' });
    expect(await harness.reconcile('pods', 'web', 'shop')).toEqual({ is: 'held' });
    expect(there()).toHaveLength(1);
  });

  it.each([
    ['copy of its RuntimeClass', { runtimeClassName: 'kata' }],
    ['ConfigMap with a long name', { volumes: [{ name: 'v', configMap: { name: 'x'.repeat(253) } }] }],
  ])('no pod goes because the tenant does not show the %s', async (_, spec) => {
    await using harness = await stopped();
    const there = podOf(harness, { containers: [image], ...spec });
    expect(await harness.reconcile('pods', 'web', 'shop')).toEqual({ is: 'held' });
    expect(there()).toHaveLength(1);
  });

  it('nothing is touched in a super cluster that is not the right one', async () => {
    await using harness = await start();
    ingress(harness);
    tighten(harness, { ingressHosts: [] });
    harness.superIdentity.distrust('it shows its past');
    expect(await harness.reconcile('ingresses', 'web', 'shop')).toEqual({ is: 'held' });
    expect(inSuper(harness, 'ingresses')).toBeDefined();
  });

  it('a comparison of both sides finds what policy demands, and leaves the rest that is held', async () => {
    await using harness = await stopped();
    ingress(harness);
    await harness.reconcile('ingresses', 'web', 'shop');
    const found = async (): Promise<string[]> => {
      const { resync, queued } = resyncOf(harness);
      await resync.run(harness.state);
      return queued;
    };
    expect(await found()).not.toContain('ingresses/shop/web');
    tighten(harness, { ingressHosts: [] });
    expect(await found()).toContain('ingresses/shop/web');
  });
});
