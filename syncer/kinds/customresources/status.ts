import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch } from '../../../kube/index.ts';
import { scrub } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';

type Status = Record<string, unknown> & { observedGeneration?: number; conditions?: unknown };

export interface StatusOptions {
  /** The status is a subresource: writing it does not change T's generation. */
  readonly isSubresource: boolean;
  /** Whether S has all that T asks for. */
  readonly isCarriedDown: boolean;
}

/**
 * Makes T's status what S's says in the tenant's words, whoever has written to T's. Generations are translated:
 * `observedGeneration` says whether T as it is now has been seen.
 */
export function statusPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
  options: StatusOptions,
): MergePatch | undefined {
  const present = tenantObject['status'] as Status | undefined;
  const wanted = wantedStatus(tenantObject, superObject, context, options);
  if (deepEqual(present, wanted)) return undefined;
  if (wanted === undefined) return { status: null };
  const change = mergePatch(present ?? {}, wanted);
  return change === undefined ? undefined : { status: change };
}

function wantedStatus(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
  options: StatusOptions,
): Status | undefined {
  const theirs = superObject['status'] as Status | undefined;
  if (theirs === undefined) return undefined;
  const status = scrubbed(theirs, context) as Status;
  if (!options.isSubresource) return status;
  const translate = (seen: unknown, shown: unknown): number | undefined => {
    if (typeof seen !== 'number') return undefined;
    const generation = tenantObject.metadata.generation ?? 1;
    const isPresent = seen >= (superObject.metadata.generation ?? 0) && options.isCarriedDown;
    if (isPresent) return generation;
    return typeof shown === 'number' && shown < generation ? shown : Math.max(0, generation - 1);
  };
  const own = tenantObject['status'] as Status | undefined;
  const observed = translate(status.observedGeneration, own?.observedGeneration);
  if (observed !== undefined) status.observedGeneration = observed;
  if (Array.isArray(status.conditions)) {
    status.conditions = status.conditions.map((condition: unknown) => {
      if (!isRecord(condition)) return condition;
      const generation = translate(condition['observedGeneration'], generationOf(own, condition['type']));
      return generation === undefined ? condition : { ...condition, observedGeneration: generation };
    });
  }
  return status;
}

function generationOf(status: Status | undefined, type: unknown): unknown {
  if (!Array.isArray(status?.conditions)) return undefined;
  const condition = status.conditions.find((each: unknown) => isRecord(each) && each['type'] === type);
  return isRecord(condition) ? condition['observedGeneration'] : undefined;
}

/** All text of a status in the tenant's words. */
function scrubbed(value: unknown, context: SyncContext): unknown {
  if (typeof value === 'string') return scrub(value, context);
  if (Array.isArray(value)) return value.map((item) => scrubbed(item, context));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([field, part]) => [scrub(field, context), scrubbed(part, context)]),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
