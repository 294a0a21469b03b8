import type { TenantInfo } from '../kinds/index.ts';
import { isOwnKey } from './marks.ts';

/**
 * Labels and annotations of a tenant that never go down, by prefix: they would change what the super
 * cluster's own components do. An operator can add to these.
 */
export const defaultDeniedKeyPrefixes: readonly string[] = [
  // Admission and scheduling of the super cluster.
  'pod-security.kubernetes.io/',
  'scheduler.alpha.kubernetes.io/',
  'kubernetes.io/config.',
  'seccomp.security.alpha.kubernetes.io/',
  'container.seccomp.security.alpha.kubernetes.io/',
  'container.apparmor.security.beta.kubernetes.io/',
  // Networks, addresses and interfaces to be had for the asking.
  'k8s.v1.cni.cncf.io/',
  'v1.multus-cni.io/',
  'cni.projectcalico.org/',
  'ipam.cilium.io/',
  'k8s.ovn.org/',
  'ovn.kubernetes.io/',
  'external-dns.',
  // Identities at cloud providers.
  'eks.amazonaws.com/',
  'iam.amazonaws.com/',
  'iam.gke.io/',
  'azure.workload.identity/',
  'aadpodidbinding',
  // Devices and mounts that container runtimes hand out by annotation.
  'cdi.k8s.io/',
  'devices.nri.io/',
  'mounts.nri.io/',
  'io.kubernetes.cri-o.',
  'io.katacontainers.',
  // Bookkeeping of the volume controllers.
  'pv.kubernetes.io/',
  'volume.kubernetes.io/',
  'volume.beta.kubernetes.io/',
];

/**
 * The labels and annotations of a tenant's Namespace that go down, by whole key. Policies of the super
 * cluster select namespaces by label, so this holds nothing that one would select by.
 */
export const namespaceAllowedKeys: readonly string[] = ['kubernetes.io/description'];

/** Whether a label or annotation of T goes down; what is transparent belongs to the super cluster. */
export function goesDown(key: string, tenant: KeyRules): boolean {
  return (
    !isOwnKey(key) &&
    !hasPrefix(key, tenant.deniedKeyPrefixes) &&
    !hasPrefix(key, tenant.transparentKeyPrefixes)
  );
}

/** Whether a label or annotation of S is copied up and, in T, belongs to the super cluster. */
export function isTransparent(key: string, tenant: Pick<TenantInfo, 'transparentKeyPrefixes'>): boolean {
  return !isOwnKey(key) && hasPrefix(key, tenant.transparentKeyPrefixes);
}

type KeyRules = Pick<TenantInfo, 'deniedKeyPrefixes' | 'transparentKeyPrefixes'>;

function hasPrefix(key: string, prefixes: readonly string[]): boolean {
  for (const prefix of prefixes) if (key.startsWith(prefix)) return true;
  return false;
}
