import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { KeyRef, SyncContext, TenantInfo } from '../context.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { ingressClassKind } from './classes.ts';
import type { SyncedKind } from './contract.ts';
import { type IngressSpec, ingressKind as kind } from './ingresses.ts';
import { neededBy, referrersOf } from './references.ts';
import { allKinds } from './registry.ts';
import { secretKind } from './secrets.ts';
import { serviceKind } from './services/services.ts';
import { carryOut, testContext } from './testing.ts';

const hosts = ['shop.example.com', '*.apps.example.com'];

function referrers(of: SyncedKind, object: KubeObject, { tenantObjects }: SyncContext): readonly KeyRef[] {
  return referrersOf(allKinds, of, object, tenantObjects);
}

function ingressClass(
  side: 'tenant' | 'super',
  labels: Record<string, string> = { [labelKeys.public]: 'true' },
): KubeObject {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'IngressClass',
    metadata:
      side === 'super'
        ? { name: 'public', uid: 'uid-of-class', labels }
        : { name: 'public', uid: 'uid-of-copy', annotations: { [annotationKeys.uid]: 'uid-of-class' } },
  };
}

function ingress(change: IngressSpec = {}, metadata: Partial<KubeObject['metadata']> = {}): KubeObject {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    metadata: { name: 'web', namespace: 'shop', uid: 'uid-of-web', ...metadata },
    spec: { ingressClassName: 'public', rules: [rule('shop.example.com')], ...change },
  };
}

function rule(host: string | undefined, service = 'web'): NonNullable<IngressSpec['rules']>[number] {
  const backend = { service: { name: service, port: { number: 80 } } };
  return {
    ...(host === undefined ? {} : { host }),
    http: { paths: [{ path: '/', pathType: 'Prefix', backend }] },
  };
}

interface Options {
  tenant?: Partial<TenantInfo>;
  tenantObjects?: KubeObject[];
  superObjects?: KubeObject[];
}

const cert: KubeObject = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'cert', namespace: 'shop', uid: 'uid-of-cert' },
  type: 'kubernetes.io/tls',
};

const context = ({ tenant, tenantObjects = [], superObjects }: Options = {}) =>
  testContext({
    tenant: { syncIngresses: true, policy: { ...defaultPolicy, ingressHosts: hosts }, ...tenant },
    tenantObjects: [ingressClass('tenant'), ...tenantObjects],
    superObjects: superObjects ?? [ingressClass('super')],
    kinds: allKinds,
  });

const admitted = (object: KubeObject, options?: Options) => kind.admit?.(object, context(options));
const refusal = (reason: string, message = '') => ({
  wanted: false,
  notice: { type: 'Warning', reason, message: expect.stringContaining(message) },
});

