import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import { applyMergePatch, type KubeObject, resources } from '../../../kube/index.ts';
import { serviceKind } from './services.ts';
import { context, created, patchOf, service } from './testing.ts';

describe('sync rule `cluster-ip`: load balancers', () => {
  it('brings the status up, and down again', () => {
    const tenantObject = service({ type: 'LoadBalancer' });
    const superObject = created(tenantObject);
    superObject['status'] = { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } };
    const actions = serviceKind.up?.(tenantObject, superObject, context());
    expect(actions).toEqual([
      {
        do: 'patchTenant',
        subresource: 'status',
        patch: { status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } } },
      },
    ]);
    const after = applyMergePatch(tenantObject, patchOf(actions, 'patchTenant')) as KubeObject;
    expect(serviceKind.up?.(after, superObject, context())).toEqual([]);
    superObject['status'] = { loadBalancer: {} };
    expect(patchOf(serviceKind.up?.(after, superObject, context()), 'patchTenant')).toEqual({
      status: { loadBalancer: { ingress: null } },
    });
  });

  it('drops externalIPs, loadBalancerIP and source ranges, and says so', () => {
    const tenantObject = service({
      type: 'LoadBalancer',
      externalIPs: ['192.0.2.7'],
      loadBalancerIP: '192.0.2.8',
      loadBalancerSourceRanges: ['0.0.0.0/0'],
    });
    const key = 'service.beta.kubernetes.io/load-balancer-source-ranges';
    tenantObject.metadata.annotations = { [key]: '0.0.0.0/0', note: 'kept' };
    const object = serviceKind.toSuper(tenantObject, context());
    for (const field of ['externalIPs', 'loadBalancerIP', 'loadBalancerSourceRanges']) {
      expect(object['spec']).not.toHaveProperty(field);
    }
    expect(object.metadata.annotations).toMatchObject({ note: 'kept' });
    expect(object.metadata.annotations).not.toHaveProperty([key]);
    expect(serviceKind.admit?.(tenantObject, context())).toMatchObject({
      wanted: true,
      notice: {
        reason: 'NotSupported',
        message: expect.stringContaining('externalIPs, loadBalancerIP, loadBalancerSourceRanges'),
      },
    });
    expect(serviceKind.down(tenantObject, created(tenantObject), context())).toEqual([]);
  });
});

it('has a load balancer of its choice where the policy allows that, and none where it does not, but for the one that it has', () => {
  const asked = service({ type: 'LoadBalancer', loadBalancerClass: 'theirs/internal' });
  const allowed = context({ policy: { ...defaultPolicy, loadBalancerOptions: true } });
  expect(serviceKind.toSuper(asked, allowed)['spec']).toMatchObject({ loadBalancerClass: 'theirs/internal' });
  expect(serviceKind.admit?.(asked, allowed)).toEqual({ wanted: true });
  const refused = {
    wanted: false,
    keep: true,
    notice: { reason: 'NotSupported', message: expect.stringContaining('loadBalancerClass') },
  };
  expect(serviceKind.admit?.(asked, context())).toMatchObject(refused);
  const having = (assigned: object) => {
    const there = created(asked, { healthCheckNodePort: 0, ...assigned });
    return { ...context(), superObjects: { ...context().superObjects, get: () => there } as never };
  };
  expect(serviceKind.admit?.(asked, having({}))).toMatchObject(refused);
  const has = { loadBalancerClass: 'theirs/internal' };
  expect(serviceKind.admit?.(asked, having(has))).toEqual({ wanted: true });
  expect(serviceKind.down(asked, created(asked, { healthCheckNodePort: 0, ...has }), context())).toEqual([]);
});

