import type { SyncedKind } from '../kinds/index.ts';
import { uidMark } from '../mapping/index.ts';
import { keyId, tenantKeyOf } from './keys.ts';
import type { TenantState } from './tenant-state.ts';

/** As many as are remembered while a tenant is served. */
const mostRecalled = 5_000;

/**
 * Remembers the copies in a tenant that are not watched there (events) and were made by an earlier run: without
 * that, each of them would be made once more in vain. To be called before the tenant joins. Throws what the
 * server says; then they are tried one by one.
 */
export async function loadExistingCopies(
  tenant: TenantState,
  kinds: readonly SyncedKind[],
  signal: AbortSignal,
): Promise<void> {
  for (const kind of kinds) {
    if (kind.direction === 'down' || kind.watchTenant) continue;
    const { items } = await tenant.client.list(kind.resource, {
      limit: mostRecalled,
      cutManagedFields: true,
      signal,
    });
    for (const object of items) {
      if (uidMark(object) !== undefined) tenant.recordUnwatchedCopy(keyId(tenantKeyOf(kind, object)), object);
    }
  }
}
