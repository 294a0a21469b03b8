import { hash } from 'node:crypto';
import { labelKeys } from '../../api/labels.ts';
import type { TenantInfo } from '../context.ts';
import { type LabelSelector, matchesNothing } from './network-isolation.ts';

/**
 * Where a super namespace keeps a label of the tenant's Namespace. Under a key of Skerry's own it means
 * nothing to the super cluster, and selectors of this tenant can go by it.
 */
const prefix = 'skerry.dev/label-';

/** As many labels of a Namespace are mirrored, and a selector may have as many labels and expressions. */
export const maxMirroredLabels = 500;

/** The label that every API server sets: it is mirrored among however many. */
const nameLabel = 'kubernetes.io/metadata.name';

/**
 * The labels of a tenant's Namespace as its super namespace carries them, so that selectors find them; of very many, the
 * first.
 */
export function mirroredNamespaceLabels(
  labels: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const mirrored: Record<string, string> = {};
  const add = (key: string, value: string): void => {
    mirrored[mirrorKey(key)] = value;
  };
  const { [nameLabel]: name } = labels;
  if (name !== undefined) add(nameLabel, name);
  let left = maxMirroredLabels - (name === undefined ? 0 : 1);
  for (const key in labels) {
    if (left === 0) break;
    if (key === nameLabel) continue;
    add(key, labels[key] as string);
    left -= 1;
  }
  return mirrored;
}

export function isMirroredNamespaceLabel(key: string): boolean {
  return key.startsWith(prefix);
}

/**
 * A selector of the tenant's namespaces as one of super namespaces: the server that evaluates it sees
 * Namespaces come, go and change as the tenant does. An empty one selects all of this tenant's; one with more terms than
 * labels are mirrored selects none.
 */
export function superNamespaceSelector(
  { matchLabels, matchExpressions }: LabelSelector,
  tenant: Pick<TenantInfo, 'uid'>,
): LabelSelector {
  const terms = Object.keys(matchLabels ?? {}).length + (matchExpressions ?? []).length;
  if (terms > maxMirroredLabels)
    return { matchLabels: { [labelKeys.tenant]: tenant.uid }, matchExpressions: [matchesNothing] };
  return {
    matchLabels: { ...mirroredNamespaceLabels(matchLabels), [labelKeys.tenant]: tenant.uid },
    ...(matchExpressions === undefined
      ? {}
      : { matchExpressions: matchExpressions.map((each) => ({ ...each, key: mirrorKey(each.key) })) }),
  };
}

/** No state but a memory of what is a function of a key: the same few are looked at with each change. */
const mirrorKeys = new Map<string, string>();
const maxKnownKeys = 10_000;
/** In characters: a prefix, a slash and a name. */
const longestKey = 317;

function mirrorKey(key: string): string {
  let known = mirrorKeys.get(key);
  if (known !== undefined) return known;
  known = prefix + hash('sha256', key, 'hex').slice(0, 20);
  if (key.length > longestKey) return known;
  if (mirrorKeys.size >= maxKnownKeys) mirrorKeys.clear();
  mirrorKeys.set(key, known);
  return known;
}
