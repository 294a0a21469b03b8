import { labelKeys } from '../../../api/labels.ts';
import type { KubeClient } from '../../../kube/index.ts';
import { grantRights, programs, userOf } from '../../rights.ts';
import { chartDirectory } from '../package-root.ts';

/** Where manager and syncer keep what is their own, unless they are told otherwise. */
const systemNamespace = 'skerry-system';

/** Manager and syncer by their own certificates, and as what else runs in Skerry's namespace. */
export const ownUsers = {
  users: programs.map(userOf),
  groups: [`system:serviceaccounts:${systemNamespace}`],
};

/** Grants the components of a local stack in its super cluster what the chart grants where it is installed. */
export function grantOwnRights(client: KubeClient, signal: AbortSignal): Promise<void> {
  return grantRights(client, {
    chartDirectory: chartDirectory(),
    namespace: systemNamespace,
    labels: { [labelKeys.managedBy]: 'skerry' },
    signal,
  });
}
