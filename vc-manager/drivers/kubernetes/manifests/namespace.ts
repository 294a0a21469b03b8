import type { KubeObject } from '../../../../kube/index.ts';
import { labelsOf, namespaceOf, virtualClusterAnnotation } from '../names.ts';

/** Nothing in it may have more rights than the strictest of Kubernetes' own levels gives. */
export function namespaceManifest(id: string, virtualCluster?: string): KubeObject {
  const level = 'restricted';
  return {
    metadata: {
      name: namespaceOf(id),
      labels: {
        ...labelsOf(id),
        'pod-security.kubernetes.io/enforce': level,
        'pod-security.kubernetes.io/warn': level,
        'pod-security.kubernetes.io/audit': level,
      },
      ...(virtualCluster === undefined
        ? {}
        : { annotations: { [virtualClusterAnnotation]: virtualCluster } }),
    },
  };
}
