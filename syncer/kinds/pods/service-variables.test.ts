import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import type { TestContextOptions } from '../testing.ts';
import { podKind } from './pods.ts';
import { ownVariables, podContext, tenantPod, testService } from './testing.ts';
import type { Container, EnvFromSource, EnvVar, Pod, PodSpec } from './types.ts';

function superSpec(spec: PodSpec, options: TestContextOptions = {}, namespace = 'shop'): PodSpec {
  const made = podKind.toSuper(tenantPod({ metadata: { namespace }, spec }), podContext(options)) as Pod;
  return made.spec ?? {};
}

function mainContainer(container: Partial<Container>, options: TestContextOptions = {}): Container {
  const spec = superSpec({ containers: [{ name: 'main', ...container }] }, options);
  return spec.containers?.[0] as Container;
}

function asRecord(variables: readonly EnvVar[] | undefined): Record<string, string | undefined> {
  return Object.fromEntries((variables ?? []).map(({ name, value }) => [name, value]));
}

function values(container: Partial<Container>, options: TestContextOptions = {}) {
  return asRecord(mainContainer(container, options).env);
}

function source(kind: 'ConfigMap' | 'Secret', name: string, data: Record<string, string>): KubeObject {
  return { apiVersion: 'v1', kind, metadata: { name, namespace: 'shop', uid: `uid-of-${name}` }, data };
}

const apiServer = testService('kubernetes', { clusterIP: '10.112.4.1' }, 'default');
const ofApiServer = {
  KUBERNETES_SERVICE_HOST: '10.112.4.1',
  KUBERNETES_SERVICE_PORT: '443',
  KUBERNETES_SERVICE_PORT_HTTPS: '443',
  KUBERNETES_PORT: 'tcp://10.112.4.1:443',
  KUBERNETES_PORT_443_TCP: 'tcp://10.112.4.1:443',
  KUBERNETES_PORT_443_TCP_PROTO: 'tcp',
  KUBERNETES_PORT_443_TCP_PORT: '443',
  KUBERNETES_PORT_443_TCP_ADDR: '10.112.4.1',
};

describe('the variables of the API server (sync rule `api-server-variables`)', () => {
  it("name the tenant's, in containers, init containers and sidecars", () => {
    const spec = superSpec(
      { initContainers: [{ name: 'init' }, { name: 'sidecar', restartPolicy: 'Always' }] },
      { tenantObjects: [apiServer] },
    );
    for (const container of [...(spec.containers ?? []), ...(spec.initContainers ?? [])]) {
      expect(asRecord(container.env)).toEqual(ofApiServer);
    }
  });

  it("are there without service links as well, whatever the tenant has made of that Service's ports", () => {
    const changed = testService(
      'kubernetes',
      { clusterIP: '10.112.4.1', ports: [{ port: 8443 }] },
      'default',
    );
    for (const namespace of ['shop', 'default']) {
      for (const enableServiceLinks of [true, false]) {
        const spec = superSpec({ enableServiceLinks }, { tenantObjects: [changed] }, namespace);
        expect(asRecord(spec.containers?.[0]?.env)).toEqual(ofApiServer);
      }
    }
  });

  it.each([
    ['10.112.4.0/22', '10.112.4.1'],
    ['10.112.4.16/28', '10.112.4.17'],
    ['fd00:1::/112', 'fd00:1::1'],
    ['fd00:1:2:3:4:5:6:9f0/124', 'fd00:1:2:3:4:5:6:9f1'],
  ])('name the first address of the slice %s while the Service is not there', (cidr, address) => {
    const options = { tenant: { serviceCidrs: [cidr] } };
    expect(values({}, options)).toMatchObject({ KUBERNETES_SERVICE_HOST: address });
  });

  it('name where the API server is itself, where addresses are assigned and its own leads nowhere', () => {
    const apiServer = { address: '10.96.0.7', port: 443, isService: true };
    const options = { tenant: { apiServer, serviceIpMode: 'assigned' } } as const;
    expect(values({}, options)).toMatchObject({ KUBERNETES_SERVICE_HOST: '10.96.0.7' });
  });

  it('name the address that the Service has, be it another', () => {
    const moved = testService('kubernetes', { clusterIP: '10.112.8.1' }, 'default');
    expect(values({}, { tenantObjects: [moved] })).toMatchObject({
      KUBERNETES_SERVICE_HOST: '10.112.8.1',
      KUBERNETES_PORT_443_TCP_ADDR: '10.112.8.1',
    });
  });

  it("give way to a variable of the container's own", () => {
    const env = [{ name: 'KUBERNETES_SERVICE_HOST', value: 'elsewhere' }];
    const { KUBERNETES_SERVICE_HOST: _replaced, ...others } = ofApiServer;
    const container = mainContainer({ env }, { tenantObjects: [apiServer] });
    expect(container.env?.filter(({ name }) => name === 'KUBERNETES_SERVICE_HOST')).toEqual(env);
    expect(asRecord(container.env)).toMatchObject(others);
  });

  it.each(['ConfigMap', 'Secret'] as const)('give way to a name that a %s defines', (kind) => {
    const ref = kind === 'ConfigMap' ? { configMapRef: { name: 'cfg' } } : { secretRef: { name: 'cfg' } };
    const tenantObjects = [source(kind, 'cfg', { KUBERNETES_PORT: 'x' })];
    const own = values({ envFrom: [ref] }, { tenantObjects });
    expect(own).not.toHaveProperty('KUBERNETES_PORT');
    expect(own).toHaveProperty('KUBERNETES_SERVICE_HOST');
  });
});

