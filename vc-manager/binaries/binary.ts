import { BinaryError } from './errors.ts';
import { parseVersion } from './version.ts';

/** The programs that control planes and the local super cluster are made of. */
export type BinaryName =
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kube-scheduler'
  | 'kubectl'
  | 'etcd'
  | 'kwok';

export interface BinaryRequest {
  name: BinaryName;
  /** Full version without a leading `v`: `1.36.3`. */
  version: string;
}

export interface BinaryLocation {
  name: BinaryName;
  /** The version that the file really has. From a user's directory it may differ from the wanted one in its patch number. */
  version: string;
  path: string;
  /** How it was obtained just now; what was downloaded or built earlier is `cache`. */
  source: 'directory' | 'cache' | 'download' | 'build';
}

/** Programs of one family share a version and are published together. */
export type BinaryFamily = 'kubernetes' | 'etcd' | 'kwok';

export const defaultVersions = {
  kubernetes: '1.36.3',
  etcd: '3.7.3',
  kwok: '0.8.0',
} as const satisfies Record<BinaryFamily, string>;

export const binaryNames: readonly BinaryName[] = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
  'etcd',
  'kwok',
];

export function familyOf(name: BinaryName): BinaryFamily {
  return name === 'etcd' || name === 'kwok' ? name : 'kubernetes';
}

/** One request for every binary, in the versions that this release of Skerry is tested with. */
export function defaultRequests(): BinaryRequest[] {
  return binaryNames.map((name) => ({ name, version: defaultVersions[familyOf(name)] }));
}

/** One request for every binary that a tenant's control plane of this Kubernetes version consists of. */
export function controlPlaneRequests(version: string): BinaryRequest[] {
  return (['kube-apiserver', 'kube-controller-manager'] as const).map((name) => ({ name, version }));
}

/**
 * The request in its one spelling. Names and versions become parts of paths and addresses, so anything
 * that is not a known name or a plain version is refused.
 * @throws BinaryError InvalidRequest
 */
export function checkedRequest(request: BinaryRequest): BinaryRequest {
  const version = request.version.replace(/^v/, '');
  if (!binaryNames.includes(request.name)) {
    throw new BinaryError(
      'InvalidRequest',
      `${request.name} is no binary that Skerry knows; choose one of ${binaryNames.join(', ')}`,
    );
  }
  if (parseVersion(version)?.text !== version) {
    throw new BinaryError(
      'InvalidRequest',
      `${request.version} is no full version of ${request.name}; write it like ${defaultVersions[familyOf(request.name)]}`,
    );
  }
  return { name: request.name, version };
}
