import { resources } from '../../kube/index.ts';
import type { SyncContext } from '../kinds/index.ts';
import { isOurs, tenantNamespaceOf, tenantUidOf } from './marks.ts';
import {
  readableNamespace,
  readablePrefix,
  rootCaName,
  superNamespaceName,
  superNamespaceShape,
  superRootCaName,
} from './names.ts';

type ScrubContext = Pick<SyncContext, 'tenant' | 'superObjects'>;

const hidden = '(hidden)';

/**
 * Text of the super cluster as this tenant may read it: names of its own super namespaces become its
 * namespaces, those of others and the tenant's internal names turn into `(hidden)`.
 */
export function scrub(text: string, context: ScrubContext): string {
  if (text === '') return text;
  const { id, uid } = context.tenant;
  return text
    .replace(superNamespaceShape, (name) => tenantName(name, context))
    .replaceAll(superRootCaName, rootCaName)
    .replaceAll(uid, hidden)
    .replaceAll(id, hidden);
}

/** What a name is to this tenant; one that is no super namespace stays. */
function tenantName(name: string, { tenant, superObjects }: ScrubContext): string {
  const there = superObjects.get(resources.namespaces, { name });
  if (there !== undefined) {
    if (tenantUidOf(there) === undefined) return name;
    return isOurs(there, tenant) ? (tenantNamespaceOf(there) ?? hidden) : hidden;
  }
  // Gone already, or not seen yet: the name itself tells, unless it was cut.
  const prefix = readablePrefix(tenant);
  if (!name.startsWith(prefix)) return name;
  const namespace = readableNamespace(name, prefix);
  return superNamespaceName(tenant, namespace) === name ? namespace : hidden;
}
