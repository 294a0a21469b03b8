import { labelKeys } from '../../../../api/labels.ts';
import { superNamespaceName, superNamespaceSelector } from '../../../mapping/index.ts';
import type { SyncContext } from '../../context.ts';
import { mapChanged } from '../containers.ts';
import type { PodStep } from '../translate.ts';
import type { LabelSelector, Pod, PodAffinity, PodAffinityTerm, SpreadConstraint } from '../types.ts';

/**
 * Sync rule 13: who a pod wants to be near to, or far from, are pods of its own tenant. Every selector
 * is narrowed to them, and namespaces are named as the super cluster names them. A pod's affinity cannot
 * be changed later, so a selector of namespaces stays one: super namespaces carry T's labels.
 */
export const interPodAffinity: PodStep = (spec, pod, context) => {
  const { affinity, topologySpreadConstraints } = spec;
  const inAffinity = affinity?.podAffinity !== undefined || affinity?.podAntiAffinity !== undefined;
  if (!inAffinity && topologySpreadConstraints === undefined) return spec;
  const translate = (terms: PodAffinity) => translatedAffinity(terms, pod, context);
  return {
    ...spec,
    ...(affinity === undefined
      ? {}
      : {
          affinity: {
            ...affinity,
            ...(affinity.podAffinity === undefined ? {} : { podAffinity: translate(affinity.podAffinity) }),
            ...(affinity.podAntiAffinity === undefined
              ? {}
              : { podAntiAffinity: translate(affinity.podAntiAffinity) }),
          },
        }),
    ...(topologySpreadConstraints === undefined
      ? {}
      : {
          topologySpreadConstraints: topologySpreadConstraints.map((constraint) =>
            translatedConstraint(constraint, pod, context),
          ),
        }),
  };
};

function translatedAffinity(affinity: PodAffinity, pod: Pod, context: SyncContext): PodAffinity {
  const term = (original: PodAffinityTerm) => translatedTerm(original, pod, context);
  const required = mapChanged(affinity.requiredDuringSchedulingIgnoredDuringExecution, term);
  const preferred = affinity.preferredDuringSchedulingIgnoredDuringExecution?.map((weighted) => ({
    ...weighted,
    podAffinityTerm: term(weighted.podAffinityTerm),
  }));
  return {
    ...affinity,
    ...(required === undefined ? {} : { requiredDuringSchedulingIgnoredDuringExecution: required }),
    ...(preferred === undefined ? {} : { preferredDuringSchedulingIgnoredDuringExecution: preferred }),
  };
}

function translatedTerm(term: PodAffinityTerm, pod: Pod, context: SyncContext): PodAffinityTerm {
  const { labelSelector, namespaces, namespaceSelector, matchLabelKeys, mismatchLabelKeys, ...rest } = term;
  const selector = withLabelKeys(labelSelector, pod, matchLabelKeys, mismatchLabelKeys);
  return {
    ...rest,
    ...(selector === undefined ? {} : { labelSelector: narrowed(selector, context) }),
    ...(namespaces === undefined
      ? {}
      : { namespaces: namespaces.map((name) => superNamespaceName(context.tenant, name)) }),
    ...(namespaceSelector === undefined
      ? {}
      : { namespaceSelector: superNamespaceSelector(namespaceSelector, context.tenant) }),
  };
}

function translatedConstraint(
  constraint: SpreadConstraint,
  pod: Pod,
  context: SyncContext,
): SpreadConstraint {
  const { labelSelector, matchLabelKeys, ...rest } = constraint;
  const selector = withLabelKeys(labelSelector, pod, matchLabelKeys, undefined);
  return selector === undefined ? rest : { ...rest, labelSelector: narrowed(selector, context) };
}

/** The tenant's API server has written these keys into the selector already; one older than 1.34 has not for spreading. */
function withLabelKeys(
  selector: LabelSelector | undefined,
  pod: Pod,
  matchKeys: readonly string[] = [],
  mismatchKeys: readonly string[] = [],
): LabelSelector | undefined {
  if (selector === undefined) return undefined;
  const present = new Set((selector.matchExpressions ?? []).map(({ key, operator }) => `${operator} ${key}`));
  const added = [
    ...matchKeys.map((key) => ({ key, operator: 'In' })),
    ...mismatchKeys.map((key) => ({ key, operator: 'NotIn' })),
  ].flatMap(({ key, operator }) => {
    const value = pod.metadata.labels?.[key];
    return value === undefined || present.has(`${operator} ${key}`)
      ? []
      : [{ key, operator, values: [value] }];
  });
  if (added.length === 0) return selector;
  return { ...selector, matchExpressions: [...(selector.matchExpressions ?? []), ...added] };
}

function narrowed(selector: LabelSelector, { tenant }: SyncContext): LabelSelector {
  return { ...selector, matchLabels: { ...selector.matchLabels, [labelKeys.tenant]: tenant.uid } };
}
