import type { TenantInfo } from '../../context.ts';
import type { PodStep } from '../translate.ts';
import type { Pod, PodSpec } from '../types.ts';

/**
 * Sync rule 12: of a subdomain, kubelet would make a name in the super namespace and write it into
 * /etc/hosts. A pod that wants its qualified name for host name is given T's.
 */
export const hostName: PodStep = (spec, pod, { tenant }) => {
  if (!hasSubdomain(spec)) return spec;
  const { subdomain: _subdomain, ...withoutSubdomain } = spec;
  const hostnameOverride = qualifiedHostName(pod, tenant);
  if (hostnameOverride === undefined) return withoutSubdomain;
  const { setHostnameAsFQDN: _asFqdn, ...rest } = withoutSubdomain;
  return { ...rest, hostnameOverride };
};

/** The host name of a pod that wants a qualified one; undefined: it does not, or has none. */
export function qualifiedHostName(pod: Pod, { clusterDomain }: TenantInfo): string | undefined {
  const { spec = {}, metadata } = pod;
  // In its node's network a pod has its node's name, and the API server takes no other.
  if (spec.setHostnameAsFQDN !== true || spec.hostNetwork === true || !hasSubdomain(spec)) return undefined;
  const host = spec.hostname || metadata.name;
  return `${host}.${spec.subdomain}.${metadata.namespace}.svc.${clusterDomain}`;
}

function hasSubdomain({ subdomain = '' }: PodSpec): boolean {
  return subdomain !== '';
}
