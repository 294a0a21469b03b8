import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { superNamespaceName } from '../../mapping/index.ts';
import type { TenantInfo } from '../context.ts';
import { namespaceKind } from '../namespaces/index.ts';
import { carryOut, testContext, testNamespace } from '../testing.ts';
import { networkPolicyKind as kind } from './index.ts';
import { type NetworkPolicySpec, specOf } from './model.ts';
import { allows, type Network, type NetworkPod } from './testing/evaluator.ts';

const context = (tenant: Partial<TenantInfo> = {}) => testContext({ tenant });
const { tenant } = context();
const own = { [labelKeys.tenant]: tenant.uid };

function policy(spec: NetworkPolicySpec, namespace = 'shop'): KubeObject {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'rules', namespace, uid: 'uid-of-rules', labels: { team: 'a' } },
    spec: { podSelector: {}, policyTypes: ['Ingress'], ...spec },
  };
}

const below = (spec: NetworkPolicySpec): NetworkPolicySpec => specOf(kind.toSuper(policy(spec), context()));

describe('selectors are narrowed to the tenant', () => {
  it('S is in the super namespace, and the pods that it is about are the own ones', () => {
    const superObject = kind.toSuper(policy({ podSelector: { matchLabels: { app: 'web' } } }), context());
    expect(superObject.metadata).toMatchObject({
      name: 'rules',
      namespace: superNamespaceName(tenant, 'shop'),
      labels: { team: 'a', [labelKeys.tenant]: tenant.uid },
    });
    expect(specOf(superObject).podSelector).toEqual({ matchLabels: { app: 'web', ...own } });
    expect(below({}).podSelector).toEqual({ matchLabels: own });
  });

  it('a pod selector alone means the own namespace and stays alone', () => {
    const from = [
      { podSelector: {} },
      { podSelector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] } },
    ];
    expect(below({ ingress: [{ from }] }).ingress).toEqual([
      {
        from: [
          { podSelector: { matchLabels: own } },
          { podSelector: { matchLabels: own, matchExpressions: [{ key: 'app', operator: 'Exists' }] } },
        ],
      },
    ]);
  });

  it('an empty namespace selector is all namespaces of the tenant and no other', () => {
    expect(below({ ingress: [{ from: [{ namespaceSelector: {} }] }] }).ingress).toEqual([
      { from: [{ namespaceSelector: { matchLabels: own } }] },
    ]);
    expect(below({ egress: [{ to: [{ namespaceSelector: {}, podSelector: {} }] }] }).egress).toEqual([
      { to: [{ namespaceSelector: { matchLabels: own }, podSelector: { matchLabels: own } }] },
    ]);
  });

  it("a namespace selector by name finds the tenant's kube-system, not the super cluster's nor a neighbour's", () => {
    const dns: NetworkPolicySpec = {
      policyTypes: ['Egress'],
      egress: [
        {
          to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }],
          ports: [{ protocol: 'UDP', port: 53 }],
        },
      ],
    };
    const neighbour = testContext({ tenant: { uid: 'uid-of-red', id: 'idofred001', name: 'red' } });
    const systems = [context(), neighbour].map((each) =>
      namespaceKind.toSuper(testNamespace('kube-system'), each),
    );
    const client = pod('client', superNamespaceName(tenant, 'shop'), own);
    const [ours, theirs] = systems.map(({ metadata }) => pod(metadata.name ?? '', metadata.name ?? '', {}));
    const superDns = pod('super-dns', 'kube-system', {});
    const network: Network = {
      namespaces: new Map([
        ...systems.map(({ metadata }) => [metadata.name ?? '', metadata.labels ?? {}] as const),
        ['kube-system', { 'kubernetes.io/metadata.name': 'kube-system' }],
        [client.namespace, {}],
      ]),
      pods: [],
      policies: [{ namespace: client.namespace, spec: below(dns) }],
    };
    const reaches = (server: NetworkPod | undefined, port = 53): boolean =>
      allows(network, client, server as NetworkPod, { protocol: 'UDP', port });
    expect(reaches(ours)).toBe(true);
    expect(reaches(ours, 54)).toBe(false);
    expect(reaches(theirs)).toBe(false);
    expect(reaches(superDns)).toBe(false);
  });

  it('labels that do not go down count as absent, and the tenant reads so', () => {
    const denied = 'pod-security.kubernetes.io/enforce';
    const never = { key: labelKeys.tenant, operator: 'DoesNotExist' };
    const peers = [
      { podSelector: { matchLabels: { [labelKeys.tenant]: 'uid-of-red' } } },
      { podSelector: { matchExpressions: [{ key: denied, operator: 'Exists' }] } },
      { podSelector: { matchExpressions: [{ key: labelKeys.namespace, operator: 'NotIn', values: ['x'] }] } },
      { podSelector: { matchExpressions: [{ key: denied, operator: 'DoesNotExist' }] } },
    ];
    expect(below({ ingress: [{ from: peers }] }).ingress?.[0]?.from).toEqual([
      { podSelector: { matchLabels: own, matchExpressions: [never] } },
      { podSelector: { matchLabels: own, matchExpressions: [never] } },
      { podSelector: { matchLabels: own } },
      { podSelector: { matchLabels: own } },
    ]);
    expect(kind.admit?.(policy({ ingress: [{ from: peers }] }), context())).toEqual({
      wanted: true,
      notice: expect.objectContaining({
        reason: 'NotSupported',
        message: expect.stringContaining(`${denied}, ${labelKeys.namespace}, ${labelKeys.tenant}`),
      }),
    });
  });

  it('labels that belong to the super cluster are on both sides, and stay', () => {
    const selector = { matchLabels: { 'rack.example/row': '1' } };
    const both = context({ transparentKeyPrefixes: ['rack.example/'] });
    expect(specOf(kind.toSuper(policy({ podSelector: selector }), both)).podSelector).toEqual({
      matchLabels: { 'rack.example/row': '1', ...own },
    });
  });
});

