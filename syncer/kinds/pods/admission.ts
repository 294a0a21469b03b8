import { resources } from '../../../kube/index.ts';
import { marks, superNamespaceName, superRootCaName, uidMark } from '../../mapping/index.ts';
import type { Admission, SyncContext } from '../kind.ts';
import { nodeLeaseNamespace } from '../namespaces/index.ts';
import { isReserved } from '../reserved-names.ts';
import { podSecurityViolations } from './pod-security.ts';
import { references } from './references.ts';
import { qualifiedHostName } from './steps/host-name.ts';
import type { Pod, PodSpec, Volume } from './types.ts';

const wanted: Admission = { wanted: true };

/** Of Linux, and of the API server. */
const maxHostNameLength = 64;

/** Whether a pod of the tenant is to run in the super cluster; with a notice, if not and nobody would guess why. */
export function admitPod(pod: Pod, context: SyncContext): Admission {
  const spec = pod.spec ?? {};
  if (spec.nodeName !== undefined && spec.nodeName !== '') {
    return boundByUs(pod, context)
      ? wanted
      : refuse('NotSupported', 'spec.nodeName is set: pods are placed by the scheduler, and only by it');
  }
  // The tenant's API server says so in the pod itself; its selectors may still change (sync rule 16).
  if ((spec.schedulingGates ?? []).length > 0) return { wanted: false };

  const unsupported = notSupported(pod, context);
  if (unsupported !== undefined) return refuse('NotSupported', unsupported);

  const { podSecurity, daemonSets } = context.tenant.policy;
  const violations = podSecurityViolations(pod, podSecurity);
  if (violations.length > 0) {
    return refuse(
      'PodSecurity',
      `violates the Pod Security level "${podSecurity}": ${violations.join('; ')}`,
    );
  }
  if (daemonSets !== 'allow' && isOfDaemonSet(pod)) {
    return refuse(
      'DaemonSetsNotAllowed',
      'the policy of this cluster (daemonSets: deny) does not run pods of DaemonSets',
    );
  }
  const reserved = references(pod).find(isReservedReference);
  if (reserved !== undefined) {
    return refuse('ReservedName', `refers to ${reserved.kind}/${reserved.name}: that name is reserved`);
  }
  return wanted;
}

/** While S is there, it knows; the mark on T can be forged, and is lost when all annotations are replaced. */
function boundByUs(pod: Pod, { tenant, superObjects }: SyncContext): boolean {
  const { namespace = '', name = '', uid, annotations } = pod.metadata;
  const mark = annotations?.[marks.superUid];
  const s = superObjects.get<Pod>(resources.pods, { namespace: superNamespaceName(tenant, namespace), name });
  if (s === undefined || uidMark(s) !== uid) return mark !== undefined;
  return mark === s.metadata.uid || s.spec?.nodeName === pod.spec?.nodeName;
}

function notSupported(pod: Pod, { tenant }: SyncContext): string | undefined {
  const spec = pod.spec ?? {};
  if (pod.metadata.namespace === nodeLeaseNamespace)
    return `no pods run in the namespace ${nodeLeaseNamespace}`;
  const scheduler = spec.schedulerName ?? 'default-scheduler';
  if (scheduler !== 'default-scheduler') return `there is no scheduler named ${scheduler}`;
  if ((spec.runtimeClassName ?? '') !== '')
    return `the runtime class ${spec.runtimeClassName} is not published`;
  if ((spec.resourceClaims ?? []).length > 0) return 'spec.resourceClaims is not supported';
  if (spec.schedulingGroup !== undefined) return 'spec.schedulingGroup is not supported';
  const hostName = qualifiedHostName(pod, tenant) ?? '';
  if (hostName.length > maxHostNameLength)
    return `spec.setHostnameAsFQDN: ${hostName} is longer than the ${maxHostNameLength} characters that a host name can have`;
  return tenant.policy.podSecurity === 'privileged' ? unsupportedProjection(spec) : unsupportedVolume(spec);
}

/** Sources of volumes that need nothing but the tenant's own objects. */
const ownVolumes = new Set([
  'configMap',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'image',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

function unsupportedVolume(spec: PodSpec): string | undefined {
  for (const volume of spec.volumes ?? []) {
    const source = sourceOf(volume);
    // Pod Security has its own words for it.
    if (source === undefined || source === 'hostPath' || ownVolumes.has(source)) continue;
    return `volume ${volume.name}: volumes of type ${source} are not supported`;
  }
  return unsupportedProjection(spec);
}

/** Both would show what the super cluster's signers and bundles hold. */
function unsupportedProjection(spec: PodSpec): string | undefined {
  for (const { name, projected } of spec.volumes ?? []) {
    for (const source of projected?.sources ?? []) {
      for (const type of ['clusterTrustBundle', 'podCertificate'] as const) {
        if (source[type] !== undefined) return `volume ${name}: ${type} is not supported`;
      }
    }
  }
  return undefined;
}

function sourceOf(volume: Volume): string | undefined {
  return Object.keys(volume).find((key) => key !== 'name' && volume[key] !== undefined);
}

function isOfDaemonSet({ metadata }: Pod): boolean {
  return (metadata.ownerReferences ?? []).some(
    ({ kind, controller }) => kind === 'DaemonSet' && controller === true,
  );
}

/** What Skerry keeps under such names in a super namespace is not for a pod to mount. */
function isReservedReference({ kind, name }: { kind: string; name: string }): boolean {
  if (kind !== 'configmaps' && kind !== 'secrets') return false;
  return isReserved(name) || (kind === 'configmaps' && name === superRootCaName);
}

function refuse(reason: string, message: string): Admission {
  return { wanted: false, notice: { type: 'Warning', reason, message } };
}
