import { annotationKeys } from '../../api/labels.ts';
import type { KubeObject, ObjectMeta } from '../../kube/index.ts';
import { isOwnKey } from './marks.ts';

/** Describes how the super cluster's operator applied the original; of no use, and not for tenants' eyes. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/**
 * Metadata of a tenant's copy of a super object: its name, labels and annotations, without the marks of
 * S and with the mark of a copy (`skerry.dev/uid` = UID of S). Never a namespace: S's is not the tenant's.
 */
export function copyMetadata(superObject: KubeObject): ObjectMeta {
  const { name, uid, labels, annotations } = superObject.metadata;
  const copiedLabels = without(labels);
  const copiedAnnotations = without(annotations);
  if (uid !== undefined) copiedAnnotations[annotationKeys.uid] = uid;
  return {
    ...(name === undefined ? {} : { name }),
    ...(Object.keys(copiedLabels).length === 0 ? {} : { labels: copiedLabels }),
    ...(Object.keys(copiedAnnotations).length === 0 ? {} : { annotations: copiedAnnotations }),
  };
}

function without(keys: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(keys).filter(([key]) => !isOwnKey(key) && key !== lastApplied));
}
