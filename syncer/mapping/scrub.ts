import { isIP } from 'node:net';
import { type Condition, resources } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { isOurs, tenantNamespaceOf, tenantUidOf } from './labels.ts';
import {
  lateNamePrefix,
  readableNamespace,
  readablePrefix,
  rootCaName,
  superNamespaceName,
  superNamespaceShape,
  superRootCaName,
} from './names.ts';
import { shownNodeName } from './node-names.ts';

type ScrubContext = Pick<SyncContext, 'tenant' | 'superObjects'>;

const hidden = '(hidden)';

/** Whatever may be a name or an IPv4 address of a node. */
const nodeNameShape = /[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?/gi;
/** No longer than an address can be: tenants have a say in texts, and a search without an end would take hours. */
const ipv6Shape = /(?<![-.\w:])[0-9a-f:]{0,39}:[0-9a-f:.]{0,45}[0-9a-f](?!\w)/gi;

/**
 * Text of the super cluster as this tenant may read it: names of its own super namespaces become its
 * namespaces, those of others and the tenant's internal names turn into `(hidden)`. Where nodes are
 * hidden, their names and addresses become the shown ones.
 */
export function scrub(text: string, context: ScrubContext): string {
  if (text === '') return text;
  const { id, uid, hideNodes } = context.tenant;
  const scrubbed = text
    .replace(superNamespaceShape, (name) => tenantName(name, context))
    .replaceAll(superRootCaName, rootCaName)
    .replaceAll(lateNamePrefix, '')
    .replaceAll(uid, hidden)
    .replaceAll(id, hidden);
  if (!hideNodes) return scrubbed;
  const replaced = (name: string) => nodeName(name, context);
  return scrubbed.replace(ipv6Shape, replaced).replace(nodeNameShape, replaced);
}

export function scrubbedConditions(
  conditions: readonly Condition[] | undefined,
  context: ScrubContext,
): Condition[] | undefined {
  return conditions?.map((condition) =>
    condition.message === undefined
      ? condition
      : { ...condition, message: scrub(condition.message, context) },
  );
}

/** What a node's name, one of its addresses or a host name in its domain is to this tenant; anything else stays. */
function nodeName(name: string, { tenant, superObjects }: ScrubContext): string {
  const wanted = name.toLowerCase();
  const isNode = (candidate: string) => superObjects.get(resources.nodes, { name: candidate }) !== undefined;
  if (isNode(wanted)) return shownNodeName(tenant, wanted);
  const [node] = superObjects.byIndex(resources.nodes, 'byAddress', wanted);
  if (node !== undefined) {
    const isAddress = isIP(wanted) !== 0;
    return isAddress ? tenant.kubelet.address : shownNodeName(tenant, node.metadata.name ?? '');
  }
  const host = wanted.split('.', 1)[0] ?? '';
  return host !== wanted && isNode(host) ? shownNodeName(tenant, host) : name;
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
