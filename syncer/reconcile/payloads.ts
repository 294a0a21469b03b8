import { isNotFound, type KubeClient } from '../../kube/index.ts';
import type { DownKind } from '../kinds/contract.ts';
import { payloadSummary } from '../kinds/payload.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import type { Situation } from './decide.ts';
import { refOf } from './guarded-writes.ts';
import type { Outcome } from './outcome.ts';
import type { TenantState } from './tenant-state.ts';

/** One reconcile of a kind of which caches hold no payloads. */
interface PayloadWork {
  readonly kind: DownKind;
  readonly payload: readonly string[];
  readonly situation: Situation;
  readonly tenant: TenantState;
  readonly signal: AbortSignal;
}

/** Another object is there by now; the event on its way queues the key, and if it does not, the clock does. */
const replaced: Outcome = { is: 'later', afterMs: 1_000 };

/**
 * The situation with the whole objects, read from both servers, where the payload matters: the super object is to be
 * made, or its payload is another one than the tenant object's, as far as is known. Where both payloads are known to be
 * equal, and where they do not matter, the situation as it is, of which only metadata may be read. The tenant object
 * was read whole once for each of its versions.
 */
export async function withPayload(
  superClient: KubeClient,
  { kind, payload, situation, tenant, signal }: PayloadWork,
): Promise<Situation | Outcome> {
  const { tenantObject, superObject, context } = situation;
  if (tenantObject === undefined || !needsPayload(kind, situation)) return situation;
  if (superObject === undefined && situation.namespaceReady !== true)
    return { ...situation, isPartial: true };
  const present = superObject && payloadSummary(superObject, payload).digest;
  if (present !== undefined && tenant.payloads.get(tenantObject)?.digest === present) return situation;
  try {
    const own = await tenant.client.get(kind.resource, refOf(tenantObject), { signal });
    if (own.metadata.uid !== tenantObject.metadata.uid) return replaced;
    const summary = payloadSummary(kind.toSuper(own, context), payload);
    if (own.metadata.resourceVersion === tenantObject.metadata.resourceVersion)
      tenant.payloads.set(tenantObject, summary);
    if (superObject === undefined) return { ...situation, tenantObject: own };
    if (summary.digest === present) return situation;
    const live = await superClient.get(kind.resource, refOf(superObject), { signal });
    if (live.metadata.uid !== superObject.metadata.uid) return replaced;
    return { ...situation, tenantObject: own, superObject: live };
  } catch (error) {
    if (isNotFound(error)) return replaced;
    throw error;
  }
}

/** Whether the payloads of both sides are not known to be equal, and should be. */
export function payloadsDiffer(
  kind: DownKind,
  payload: readonly string[],
  situation: Situation,
  tenant: TenantState,
): boolean {
  const { tenantObject, superObject } = situation;
  if (tenantObject === undefined || superObject === undefined || !needsPayload(kind, situation)) return false;
  return tenant.payloads.get(tenantObject)?.digest !== payloadSummary(superObject, payload).digest;
}

/** Whether a super object is to be made or kept equal, so that the decision depends on more than metadata. */
function needsPayload(
  kind: DownKind,
  { tenantObject, superObject, createdUid, context }: Situation,
): boolean {
  if (tenantObject === undefined) return false;
  if (superObject === undefined) {
    if (createdUid !== undefined || tenantObject.metadata.deletionTimestamp !== undefined) return false;
  } else if (
    superObject.metadata.deletionTimestamp !== undefined ||
    !isOurs(superObject, context.tenant) ||
    originalUid(superObject) !== tenantObject.metadata.uid
  ) {
    return false;
  }
  return kind.admit?.(tenantObject, context).wanted !== false;
}
