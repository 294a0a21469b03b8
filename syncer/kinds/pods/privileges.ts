import type { TenantPolicy } from '../../../api/policy.ts';
import { isPortRangeListed } from '../../../api/policy-lists.ts';
import { hostNameLabel } from '../../mapping/node-names.ts';
import { allContainers, type NodeSelectorTerm, type Pod, type PodSpec, quoted } from './types.ts';

/** What of the node a pod asks for beyond the lists of the policy, in words; its level is another matter. */
export function excessPrivilege(spec: PodSpec, policy: TenantPolicy): string | undefined {
  return excessCapability(spec, policy.capabilities) ?? excessHostPort(spec, policy.hostPorts);
}

function excessCapability(spec: PodSpec, allowed: readonly string[] | undefined): string | undefined {
  if (allowed === undefined) return undefined;
  for (const { name, securityContext } of allContainers(spec)) {
    if (securityContext?.privileged === true)
      return `container ${name}: a privileged container has all capabilities (policy: capabilities)`;
    const refused = (securityContext?.capabilities?.add ?? []).filter((each) => !allowed.includes(each));
    if (refused.length > 0)
      return `container ${name}: securityContext.capabilities.add has ${quoted(refused)}, which this cluster does not allow (policy: capabilities)`;
  }
  return undefined;
}

function excessHostPort(spec: PodSpec, allowed: readonly string[] | undefined): string | undefined {
  if (allowed === undefined) return undefined;
  if (spec.hostNetwork === true) return 'spec.hostNetwork opens every port of the node (policy: hostPorts)';
  for (const { name, ports } of allContainers(spec)) {
    for (const { hostPort } of ports ?? []) {
      if (hostPort === undefined || hostPort === 0 || isPortRangeListed(allowed, String(hostPort))) continue;
      return `container ${name}: the host port ${hostPort} is not one that this cluster allows (policy: hostPorts)`;
    }
  }
  return undefined;
}

/**
 * Whether a pod is one of a DaemonSet, or one that asks for its node as these do: by the field that holds the node's
 * name, or by the label that mostly says the same. Others can be named, too: all nodes but one. Its owners are the
 * tenant's to write.
 */
export function isLikeOfDaemonSet({ metadata, spec }: Pod): boolean {
  const isOwned = (metadata.ownerReferences ?? []).some(
    ({ kind, controller }) => kind === 'DaemonSet' && controller === true,
  );
  const terms =
    spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  // One term is enough for a pod to run: what stands beside it may be met by no node.
  return isOwned || spec?.nodeSelector?.[hostNameLabel] !== undefined || terms.some(namesNodes);
}

/** Whether it asks more of the host name than that there is one, or none. */
function namesNodes({ matchFields, matchExpressions }: NodeSelectorTerm): boolean {
  return (
    (matchFields ?? []).some(({ key }) => key === 'metadata.name') ||
    (matchExpressions ?? []).some(({ key, values }) => key === hostNameLabel && (values ?? []).length > 0)
  );
}
