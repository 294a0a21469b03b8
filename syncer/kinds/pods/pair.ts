import { isDeleting, type Pod, type PodStatus } from './types.ts';

/**
 * Whether what is decided of a pod depends on its two sides alone. A deletion depends on the time, a pod without a
 * node on the node that it is to get, added containers on what they refer to, and texts on the names that are known.
 */
export function dependsOnPairAlone(tenantPod: Pod, superPod: Pod): boolean {
  return (
    (tenantPod.spec?.nodeName ?? '') !== '' &&
    !isDeleting(tenantPod) &&
    !isDeleting(superPod) &&
    tenantPod.spec?.ephemeralContainers === undefined &&
    !hasText(superPod.status)
  );
}

interface ContainerStatus {
  readonly state?: Readonly<Record<string, { message?: string } | undefined>>;
  readonly lastState?: ContainerStatus['state'];
}

function hasText(status: PodStatus = {}): boolean {
  const texts: unknown[] = [status['message']];
  for (const { message } of status.conditions ?? []) texts.push(message);
  for (const list of ['containerStatuses', 'initContainerStatuses', 'ephemeralContainerStatuses']) {
    for (const { state, lastState } of (status[list] ?? []) as readonly ContainerStatus[]) {
      for (const part of [state, lastState]) {
        for (const name in part) texts.push(part[name]?.message);
      }
    }
  }
  return texts.some((text) => text !== undefined && text !== '');
}
