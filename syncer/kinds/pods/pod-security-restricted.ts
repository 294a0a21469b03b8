import { unmaskedProc } from './pod-security-baseline.ts';
import { containersThat, quoted, settersThat } from './setters.ts';
import { allContainers, type Pod, type PodSpec } from './types.ts';

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
export function restrictedViolations(pod: Pod): string[] {
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
  const refusing = settersThat(spec, (context) => context.runAsNonRoot === false);
  if (refusing !== undefined) return `${refusing} must not set securityContext.runAsNonRoot=false`;
  if (spec.securityContext?.runAsNonRoot === true) return undefined;
  const silent = containersThat(spec, ({ securityContext }) => securityContext?.runAsNonRoot === undefined);
  return silent === undefined ? undefined : `pod or ${silent} must set securityContext.runAsNonRoot=true`;
}

function runAsUser(spec: PodSpec): string | undefined {
  if (spec.hostUsers === false) return undefined;
  const who = settersThat(spec, (context) => context.runAsUser === 0);
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
