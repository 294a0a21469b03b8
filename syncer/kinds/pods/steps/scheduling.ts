import type { PodStep } from '../translate.ts';
import type { Affinity, NodeSelectorTerm, PodSpec, SelectorRequirement, Toleration } from '../types.ts';

/** Labels, and keys of taints, by which nodes that run a control plane are known. */
const controlPlaneKeys = [
  'node-role.kubernetes.io/control-plane',
  'node-role.kubernetes.io/master',
  'node-role.kubernetes.io/etcd',
] as const;

/**
 * Sync rule 15: no way onto control-plane nodes. Tolerations of their taints are left behind; a pod that
 * tolerates everything, or asks for such nodes, keeps its words and is kept away by node affinity.
 */
export const scheduling: PodStep = (spec) => {
  const guarded = needsGuard(spec) ? { ...spec, affinity: guard(spec.affinity) } : spec;
  const tolerations = superTolerations(spec.tolerations);
  return tolerations === undefined || tolerations.length === spec.tolerations?.length
    ? guarded
    : { ...guarded, tolerations };
};

/** Those of T's tolerations that S has. */
export function superTolerations(tolerations: readonly Toleration[] | undefined): Toleration[] | undefined {
  return tolerations?.filter(({ key }) => !isControlPlaneKey(key));
}

/** Tolerates taints whatever their key. */
export function isBlanket({ key }: Toleration): boolean {
  return key === undefined || key === '';
}

/** Whether S can be given a blanket toleration: it is kept from control-plane nodes, or has its node already. */
export function isGuarded(spec: PodSpec): boolean {
  if (spec.nodeName !== undefined && spec.nodeName !== '') return true;
  const terms = requiredTerms(spec.affinity);
  return (
    terms.length > 0 &&
    terms.every(({ matchExpressions = [] }) =>
      controlPlaneKeys.every((key) =>
        matchExpressions.some(
          (expression) => expression.key === key && expression.operator === 'DoesNotExist',
        ),
      ),
    )
  );
}

function needsGuard(spec: PodSpec): boolean {
  return (
    spec.tolerations?.some(isBlanket) === true ||
    Object.keys(spec.nodeSelector ?? {}).some(isControlPlaneKey) ||
    requiredTerms(spec.affinity).some(({ matchExpressions }) => matchExpressions?.some(asksForControlPlane))
  );
}

function asksForControlPlane({ key, operator }: SelectorRequirement): boolean {
  return isControlPlaneKey(key) && operator !== 'DoesNotExist';
}

const expressions: readonly SelectorRequirement[] = controlPlaneKeys.map((key) => ({
  key,
  operator: 'DoesNotExist',
}));

/** Terms are alternatives, so each gets the guard; an empty term matches no node and must stay empty. */
function guard(affinity: Affinity = {}): Affinity {
  const terms = requiredTerms(affinity);
  const guarded = terms.map((term) =>
    isEmpty(term) ? term : { ...term, matchExpressions: [...(term.matchExpressions ?? []), ...expressions] },
  );
  return {
    ...affinity,
    nodeAffinity: {
      ...affinity.nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: guarded.length === 0 ? [{ matchExpressions: [...expressions] }] : guarded,
      },
    },
  };
}

function requiredTerms(affinity: Affinity | undefined): readonly NodeSelectorTerm[] {
  return affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
}

function isEmpty({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): boolean {
  return matchExpressions.length === 0 && matchFields.length === 0;
}

function isControlPlaneKey(key: string | undefined): boolean {
  return (controlPlaneKeys as readonly (string | undefined)[]).includes(key);
}
