import type { KubeObject } from '../../../../kube/index.ts';
import type { ComponentPlan } from '../../../control-plane/index.ts';
import { componentLabel, idLabel, labelsOf, namespaceOf } from '../names.ts';

/** Who drains nodes takes one of several at a time. A single one has none: nobody could ever drain its node. */
export function disruptionBudget(id: string, { name, replicas = 1 }: ComponentPlan): KubeObject | undefined {
  if (replicas === 1) return undefined;
  return {
    metadata: { name, namespace: namespaceOf(id), labels: labelsOf(id, name) },
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: { [idLabel]: id, [componentLabel]: name } },
    },
  };
}
