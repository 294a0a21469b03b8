import { describe, expect, it } from 'vitest';
import { podSecurityViolations } from './pod-security.ts';
import { tenantPod } from './testing.ts';
import type { Container, PodSpec } from './types.ts';

type SecurityContext = NonNullable<Container['securityContext']>;

function withContainer(container: Partial<Container>): PodSpec {
  return { containers: [{ name: 'main', ...container }] };
}

function inContainer(securityContext: SecurityContext): PodSpec {
  return withContainer({ securityContext });
}

function violations(
  spec: PodSpec,
  level: 'baseline' | 'restricted' | 'privileged' = 'baseline',
  annotations = {},
) {
  return podSecurityViolations(tenantPod({ spec, metadata: { annotations } }), level);
}

/** Allowed at the level restricted. */
const modest: SecurityContext = {
  allowPrivilegeEscalation: false,
  runAsNonRoot: true,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

const beyondBaseline: [string, PodSpec, RegExp][] = [
  ['hostNetwork', { hostNetwork: true }, /hostNetwork=true/],
  ['hostPID', { hostPID: true }, /hostPID=true/],
  ['hostIPC', { hostIPC: true }, /hostIPC=true/],
  [
    'HostProcess in the pod',
    { securityContext: { windowsOptions: { hostProcess: true } } },
    /^pod must not.*hostProcess/,
  ],
  [
    'HostProcess in a container',
    inContainer({ windowsOptions: { hostProcess: true } }),
    /container "main".*hostProcess/,
  ],
  [
    'privileged',
    inContainer({ privileged: true }),
    /container "main" must not set securityContext.privileged=true/,
  ],
  ['NET_RAW', inContainer({ capabilities: { add: ['NET_RAW', 'CHOWN'] } }), /must not include "NET_RAW" in/],
  ['ALL capabilities', inContainer({ capabilities: { add: ['ALL'] } }), /"ALL"/],
  ['hostPath', { volumes: [{ name: 'v', hostPath: {} }] }, /hostPath volumes \("v"\)/],
  ['hostPort', withContainer({ ports: [{ hostPort: 80 }] }), /hostPort 80/],
  ['a host in a probe', withContainer({ livenessProbe: { httpGet: { host: '10.0.0.1' } } }), /name a host/],
  [
    'a host in a socket probe',
    withContainer({ readinessProbe: { tcpSocket: { host: '10.0.0.1' } } }),
    /name a host/,
  ],
  [
    'a host in a hook',
    withContainer({ lifecycle: { preStop: { httpGet: { host: '10.0.0.1' } } } }),
    /name a host/,
  ],
  ['AppArmor unconfined', { securityContext: { appArmorProfile: { type: 'Unconfined' } } }, /AppArmor/],
  ['an SELinux type', inContainer({ seLinuxOptions: { type: 'spc_t' } }), /seLinuxOptions/],
  ['an SELinux user', inContainer({ seLinuxOptions: { user: 'system_u' } }), /seLinuxOptions/],
  ['an SELinux role', { securityContext: { seLinuxOptions: { role: 'sysadm_r' } } }, /seLinuxOptions/],
  ['procMount', inContainer({ procMount: 'Unmasked' }), /procMount/],
  ['seccomp unconfined', inContainer({ seccompProfile: { type: 'Unconfined' } }), /seccompProfile/],
  [
    'an unsafe sysctl',
    { securityContext: { sysctls: [{ name: 'kernel.msgmax', value: '1' }] } },
    /kernel\.msgmax/,
  ],
];

describe('Pod Security level baseline', () => {
  it('allows a pod that asks for nothing', () => {
    expect(violations({})).toEqual([]);
  });

  it.each(beyondBaseline)('does not allow %s', (_what, spec, words) => {
    expect(violations(spec)).toEqual([expect.stringMatching(words)]);
    expect(violations(spec, 'privileged')).toEqual([]);
  });

  it('looks at init and ephemeral containers as well', () => {
    const bad: Container = { name: 'bad', securityContext: { privileged: true } };
    expect(violations({ initContainers: [bad] })).toHaveLength(1);
    expect(violations({ ephemeralContainers: [bad] })).toHaveLength(1);
  });

  it('allows what is named as safe', () => {
    expect(
      violations({
        hostNetwork: false,
        volumes: [{ name: 'v', emptyDir: {} }],
        securityContext: {
          sysctls: [{ name: 'net.ipv4.tcp_wmem', value: '1' }],
          seLinuxOptions: { type: 'container_engine_t', level: 's0' } as { type: string },
          appArmorProfile: { type: 'Localhost' },
        },
        containers: [
          {
            name: 'main',
            ports: [{ hostPort: 0 }],
            livenessProbe: { httpGet: { host: '' } },
            securityContext: {
              privileged: false,
              procMount: 'Default',
              capabilities: { add: ['NET_BIND_SERVICE'] },
            },
          },
        ],
      }),
    ).toEqual([]);
  });

  it('allows any procMount in a user namespace of its own', () => {
    expect(violations({ hostUsers: false, ...inContainer({ procMount: 'Unmasked' }) })).toEqual([]);
  });

  it('reads the old AppArmor annotations', () => {
    const key = 'container.apparmor.security.beta.kubernetes.io/main';
    expect(violations({}, 'baseline', { [key]: 'unconfined' })).toHaveLength(1);
    expect(violations({}, 'baseline', { [key]: 'runtime/default' })).toEqual([]);
    expect(violations({}, 'baseline', { [key]: 'localhost/x' })).toEqual([]);
  });
});

describe('Pod Security level restricted', () => {
  it('allows a modest pod', () => {
    expect(violations(inContainer(modest), 'restricted')).toEqual([]);
  });

  it.each(beyondBaseline)('does not allow %s either', (_what, spec) => {
    expect(violations(spec, 'restricted').length).toBeGreaterThan(0);
  });

  const { seccompProfile: _s, ...withoutSeccomp } = modest;
  const { runAsNonRoot: _r, ...withoutNonRoot } = modest;
  const cases: [string, PodSpec, RegExp][] = [
    [
      'privilege escalation',
      inContainer({ ...modest, allowPrivilegeEscalation: true }),
      /allowPrivilegeEscalation=false/,
    ],
    ['keeping capabilities', inContainer({ ...modest, capabilities: { drop: ['KILL'] } }), /drop=\["ALL"\]/],
    [
      'adding any but NET_BIND_SERVICE',
      inContainer({ ...modest, capabilities: { drop: ['ALL'], add: ['CHOWN', 'NET_BIND_SERVICE'] } }),
      /not include "CHOWN" in/,
    ],
    ['running as root by default', inContainer(withoutNonRoot), /must set securityContext.runAsNonRoot=true/],
    [
      'running as root',
      inContainer({ ...modest, runAsNonRoot: false }),
      /must not set securityContext.runAsNonRoot=false/,
    ],
    ['user 0', inContainer({ ...modest, runAsUser: 0 }), /runAsUser=0/],
    [
      'no seccomp profile',
      inContainer(withoutSeccomp),
      /seccompProfile.type to "RuntimeDefault" or "Localhost"/,
    ],
    [
      'nfs volumes',
      { ...inContainer(modest), volumes: [{ name: 'v', nfs: {} }] },
      /restricted volume types \("v"\)/,
    ],
    [
      'procMount in a user namespace',
      { hostUsers: false, ...inContainer({ ...modest, procMount: 'Unmasked' }) },
      /procMount/,
    ],
  ];

  it.each(cases)('does not allow %s', (_what, spec, words) => {
    expect(violations(spec, 'restricted')).toEqual([expect.stringMatching(words)]);
    expect(violations(spec)).toEqual([]);
  });

  it('lets the pod speak for its containers', () => {
    const securityContext = { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } };
    const container = inContainer({ allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } });
    expect(violations({ ...container, securityContext }, 'restricted')).toEqual([]);
  });

  it('asks nothing of Windows that Windows does not have, and allows root in a user namespace', () => {
    expect(
      violations({ os: { name: 'windows' }, ...inContainer({ runAsNonRoot: true }) }, 'restricted'),
    ).toEqual([]);
    const { runAsNonRoot: _, ...rootless } = { ...modest, runAsUser: 0 };
    expect(violations({ hostUsers: false, ...inContainer(rootless) }, 'restricted')).toEqual([]);
  });
});
