import { type BinaryName, isOlderVersion } from '../binaries/index.ts';

/** Where Kubernetes publishes its images, and etcd's and kwok's with them. */
const upstreamRegistry = 'registry.k8s.io';

/**
 * The image in which upstream publishes a program, by its upstream name.
 * @param binary its version without a leading `v`.
 * @param registry in place of the upstream one: a mirror that keeps the paths and tags below it, with a path of its own
 *   or not (`mirror.example/k8s`).
 */
export function imageOf(
  binary: { name: BinaryName; version: string },
  registry: string = upstreamRegistry,
): string {
  return `${registry.replace(/\/+$/, '')}/${repositories[binary.name]}:${tagOf(binary)}`;
}

const repositories: Record<BinaryName, string> = {
  'kube-apiserver': 'kube-apiserver',
  'kube-controller-manager': 'kube-controller-manager',
  'kube-scheduler': 'kube-scheduler',
  kubectl: 'kubectl',
  etcd: 'etcd',
  kwok: 'kwok/kwok',
};

// Up to 3.6.4 etcd's images were built by Kubernetes and carried a revision; since 3.6.5 they are those that etcd
// itself releases.
function tagOf({ name, version }: { name: BinaryName; version: string }): string {
  return name === 'etcd' && isOlderVersion(version, '3.6.5') ? `${version}-0` : `v${version}`;
}
