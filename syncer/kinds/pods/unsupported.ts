import type { SyncContext } from '../context.ts';
import { nodeLeaseNamespace } from '../namespaces/index.ts';
import { refusedRuntimeClass } from './classes.ts';
import { qualifiedHostName } from './steps/host-name.ts';
import { allContainers, type Container, type Pod, type PodSpec, type Volume } from './types.ts';

/** Of Linux, and of the API server. */
const maxHostNameLength = 64;

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

/** Both would show what the super cluster's signers and bundles hold. */
const foreignProjections = ['clusterTrustBundle', 'podCertificate'] as const;

const fieldsOfNode = new Set(['spec.nodeName', 'status.hostIP', 'status.hostIPs']);

/** What of a pod cannot be had in this tenant, in words; Pod Security has its own. Undefined: everything can. */
export function unsupported(pod: Pod, context: SyncContext): string | undefined {
  const { spec = {}, metadata } = pod;
  const { tenant } = context;
  if (metadata.namespace === nodeLeaseNamespace) return `no pods run in the namespace ${nodeLeaseNamespace}`;
  const scheduler = spec.schedulerName ?? 'default-scheduler';
  if (scheduler !== 'default-scheduler' && !tenant.policy.schedulerNames.includes(scheduler))
    return `there is no scheduler named ${scheduler} for this cluster (policy: schedulerNames)`;
  const runtimeClass = refusedRuntimeClass(spec, context);
  if (runtimeClass !== undefined) return runtimeClass;
  if ((spec.resourceClaims ?? []).length > 0) return 'spec.resourceClaims is not supported';
  if (spec.schedulingGroup !== undefined) return 'spec.schedulingGroup is not supported';
  const hostName = qualifiedHostName(pod, tenant) ?? '';
  if (hostName.length > maxHostNameLength)
    return `spec.setHostnameAsFQDN: ${hostName} is longer than the ${maxHostNameLength} characters that a host name can have`;
  return unsupportedVolume(spec, tenant.policy.volumeTypes) ?? nodeShown(spec, context);
}

/** The same for a container that is added to a running pod. */
export function unsupportedInContainer(container: Container, context: SyncContext): string | undefined {
  return nodeShown({ containers: [container] }, context);
}

function unsupportedVolume(spec: PodSpec, allowed: readonly string[]): string | undefined {
  for (const volume of spec.volumes ?? []) {
    const source = sourceOf(volume);
    if (source !== undefined && !ownVolumes.has(source) && !allowed.includes(source))
      return `volume ${volume.name}: volumes of type ${source} are not allowed in this cluster (policy: volumeTypes)`;
    for (const projection of volume.projected?.sources ?? []) {
      const foreign = foreignProjections.find((type) => projection[type] !== undefined);
      if (foreign !== undefined) return `volume ${volume.name}: ${foreign} is not supported`;
    }
  }
  return undefined;
}

/** Sync rule 10: kubelet would tell the pod of the node that the tenant is not to see. */
function nodeShown(spec: PodSpec, { tenant }: SyncContext): string | undefined {
  if (!tenant.hideNodes) return undefined;
  const field = downwardFields(spec).find((path) => fieldsOfNode.has(path));
  return field === undefined
    ? undefined
    : `${field} cannot be had by the downward API: the nodes of this cluster are hidden`;
}

function downwardFields(spec: PodSpec): string[] {
  const inVariables = allContainers(spec).flatMap(({ env }) =>
    (env ?? []).map(({ valueFrom }) => valueFrom?.fieldRef?.fieldPath ?? ''),
  );
  const inFiles = (spec.volumes ?? []).flatMap(({ downwardAPI, projected }) =>
    [downwardAPI, ...(projected?.sources ?? []).map((source) => source.downwardAPI)].flatMap((source) =>
      (source?.items ?? []).map(({ fieldRef }) => fieldRef?.fieldPath ?? ''),
    ),
  );
  return [...inVariables, ...inFiles];
}

function sourceOf(volume: Volume): string | undefined {
  return Object.keys(volume).find((key) => key !== 'name' && volume[key] !== undefined);
}