describe('sync rule `service-updates`: updates', () => {
  it('writes nothing when both sides agree', () => {
    const tenantObject = service({ type: 'LoadBalancer', allocateLoadBalancerNodePorts: true });
    const superObject = created(tenantObject, { healthCheckNodePort: 0, loadBalancerClass: 'theirs/class' });
    expect(serviceKind.down(tenantObject, superObject, context())).toEqual([]);
    expect(serviceKind.up?.(tenantObject, superObject, context())).toEqual([]);
  });

  it.each([
    ['selector', { selector: { app: 'other' } }, { selector: { app: 'other' } }],
    ['selector key gone', { selector: { role: 'x' } }, { selector: { app: null, role: 'x' } }],
    ['traffic policy', { internalTrafficPolicy: 'Local' }, { internalTrafficPolicy: 'Local' }],
    [
      'session affinity',
      { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } } },
      { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } } },
    ],
    [
      'target port',
      { ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 9 }] },
      { ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 9 }] },
    ],
  ])('a change of the %s arrives', (_what, change, spec) => {
    const superObject = created(service());
    expect(serviceKind.down(service(change), superObject, context())).toEqual([
      { do: 'patchSuper', patch: { spec } },
    ]);
  });

  it('keeps what the super cluster assigned: node ports that the tenant object has none of, families, class', () => {
    const tenantObject = service({ type: 'LoadBalancer', allocateLoadBalancerNodePorts: false });
    const assigned = {
      ipFamilies: ['IPv6'],
      loadBalancerClass: 'theirs/class',
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080, nodePort: 30999 }],
    };
    const changed = service({
      type: 'LoadBalancer',
      allocateLoadBalancerNodePorts: false,
      selector: { app: 'b' },
    });
    expect(
      patchOf(serviceKind.down(changed, created(tenantObject, assigned), context()), 'patchSuper'),
    ).toEqual({
      spec: { selector: { app: 'b' } },
    });
  });

  it('a change of type arrives and takes its fields along', () => {
    const superObject = created(
      service({
        type: 'NodePort',
        externalTrafficPolicy: 'Cluster',
        ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080, nodePort: 30080 }],
      }),
    );
    expect(patchOf(serviceKind.down(service(), superObject, context()), 'patchSuper')).toEqual({
      spec: {
        type: 'ClusterIP',
        externalTrafficPolicy: null,
        ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }],
      },
    });
  });

  it('a Service that stops being an ExternalName asks for its address', () => {
    const external = service({
      type: 'ExternalName',
      externalName: 'x.example',
      clusterIP: undefined,
      clusterIPs: undefined,
    });
    const superObject = created(external, { ipFamilies: undefined, ipFamilyPolicy: undefined });
    expect(patchOf(serviceKind.down(service(), superObject, context()), 'patchSuper')).toEqual({
      spec: { type: 'ClusterIP', externalName: null, clusterIP: '10.112.4.20' },
    });
  });

  it('leaves what others have put on the super object alone', () => {
    const superObject = created(service());
    (superObject['spec'] as Record<string, unknown>)['fieldOfTheFuture'] = 1;
    superObject.metadata.annotations = {
      ...superObject.metadata.annotations,
      'mesh.example/injected': 'yes',
    };
    expect(serviceKind.down(service(), superObject, context())).toEqual([]);
  });
});

describe('a Service that is to stay in the tenant', () => {
  it('does not go down, unless it is the way to the API server', () => {
    const own = service();
    own.metadata.labels = { 'skerry.dev/sync': 'false' };
    expect(serviceKind.admit?.(own, context())).toEqual({ wanted: false });
    const kubernetes = { ...own, metadata: { ...own.metadata, namespace: 'default', name: 'kubernetes' } };
    expect(serviceKind.admit?.(kubernetes, context())).toMatchObject({ wanted: true });
  });
});

describe('sync rule `kubernetes-service`: default/kubernetes', () => {
  const tenant = { apiServer: { address: '192.0.2.10', port: 21000 } };

  it('does not go down where the manager leads to the API server itself', () => {
    const led = context({ apiServer: { address: '10.96.0.7', port: 443, isService: true } });
    expect(serviceKind.admit?.(service({}, 'kubernetes', 'default'), led)).toEqual({ wanted: false });
    expect(serviceKind.admit?.(service({}, 'kubernetes', 'shop'), led)).toEqual({ wanted: true });
  });

  it("points at the tenant's API server whatever the tenant object says", () => {
    const kubernetes = service(
      {
        type: 'NodePort',
        clusterIP: '10.112.4.1',
        selector: { app: 'mine' },
        ports: [{ name: 'x', port: 1, protocol: 'TCP' }],
      },
      'kubernetes',
      'default',
    );
    const object = serviceKind.toSuper(kubernetes, context(tenant));
    expect(object['spec']).toEqual({
      type: 'ClusterIP',
      clusterIP: '10.112.4.1',
      ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 21000 }],
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
    });
    expect(serviceKind.down(kubernetes, object, context(tenant))).toEqual([]);
  });

  it('another Service named kubernetes is an ordinary one', () => {
    expect(serviceKind.toSuper(service({}, 'kubernetes', 'shop'), context(tenant))['spec']).toMatchObject({
      selector: { app: 'kubernetes' },
    });
  });
});