describe('whether an Ingress goes down', () => {
  it('is for the operator to switch on', () => {
    expect(admitted(ingress())).toEqual({ wanted: true });
    const off = { tenant: { syncIngresses: false } };
    expect(admitted(ingress(), off)).toEqual(refusal('IngressesNotSynced'));
  });

  it.each([
    ['shop.example.com', true],
    ['x.apps.example.com', true],
    ['a.b.apps.example.com', true],
    ['*.apps.example.com', true],
    ['*.b.apps.example.com', true],
    ['apps.example.com', false],
    ['*.example.com', false],
    ['*.shop.example.com', false],
    ['x.shop.example.com', false],
    ['shop.example.com.evil.test', false],
    ['evilapps.example.com', false],
    ['neighbour.example.com', false],
  ])('depends on its host names: %s is allowed: %s', (host, isAllowed) => {
    const one = ingress({ rules: [rule('shop.example.com'), rule(host)] });
    const certified = ingress({ tls: [{ hosts: [host], secretName: 'cert' }] });
    for (const object of [one, certified]) {
      if (isAllowed) expect(admitted(object, { tenantObjects: [cert] })).toEqual({ wanted: true });
      else expect(admitted(object)).toEqual(refusal('HostNotAllowed', host));
    }
  });

  it('a rule without a host, and a default backend, would answer for the hosts of others', () => {
    const everything = { ...defaultPolicy, ingressHosts: ['*.example.com', 'example.com', ''] };
    expect(admitted(ingress({ rules: [rule(undefined)] }), { tenant: { policy: everything } })).toEqual(
      refusal('HostNotAllowed', 'every host'),
    );
    expect(admitted(ingress({ defaultBackend: { service: { name: 'web' } } }))).toEqual(
      refusal('HostNotAllowed', 'defaultBackend'),
    );
    expect(admitted(ingress(), { tenant: { policy: defaultPolicy } })).toEqual(
      refusal('HostNotAllowed', 'allowed: none'),
    );
  });

  it('of two tenants that claim one host, those may whose operator allows it', () => {
    const without = { ...defaultPolicy, ingressHosts: ['*.apps.example.com'] };
    expect(admitted(ingress())).toEqual({ wanted: true });
    expect(admitted(ingress(), { tenant: { policy: without } })).toEqual(
      refusal('HostNotAllowed', 'shop.example.com'),
    );
  });

  it('backends are Services, and not names of elsewhere', () => {
    const resource = { apiGroup: 'x', kind: 'Bucket', name: 'b' };
    const paths = [{ path: '/', pathType: 'Prefix', backend: { resource } }];
    expect(admitted(ingress({ rules: [{ host: 'shop.example.com', http: { paths } }] }))).toEqual(
      refusal('NotSupported', 'only Services'),
    );
    const service = (type: string): KubeObject => ({
      kind: 'Service',
      metadata: { name: 'web', namespace: 'shop' },
      spec: { type, externalName: 'metadata.internal' },
    });
    expect(admitted(ingress(), { tenantObjects: [service('ClusterIP')] })).toEqual({ wanted: true });
    expect(admitted(ingress(), { tenantObjects: [service('ExternalName')] })).toEqual(
      refusal('NotSupported', 'ExternalName'),
    );
    expect(referrers(serviceKind, service('ExternalName'), context({ tenantObjects: [ingress()] }))).toEqual([
      { kind: 'ingresses', namespace: 'shop', name: 'web' },
    ]);
  });

  it('waits while its Service is an ExternalName in the cluster, whatever the tenant has, and is looked at when it is none', () => {
    const service = (type: string): KubeObject => ({
      kind: 'Service',
      metadata: { name: 'web', namespace: 'shop', uid: 'uid-of-service' },
      spec: { type, externalName: 'metadata.internal' },
    });
    const inSuper = (type: string): KubeObject => serviceKind.toSuper(service(type), context());
    const external = inSuper('ExternalName');
    const superObjects = [ingressClass('super'), external];
    for (const tenantObjects of [[], [service('ClusterIP')]]) {
      expect(admitted(ingress(), { superObjects, tenantObjects })).toEqual(
        refusal('NotSupported', 'Service web is still an ExternalName in the cluster'),
      );
    }
    const own = { superObjects: [ingressClass('super'), inSuper('ClusterIP')] };
    expect(admitted(ingress(), own)).toEqual({ wanted: true });

    const key = { kind: 'ingresses', namespace: 'shop', name: 'web' };
    const of = context({
      superObjects,
      tenantObjects: [ingress(), ingress({ rules: [] }, { name: 'other' })],
    });
    expect(serviceKind.touches?.super?.(external, of)).toEqual([key]);
    expect(serviceKind.touches?.super?.(inSuper('ClusterIP'), of)).toEqual([]);
    const orphan = context({ superObjects: [...superObjects, kind.toSuper(ingress(), of)] });
    expect(serviceKind.touches?.super?.(external, orphan)).toEqual([key]);
  });

  it('is judged once for all Secrets that it refers to, until it or a setting changes', () => {
    let reads = 0;
    const counted = (): KubeObject => {
      const { spec, ...rest } = ingress({ tls: [{ hosts: ['shop.example.com'], secretName: 'cert' }] });
      const { rules, ...others } = spec as IngressSpec;
      const get = (): typeof rules => {
        reads += 1;
        return rules;
      };
      return { ...rest, spec: Object.defineProperty({ ...others }, 'rules', { get, enumerable: true }) };
    };
    const needs = (object: KubeObject, of: SyncContext) => kind.references?.needs?.(object, of);
    const object = counted();
    const of = context();
    expect(needs(object, of)).toBe(true);
    const once = reads;
    expect(once).toBeGreaterThan(0);
    for (let look = 0; look < 10; look++) expect(needs(object, of)).toBe(true);
    expect(reads).toBe(once);
    expect(needs(counted(), of)).toBe(true);
    expect(reads).toBe(2 * once);
    expect(needs(object, context({ tenant: { policy: defaultPolicy } }))).toBe(false);
    const external = { kind: 'Service', metadata: { name: 'web', namespace: 'shop' }, spec: {} };
    Object.assign(external.spec, { type: 'ExternalName' });
    expect(needs(object, { ...context({ tenantObjects: [external] }), tenant: of.tenant })).toBe(false);
  });

  it('has 10,000 rules, paths, certificates and hosts at most', () => {
    const rules = (count: number) => Array.from({ length: count }, () => ({ host: 'shop.example.com' }));
    expect(admitted(ingress({ rules: rules(10_000) }))).toEqual({ wanted: true });
    expect(admitted(ingress({ rules: rules(10_001) }))).toEqual(refusal('NotSupported', '10000 rules'));
  });

  it('fields that the translation does not know are not left out silently', () => {
    expect(admitted(ingress({ fence: true } as IngressSpec))).toEqual(refusal('UnknownField', 'spec.fence'));
  });
});

