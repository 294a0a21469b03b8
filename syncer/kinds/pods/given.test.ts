import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { defaultPolicy, type TenantPolicy } from '../../../api/policy.ts';
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

  it('stays with images from elsewhere: a webhook of the super cluster may have put a mirror in their place', () => {
    expect(isKept(cached(restricted), { imageRegistries: ['better.example'] })).toBe(true);
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
