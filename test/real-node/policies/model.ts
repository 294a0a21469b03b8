import type { KubeObject } from '../../../kube/index.ts';

export interface Peer {
  podSelector?: object;
  namespaceSelector?: object;
  ipBlock?: { cidr: string; except?: string[] };
}

export interface PolicyPort {
  protocol?: string;
  port?: number | string;
  endPort?: number;
}

export interface NetworkPolicy extends KubeObject {
  spec?: {
    podSelector?: object;
    policyTypes?: string[];
    ingress?: { ports?: PolicyPort[]; from?: Peer[] }[];
    egress?: { ports?: PolicyPort[]; to?: Peer[] }[];
  };
}

export interface NetworkPod extends KubeObject {
  spec?: {
    hostNetwork?: boolean;
    containers: { ports?: { name?: string; protocol?: string; containerPort: number }[] }[];
  };
  status?: { podIP?: string; phase?: string };
}

/** A cluster as its policies see it. */
export interface Network {
  readonly namespaces: readonly KubeObject[];
  readonly pods: readonly NetworkPod[];
  readonly policies: readonly NetworkPolicy[];
}
