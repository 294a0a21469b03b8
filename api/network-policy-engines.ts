/** API groups that come with engines which act on NetworkPolicies. There are engines without one. */
const groups = [
  'crd.projectcalico.org',
  'projectcalico.org',
  'cilium.io',
  'crd.antrea.io',
  'k8s.ovn.org',
  'kubeovn.io',
  'networking.k8s.aws',
];

/** The group of an engine among the API groups of a cluster, as `/apis` lists them. */
export function networkPolicyEngine(apis: unknown): string | undefined {
  const { groups: served = [] } = apis as { groups?: readonly { name: string }[] };
  return served.find(({ name }) => groups.includes(name))?.name;
}