describe('what is not a selector stays as it is', () => {
  it('ports, named ports, ranges of ports, SCTP, blocks of addresses, and rules for everybody', () => {
    const rule = {
      ports: [
        { protocol: 'TCP', port: 'http' },
        { protocol: 'TCP', port: 8000, endPort: 9000 },
        { protocol: 'SCTP', port: 90 },
      ],
    };
    const ipBlock = { cidr: '0.0.0.0/0', except: ['10.0.0.0/8'] };
    const spec = { ingress: [{ ...rule, from: [{ ipBlock }] }, {}], egress: [rule, { to: [{ ipBlock }] }] };
    expect(below({ policyTypes: ['Ingress', 'Egress'], ...spec })).toEqual({
      podSelector: { matchLabels: own },
      policyTypes: ['Ingress', 'Egress'],
      ...spec,
    });
  });

  it('the types of a policy are said, whatever the super cluster would take for granted', () => {
    const { policyTypes: _types, ...spec } = specOf(policy({}));
    const typesOf = (more: NetworkPolicySpec) =>
      specOf(kind.toSuper({ ...policy({}), spec: { ...spec, ...more } }, context())).policyTypes;
    expect(typesOf({})).toEqual(['Ingress']);
    expect(typesOf({ egress: [] })).toEqual(['Ingress']);
    expect(typesOf({ egress: [{}] })).toEqual(['Ingress', 'Egress']);
    expect(below({ policyTypes: ['Egress'] }).policyTypes).toEqual(['Egress']);
  });
});

describe('an update', () => {
  it('by hand in the super cluster is put back, fields of the future and labels of others are left', () => {
    const object = policy({ podSelector: { matchLabels: { app: 'web' } }, ingress: [{}] });
    const there = kind.toSuper(object, context());
    const touched: KubeObject = {
      ...there,
      metadata: { ...there.metadata, labels: { ...there.metadata.labels, theirs: 'x' } },
      spec: {
        ...specOf(there),
        podSelector: { matchLabels: { app: 'db' } },
        egress: [{}],
        fieldOfTheFuture: 1,
      },
    };
    const actions = kind.down(object, touched, context());
    expect(actions).toEqual([
      {
        do: 'patchSuper',
        patch: { spec: { podSelector: { matchLabels: { app: 'web', ...own } }, egress: null } },
      },
    ]);
    const { superObject } = carryOut({ tenantObject: object, superObject: touched }, actions);
    expect(kind.down(object, superObject as KubeObject, context())).toEqual([]);
  });

  it('with fields that the translation does not know changes nothing, and says so', () => {
    const spec = { ingress: [{ from: [{ serviceSelector: {} }], ports: [{ port: 1, weight: 2 }] }] };
    expect(kind.admit?.(policy(spec as NetworkPolicySpec), context())).toMatchObject({
      wanted: false,
      keep: true,
      notice: {
        reason: 'NotSupported',
        message: expect.stringContaining('spec.ingress[].from[].serviceSelector'),
      },
    });
  });
});

describe('whether policies go down', () => {
  it('is on, and can be switched off', () => {
    expect(kind.admit?.(policy({}), context())).toEqual({ wanted: true });
    expect(kind.admit?.(policy({}), context({ syncNetworkPolicies: false }))).toEqual({ wanted: false });
  });

  it('where nothing enforces them: they do, and each says so, once', () => {
    const unenforced = context({ networkPoliciesEnforced: false });
    const object = policy({});
    expect(kind.admit?.(object, unenforced)).toMatchObject({
      wanted: true,
      notice: { type: 'Warning', reason: 'NetworkPolicyNotEnforced' },
    });
    const changed = policy({ ingress: [{}] });
    const update = kind.down(changed, kind.toSuper(object, unenforced), unenforced);
    expect(update.map((action) => action.do)).toEqual(['patchSuper']);
  });
});

function pod(id: string, namespace: string, labels: Record<string, string>): NetworkPod {
  return { id, namespace, labels, ip: '10.0.0.1', ports: [] };
}