describe('the class of an Ingress', () => {
  it('has to be one that the operator has published', () => {
    const hidden = [ingressClass('super', {})];
    expect(admitted(ingress(), { superObjects: hidden })).toEqual(
      refusal('IngressClassNotPublished', 'public'),
    );
    expect(admitted(ingress({ ingressClassName: 'internal' }))).toEqual(refusal('IngressClassNotPublished'));
    const { ingressClassName: _none, ...spec } = ingress()['spec'] as IngressSpec;
    expect(admitted({ ...ingress(), spec })).toEqual(refusal('NoIngressClass'));
  });

  it('of the tenant is for a controller of its own, and nobody needs to hear of it', () => {
    const own: KubeObject = { kind: 'IngressClass', metadata: { name: 'mine', uid: 'uid-of-mine' } };
    expect(admitted(ingress({ ingressClassName: 'mine' }), { tenantObjects: [own] })).toEqual({
      wanted: false,
    });
  });

  it('is waited for while its copy is on its way, and looked at again when it changes', () => {
    const joining = testContext({
      tenant: { syncIngresses: true, policy: { ...defaultPolicy, ingressHosts: hosts } },
      tenantObjects: [ingress()],
      superObjects: [ingressClass('super')],
      kinds: allKinds,
    });
    expect(kind.admit?.(ingress(), joining)).toEqual({ wanted: true });
    expect(kind.requires?.(ingress(), joining)).toEqual([{ kind: 'ingressclasses', name: 'public' }]);
    expect(referrers(ingressClassKind, ingressClass('tenant'), joining)).toEqual([
      { kind: 'ingresses', namespace: 'shop', name: 'web' },
    ]);
    expect(kind.requires?.(ingress(), context())).toEqual([]);
  });

  it('is said in the field, also where the tenant object has it in the annotation of old', () => {
    const { ingressClassName: _none, ...spec } = ingress()['spec'] as IngressSpec;
    const old = { ...ingress({}, { annotations: { 'kubernetes.io/ingress.class': 'public' } }), spec };
    expect(admitted(old)).toEqual({ wanted: true });
    const superObject = kind.toSuper(old, context({ tenant: { ingressAnnotations: ['kubernetes.io/'] } }));
    expect(superObject['spec']).toMatchObject({ ingressClassName: 'public' });
    expect(superObject.metadata.annotations).not.toHaveProperty(['kubernetes.io/ingress.class']);
  });
});

