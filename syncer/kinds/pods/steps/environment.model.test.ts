import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../../kube/index.ts';
import { podKind } from '../index.ts';
import { podContext, tenantPod, testService } from '../testing.ts';
import type { Container, EnvFromSource, EnvVar, Pod } from '../types.ts';

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

describe('the environment of a container (rules 8 and 9)', () => {
  it("is in the super cluster what kubelet would have made of T's on a node of the tenant's", () => {
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
