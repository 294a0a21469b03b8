/** Rights that the end-to-end suites may leave unused, and why they are granted all the same. */
const unusedOnPurpose: readonly { right: RegExp; why: string }[] = [
  {
    right:
      /^syncer: (get|patch|delete) (namespaces|pods|services|configmaps|secrets|serviceaccounts|persistentvolumeclaims|ingresses\.\S+|networkpolicies\.\S+|poddisruptionbudgets\.\S+|endpointslices\.\S+)$/,
    why: 'one engine writes all kinds that go down, by the same calls: syncer/rights.test.ts holds the rights to its kinds',
  },
  {
    right:
      /^syncer: get (nodes|persistentvolumes|events|storageclasses\.\S+|priorityclasses\.\S+|runtimeclasses\.\S+|ingressclasses\.\S+|customresourcedefinitions\.\S+)$/,
    why: 'asked only before something is believed to be gone',
  },
  {
    right: /^syncer: (get nodes\/proxy|get pods\/log)$/,
    why: 'asked only of nodes that are not simulated, whose suites run in a stack of their own',
  },
  {
    right: /^syncer: (get|create) pods\/(exec|attach|portforward)$/,
    why: 'GET or POST: the client decides how it upgrades its connection',
  },
  {
    right: /^syncer: list pods\.metrics\.k8s\.io$/,
    why: 'asked only where the super cluster has the metrics API',
  },
  {
    right: /^syncer: (get|delete) ipaddresses\.networking\.k8s\.io$/,
    why: 'only for a Service whose address the manager has reserved: DNS, which simulated nodes do not run',
  },
  {
    right: /^manager: update (controlplanetemplates\.\S+|customresourcedefinitions\.\S+)$/,
    why: 'only what an older release has made is brought up to date',
  },
  {
    right: /^manager: patch secrets$/,
    why: 'certificates are renewed after eight months',
  },
  {
    right: /^manager: delete leases\.coordination\.k8s\.io in \S+$/,
    why: 'the Lease of each tenant that is worked on, only with Redis and control planes that run as pods',
  },
  {
    right: /^manager: delete persistentvolumes$/,
    why: 'the syncer removes them with the tenant; this is for what a syncer has left that does not come back',
  },
  {
    right: /^manager: get (services|ipaddresses\.\S+)$/,
    why: 'only when an address that a new tenant needs is taken',
  },
  {
    right:
      /^manager: delete (statefulsets\.apps|services|poddisruptionbudgets\.policy|networkpolicies\.\S+)$/,
    why: 'only what a template no longer names: everything else goes with its namespace',
  },
  {
    right: /^manager: delete pods$/,
    why: 'only pods that outlive their grace period, or are given less',
  },
  {
    right: /^manager: list events$/,
    why: 'only when a quota or a webhook has let no pod be made for a minute',
  },
  {
    right: /^manager: get runtimeclasses\.\S+$/,
    why: 'only under a policy that asks for a runtime class',
  },
];

export function mayBeUnused(right: string): boolean {
  return unusedOnPurpose.some((each) => each.right.test(right));
}