describe('annotations', () => {
  const snippet = 'nginx.ingress.kubernetes.io/configuration-snippet';
  const rewrite = 'nginx.ingress.kubernetes.io/rewrite-target';
  const annotations = { [snippet]: 'x', [rewrite]: '/', 'meta.helm.sh/release-name': 'web', note: 'mine' };
  const object = ingress({}, { annotations, labels: { team: 'a' } });

  it('that a controller could read stay behind, and the tenant reads which', () => {
    const superObject = kind.toSuper(object, context());
    expect(
      Object.keys(superObject.metadata.annotations ?? {}).filter((key) => !key.startsWith('skerry.dev/')),
    ).toEqual(['note']);
    expect(superObject.metadata.labels).toMatchObject({ team: 'a' });
    expect(admitted(object)).toEqual({
      wanted: true,
      notice: {
        type: 'Warning',
        reason: 'NotSupported',
        message: `the cluster does not allow the annotations ${snippet}, ${rewrite}; the Ingress works without`,
      },
    });
  });

  it('go down where the operator allows them, by key or by prefix', () => {
    const one = context({ tenant: { ingressAnnotations: [rewrite] } });
    expect(kind.toSuper(object, one).metadata.annotations).toHaveProperty([rewrite]);
    expect(kind.toSuper(object, one).metadata.annotations).not.toHaveProperty([snippet]);
    const beginning = context({ tenant: { ingressAnnotations: [rewrite.slice(0, -1)] } });
    expect(kind.toSuper(object, beginning).metadata.annotations).not.toHaveProperty([rewrite]);
    const all = context({ tenant: { ingressAnnotations: ['nginx.ingress.kubernetes.io/'] } });
    expect(kind.toSuper(object, all).metadata.annotations).toMatchObject({ [rewrite]: '/', [snippet]: 'x' });
    const there = kind.toSuper(object, all);
    expect(kind.down(object, there, context()).map((action) => action.do)).toEqual(['patchSuper', 'notice']);
    const { superObject } = carryOut(
      { tenantObject: object, superObject: there },
      kind.down(object, there, context()),
    );
    expect(superObject?.metadata.annotations).not.toHaveProperty([snippet]);
  });
});

describe('certificates', () => {
  const secret = cert;
  const certified = ingress({ tls: [{ hosts: ['shop.example.com'], secretName: 'cert' }] });

  it('go down with the Ingress that needs them, before it', () => {
    const both = context({ tenantObjects: [secret, certified] });
    expect(kind.requires?.(certified, both)).toEqual([{ kind: 'secrets', namespace: 'shop', name: 'cert' }]);
    expect(neededBy(kind, certified)).toEqual([{ kind: 'secrets', namespace: 'shop', name: 'cert' }]);
    expect(secretKind.admit?.(secret, both)).toEqual({ wanted: true });
  });

  it('stay where the Ingress stays', () => {
    const strays = ingress({ rules: [rule('neighbour.example.com')], tls: [{ secretName: 'cert' }] });
    expect(secretKind.admit?.(secret, context({ tenantObjects: [secret, strays] }))).toEqual({
      wanted: false,
    });
    const off = context({ tenant: { syncIngresses: false }, tenantObjects: [secret, certified] });
    expect(secretKind.admit?.(secret, off)).toEqual({ wanted: false });
  });

  it.each([{}, { hosts: [] }])('without hosts are for those of the rules, and for no others: %j', (hosts) => {
    const tls = [{ secretName: 'cert', ...hosts }];
    const of = (rules: object[]) =>
      kind.toSuper(ingress({ tls, rules }), context({ tenantObjects: [cert] }))['spec'];
    expect(of([rule('shop.example.com'), rule('x.apps.example.com')])).toMatchObject({
      tls: [{ secretName: 'cert', hosts: ['shop.example.com', 'x.apps.example.com'] }],
    });
    expect(of([])).toMatchObject({ tls: [] });
  });

  it('that the tenant does not have are not named below, and named after the Secret when it has them', () => {
    const without = context();
    expect(admitted(certified)).toEqual({
      wanted: true,
      notice: {
        type: 'Warning',
        reason: 'CertificateMissing',
        message: expect.stringContaining('cert'),
      },
    });
    const there = kind.toSuper(certified, without);
    expect(there['spec']).toMatchObject({ tls: [{ hosts: ['shop.example.com'] }] });
    expect(JSON.stringify(there['spec'])).not.toContain('secretName');
    expect(kind.down(certified, there, without)).toEqual([]);

    const having = context({ tenantObjects: [cert, certified] });
    expect(referrers(secretKind, cert, having)).toEqual([
      { kind: 'ingresses', namespace: 'shop', name: 'web' },
    ]);
    const tls = [{ hosts: ['shop.example.com'], secretName: 'cert' }];
    expect(kind.down(certified, there, having)).toEqual([
      { do: 'require', keys: [{ kind: 'secrets', namespace: 'shop', name: 'cert' }] },
      { do: 'patchSuper', patch: { spec: { tls } } },
    ]);
    const named = kind.toSuper(certified, having);
    expect(kind.down(certified, named, having)).toEqual([]);
    expect(kind.down(certified, named, without)).toMatchObject([
      { do: 'patchSuper', patch: { spec: { tls: [{ hosts: ['shop.example.com'] }] } } },
      { do: 'notice' },
    ]);
  });

  it('cannot be those that Skerry keeps', () => {
    expect(admitted(ingress({ tls: [{ secretName: 'skerry-token' }] }))).toEqual(
      refusal('ReservedName', 'skerry-token'),
    );
  });
});

