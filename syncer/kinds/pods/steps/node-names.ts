import { resources } from '../../../../kube/index.ts';
import { realNodeName } from '../../../mapping/index.ts';
import type { SyncContext } from '../../context.ts';
import { mapChanged } from '../containers.ts';
import type { PodStep } from '../translate.ts';
import type { NodeSelectorTerm, PodSpec, SelectorRequirement } from '../types.ts';

const hostNameLabel = 'kubernetes.io/hostname';
/** Stands for a node that the tenant does not have: `.invalid` is nobody's by RFC 2606. */
const noNode = 'no-such-node.invalid';

/**
 * Sync rule 5: where nodes are hidden, a pod that asks for one by name means the node behind it. DaemonSet
 * pods do so by a field of the node, others by its host name. A real name leads nowhere.
 */
export const nodeNames: PodStep = (spec, _pod, context) => {
  if (!context.tenant.hideNodes) return spec;
  return inAffinity(inSelector(spec, context), context);
};

function inSelector(spec: PodSpec, context: SyncContext): PodSpec {
  const shown = spec.nodeSelector?.[hostNameLabel];
  if (shown === undefined) return spec;
  return { ...spec, nodeSelector: { ...spec.nodeSelector, [hostNameLabel]: hostName(shown, context) } };
}

function inAffinity(spec: PodSpec, context: SyncContext): PodSpec {
  const { affinity } = spec;
  const nodeAffinity = affinity?.nodeAffinity;
  if (nodeAffinity === undefined) return spec;
  const {
    requiredDuringSchedulingIgnoredDuringExecution: required,
    preferredDuringSchedulingIgnoredDuringExecution: preferred,
  } = nodeAffinity;
  const translate = (term: NodeSelectorTerm) => inTerm(term, context);
  return {
    ...spec,
    affinity: {
      ...affinity,
      nodeAffinity: {
        ...nodeAffinity,
        ...(required === undefined
          ? {}
          : {
              requiredDuringSchedulingIgnoredDuringExecution: {
                ...required,
                nodeSelectorTerms: required.nodeSelectorTerms.map(translate),
              },
            }),
        ...(preferred === undefined
          ? {}
          : {
              preferredDuringSchedulingIgnoredDuringExecution: preferred.map((weighted) => ({
                ...weighted,
                preference: translate(weighted.preference),
              })),
            }),
      },
    },
  };
}

function inTerm(term: NodeSelectorTerm, context: SyncContext): NodeSelectorTerm {
  const { matchExpressions, matchFields } = term;
  return {
    ...term,
    ...(matchExpressions === undefined
      ? {}
      : { matchExpressions: withValues(matchExpressions, hostNameLabel, (name) => hostName(name, context)) }),
    ...(matchFields === undefined
      ? {}
      : { matchFields: withValues(matchFields, 'metadata.name', (name) => nodeName(name, context)) }),
  };
}

function withValues(
  requirements: SelectorRequirement[],
  key: string,
  translate: (value: string) => string,
): SelectorRequirement[] {
  return mapChanged(requirements, (requirement: SelectorRequirement) =>
    requirement.key === key && requirement.values !== undefined
      ? { ...requirement, values: requirement.values.map(translate) }
      : requirement,
  );
}

function nodeName(shown: string, context: SyncContext): string {
  return realNodeName(context, shown) ?? noNode;
}

/** The label of a node says mostly, but not always, what its name says. */
function hostName(shown: string, context: SyncContext): string {
  const name = realNodeName(context, shown);
  if (name === undefined) return noNode;
  return context.superObjects.get(resources.nodes, { name })?.metadata.labels?.[hostNameLabel] ?? name;
}
