import { labelKeys } from '../../../api/labels.ts';
import { goesDown, isTransparent } from '../../mapping/index.ts';
import type { TenantInfo } from '../context.ts';
import type { LabelRequirement, LabelSelector } from './model.ts';

/** Beside the tenant's own label, which all its pods carry, this matches nothing. */
const never: LabelRequirement = { key: labelKeys.tenant, operator: 'DoesNotExist' };

/**
 * Selects the same pods in the super cluster. Labels that do not go down are on no pod there, and what
 * Skerry or others have put in their place is not what the tenant means: they count as absent.
 */
export function superPodSelector(selector: LabelSelector, tenant: TenantInfo): LabelSelector {
  const matchLabels: Record<string, string> = { [labelKeys.tenant]: tenant.uid };
  const matchExpressions: LabelRequirement[] = [];
  let isPossible = true;
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    if (isSeenBelow(key, tenant)) matchLabels[key] = value;
    else isPossible = false;
  }
  for (const requirement of selector.matchExpressions ?? []) {
    if (isSeenBelow(requirement.key, tenant)) matchExpressions.push(requirement);
    else if (requirement.operator === 'In' || requirement.operator === 'Exists') isPossible = false;
  }
  if (!isPossible) matchExpressions.push(never);
  return matchExpressions.length === 0 ? { matchLabels } : { matchLabels, matchExpressions };
}

/** Keys in a selector that no pod of the super cluster carries as the tenant means them. */
export function keysUnseenBelow(selector: LabelSelector, tenant: TenantInfo): string[] {
  const keys = [
    ...Object.keys(selector.matchLabels ?? {}),
    ...(selector.matchExpressions ?? []).map(({ key }) => key),
  ];
  return keys.filter((key) => !isSeenBelow(key, tenant));
}

function isSeenBelow(key: string, tenant: TenantInfo): boolean {
  return goesDown(key, tenant) || isTransparent(key, tenant);
}
