import type { TenantPolicy } from '../../../api/policy.ts';
import {
  allContainers,
  containersThat,
  describeOffenders,
  type Handler,
  type Pod,
  type PodSpec,
  quoted,
} from './types.ts';

const allowedCapabilities = new Set([
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'MKNOD',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
]);

const allowedSysctls = new Set([
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.ip_local_reserved_ports',
  'net.ipv4.ip_unprivileged_port_start',
  'net.ipv4.ping_group_range',
  'net.ipv4.tcp_fin_timeout',
  'net.ipv4.tcp_keepalive_intvl',
  'net.ipv4.tcp_keepalive_probes',
  'net.ipv4.tcp_keepalive_time',
  'net.ipv4.tcp_rmem',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.tcp_wmem',
]);

const allowedSeLinuxTypes = new Set([
  '',
  'container_t',
  'container_init_t',
  'container_kvm_t',
  'container_engine_t',
]);
const allowedProfiles = new Set(['RuntimeDefault', 'Localhost']);
const appArmorAnnotation = 'container.apparmor.security.beta.kubernetes.io/';

type Check = (spec: PodSpec, pod: Pod) => string | undefined;

/** What the level baseline does not allow, in words. */
function baselineViolations(pod: Pod): string[] {
  const spec = pod.spec ?? {};
  return checks.map((check) => check(spec, pod)).filter((violation) => violation !== undefined);
}

const checks: readonly Check[] = [
  (spec) => {
    const shared = (['hostNetwork', 'hostPID', 'hostIPC'] as const).filter((field) => spec[field] === true);
    return shared.length === 0
      ? undefined
      : `host namespaces (${shared.map((field) => `${field}=true`).join(', ')})`;
  },
  (spec) => {
    const who = describeOffenders(spec, ({ windowsOptions }) => windowsOptions?.hostProcess === true);
    return say(who, 'must not set securityContext.windowsOptions.hostProcess=true');
  },
  (spec) => {
    const who = containersThat(spec, ({ securityContext }) => securityContext?.privileged === true);
    return say(who, 'must not set securityContext.privileged=true');
  },
  (spec) => {
    const denied = (add: readonly string[] = []) =>
      add.filter((capability) => !allowedCapabilities.has(capability));
    const who = containersThat(spec, (c) => denied(c.securityContext?.capabilities?.add).length > 0);
    const which = allContainers(spec).flatMap((c) => denied(c.securityContext?.capabilities?.add));
    return say(who, `must not include ${quoted(which)} in securityContext.capabilities.add`);
  },
  (spec) => {
    const volumes = (spec.volumes ?? []).filter((volume) => volume['hostPath'] !== undefined);
    return volumes.length === 0 ? undefined : `hostPath volumes (${quoted(volumes.map(({ name }) => name))})`;
  },
  (spec) => {
    const used = (port: { hostPort?: number }) => port.hostPort !== undefined && port.hostPort !== 0;
    const who = containersThat(spec, ({ ports }) => ports?.some(used) === true);
    const which = allContainers(spec).flatMap(({ ports = [] }) =>
      ports.filter(used).map((port) => port.hostPort),
    );
    return say(who, `must not use hostPort ${which.join(', ')}`);
  },
  (spec) => {
    const hosts = (c: Parameters<Parameters<typeof containersThat>[1]>[0]) =>
      [c.livenessProbe, c.readinessProbe, c.startupProbe, c.lifecycle?.postStart, c.lifecycle?.preStop].some(
        namesHost,
      );
    return say(containersThat(spec, hosts), 'must not name a host in probes or lifecycle handlers');
  },
  (spec, pod) => {
    const who = describeOffenders(
      spec,
      ({ appArmorProfile }) =>
        appArmorProfile !== undefined && !allowedProfiles.has(appArmorProfile.type ?? ''),
    );
    if (who !== undefined)
      return `${who} must not set an AppArmor profile other than RuntimeDefault or Localhost`;
    const annotations = Object.entries(pod.metadata.annotations ?? {}).filter(
      ([key, value]) =>
        key.startsWith(appArmorAnnotation) &&
        value !== '' &&
        value !== 'runtime/default' &&
        !value.startsWith('localhost/'),
    );
    return annotations.length === 0
      ? undefined
      : `AppArmor annotations ${quoted(annotations.map(([key]) => key))}`;
  },
  (spec) => {
    const who = describeOffenders(spec, ({ seLinuxOptions: options }) => {
      if (options === undefined) return false;
      const custom = (options.user ?? '') !== '' || (options.role ?? '') !== '';
      return custom || !allowedSeLinuxTypes.has(options.type ?? '');
    });
    return say(who, 'must not set seLinuxOptions beyond the types of containers');
  },
  (spec) => {
    // In a user namespace of its own, a pod's /proc shows nothing of the node's.
    if (spec.hostUsers === false) return undefined;
    return unmaskedProc(spec);
  },
  (spec) => {
    const who = describeOffenders(
      spec,
      ({ seccompProfile }) => seccompProfile !== undefined && !allowedProfiles.has(seccompProfile.type ?? ''),
    );
    return say(who, 'must not set a seccompProfile other than RuntimeDefault or Localhost');
  },
  (spec) => {
    const unsafe = (spec.securityContext?.sysctls ?? []).filter(({ name }) => !allowedSysctls.has(name));
    return unsafe.length === 0
      ? undefined
      : `forbidden sysctls (${unsafe.map(({ name }) => name).join(', ')})`;
  },
];

