import type { VirtualCluster } from '../../../api/virtual-cluster.ts';

/** What a tenant may, as rows of name and value; no rows before the manager has decided. */
export function policyFacts({ status }: VirtualCluster): string[][] {
  const policy = status?.policy;
  if (policy === undefined) return [];
  const list = (name: string, items: readonly string[]): string[][] =>
    items.length === 0 ? [] : [[name, items.join(', ')]];
  const nodes = Object.entries(policy.nodeSelector ?? {}).map(([key, value]) => `${key}=${value}`);
  return [
    ['Limited by:', policy.ceiling === undefined ? 'the defaults' : `VirtualClusterPolicy ${policy.ceiling}`],
    ['Pod Security:', policy.podSecurity],
    ['DaemonSets:', policy.daemonSets],
    ...list('Volume types:', policy.volumeTypes),
    ...list('Schedulers:', policy.schedulerNames),
    ...(policy.runtimeClassName === undefined ? [] : [['Runtime class:', policy.runtimeClassName]]),
    ...(policy.externalIPs ? [['External IPs:', 'allowed']] : []),
    ...(policy.loadBalancerOptions ? [['Load balancer options:', 'allowed']] : []),
    ...list('Endpoint ranges:', policy.endpointCIDRs),
    ...list('Ingress hosts:', policy.ingressHosts),
    ...(policy.weight === undefined ? [] : [['Share:', `weight ${policy.weight}`]]),
    ['Nodes:', `${nodes.length === 0 ? 'every node' : nodes.join(',')}${policy.hideNodes ? ', hidden' : ''}`],
  ];
}
