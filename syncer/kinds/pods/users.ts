import { type KubeObject, resources } from '../../../kube/index.ts';
import { originalUid } from '../../mapping/labels.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import type { SyncContext } from '../contract.ts';
import { admitPod } from './admission.ts';
import { isDeleting, isFinished, type Pod } from './types.ts';

/**
 * Whether a pod that is in the super cluster, or is to be, refers to this ConfigMap or Secret (sync rule
 * `write-order`).
 * One that is refused there needs nothing there. A pod that becomes admitted requires what it refers to, which
 * asks again.
 */
export function isUsedByPods(
  kind: 'configmaps' | 'secrets',
  { metadata: { namespace, name } }: KubeObject,
  context: SyncContext,
): boolean {
  const users = context.tenantObjects.byIndex<Pod>(
    resources.pods,
    'byReference',
    `${kind}/${namespace}/${name}`,
  );
  if (users.length === 0) return false;
  const superNamespace = superNamespaceName(context.tenant, namespace ?? '');
  const isThere = ({ metadata }: Pod) => {
    const ref = { namespace: superNamespace, name: metadata.name ?? '' };
    const s = context.superObjects.get(resources.pods, ref);
    return s !== undefined && originalUid(s) === metadata.uid;
  };
  // Mostly the first is there; what a pod asks for is looked at only while none is.
  return users.some(isThere) || users.some((pod) => isToCome(pod, context));
}

function isToCome(pod: Pod, context: SyncContext): boolean {
  return !isDeleting(pod) && !isFinished(pod) && admitPod(pod, context).wanted;
}
