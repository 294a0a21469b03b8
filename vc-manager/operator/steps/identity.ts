import { tooManyVirtualClustersReason } from '../../../api/conditions.ts';
import { annotationKeys, finalizer } from '../../../api/labels.ts';
import { idPattern } from '../../../api/names.ts';
import { idInUse, invalidId, OperatorError, RequeueAfter } from '../errors.ts';
import { assertIdClaim } from '../id-claim.ts';
import type { Services } from '../services.ts';
import { readSnapshot, snapshotServices } from '../snapshot-files.ts';
import type { Step } from '../step-runner.ts';
import { changeMetadata, type Tenant } from '../tenant.ts';
import { moveInternalSecret } from '../tenant-secrets.ts';
import { claimWarm, statusFromMember } from '../warm-members.ts';
import { moveReservations } from './service-slice.ts';

/**
 * The id, and the finalizer that keeps the object until everything with that id is gone. An id that belongs to another
 * VirtualCluster is refused before the finalizer is set: else a deletion would remove what belongs to the other. It is
 * that of a control plane from the warm pool, if one is there that suits.
 */
export const identity: Step = {
  name: 'identity',
  doing: 'Choosing an id',
  async run(tenant, services) {
    const has = tenant.vc.status?.id;
    const warm =
      has === undefined
        ? await claimWarm(tenant, services, () => checkNamespaceLimit(tenant, services))
        : undefined;
    const id = has ?? warm?.status?.id ?? (await chooseId(tenant, services));
    await changeMetadata(tenant, services, ({ metadata }) => {
      if (metadata.finalizers?.includes(finalizer) && metadata.annotations?.[annotationKeys.id] === id)
        return undefined;
      return {
        finalizers: [...new Set([...(metadata.finalizers ?? []), finalizer])],
        annotations: { [annotationKeys.id]: id },
      };
    });
    // Flushed by a later step: the annotation has it already.
    tenant.status.set({ ...(warm && statusFromMember(warm)), id });
    // Later steps go by what the status says, as of any control plane that runs.
    if (warm !== undefined) await tenant.status.flush();
  },
};

async function chooseId(tenant: Tenant, services: Services): Promise<string> {
  const { allocations, newId } = services;
  const preset = tenant.vc.metadata.annotations?.[annotationKeys.id];
  if (preset !== undefined) {
    if (!idPattern.test(preset)) throw invalidId(preset);
    const assertFree = (): void => {
      const holder = allocations.ownerOfId(preset, tenant.uid);
      if (holder !== undefined) throw idInUse(preset, holder);
    };
    assertFree();
    await assertIdClaim(tenant, services, preset);
    // Another one may have come meanwhile; from here on there is no pause: see Allocations.
    assertFree();
  }
  const former = preset === undefined ? await idOfSnapshot(tenant, services) : undefined;
  checkNamespaceLimit(tenant, services);
  let id = preset ?? former ?? newId();
  while (allocations.ownerOfId(id, tenant.uid) !== undefined) id = newId();
  allocations.remember(tenant.uid, { id });
  return id;
}

/** By it a gateway of the same domain knows kubeconfigs that stay valid; undefined: it is not free here. */
async function idOfSnapshot(tenant: Tenant, services: Services): Promise<string | undefined> {
  const { restoreFrom, restoreCertificates } = tenant.vc.spec ?? {};
  if (restoreFrom === undefined || restoreCertificates !== true) return undefined;
  const { header, close } = await readSnapshot(tenant, snapshotServices(services), restoreFrom);
  close();
  if (!idPattern.test(header.id)) return undefined;
  try {
    await assertIdClaim(tenant, services, header.id);
    return header.id;
  } catch (error) {
    if (error instanceof OperatorError && error.code === 'IdNotProven') return undefined;
    throw error;
  }
}

/** A lower limit does not remove VirtualClusters that have an id already. */
function checkNamespaceLimit({ ref, uid, ceiling }: Tenant, { allocations, settings }: Services): void {
  const most = ceiling?.spec?.maxVirtualClusters;
  if (most === undefined) return;
  const others = allocations.countOthersIn(ref.namespace, uid);
  if (others < most) return;
  throw new RequeueAfter(
    `VirtualClusterPolicy ${ceiling?.metadata.name} allows no more than ${most} in the namespace ${ref.namespace}, ` +
      `which has ${others}. It is made when one of them is gone or the policy allows more.`,
    settings.recheckMs,
    { reason: tooManyVirtualClustersReason },
  );
}

/**
 * Of a control plane from the warm pool: what bears the name and the UID of the member bears those of its owner from here
 * on. The member goes when the status says so.
 */
export const takeOver: Step = {
  name: 'take-over',
  doing: 'Taking over a control plane that was waiting',
  async run(tenant: Tenant, services: Services) {
    const { fromPool } = tenant.vc.status ?? {};
    if (fromPool === undefined || fromPool.moved === true) return;
    const member = `${services.settings.namespace}/${fromPool.member}`;
    await Promise.all([
      moveInternalSecret(tenant, services, 'pki', member),
      moveReservations(tenant, services, fromPool.uid),
    ]);
    // Written with what the next steps have to say.
    tenant.status.set((status) => ({ ...status, fromPool: { ...fromPool, moved: true } }));
  },
};
