import { isNotFound, type KubeClient, type KubeObject } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { DownKind, Notice } from '../kinds/contract.ts';
import {
  asToBeReplaced,
  noteUnknownFields,
  payloadSource,
  payloadSummary,
  withSummary,
} from '../kinds/payload.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import type { Outcome } from './controller.ts';
import type { Situation } from './decide.ts';
import { refOf } from './guarded-writes.ts';
import { keyId } from './keys.ts';
import type { TenantState } from './tenant-state.ts';

/** How much may be read of what a tenant stores, for copies that it is to get. */
export interface ReadBudget {
  /** Why and how long it has to wait; undefined: it may be read now. */
  denialOf(
    tenant: TenantState,
    key: KeyRef,
    hasCopy: boolean,
  ): { readonly notice: Notice; readonly afterMs: number } | undefined;
  /** Called with what was read, in bytes, and how its copy is. */
  take(tenant: TenantState, key: KeyRef, bytes: number, copy: 'missing' | 'equal' | 'unequal'): void;
}

/** One reconcile of a kind of which caches hold no payloads. */
interface PayloadWork {
  readonly kind: DownKind;
  readonly payload: readonly string[];
  readonly situation: Situation;
  readonly tenant: TenantState;
  readonly signal: AbortSignal;
  readonly budget?: ReadBudget | undefined;
  /** Tells the tenant why it has to wait. */
  readonly tell: (notice: Notice) => Promise<void>;
}

/** Another object is there by now; the event on its way queues the key, and if it does not, the clock does. */
const replaced: Outcome = { is: 'later', afterMs: 1_000 };

/**
 * The situation with the whole objects, read from both servers, where the payload matters: the super object is to be
 * made, or its payload is another one than the tenant object's, as far as is known. The super object is not read where
 * its payload is what we have written ourselves: it is to be replaced. Where both payloads are known to be equal, and
 * where they do not matter, the situation as it is, of which only metadata may be read. The tenant object was read whole
 * once for each of its versions.
 */
export async function withPayload(
  superClient: KubeClient,
  { kind, payload, situation, tenant, signal, budget, tell }: PayloadWork,
): Promise<Situation | Outcome> {
  const { key, tenantObject, superObject, context } = situation;
  if (tenantObject === undefined || !needsPayload(kind, situation)) return situation;
  if (superObject === undefined && situation.namespaceReady !== true)
    return { ...situation, isPartial: true };
  if (superObject !== undefined) tenant.writtenPayloads.recognize(keyId(key), superObject);
  const hasCopy = superObject !== undefined;
  try {
    let live: KubeObject | undefined;
    if (hasCopy && payloadSource(superObject) === 'outdated') {
      live = await superClient.get(kind.resource, refOf(superObject), { signal });
      if (live.metadata.uid !== superObject.metadata.uid) return replaced;
      if (live.metadata.resourceVersion === superObject.metadata.resourceVersion)
        withSummary(superObject, payloadSummary(live, payload));
    }
    const present = hasCopy ? payloadSummary(live ?? superObject, payload).digest : undefined;
    if (present !== undefined && tenant.payloads.get(tenantObject)?.digest === present) return situation;
    // Reading a megabyte costs as much as writing it, and a tenant can change it as often as it likes.
    const denial = budget?.denialOf(tenant, key, hasCopy);
    if (denial !== undefined) {
      // Where there is a copy it may be equal: nothing is late, as far as is known.
      if (!hasCopy) await tell(denial.notice);
      return { is: 'later', afterMs: denial.afterMs };
    }
    const own = await tenant.client.get(kind.resource, refOf(tenantObject), { signal });
    const summary = payloadSummary(kind.toSuper(own, context), payload);
    const bytes = summary.bytes + JSON.stringify(own.metadata).length;
    const copy = hasCopy ? (summary.digest === present ? 'equal' : 'unequal') : 'missing';
    budget?.take(tenant, key, bytes, copy);
    if (own.metadata.uid !== tenantObject.metadata.uid) return replaced;
    if (own.metadata.resourceVersion === tenantObject.metadata.resourceVersion) {
      tenant.payloads.set(tenantObject, summary);
      noteUnknownFields(tenantObject, own, payload);
    }
    const whole = { ...situation, tenantObject: withSummary(own, summary) };
    if (!hasCopy) return whole;
    if (summary.digest === present) return situation;
    if (live === undefined && payloadSource(superObject) === 'written')
      return { ...whole, superObject: asToBeReplaced(superObject) };
    live ??= await superClient.get(kind.resource, refOf(superObject), { signal });
    if (live.metadata.uid !== superObject.metadata.uid) return replaced;
    return { ...whole, superObject: live };
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
  const { key, tenantObject, superObject } = situation;
  if (tenantObject === undefined || superObject === undefined || !needsPayload(kind, situation)) return false;
  tenant.writtenPayloads.recognize(keyId(key), superObject);
  if (payloadSource(superObject) === 'outdated') return true;
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
