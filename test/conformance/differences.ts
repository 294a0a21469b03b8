/**
 * Specs that pass on the super cluster itself and not through a tenant, because their subject is something
 * that a tenant rightly does not have: whole name to reason. The run fails for every other difference.
 */
export const acceptedDifferences: ReadonlyMap<string, string> = new Map([
  [
    '[sig-node] Pods Extended Delete Grace Period should be submitted and removed',
    'asks a kubelet for all pods of its node, by its port: a node is not the tenant’s alone',
  ],
]);
