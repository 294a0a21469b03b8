import { compareDown, type DownRules } from '../down.ts';
import type { View } from '../view.ts';
import { heartbeats } from './namespaces.ts';

const rules: DownRules = {
  kind: 'serviceaccounts',
  what: 'ServiceAccount',
  expected: (own) => (own.metadata.namespace === heartbeats ? 'may' : 'yes'),
  // Only the name goes down; nobody in the super cluster may be anybody by it.
  compare: (_, superObject) => [
    ...(superObject['automountServiceAccountToken'] === false ? [] : ['its tokens are mounted']),
    ...(superObject['secrets'] === undefined ? [] : ['it has Secrets in the super cluster']),
  ],
  keysGoDown: false,
};

export function compareServiceAccounts(view: View): string[] {
  return compareDown(rules, view);
}
