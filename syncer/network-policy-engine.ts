import type { KubeClient } from '../kube/index.ts';

export const networkPolicyEnforcements = ['auto', 'enforced', 'unenforced'] as const;

/** Whether something in the super cluster acts on NetworkPolicies, as the operator says; `auto`: look for it. */
export type NetworkPolicyEnforcement = (typeof networkPolicyEnforcements)[number];

/** API groups that come with engines which enforce NetworkPolicies. There are engines without one. */
const groupsOfEngines = [
  'crd.projectcalico.org',
  'projectcalico.org',
  'cilium.io',
  'crd.antrea.io',
  'k8s.ovn.org',
  'kubeovn.io',
  'networking.k8s.aws',
];

export async function networkPoliciesAreEnforced(
  enforcement: NetworkPolicyEnforcement,
  superClient: Pick<KubeClient, 'raw'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (enforcement !== 'auto') return enforcement === 'enforced';
  const { groups = [] } = (await superClient.raw('GET', '/apis', { signal })) as {
    groups?: { name: string }[];
  };
  return groups.some(({ name }) => groupsOfEngines.includes(name));
}
