import {
  type Condition,
  findCondition,
  type KubeObject,
  resources,
  withoutUndefined,
} from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { superMetadata, superMetadataPatch } from '../mapping/metadata.ts';
import type { Action, Admission, DownKind } from './contract.ts';
import { type Shape, selectorShape, unknownRefusal } from './known-fields.ts';
import { fieldsPatch, metadataUp } from './patches.ts';

interface BudgetStatus {
  observedGeneration?: number;
  desiredHealthy?: number;
  expectedPods?: number;
  conditions?: Condition[];
}

/** More than there will ever be, so that no disruption is allowed. */
export const all = 2_147_483_647;

/**
 * How many pods have to stay healthy, in the super object. Pods of the super cluster have no owners there, so a share of
 * them cannot be computed from the super object: the tenant's disruption controller has done so. Where it has not yet, or
 * has failed, or has found no controller for the pods, its API server allows no eviction; nor does the super object.
 */
function minAvailable({ metadata, status }: KubeObject): number {
  const {
    observedGeneration = 0,
    desiredHealthy,
    expectedPods = 0,
    conditions,
  } = (status ?? {}) as BudgetStatus;
  if (desiredHealthy === undefined || observedGeneration < (metadata.generation ?? 0)) return all;
  if (expectedPods <= 0) return all;
  return findCondition(conditions ?? [], 'DisruptionAllowed')?.reason === 'SyncFailed' ? all : desiredHealthy;
}

interface BudgetSpec {
  minAvailable?: number | string;
  maxUnavailable?: number | string;
  selector?: Record<string, unknown>;
  unhealthyPodEvictionPolicy?: string;
}

/** What goes down, or is in what goes down (`minAvailable`). */
const specShape: Shape = {
  minAvailable: true,
  maxUnavailable: true,
  selector: selectorShape,
  unhealthyPodEvictionPolicy: true,
};

function admit(tenantObject: KubeObject): Admission {
  const unknown = unknownRefusal(specOf(tenantObject), specShape);
  return unknown === undefined ? { wanted: true } : { wanted: false, keep: true, notice: unknown };
}

/**
 * PodDisruptionBudget: keeps a drain of the super cluster's nodes to what the tenant allows. Each side's own
 * disruption controller counts and writes status, from the same pods: none of it is copied. What only the
 * tenant's can know, how many pods there should be, goes down as a number (sync rule `pod-disruption-budgets`).
 */
export const podDisruptionBudgetKind: DownKind = {
  name: 'poddisruptionbudgets',
  resource: resources.podDisruptionBudgets,
  direction: 'down',
  hasConditions: true,
  compact: { super: ({ status: _status, ...object }) => object },
  admit,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: superMetadata(tenantObject, context),
      spec: wantedSpec(tenantObject),
    };
  },
  down,
  up: metadataUp,
};

function wantedSpec(tenantObject: KubeObject): BudgetSpec {
  const { selector, unhealthyPodEvictionPolicy } = specOf(tenantObject);
  return withoutUndefined({ minAvailable: minAvailable(tenantObject), selector, unhealthyPodEvictionPolicy });
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const metadata = superMetadataPatch(tenantObject, superObject, context);
  const spec = fieldsPatch(specOf(superObject), wantedSpec(tenantObject), ownedFields);
  if (metadata === undefined && spec === undefined) return [];
  return [{ do: 'patchSuper', patch: withoutUndefined({ ...metadata, spec }) }];
}

const ownedFields = ['minAvailable', 'maxUnavailable', 'selector', 'unhealthyPodEvictionPolicy'] as const;

function specOf(budget: KubeObject): BudgetSpec {
  return (budget['spec'] as BudgetSpec | undefined) ?? {};
}
