import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules } from '../down.ts';
import { at, listAt, unequal } from '../raw.ts';
import type { View } from '../view.ts';

const rules: DownRules = {
  kind: 'poddisruptionbudgets',
  what: 'PodDisruptionBudget',
  expected: () => 'yes',
  compare(own, superObject) {
    const found = ['selector', 'unhealthyPodEvictionPolicy'].flatMap((field) =>
      unequal(at(own, 'spec', field), at(superObject, 'spec', field), field),
    );
    if (at(superObject, 'spec', 'maxUnavailable') !== undefined) found.push('maxUnavailable went down');
    const enough = at<number>(superObject, 'spec', 'minAvailable');
    if (typeof enough !== 'number')
      found.push(`minAvailable of the super cluster is ${enough}, not a number`);
    if (isCounted(own))
      found.push(...unequal(at(own, 'status', 'desiredHealthy'), enough, 'healthy pods wanted'));
    else if ((enough ?? 0) < 1_000_000) found.push('may be disrupted although the tenant has not counted');
    // Each side has counted for itself, by its own pods.
    const allowed = (budget: KubeObject): unknown => at(budget, 'status', 'disruptionsAllowed') ?? 0;
    return [...found, ...unequal(allowed(own), allowed(superObject), 'disruptions allowed')];
  },
};

export function compareDisruptionBudgets(view: View): string[] {
  return compareDown(rules, view);
}

function isCounted(own: KubeObject): boolean {
  const observed = at<number>(own, 'status', 'observedGeneration') ?? 0;
  const hasFailed = listAt(own, 'status', 'conditions').some(({ reason }) => reason === 'SyncFailed');
  return (
    observed >= (own.metadata.generation ?? 0) &&
    (at<number>(own, 'status', 'expectedPods') ?? 0) > 0 &&
    !hasFailed
  );
}
