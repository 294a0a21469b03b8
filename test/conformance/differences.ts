/**
 * Specs that pass on the super cluster itself and not through a tenant, because their subject is something
 * that a tenant rightly does not have: whole name to reason. The run fails for every other difference.
 */
export const acceptedDifferences: ReadonlyMap<string, string> = new Map([
  [
    '[sig-node] Pods Extended Delete Grace Period should be submitted and removed',
    'asks a kubelet, by its port, for all pods of its node: other tenants run there too',
  ],
  [
    '[sig-network] HostPort validates that there is no conflict between pods with same hostPort but different hostIP and protocol [LinuxOnly] [Conformance]',
    'puts pods onto a node by spec.nodeName: pods are placed by the scheduler of the super cluster alone',
  ],
  [
    '[sig-network] DNS should provide /etc/hosts entries for the cluster [Conformance]',
    "looks for a pod's qualified name in its /etc/hosts: kubelet would write the super namespace into it, so that it is left to DNS",
  ],
  [
    '[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Should recreate evicted statefulset [Conformance]',
    'puts a pod onto a node by spec.nodeName: pods are placed by the scheduler of the super cluster alone',
  ],
  ...[
    'should schedule a Pod requesting a RuntimeClass without PodOverhead',
    'should schedule a Pod requesting a RuntimeClass and initialize its Overhead',
  ].map((name): [string, string] => [
    `[sig-node] RuntimeClass ${name} [NodeConformance] [Conformance]`,
    "makes a runtime class of its own: the handlers of nodes are the operator's, who publishes classes",
  ]),
]);
