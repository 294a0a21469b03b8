import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch } from '../../kube/index.ts';
import type { Action } from './contract.ts';

/** The named top-level fields of an object that has them; for kinds that are data and little else. */
export function payloadOf(object: KubeObject, fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    fields.filter((field) => object[field] !== undefined).map((field) => [field, object[field]]),
  );
}

/**
 * Makes the super object's payload the tenant object's, together with a patch of its metadata; one that is immutable is
 * made anew.
 */
export function bringPayloadDown(
  tenantObject: KubeObject,
  superObject: KubeObject,
  fields: readonly string[],
  metadata: MergePatch | undefined,
): readonly Action[] {
  const patch: MergePatch = { ...metadata };
  for (const field of fields) {
    const from = superObject[field];
    const to = tenantObject[field];
    if (from === to || deepEqual(from, to)) continue;
    // The tenant object's cannot have changed either: a user of the super cluster froze something else.
    if (superObject['immutable'] === true) return [{ do: 'deleteSuper' }];
    if (to === undefined) patch[field] = null;
    else patch[field] = typeof from === 'object' && typeof to === 'object' ? mergePatch(from, to) : to;
  }
  return Object.keys(patch).length === 0 ? [] : [{ do: 'patchSuper', patch }];
}
