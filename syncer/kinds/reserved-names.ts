import type { Notice } from './contract.ts';
import { warning } from './validation.ts';

/** Skerry keeps ConfigMaps, Secrets and NetworkPolicies of its own under this prefix in super namespaces. */
const ownPrefix = 'skerry-';
/** Where reserved names would go. They never do; but no two names of a tenant may mean one super object. */
const asidePrefix = 'skerry-reserved-';

/** Holds the heartbeats of nodes; nothing that runs. */
export const nodeLeaseNamespace = 'kube-node-lease';

export function isReserved(name: string): boolean {
  return name.startsWith(ownPrefix);
}

/** The place in the super namespace that stays empty because `name` is reserved. */
export function superNameOfReserved(name: string): string {
  return asidePrefix + name;
}

/** Inverse of `superNameOfReserved`; other names are their own. */
export function reservedNameOf(superName: string): string {
  return superName.startsWith(asidePrefix) ? superName.slice(asidePrefix.length) : superName;
}

export function reservedNotice(name: string): Notice {
  return warning('ReservedName', `the name ${name} is reserved and cannot be used; choose another one`);
}
