import type { KubeObject } from '../../../kube/index.ts';

export interface DataSource {
  apiGroup?: string;
  kind: string;
  name: string;
  namespace?: string;
}

export interface ClaimSpec {
  accessModes?: string[];
  resources?: { requests?: Record<string, string>; limits?: Record<string, string> };
  storageClassName?: string;
  volumeMode?: string;
  volumeName?: string;
  selector?: Record<string, unknown>;
  dataSource?: DataSource;
  dataSourceRef?: DataSource;
  [field: string]: unknown;
}

export interface Claim extends KubeObject {
  spec?: ClaimSpec;
  status?: { phase?: string; capacity?: Record<string, string>; [field: string]: unknown };
}

export function specOf(claim: KubeObject): ClaimSpec {
  return (claim as Claim).spec ?? {};
}

export function statusOf(claim: KubeObject): NonNullable<Claim['status']> {
  return (claim as Claim).status ?? {};
}

/** The class that a claim names; `undefined` when it leaves the choice to the cluster. */
export function classOf(claim: KubeObject): string | undefined {
  return (
    claim.metadata.annotations?.['volume.beta.kubernetes.io/storage-class'] ?? specOf(claim).storageClassName
  );
}

/** Value in the index `byClass`. */
export function classKey(claim: KubeObject): string {
  const name = classOf(claim);
  return name === undefined ? 'none' : `class/${name}`;
}
