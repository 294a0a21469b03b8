import { annotationKeys } from '../../../api/labels.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import { resources } from '../../../kube/index.ts';
import { shownNodeName, superNamespaceName, superRootCaName, uidMark } from '../../mapping/index.ts';
import type { KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { Admission } from '../kind.ts';
import { isReserved } from '../reserved-names.ts';
import { priorityNotice } from './classes.ts';
import { podSecurityViolations } from './pod-security.ts';
import { references } from './references.ts';
import { outsidePool } from './steps/pool.ts';
import type { Pod } from './types.ts';
import { unsupported } from './unsupported.ts';

const wanted: Admission = { wanted: true };

/**
 * Whether a pod of the tenant is to run in the super cluster; with a notice, if not and nobody would guess why.
 * Containers that were added to a running pod are judged by themselves: the pod runs already.
 */
export function admitPod(tenantPod: Pod, context: SyncContext): Admission {
  if ((tenantPod.spec?.nodeName ?? '') !== '') {
    return boundByUs(tenantPod, context)
      ? wanted
      : refuse('NotSupported', 'spec.nodeName is set: pods are placed by the scheduler, and only by it');
  }
  const pod = asCreated(tenantPod);
  const { spec = {} } = pod;
  // The tenant's API server says so in the pod itself; its selectors may still change (sync rule 16).
  if ((spec.schedulingGates ?? []).length > 0) return { wanted: false };

  const { podSecurity, daemonSets } = context.tenant.policy;
  const violations = violationsOf(pod, podSecurity);
  if (violations.length > 0) {
    return refuse(
      'PodSecurity',
      `violates the Pod Security level "${podSecurity}": ${violations.join('; ')}`,
    );
  }
  const without = unsupported(pod, context);
  if (without !== undefined) return refuse('NotSupported', without);
  if (daemonSets !== 'allow' && isOfDaemonSet(pod)) {
    return refuse(
      'DaemonSetsNotAllowed',
      'the policy of this cluster (daemonSets: deny) does not run pods of DaemonSets',
    );
  }
  const reserved = reservedReference(pod);
  if (reserved !== undefined) return refuse('ReservedName', reserved);
  const outside = outsidePool(spec, context.tenant);
  if (outside !== undefined) return refuse('NodesNotAllowed', outside);

  const notice = priorityNotice(spec, context);
  return notice === undefined ? wanted : { wanted: true, notice };
}

/** Why a pod may not refer to what it does; undefined: it may. */
export function reservedReference(pod: Pod): string | undefined {
  const reserved = references(pod).find(isReservedReference);
  return reserved && `refers to ${reserved.kind}/${reserved.name}: that name is reserved`;
}

/** T without what was added to it while it ran. */
function asCreated(pod: Pod): Pod {
  if (pod.spec?.ephemeralContainers === undefined) return pod;
  const { ephemeralContainers: _added, ...spec } = pod.spec;
  return { ...pod, spec };
}

/** No state but a memory of what is a function of pod and level; objects in caches are never changed. */
const remembered = new WeakMap<object, { level: string; violations: readonly string[] }>();

function violationsOf(pod: Pod, level: TenantPolicy['podSecurity']): readonly string[] {
  const known = remembered.get(pod);
  if (known?.level === level) return known.violations;
  const violations = podSecurityViolations(pod, level);
  remembered.set(pod, { level, violations });
  return violations;
}

/** While S is there, it knows; the mark on T can be forged, and is lost when all annotations are replaced. */
function boundByUs(pod: Pod, { tenant, superObjects }: SyncContext): boolean {
  const { namespace = '', name = '', uid, annotations } = pod.metadata;
  const mark = annotations?.[annotationKeys.superUid];
  const s = superObjects.get<Pod>(resources.pods, { namespace: superNamespaceName(tenant, namespace), name });
  if (s === undefined || uidMark(s) !== uid) return mark !== undefined;
  if (mark === s.metadata.uid) return true;
  const node = s.spec?.nodeName ?? '';
  return node !== '' && shownNodeName(tenant, node) === pod.spec?.nodeName;
}

function isOfDaemonSet({ metadata }: Pod): boolean {
  return (metadata.ownerReferences ?? []).some(
    ({ kind, controller }) => kind === 'DaemonSet' && controller === true,
  );
}

/** What Skerry keeps under such names in a super namespace is not for a pod to mount. */
function isReservedReference({ kind, name }: KeyRef): boolean {
  if (kind !== 'configmaps' && kind !== 'secrets') return false;
  return isReserved(name) || (kind === 'configmaps' && name === superRootCaName);
}

function refuse(reason: string, message: string): Admission {
  return { wanted: false, notice: { type: 'Warning', reason, message } };
}