describe('service variables (sync rule `service-variables`)', () => {
  const fooBar = testService('foo-bar', {
    clusterIP: '1.2.3.4',
    ports: [{ port: 8080, protocol: 'TCP' }],
  });

  it('are as kubelet makes them, and kubelet makes none', () => {
    const spec = superSpec({ enableServiceLinks: true }, { tenantObjects: [fooBar] });
    expect(spec.enableServiceLinks).toBe(false);
    expect(asRecord(ownVariables(spec.containers?.[0]))).toEqual({
      FOO_BAR_SERVICE_HOST: '1.2.3.4',
      FOO_BAR_SERVICE_PORT: '8080',
      FOO_BAR_PORT: 'tcp://1.2.3.4:8080',
      FOO_BAR_PORT_8080_TCP: 'tcp://1.2.3.4:8080',
      FOO_BAR_PORT_8080_TCP_PROTO: 'tcp',
      FOO_BAR_PORT_8080_TCP_PORT: '8080',
      FOO_BAR_PORT_8080_TCP_ADDR: '1.2.3.4',
    });
  });

  it('name each named port, and put an IPv6 address in brackets in the URL only', () => {
    const ports = [
      { name: 'dns-udp', port: 53, protocol: 'UDP' },
      { name: 'metrics', port: 9153 },
    ];
    const tenantObjects = [testService('dns', { clusterIP: 'fd00::9', ports })];
    const own = values({}, { tenantObjects });
    expect(own).toMatchObject({
      DNS_SERVICE_HOST: 'fd00::9',
      DNS_SERVICE_PORT: '53',
      DNS_SERVICE_PORT_DNS_UDP: '53',
      DNS_SERVICE_PORT_METRICS: '9153',
      DNS_PORT: 'udp://[fd00::9]:53',
      DNS_PORT_53_UDP: 'udp://[fd00::9]:53',
      DNS_PORT_53_UDP_PROTO: 'udp',
      DNS_PORT_53_UDP_PORT: '53',
      DNS_PORT_53_UDP_ADDR: 'fd00::9',
      DNS_PORT_9153_TCP: 'tcp://[fd00::9]:9153',
      DNS_PORT_9153_TCP_ADDR: 'fd00::9',
    });
  });

  it.each([
    ['headless', { clusterIP: 'None' }],
    ['without an address yet', { clusterIP: '' }],
    ['an ExternalName', { type: 'ExternalName', clusterIP: undefined, externalName: 'example.org' }],
  ])('are none for a Service that is %s', (_what, spec) => {
    const merged = { ...fooBar, spec: { ...fooBar.spec, ...spec } } as KubeObject;
    expect(ownVariables(mainContainer({}, { tenantObjects: [merged] }))).toEqual([]);
  });

  it('are none when the pod wants none', () => {
    const spec = superSpec({ enableServiceLinks: false }, { tenantObjects: [fooBar] });
    expect(ownVariables(spec.containers?.[0])).toEqual([]);
  });

  it("are those of the pod's own namespace", () => {
    const tenantObjects = [testService('other', {}, 'tools')];
    expect(ownVariables(mainContainer({}, { tenantObjects }))).toEqual([]);
  });

  it('come in the same order however the cache has the Services', () => {
    const clash = [
      testService('a', { clusterIP: '1.1.1.1' }),
      testService('a-service', { clusterIP: '1.1.1.2' }),
    ];
    const [first, second] = [clash, clash.toReversed()].map((tenantObjects) =>
      mainContainer({}, { tenantObjects }),
    );
    expect(first?.env).toEqual(second?.env);
    const names = first?.env?.map(({ name }) => name) ?? [];
    expect(new Set(names).size).toBe(names.length);
  });

  it("come before the container's own, which can ask for their values", () => {
    const env = [{ name: 'URL', value: 'http://$(FOO_BAR_SERVICE_HOST)' }];
    const names = mainContainer({ env }, { tenantObjects: [fooBar] }).env?.map(({ name }) => name) ?? [];
    expect(names.indexOf('URL')).toBe(names.length - 1);
    expect(names).toContain('FOO_BAR_SERVICE_HOST');
  });

  it('stay when the variable of the same name asks for them, or may come to nothing', () => {
    // To kubelet, `$$` is a dollar, and what follows it is no reference but may hold one.
    const asking = { name: 'FOO_BAR_PORT', value: '$$(not:$(FOO_BAR_PORT)/path' };
    const optional = {
      name: 'FOO_BAR_SERVICE_HOST',
      valueFrom: { configMapKeyRef: { name: 'cfg', key: 'host', optional: true } },
    };
    const { env = [] } = mainContainer(
      { env: [asking, optional] },
      { tenantObjects: [fooBar, source('ConfigMap', 'cfg', {})] },
    );
    expect(env.filter(({ name }) => name === asking.name)).toEqual([
      { name: 'FOO_BAR_PORT', value: 'tcp://1.2.3.4:8080' },
      asking,
    ]);
    expect(env.filter(({ name }) => name === optional.name)).toEqual([
      { name: 'FOO_BAR_SERVICE_HOST', value: '1.2.3.4' },
      optional,
    ]);
  });

  it('give way to what a source defines, its prefix included, and to nothing that is not there', () => {
    const postgres = testService('postgres');
    const sources = [source('ConfigMap', 'cfg', { PORT: '5432', OTHER: 'x' })];
    const envFrom = [
      { prefix: 'POSTGRES_', configMapRef: { name: 'cfg' } },
      { configMapRef: { name: 'missing', optional: true } },
      { secretRef: { name: 'cfg' } },
    ];
    const own = values({ envFrom }, { tenantObjects: [postgres, ...sources] });
    expect(own).not.toHaveProperty('POSTGRES_PORT');
    expect(own).toMatchObject({ POSTGRES_SERVICE_PORT: '80', POSTGRES_PORT_80_TCP_PROTO: 'tcp' });
  });

  it("follow the super object's address where the super cluster assigns them", () => {
    const tenant = { serviceIpMode: 'assigned' as const };
    const { tenant: info } = podContext();
    const s = testService('foo-bar', { clusterIP: '10.96.3.3' }, superNamespaceName(info, 'shop'));
    s.metadata.annotations = { [annotationKeys.uid]: fooBar.metadata.uid ?? '' };
    const own = values({}, { tenant, tenantObjects: [fooBar], superObjects: [s] });
    expect(own).toMatchObject({ FOO_BAR_SERVICE_HOST: '10.96.3.3', FOO_BAR_PORT: 'tcp://10.96.3.3:8080' });
    s.metadata.annotations = { [annotationKeys.uid]: 'of an earlier one' };
    const early = values({}, { tenant, tenantObjects: [fooBar], superObjects: [s] });
    expect(early).toMatchObject({ FOO_BAR_SERVICE_HOST: '1.2.3.4' });
  });
});

