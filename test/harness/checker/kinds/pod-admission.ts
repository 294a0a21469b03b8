import type { KubeObject } from '../../../../kube/index.ts';
import { annotation, at, listAt } from '../view.ts';

/** Capabilities that Pod Security baseline lets a container add. */
const harmless = new Set(
  [
    'AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE',
    'SETFCAP SETGID SETPCAP SETUID SYS_CHROOT',
  ]
    .join(' ')
    .split(' '),
);
/** Sync rule `pod-security`, without what a policy would add. */
const volumeSources = new Set([
  'name',
  'configMap',
  'secret',
  'projected',
  'downwardAPI',
  'emptyDir',
  'persistentVolumeClaim',
  'ephemeral',
]);

/** Why a pod must not have an S, whatever the tenant's API server lets through; undefined if it may. */
export function forbidden(pod: KubeObject): string | undefined {
  const spec = pod['spec'];
  for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) if (at(spec, field) === true) return field;
  for (const volume of listAt(spec, 'volumes')) {
    const source = Object.keys(volume).find((key) => !volumeSources.has(key));
    if (source !== undefined) return `a volume of type ${source}`;
  }
  for (const container of containersOf(pod)) {
    const harm = harmOf(container);
    if (harm !== undefined) return harm;
  }
  return undefined;
}

function harmOf(container: Record<string, unknown>): string | undefined {
  if (at(container, 'securityContext', 'privileged') === true) return 'privileged';
  const added = listAt<string>(container, 'securityContext', 'capabilities', 'add');
  const harmful = added.find((capability) => !harmless.has(capability));
  if (harmful !== undefined) return `capability ${harmful}`;
  return listAt(container, 'ports').some((port) => at<number>(port, 'hostPort')) ? 'a host port' : undefined;
}

/** A pod without the containers that were added to it while it ran and that may not run: they stay in the tenant. */
export function withoutRefused(pod: KubeObject): KubeObject {
  const added = listAt(pod, 'spec', 'ephemeralContainers');
  const refused = new Set(added.filter((container) => harmOf(container)).map(({ name }) => name));
  if (refused.size === 0) return pod;
  const isKept = ({ name }: Record<string, unknown>): boolean => !refused.has(name);
  const ephemeralContainerStatuses = listAt(pod, 'status', 'ephemeralContainerStatuses').filter(isKept);
  return {
    ...pod,
    spec: { ...(pod['spec'] as object), ephemeralContainers: added.filter(isKept) },
    status: { ...(pod['status'] as object), ephemeralContainerStatuses },
  };
}

/** A pod that its scheduling gates hold back. */
export function isGated(pod: KubeObject): boolean {
  return listAt(pod, 'spec', 'schedulingGates').length > 0;
}

/** A node that the tenant chose itself: bound pods carry the mark of the Binding instead. */
export function isPreset(pod: KubeObject): boolean {
  return at(pod, 'spec', 'nodeName') !== undefined && annotation(pod, 'skerry.dev/super-uid') === undefined;
}

export function isFinished(pod: KubeObject): boolean {
  const phase = at(pod, 'status', 'phase');
  return phase === 'Succeeded' || phase === 'Failed';
}

export function containersOf(pod: KubeObject): readonly Record<string, unknown>[] {
  return ['initContainers', 'containers', 'ephemeralContainers'].flatMap((list) => [
    ...listAt(pod, 'spec', list),
  ]);
}