describe('an Ingress in the super cluster', () => {
  it('is what the tenant object says, and follows it', () => {
    const object = ingress({ tls: [{ hosts: ['shop.example.com'], secretName: 'cert' }] });
    const withCert = context({ tenantObjects: [cert] });
    const there = kind.toSuper(object, withCert);
    expect(there.metadata.namespace).toBe(superNamespaceName(context().tenant, 'shop'));
    expect(there['spec']).toEqual(object['spec']);
    expect(kind.down(object, there, withCert)).toEqual([]);
    const touched = {
      ...there,
      spec: { ...(there['spec'] as object), defaultBackend: { service: { name: 'x' } }, ofTheFuture: 1 },
    };
    const changed = ingress({ rules: [rule('shop.example.com', 'new')] });
    const actions = kind.down(changed, touched, context());
    expect(actions).toEqual([
      {
        do: 'patchSuper',
        patch: { spec: { defaultBackend: null, tls: null, rules: [rule('shop.example.com', 'new')] } },
      },
    ]);
    const { superObject } = carryOut({ tenantObject: changed, superObject: touched }, actions);
    expect(kind.down(changed, superObject as KubeObject, context())).toEqual([]);
  });

  it('says where it can be reached: status comes up, and goes again', () => {
    const object = ingress();
    const loadBalancer = { ingress: [{ ip: '203.0.113.7', ports: [{ port: 443, protocol: 'TCP' }] }] };
    const there = { ...kind.toSuper(object, context()), status: { loadBalancer } };
    const actions = kind.up?.(object, there, context()) ?? [];
    expect(actions).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { loadBalancer } } },
    ]);
    const { tenantObject } = carryOut({ tenantObject: object, superObject: there }, actions);
    expect(kind.up?.(tenantObject as KubeObject, there, context())).toEqual([]);
    const gone = kind.up?.(tenantObject as KubeObject, { ...there, status: { loadBalancer: {} } }, context());
    expect(gone).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { loadBalancer: { ingress: null } } } },
    ]);
  });
});

it('keeps one whose class is gone, and takes away one whose class is published no more', () => {
  const there = kind.toSuper(ingress(), context());
  const enforced = (superObjects: KubeObject[]) =>
    kind.enforce?.(there, undefined, context({ superObjects }));
  expect(enforced([ingressClass('super')])).toEqual([]);
  expect(enforced([])).toEqual([]);
  const { labels: _, ...metadata } = ingressClass('super').metadata;
  expect(enforced([{ ...ingressClass('super'), metadata }])).toEqual([{ do: 'deleteSuper' }]);
});