it('a value that is nothing but beginnings of references costs no more than its length', () => {
  const env = [{ name: 'A', value: '$('.repeat(300_000) }];
  // Each of them followed to the end would take minutes, for every tenant.
  expect(mainContainer({ env }).env).toContainEqual(env[0]);
});

it('a prefix of a megabyte is not put before each key of its source', () => {
  const data = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`k${at}`, '']));
  const envFrom = ['p'.repeat(1_000_000), 'p'].map((prefix) => ({ prefix, configMapRef: { name: 'cfg' } }));
  const add = vi.spyOn(Set.prototype, 'add');
  try {
    mainContainer({ envFrom }, { tenantObjects: [source('ConfigMap', 'cfg', data)] });
    const added = add.mock.calls.map(([name]) => String(name));
    expect(added).toContain('pk9');
    expect(Math.max(...added.map(({ length }) => length))).toBeLessThan(1_000);
  } finally {
    add.mockRestore();
  }
});

it('keys of sources are not looked at where there are no variables to be told from them', () => {
  const asking = podContext({ tenant: { serviceCidrs: [] } });
  const asked: string[] = [];
  const context: SyncContext = {
    ...asking,
    dataKeysOf: (_resource, { name }) => {
      asked.push(name);
      return [];
    },
  };
  const containers = [{ name: 'main', envFrom: [{ configMapRef: { name: 'cfg' } }] }];
  const t = tenantPod({ spec: { containers, enableServiceLinks: false } });
  expect((podKind.toSuper(t, context) as Pod).spec).toMatchObject({ enableServiceLinks: false });
  expect(asked).toEqual([]);
});

