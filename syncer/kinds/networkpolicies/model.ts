import type { KubeObject } from '../../../kube/index.ts';
import type { Shape } from '../known-fields.ts';

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: LabelRequirement[];
}

export interface LabelRequirement {
  key: string;
  operator: string;
  values?: string[];
}

export interface Peer {
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  ipBlock?: { cidr: string; except?: string[] };
}

export interface PolicyPort {
  protocol?: string;
  port?: number | string;
  endPort?: number;
}

export interface IngressRule {
  ports?: PolicyPort[];
  from?: Peer[];
}

export interface EgressRule {
  ports?: PolicyPort[];
  to?: Peer[];
}

export interface NetworkPolicySpec {
  podSelector?: LabelSelector;
  policyTypes?: string[];
  ingress?: IngressRule[];
  egress?: EgressRule[];
}

export interface NetworkPolicy extends KubeObject {
  spec?: NetworkPolicySpec;
}

const selector: Shape = {
  matchLabels: true,
  matchExpressions: [{ key: true, operator: true, values: true }],
};
const peers: Shape = [
  { podSelector: selector, namespaceSelector: selector, ipBlock: { cidr: true, except: true } },
];
const ports: Shape = [{ protocol: true, port: true, endPort: true }];

export const specShape: Shape = {
  podSelector: selector,
  policyTypes: true,
  ingress: [{ ports, from: peers }],
  egress: [{ ports, to: peers }],
};

export function specOf(policy: KubeObject): NetworkPolicySpec {
  return (policy as NetworkPolicy).spec ?? {};
}

/** Every peer that a policy speaks of, in either direction. */
export function peersOf({ ingress = [], egress = [] }: NetworkPolicySpec): Peer[] {
  return [...ingress.flatMap(({ from = [] }) => from), ...egress.flatMap(({ to = [] }) => to)];
}