it('touches the slices of a Service without selector, and only those', () => {
  const slice: KubeObject = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
  };
  const tenant = context({}, [slice]);
  expect(tenant.tenantObjects.byIndex(resources.endpointSlices, 'byService', 'shop/web')).toHaveLength(1);
  expect(serviceKind.touches?.tenant?.(service({ selector: undefined }), tenant)).toEqual([
    { kind: 'endpointslices', namespace: 'shop', name: 'web-1' },
  ]);
  expect(serviceKind.touches?.tenant?.(service(), tenant)).toEqual([]);
});

describe('the annotations of a Service (sync rule `allowed-annotations`)', () => {
  const annotations = {
    'service.beta.kubernetes.io/aws-load-balancer-name': 'of-another',
    'service.beta.kubernetes.io/azure-load-balancer-resource-group': 'of-another',
    'kubernetes.digitalocean.com/load-balancer-id': 'of-another',
    'load-balancer.hetzner.cloud/id': 'of-another',
    'external-dns.alpha.kubernetes.io/hostname': 'shop.example.com',
    'prometheus.io/port': '9090',
    note: 'mine',
  };
  const annotated = {
    ...service(),
    metadata: { ...service().metadata, annotations, labels: { app: 'web', 'istio.io/rev': 'x' } },
  };

  it('go down by an allow-list: no load balancer is taken over by its name or id', () => {
    const { metadata } = serviceKind.toSuper(annotated, context());
    const own = Object.keys(metadata.annotations ?? {}).filter((key) => !key.startsWith('skerry.dev/'));
    expect(own).toEqual(['prometheus.io/port', 'note']);
    expect(metadata.labels).not.toHaveProperty(['istio.io/rev']);
    expect(serviceKind.admit?.(annotated, context())).toMatchObject({
      wanted: true,
      notice: { reason: 'NotSupported', message: expect.stringContaining('load-balancer.hetzner.cloud/id') },
    });
  });

  it('are added to by the operator', () => {
    const allowing = context({ allowedAnnotations: ['load-balancer.hetzner.cloud/'] });
    const { metadata } = serviceKind.toSuper(annotated, allowing);
    expect(metadata.annotations).toHaveProperty(['load-balancer.hetzner.cloud/id']);
  });
});

describe('the labels of a Service (sync rule `allowed-labels`)', () => {
  const harmless = { app: 'web', 'app.kubernetes.io/name': 'web', 'helm.sh/chart': 'web-1' };
  const labels = {
    ...harmless,
    'cis.f5.com/as3-pool': 'of-another',
    'service.kubernetes.io/service-proxy-name': 'none',
    'unheard-of.example/anything': 'x',
    'kubernetes.io/cluster-service': 'true',
    'argocd.argoproj.io/instance': 'shop',
  };
  const labelled = { ...service(), metadata: { ...service().metadata, labels } };
  const own = (object: KubeObject): object =>
    Object.fromEntries(
      Object.entries(object.metadata.labels ?? {}).filter(([key]) => !key.startsWith('skerry.dev/')),
    );

  it('go down by an allow-list: nothing of a tenant selects Services there, and an event names those that stay', () => {
    expect(own(serviceKind.toSuper(labelled, context()))).toEqual(harmless);
    const { wanted, notice } = serviceKind.admit?.(labelled, context()) ?? {};
    expect(wanted).toBe(true);
    expect(notice).toMatchObject({ reason: 'NotSupported' });
    expect(notice?.message).toContain(
      'cis.f5.com/as3-pool, service.kubernetes.io/service-proxy-name, unheard-of.example/anything;',
    );
  });

  it('are added to by the operator, and taken back when that is withdrawn', () => {
    const allowing = context({ allowedLabels: ['unheard-of.example/'] });
    const there = serviceKind.toSuper(labelled, allowing);
    expect(own(there)).toEqual({ app: 'web', 'unheard-of.example/anything': 'x' });
    expect(serviceKind.enforce?.(there, undefined, allowing)).toEqual([]);
    const [action] = serviceKind.enforce?.(there, undefined, context()) ?? [];
    if (action?.do !== 'patchSuper') throw new Error('no patch');
    const after = applyMergePatch(there, action.patch) as KubeObject;
    expect(own(after)).toEqual({ app: 'web' });
    expect(serviceKind.enforce?.(after, undefined, context())).toEqual([]);
  });

  it('are not sent where something else has made the write', () => {
    const creates = serviceKind.toSuper(labelled, context());
    const foreign = { ...creates.metadata.labels, 'cis.f5.com/as3-pool': 'x' };
    const write = { creates: { ...creates, metadata: { ...creates.metadata, labels: foreign } } };
    expect(serviceKind.validate?.(write, context())).toMatchObject({ reason: 'UnknownField' });
  });
});
