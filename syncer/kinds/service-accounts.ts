import { apiVersionOf, type KubeObject, resources } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { isOurs, tenantUidOf } from '../mapping/labels.ts';
import { superMetadata, superMetadataPatch } from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import type { DownKind } from './contract.ts';

/** The one that the super cluster itself makes in every namespace. */
const defaultName = 'default';

/**
 * Only the name goes down, so that pods can carry it: what it may do, it may do in the tenant. In the
 * super cluster it has no rights, and no pod gets a token for it (sync rule `service-accounts`).
 */
export const serviceAccountKind: DownKind = {
  name: 'serviceaccounts',
  direction: 'down',
  resource: resources.serviceAccounts,
  toSuper: (tenantObject, context) => ({
    apiVersion: apiVersionOf(resources.serviceAccounts),
    kind: resources.serviceAccounts.kind,
    metadata: superMetadata(tenantObject, context, nameOnly),
    automountServiceAccountToken: false,
  }),
  adopts,
  down(tenantObject, superObject, context) {
    const metadata = superMetadataPatch(tenantObject, superObject, context, nameOnly);
    const automounts = superObject['automountServiceAccountToken'] !== false;
    if (metadata === undefined && !automounts) return [];
    return [
      {
        do: 'patchSuper',
        patch: { ...metadata, ...(automounts ? { automountServiceAccountToken: false } : {}) },
      },
    ];
  },
};

const nameOnly = { goesDown: () => false };

/**
 * Sync rule `write-order`: `default` of a super namespace is there before the tenant object's; it carries no marks and
 * becomes ours.
 */
function adopts(
  superObject: KubeObject,
  tenantObject: KubeObject,
  { tenant, superObjects }: SyncContext,
): boolean {
  const { name, namespace = '' } = superObject.metadata;
  if (name !== defaultName || tenantUidOf(superObject) !== undefined) return false;
  if (namespace !== superNamespaceName(tenant, tenantObject.metadata.namespace ?? '')) return false;
  const home = superObjects.get(resources.namespaces, { name: namespace });
  // The cache may not show yet what the engine has just created.
  return home === undefined || isOurs(home, tenant);
}