type Data = Record<string, string>;
type Variables = Record<string, string>;

/**
 * The environment that kubelet gives a container: sources, then the container's own variables, each of
 * which may ask for what is known when its turn comes, then Services, as far as the name is still free.
 */
function kubelet(container: Container, services: Variables, config: Data): Variables {
  const known = new Map<string, string>();
  for (const { prefix = '', configMapRef, secretRef } of container.envFrom ?? []) {
    if ((configMapRef ?? secretRef)?.name !== 'config') continue;
    for (const [key, value] of Object.entries(config)) known.set(prefix + key, value);
  }
  for (const { name, value, valueFrom } of container.env ?? []) {
    const reference = valueFrom?.configMapKeyRef ?? valueFrom?.secretKeyRef;
    const found = reference?.name === 'config' ? config[String(reference['key'])] : undefined;
    if (reference !== undefined && found === undefined) continue;
    known.set(name, found ?? expanded(value ?? '', (asked) => known.get(asked) ?? services[asked]));
  }
  return { ...services, ...Object.fromEntries(known) };
}

function expanded(text: string, find: (name: string) => string | undefined): string {
  return text.replace(/\$(\$|\(([^)]*)\))/g, (whole, what, name) =>
    what === '$' ? '$' : (find(name) ?? whole),
  );
}

function apiServerAt(address: string): Variables {
  return {
    KUBERNETES_SERVICE_HOST: address,
    KUBERNETES_SERVICE_PORT: '443',
    KUBERNETES_SERVICE_PORT_HTTPS: '443',
    KUBERNETES_PORT: `tcp://${address}:443`,
    KUBERNETES_PORT_443_TCP: `tcp://${address}:443`,
    KUBERNETES_PORT_443_TCP_PROTO: 'tcp',
    KUBERNETES_PORT_443_TCP_PORT: '443',
    KUBERNETES_PORT_443_TCP_ADDR: address,
  };
}