/** Containers that ask for a /proc other than the masked default. */
function unmaskedProc(spec: PodSpec): string | undefined {
  const who = containersThat(
    spec,
    ({ securityContext }) =>
      securityContext?.procMount !== undefined && securityContext.procMount !== 'Default',
  );
  return say(who, 'must not set securityContext.procMount');
}

function namesHost(handler: Handler | undefined): boolean {
  return (handler?.httpGet?.host ?? '') !== '' || (handler?.tcpSocket?.host ?? '') !== '';
}

function say(who: string | undefined, what: string): string | undefined {
  return who === undefined ? undefined : `${who} ${what}`;
}

const allowedVolumes = new Set([
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'image',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

/** What the level restricted does not allow beyond baseline, in words. */
function restrictedViolations(pod: Pod): string[] {
  const spec = pod.spec ?? {};
  // Those fields do not exist on Windows, and the API server refuses them there.
  const linux = spec.os?.name === 'windows' ? [] : [privilegeEscalation, capabilities, seccomp];
  const checks = [volumes, runAsNonRoot, runAsUser, procMount, ...linux];
  return checks.map((check) => check(spec)).filter((violation) => violation !== undefined);
}

function volumes(spec: PodSpec): string | undefined {
  const refused = (spec.volumes ?? []).filter((volume) =>
    Object.keys(volume).some((source) => source !== 'name' && !allowedVolumes.has(source)),
  );
  return refused.length === 0
    ? undefined
    : `restricted volume types (${quoted(refused.map(({ name }) => name))})`;
}

function runAsNonRoot(spec: PodSpec): string | undefined {
  if (spec.hostUsers === false) return undefined;
  const refusing = describeOffenders(spec, (context) => context.runAsNonRoot === false);
  if (refusing !== undefined) return `${refusing} must not set securityContext.runAsNonRoot=false`;
  if (spec.securityContext?.runAsNonRoot === true) return undefined;
  const silent = containersThat(spec, ({ securityContext }) => securityContext?.runAsNonRoot === undefined);
  return silent === undefined ? undefined : `pod or ${silent} must set securityContext.runAsNonRoot=true`;
}

function runAsUser(spec: PodSpec): string | undefined {
  if (spec.hostUsers === false) return undefined;
  const who = describeOffenders(spec, (context) => context.runAsUser === 0);
  return who === undefined ? undefined : `${who} must not set runAsUser=0`;
}

/** Unlike in baseline, a user namespace does not help. */
function procMount(spec: PodSpec): string | undefined {
  return spec.hostUsers === false ? unmaskedProc(spec) : undefined;
}

function privilegeEscalation(spec: PodSpec): string | undefined {
  const who = containersThat(
    spec,
    ({ securityContext }) => securityContext?.allowPrivilegeEscalation !== false,
  );
  return who === undefined ? undefined : `${who} must set securityContext.allowPrivilegeEscalation=false`;
}

function capabilities(spec: PodSpec): string | undefined {
  const keeping = containersThat(
    spec,
    (c) => c.securityContext?.capabilities?.drop?.includes('ALL') !== true,
  );
  if (keeping !== undefined) return `${keeping} must set securityContext.capabilities.drop=["ALL"]`;
  const denied = (add: readonly string[] = []) =>
    add.filter((capability) => capability !== 'NET_BIND_SERVICE');
  const adding = containersThat(spec, (c) => denied(c.securityContext?.capabilities?.add).length > 0);
  if (adding === undefined) return undefined;
  const which = allContainers(spec).flatMap((c) => denied(c.securityContext?.capabilities?.add));
  return `${adding} must not include ${quoted(which)} in securityContext.capabilities.add`;
}

/** Wrong values are baseline's affair; here a profile has to be set at all. */
function seccomp(spec: PodSpec): string | undefined {
  if (spec.securityContext?.seccompProfile !== undefined) return undefined;
  const silent = containersThat(spec, ({ securityContext }) => securityContext?.seccompProfile === undefined);
  if (silent === undefined) return undefined;
  return `pod or ${silent} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`;
}

/**
 * What in a pod the Pod Security Standards of Kubernetes 1.36 do not allow at a level, in words; empty
 * when it is allowed. `privileged` allows everything.
 * https://kubernetes.io/docs/concepts/security/pod-security-standards/
 */
export function podSecurityViolations(pod: Pod, level: TenantPolicy['podSecurity']): string[] {
  switch (level) {
    case 'privileged':
      return [];
    case 'baseline':
      return baselineViolations(pod);
    case 'restricted':
      return [...baselineViolations(pod), ...restrictedViolations(pod)];
  }
}

/** The same as one text; undefined: the pod is allowed. */
export function podSecurityViolation(pod: Pod, level: TenantPolicy['podSecurity']): string | undefined {
  const violations = podSecurityViolations(pod, level);
  if (violations.length === 0) return undefined;
  return `violates the Pod Security level "${level}": ${violations.join('; ')}`;
}
