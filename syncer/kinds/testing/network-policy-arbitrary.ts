import fc from 'fast-check';
import type {
  EgressRule,
  IngressRule,
  LabelRequirement,
  LabelSelector,
  NetworkPolicySpec,
  Peer,
  PolicyPort,
} from '../../mapping/network-isolation.ts';
import type { NetworkPod, Target } from './network-policy-evaluator.ts';

export interface TenantObjects {
  readonly namespaces: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly pods: readonly NetworkPod[];
  readonly policies: readonly { readonly namespace: string; readonly spec: NetworkPolicySpec }[];
}

/** So few that selectors hit; among them keys that do not go down, and what Skerry puts on super objects. */
const keys = [
  'app',
  'tier',
  'skerry.dev/tenant',
  'skerry.dev/namespace',
  'pod-security.kubernetes.io/enforce',
];
const values = ['a', 'b', '', 'uid-of-blue', 'shop', 'baseline'];
const namespaceNames = ['default', 'kube-system', 'shop'];
const ports = [
  { name: 'http', protocol: 'TCP', port: 80 },
  { name: 'dns', protocol: 'UDP', port: 53 },
  { name: 'signal', protocol: 'SCTP', port: 90 },
];
const blocks = ['0.0.0.0/0', '10.1.0.0/16', '10.2.0.0/16', '10.1.0.0/31', '203.0.113.0/24', '::/0'];

export const targets: readonly Target[] = [
  { protocol: 'TCP', port: 80 },
  { protocol: 'TCP', port: 85 },
  { protocol: 'UDP', port: 53 },
  { protocol: 'SCTP', port: 90 },
];

const labels = fc.dictionary(fc.constantFrom(...keys), fc.constantFrom(...values), {
  maxKeys: 3,
  noNullPrototype: true,
});

const requirement = (allKeys: readonly string[]): fc.Arbitrary<LabelRequirement> =>
  fc.oneof(
    fc.record({
      key: fc.constantFrom(...allKeys),
      operator: fc.constantFrom('In', 'NotIn'),
      values: fc.uniqueArray(fc.constantFrom(...values, ...namespaceNames), { minLength: 1, maxLength: 3 }),
    }),
    fc.record({ key: fc.constantFrom(...allKeys), operator: fc.constantFrom('Exists', 'DoesNotExist') }),
  );

const selector = (allKeys: readonly string[]): fc.Arbitrary<LabelSelector> =>
  fc.oneof(
    fc.constant<LabelSelector>({}),
    fc.record(
      {
        matchLabels: fc.dictionary(
          fc.constantFrom(...allKeys),
          fc.constantFrom(...values, ...namespaceNames),
          {
            minKeys: 1,
            maxKeys: 2,
            noNullPrototype: true,
          },
        ),
        matchExpressions: fc.array(requirement(allKeys), { minLength: 1, maxLength: 2 }),
      },
      { requiredKeys: [] },
    ),
  );

const podSelector = selector(keys);
const namespaceSelector = selector([...keys, 'kubernetes.io/metadata.name']);

const peer: fc.Arbitrary<Peer> = fc.oneof(
  fc.record({ podSelector }),
  fc.record({ namespaceSelector }),
  fc.record({ podSelector, namespaceSelector }),
  fc.record({
    ipBlock: fc.record(
      { cidr: fc.constantFrom(...blocks), except: fc.constant<string[]>(['10.1.0.1/32']) },
      { requiredKeys: ['cidr'] },
    ),
  }),
);

const policyPort: fc.Arbitrary<PolicyPort> = fc.oneof(
  fc.constantFrom<PolicyPort>(
    { protocol: 'TCP', port: 80 },
    { protocol: 'TCP', port: 80, endPort: 90 },
    { protocol: 'UDP' },
    { protocol: 'SCTP', port: 90 },
    { port: 'http' },
    { protocol: 'UDP', port: 'dns' },
  ),
);

const peers = fc.array(peer, { maxLength: 2 });
const rulePorts = fc.array(policyPort, { maxLength: 2 });
const ingressRule: fc.Arbitrary<IngressRule> = fc.record(
  { ports: rulePorts, from: peers },
  { requiredKeys: [] },
);
const egressRule: fc.Arbitrary<EgressRule> = fc.record({ ports: rulePorts, to: peers }, { requiredKeys: [] });

export const policySpec: fc.Arbitrary<NetworkPolicySpec> = fc.record(
  {
    podSelector,
    policyTypes: fc.subarray(['Ingress', 'Egress'], { minLength: 1 }),
    ingress: fc.array(ingressRule, { maxLength: 2 }),
    egress: fc.array(egressRule, { maxLength: 2 }),
  },
  { requiredKeys: ['podSelector'] },
);

/** Namespaces have the name label that every API server gives them. */
export const namespaces = fc
  .tuple(...namespaceNames.map(() => labels))
  .map(
    (all) =>
      new Map(
        namespaceNames.map((name, index) => [name, { ...all[index], 'kubernetes.io/metadata.name': name }]),
      ),
  );

/** `number`: of the tenant; its pods have addresses of their own, as in any super cluster. */
export function tenantObjects(number: number): fc.Arbitrary<TenantObjects> {
  const namespace = fc.constantFrom(...namespaceNames);
  const pod = fc.record({ namespace, labels, ports: fc.subarray(ports) });
  return fc.record({
    namespaces,
    pods: fc
      .array(pod, { minLength: 1, maxLength: 5 })
      .map((all) =>
        all.map((each, index) => ({ ...each, id: `pod-${number}-${index}`, ip: `10.${number}.0.${index}` })),
      ),
    policies: fc.array(fc.record({ namespace, spec: policySpec }), { maxLength: 4 }),
  });
}