const tenants = apiServerAt('10.112.4.1');
const links = {
  FOO_SERVICE_HOST: '10.112.4.20',
  FOO_SERVICE_PORT: '80',
  FOO_PORT: 'tcp://10.112.4.20:80',
  FOO_PORT_80_TCP: 'tcp://10.112.4.20:80',
  FOO_PORT_80_TCP_PROTO: 'tcp',
  FOO_PORT_80_TCP_PORT: '80',
  FOO_PORT_80_TCP_ADDR: '10.112.4.20',
};
const superClusters = apiServerAt('10.96.0.1');

const names = ['FOO_SERVICE_HOST', 'FOO_PORT', 'KUBERNETES_SERVICE_HOST', 'KUBERNETES_PORT', 'A'];
const aName = fc.constantFrom(...names);
const aPiece = fc.constantFrom('$', '$(', ')', 'x', ...names, ...names.map((name) => `$(${name})`));
const aKey = fc.constantFrom('SERVICE_HOST', 'PORT', 'FOO_PORT', 'KUBERNETES_SERVICE_HOST', 'A');
const aConfig = fc.dictionary(aKey, fc.constantFrom('from-config', '$(FOO_PORT)'), { maxKeys: 4 });

const aReference = fc.record({ name: fc.constantFrom('config', 'missing'), key: aKey });
const aVariable: fc.Arbitrary<EnvVar> = fc.oneof(
  fc.record({ name: aName, value: fc.array(aPiece, { maxLength: 5 }).map((pieces) => pieces.join('')) }),
  fc.record({ name: aName }),
  fc
    .tuple(aName, aReference, fc.constantFrom('configMapKeyRef', 'secretKeyRef'))
    .map(([name, ref, field]) => ({
      name,
      valueFrom: { [field]: { ...ref, optional: true } },
    })),
);
const aSource: fc.Arbitrary<EnvFromSource> = fc
  .tuple(
    fc.constantFrom({}, { prefix: 'FOO_' }, { prefix: 'KUBERNETES_' }),
    fc.constantFrom('configMapRef', 'secretRef'),
    fc.constantFrom('config', 'missing'),
  )
  .map(([prefix, field, name]) => ({ ...prefix, [field]: { name, optional: true } }));
const aContainer = fc.record({
  name: fc.constant('main'),
  env: fc.array(aVariable, { maxLength: 6 }),
  envFrom: fc.array(aSource, { maxLength: 3 }),
});

/** The same in a ConfigMap and in a Secret, whose values nobody reads before kubelet does. */
function stored(data: Data): KubeObject[] {
  const metadata = { name: 'config', namespace: 'shop', uid: 'uid-of-config' };
  return ['ConfigMap', 'Secret'].map((kind) => ({ apiVersion: 'v1', kind, metadata, data }));
}

describe('the environment of a container (sync rules `api-server-variables` and `service-variables`)', () => {
  it("is in the super cluster what kubelet would have made of the tenant object's on a node of the tenant's", () => {
    fc.assert(
      fc.property(aContainer, aConfig, fc.boolean(), (container, config, enableServiceLinks) => {
        const context = podContext({ tenantObjects: [testService('foo'), ...stored(config)] });
        const t = tenantPod({ spec: { containers: [container], enableServiceLinks } });
        const s = podKind.toSuper(t, context) as Pod;
        const services = enableServiceLinks ? { ...tenants, ...links } : tenants;
        expect(s.spec?.enableServiceLinks).toBe(false);
        expect(kubelet(s.spec?.containers?.[0] as Container, superClusters, config)).toEqual(
          kubelet(container, services, config),
        );
      }),
      { numRuns: 1_000 },
    );
  });
});
