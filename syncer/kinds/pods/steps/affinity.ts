import { resources } from '../../../../kube/index.ts';
import { marks, superNamespaceName } from '../../../mapping/index.ts';
import type { SyncContext } from '../../kind.ts';
import { mapChanged } from '../containers.ts';
import { matches } from '../selectors.ts';
import type { PodStep } from '../translate.ts';
import type { LabelSelector, Pod, PodAffinity, PodAffinityTerm, SpreadConstraint } from '../types.ts';

/**
 * Sync rule 13: who a pod wants to be near to, or far from, are pods of its own tenant. Every selector
 * is narrowed to them, and namespaces are named as the super cluster names them.
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
  const named = namespaceNames(namespaces, namespaceSelector, context);
  // A selector that no namespace answers selects no pods; without names, it would mean the pod's own namespace.
  if (named?.length === 0 || selector === undefined) return rest;
  return {
    ...rest,
    labelSelector: narrowed(selector, context),
    ...(named === undefined ? {} : { namespaces: named }),
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

/** Super namespaces that a term speaks of; undefined: the pod's own, as there. */
function namespaceNames(
  namespaces: readonly string[] | undefined,
  selector: LabelSelector | undefined,
  { tenant, tenantObjects }: SyncContext,
): string[] | undefined {
  if (selector === undefined && (namespaces ?? []).length === 0) return undefined;
  const names = new Set(namespaces);
  if (selector !== undefined) {
    for (const { metadata } of tenantObjects.byIndex(resources.namespaces, 'all', '')) {
      if (matches(selector, metadata.labels)) names.add(metadata.name ?? '');
    }
  }
  return [...names].sort().map((name) => superNamespaceName(tenant, name));
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
  return { ...selector, matchLabels: { ...selector.matchLabels, [marks.tenant]: tenant.uid } };
}
