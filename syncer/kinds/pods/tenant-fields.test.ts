import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../../api/default-policy.ts';
import { annotationKeys } from '../../../api/labels.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import { podKind } from './pods.ts';
import { podContext, superPod, tenantPod } from './testing.ts';
import type { Container, Pod, PodSpec, Volume } from './types.ts';

const privileged: Partial<TenantPolicy> = { podSecurity: 'privileged', volumeTypes: ['hostPath', 'image'] };

function under(policy: Partial<TenantPolicy>) {
  return podContext({ tenant: { policy: { ...defaultPolicy, ...policy } } });
}

/** The super object, as the cache has it, of a pod that was let in under this policy. */
function cached(spec: PodSpec, change: (s: PodSpec) => PodSpec = (s) => s): Pod {
  const s = superPod(tenantPod({ spec }), {}, under(privileged));
  return podKind.compact?.super?.({ ...s, spec: change(s.spec ?? {}) }) as Pod;
}

const isKept = (pod: Pod, policy: Partial<TenantPolicy>): boolean =>
  podKind.enforce?.(pod, undefined, under(policy)).length === 0;

const main: Container = { name: 'main', image: 'good.example/a' };
const restricted: PodSpec = {
  securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    { ...main, securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } } },
  ],
};

describe('a pod that waits for a node, of which only the super object is known (sync rule `policy-over-holds`)', () => {
  it.each<[string, PodSpec, Partial<TenantPolicy>]>([
    ['a level of Pod Security', { containers: [main] }, { podSecurity: 'restricted' }],
    [
      'the same for an init container',
      { ...restricted, initContainers: [{ ...main, name: 'first', securityContext: { privileged: true } }] },
      { podSecurity: 'baseline' },
    ],
    ['host namespaces', { ...restricted, hostPID: true }, { podSecurity: 'baseline' }],
    [
      'host paths',
      { ...restricted, volumes: [{ name: 'v', hostPath: { path: '/' } }] },
      { podSecurity: 'baseline', volumeTypes: ['hostPath'] },
    ],
    [
      'types of volumes',
      { ...restricted, volumes: [{ name: 'v', hostPath: { path: '/' } }] },
      { podSecurity: 'privileged', volumeTypes: [] },
    ],
    [
      'capabilities',
      { containers: [{ ...main, securityContext: { capabilities: { add: ['CHOWN'] } } }] },
      { capabilities: [] },
    ],
    [
      'ports of the node',
      { containers: [{ ...main, ports: [{ containerPort: 1, hostPort: 22 }] }] },
      { podSecurity: 'privileged', hostPorts: ['9100-9199'] },
    ],
  ])('goes when policy allows %s no more, unless it is bound', (_, spec, policy) => {
    expect(isKept(cached(spec), privileged)).toBe(true);
    expect(isKept(cached(spec), policy)).toBe(false);
    expect(
      isKept(
        cached(spec, (s) => ({ ...s, nodeName: 'n1' })),
        policy,
      ),
    ).toBe(true);
  });

  describe('by its images', () => {
    const mirrored = (list: Container[] = []) => list.map((each) => ({ ...each, image: 'mirror.example/a' }));

    /** Its images are those of a mirror, which a webhook of the super cluster has put in the place of the tenant's. */
    function asMirrored(image: string, list: 'containers' | 'initContainers'): [tenant: Pod, inSuper: Pod] {
      const [own] = restricted.containers ?? [];
      const spec = {
        ...restricted,
        [list]: [{ ...own, name: list === 'containers' ? 'main' : 'first', image }],
      };
      const inSuper = cached(spec, (s) => ({
        ...s,
        containers: mirrored(s.containers),
        initContainers: mirrored(s.initContainers),
      }));
      return [tenantPod({ spec }), inSuper];
    }

    const allowed = ['good.example', 'docker.io/library', 'docker.io/foo'];

    it.each([
      'good.example/a:1',
      'nginx',
      'evil.example/a',
      'mirror.example/a',
      'docker.io/evil.example/a',
      'FOO/a',
      `foo/${'a/'.repeat(509)}a`,
      'no image',
      `good.example/${'a'.repeat(1_024)}`,
    ])('says the same as where the tenant object is known: %s', (image) => {
      const over = under({ imageRegistries: allowed });
      for (const list of ['containers', 'initContainers'] as const) {
        const [tenant, inSuper] = asMirrored(image, list);
        expect(podKind.enforce?.(inSuper, undefined, over)).toEqual(podKind.enforce?.(inSuper, tenant, over));
      }
    });

    it('goes with one that is allowed no more, and stays with another, whatever a webhook has made of them', () => {
      const [, good] = asMirrored('good.example/a:1', 'containers');
      const [, evil] = asMirrored('evil.example/a:1', 'containers');
      expect(isKept(good, { imageRegistries: allowed })).toBe(true);
      expect(isKept(evil, { imageRegistries: allowed })).toBe(false);
      expect(isKept(evil, {})).toBe(true);
    });

    it('goes with a volume of one', () => {
      const spec = { ...restricted, volumes: [{ name: 'v', image: { reference: 'evil.example/a' } }] };
      const policy = { volumeTypes: ['image'] } as const;
      expect(isKept(cached(spec), { ...policy, imageRegistries: ['good.example', 'evil.example'] })).toBe(
        true,
      );
      expect(isKept(cached(spec), { ...policy, imageRegistries: allowed })).toBe(false);
    });

    it('stays where a version before the annotation has made it', () => {
      const { metadata, ...pod } = asMirrored('evil.example/a', 'containers')[1];
      for (const images of [undefined, '{', '"x"']) {
        const annotations = { ...metadata.annotations, [annotationKeys.images]: images };
        const s = { ...pod, metadata: { ...metadata, annotations } } as Pod;
        expect(isKept(s, { imageRegistries: allowed })).toBe(true);
      }
    });

    it('is told in a limited number of bytes, and goes where policy has a list if it says none', () => {
      const many = (count: number) =>
        cached({
          ...restricted,
          containers: Array.from({ length: count }, (_, at) => ({
            ...restricted.containers?.[0],
            name: `c${at}`,
            image: `good.example/${'a'.repeat(900)}${at}`,
          })),
        });
      const told = (pod: Pod) => pod.metadata.annotations?.[annotationKeys.images] ?? '';
      expect(told(many(17)).length).toBeGreaterThan(15_000);
      expect(isKept(many(17), { imageRegistries: allowed })).toBe(true);
      expect(told(many(18))).toBe('[null]');
      expect(isKept(many(18), { imageRegistries: allowed })).toBe(false);
      expect(isKept(many(18), {})).toBe(true);
    });
  });

  it('stays where all that is refused was put there by the super cluster', () => {
    const agent: Container = { ...main, name: 'agent', securityContext: { privileged: true } };
    const socket: Volume = { name: 'socket', hostPath: { path: '/run/agent' } };
    const injected = cached(restricted, (s) => ({
      ...s,
      initContainers: [agent],
      containers: [...(s.containers ?? []), agent],
      volumes: [...(s.volumes ?? []), socket],
      ephemeralContainers: [{ ...agent, name: 'debug' }],
      schedulerName: 'theirs',
      nodeSelector: { 'kubernetes.io/hostname': 'n1' },
    }));
    expect(isKept(injected, { podSecurity: 'restricted', imageRegistries: ['good.example'] })).toBe(true);
    const alike = cached({ ...restricted, initContainers: [agent] });
    expect(isKept(alike, { podSecurity: 'restricted' })).toBe(false);
  });

  it('stays where it does not say what of it the tenant has given', () => {
    const { metadata, ...pod } = cached({ containers: [main] });
    const { [annotationKeys.containers]: _, ...annotations } = metadata.annotations ?? {};
    const unmarked = { ...pod, metadata: { ...metadata, annotations } };
    expect(isKept(unmarked, { podSecurity: 'restricted' })).toBe(true);
    const broken = { ...annotations, [annotationKeys.containers]: 'main', [annotationKeys.volumes]: '{' };
    const spoilt = { ...pod, metadata: { ...metadata, annotations: broken } };
    expect(isKept(spoilt, { volumeTypes: [] })).toBe(true);
  });

  it('says of its volumes no more than policy asks for, and nothing of those that it may always have', () => {
    const markOf = (volumes: Volume[]) =>
      cached({ ...restricted, volumes }).metadata.annotations?.[annotationKeys.volumes];
    expect(
      markOf([
        { name: 'a', configMap: { name: 'x' } },
        { name: 'b', emptyDir: {} },
      ]),
    ).toBeUndefined();
    const paths = ['/a', '/b'].map((path) => ({ name: path.slice(1), hostPath: { path } }));
    const image = { name: 'i', image: { reference: 'data', pullPolicy: 'Always' } };
    expect(markOf([...paths, image])).toBe('[{"hostPath":{}},{"image":{"reference":"data"}}]');
  });
});
