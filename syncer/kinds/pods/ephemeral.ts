import type { Action, Notice } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { reservedReference } from './admission.ts';
import { podSecurityViolations } from './pod-security.ts';
import { referredTo } from './referred-to.ts';
import { translatedContainers } from './translate.ts';
import type { Container, Pod } from './types.ts';
import { unsupportedInContainer } from './unsupported.ts';

/** A container that was added to a running pod and that S is not to have. */
export interface RefusedContainer {
  readonly container: Container;
  readonly notice: Notice;
}

/**
 * Brings containers that were added to T, as `kubectl debug` does, to S (sync rule 16). S's own stay as they
 * are, those that the super cluster's people have added among them: none may ever be changed or removed.
 */
export function ephemeralActions(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  if (tenantPod.spec?.ephemeralContainers === undefined) return [];
  const refused = refusedEphemeral(tenantPod, context);
  const actions: Action[] = refused
    .filter(({ container }) => !isToldOf(tenantPod, container))
    .map(({ notice }) => ({ do: 'notice', notice }));
  const missing = missingEphemeral(tenantPod, superPod, context);
  if (missing.length === 0) return actions;
  const { metadata } = tenantPod;
  const keys = referredTo({ metadata, spec: { ephemeralContainers: missing } }, context);
  if (keys.length > 0) actions.push({ do: 'require', keys });
  const ephemeralContainers = [
    ...(superPod.spec?.ephemeralContainers ?? []),
    ...translatedContainers(missing, tenantPod, context),
  ];
  const patch = { spec: { ephemeralContainers } };
  actions.push({ do: 'patchSuper', subresource: 'ephemeralcontainers', patch, mayBeRefused: true });
  return actions;
}

/** Those of T that S is still to be given. */
export function missingEphemeral(tenantPod: Pod, superPod: Pod, context: SyncContext): Container[] {
  const own = tenantPod.spec?.ephemeralContainers;
  if (own === undefined) return [];
  const present = superPod.spec?.ephemeralContainers ?? [];
  const missing = own.filter(({ name }) => !present.some((there) => there.name === name));
  return missing.filter((container) => refusal(container, tenantPod, context) === undefined);
}

export function refusedEphemeral(tenantPod: Pod, context: SyncContext): RefusedContainer[] {
  return (tenantPod.spec?.ephemeralContainers ?? []).flatMap((container) => {
    const notice = refusal(container, tenantPod, context);
    return notice === undefined ? [] : [{ container, notice }];
  });
}

/** T's status says of each refused container what the event says: `kubectl debug` shows it while it waits. */
function isToldOf({ status }: Pod, { name }: Container): boolean {
  const statuses = (status?.['ephemeralContainerStatuses'] ?? []) as readonly { name?: string }[];
  return statuses.some((told) => told.name === name);
}

/** By the same rules as the containers that a pod is made with, in the security context of their pod. */
function refusal(container: Container, tenantPod: Pod, context: SyncContext): Notice | undefined {
  const { containers: _running, initContainers: _before, volumes: _volumes, ...rest } = tenantPod.spec ?? {};
  const alone: Pod = { ...tenantPod, spec: { ...rest, ephemeralContainers: [container] } };
  const { podSecurity } = context.tenant.policy;
  const violations = podSecurityViolations(alone, podSecurity);
  if (violations.length > 0) {
    const what = `violates the Pod Security level "${podSecurity}": ${violations.join('; ')}`;
    return notice('PodSecurity', container, what);
  }
  const unsupported = unsupportedInContainer(container, context);
  if (unsupported !== undefined) return notice('NotSupported', container, unsupported);
  const reserved = reservedReference({
    metadata: tenantPod.metadata,
    spec: { ephemeralContainers: [container] },
  });
  return reserved === undefined ? undefined : notice('ReservedName', container, reserved);
}

function notice(reason: string, { name }: Container, what: string): Notice {
  return { type: 'Warning', reason, message: `ephemeral container "${name}" does not run: ${what}` };
}
