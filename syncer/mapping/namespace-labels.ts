import { hash } from 'node:crypto';
import { labelKeys } from '../../api/labels.ts';
import type { TenantInfo } from '../context.ts';

/** What selects namespaces by their labels. */
interface NamespaceSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

/**
 * Where a super namespace keeps a label of the tenant's Namespace. Under a key of Skerry's own it means
 * nothing to the super cluster, and selectors of this tenant can go by it.
 */
const prefix = 'skerry.dev/label-';

/** The labels of a tenant's Namespace as its super namespace carries them, so that selectors find them. */
export function mirroredNamespaceLabels(
  labels: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([key, value]) => [mirrorKey(key), value]));
}

export function isMirroredNamespaceLabel(key: string): boolean {
  return key.startsWith(prefix);
}

/**
 * A selector of the tenant's namespaces as one of super namespaces: the server that evaluates it sees
 * Namespaces come, go and change as the tenant does. An empty one selects all of this tenant's.
 */
export function superNamespaceSelector(
  { matchLabels, matchExpressions }: NamespaceSelector,
  tenant: Pick<TenantInfo, 'uid'>,
): NamespaceSelector {
  return {
    matchLabels: { ...mirroredNamespaceLabels(matchLabels), [labelKeys.tenant]: tenant.uid },
    ...(matchExpressions === undefined
      ? {}
      : { matchExpressions: matchExpressions.map((each) => ({ ...each, key: mirrorKey(each.key) })) }),
  };
}

function mirrorKey(key: string): string {
  return prefix + hash('sha256', key, 'hex').slice(0, 20);
}
