import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../kube/index.ts';
import type { SyncContext, TenantInfo } from '../context.ts';
import { podLabelGoesDown, superMetadata } from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import type { NetworkPolicySpec } from '../mapping/network-isolation.ts';
import { namespaceKind } from './namespaces.ts';
import { networkPolicyKind as kind, networkPolicyKind, specOf } from './network-policies.ts';
import {
  namespaces,
  policySpec,
  type TenantObjects,
  targets,
  tenantObjects,
} from './testing/network-policy-arbitrary.ts';
import {
  allowedAmong,
  allows,
  type End,
  type Network,
  type NetworkPod,
} from './testing/network-policy-evaluator.ts';
import { carryOut, testContext, testNamespace, testTenant } from './testing.ts';

describe('index', () => {
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

  describe('selectors are narrowed to the tenant (sync rule `network-policies`)', () => {
    it('the super object is in the super namespace, and the pods that it is about are the own ones', () => {
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
        {
          podSelector: { matchExpressions: [{ key: labelKeys.namespace, operator: 'NotIn', values: ['x'] }] },
        },
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
          reason: 'UnknownField',
          message: expect.stringContaining('spec.ingress[].from[].serviceSelector'),
        },
      });
    });
  });

  describe('whether policies go down (sync rule `network-policies`)', () => {
    it('is on, and can be switched off', () => {
      expect(kind.admit?.(policy({}), context())).toEqual({ wanted: true });
      expect(kind.admit?.(policy({}), context({ syncNetworkPolicies: false }))).toEqual({ wanted: false });
    });

    it('leaves behind those with more egress blocks than exceptions can be written into, where tenants are isolated', () => {
      const closedCIDRs = Array.from({ length: 300 }, (_, at) => `192.0.${at >> 8}.${at & 255}/32`);
      const isolated = testContext({ tenant: { isolation: { podCIDRs: [], closedCIDRs } }, kinds: [kind] });
      const egress = (blocks: number, open: number) =>
        policy({
          policyTypes: ['Egress'],
          egress: [
            { to: Array.from({ length: blocks }, () => ({ ipBlock: { cidr: '0.0.0.0/0' } })) },
            ...Array.from({ length: open }, () => ({})),
          ],
        });
      expect(kind.admit?.(egress(500, 501), isolated)).toMatchObject({
        wanted: false,
        keep: true,
        notice: { reason: 'NotSupported', message: expect.stringContaining('1001') },
      });
      expect(kind.admit?.(egress(500, 500), isolated).wanted).toBe(true);
      expect(kind.admit?.(egress(500, 501), context()).wanted).toBe(true);
    });

    it('keeps what is closed in the super cluster as long as it is not known whether anything acts on it', () => {
      const isolation = { podCIDRs: [], closedCIDRs: ['192.0.2.1/32'] };
      const own = policy({ policyTypes: ['Egress'], egress: [{}] });
      const there = kind.toSuper(own, testContext({ tenant: { isolation }, kinds: [kind] }));
      const guessed = { isolation: { ...isolation, closedCIDRs: ['0.0.0.0/0'] } };
      const found = (tenant: object) => kind.down(own, there, testContext({ tenant, kinds: [kind] }));
      expect(found(guessed)).toHaveLength(1);
      const unknown = { ...guessed, networkPoliciesEnforced: false, isIsolationUnknown: true };
      expect(found(unknown)).toEqual([]);
      const admitted = (tenant: object) => kind.admit?.(own, testContext({ tenant, kinds: [kind] }));
      expect(admitted(unknown)).toEqual({ wanted: true });
      expect(admitted({ networkPoliciesEnforced: false })).toMatchObject({
        notice: { reason: 'NetworkPolicyNotEnforced' },
      });
    });

    it('leaves behind those with more than 10,000 rules, peers, ports, exceptions and terms of selectors', () => {
      const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
      const labels = (count: number) => Object.fromEntries(many(count, 0).map((_, at) => [`l${at}`, '']));
      const forms: ((count: number) => NetworkPolicySpec)[] = [
        (count) => ({ ingress: many(count, {}) }),
        (count) => ({ egress: [{ to: many(count - 1, { podSelector: {} }) }] }),
        (count) => ({ ingress: [{ ports: many(count - 1, { port: 80 }) }] }),
        (count) => ({
          ingress: [{ from: [{ ipBlock: { cidr: '0.0.0.0/0', except: many(count - 2, '10.0.0.0/8') } }] }],
        }),
        (count) => ({ podSelector: { matchLabels: labels(count) } }),
      ];
      for (const spec of forms) {
        // `policyTypes` has one.
        expect(kind.admit?.(policy(spec(9_999)), context())).toEqual({ wanted: true });
        expect(kind.admit?.(policy(spec(10_000)), context())).toMatchObject({
          wanted: false,
          keep: true,
          notice: { reason: 'NotSupported', message: expect.stringContaining('10000 rules, peers') },
        });
      }
    });

    it('leaves behind more than 500 of a namespace, where tenants are isolated, and keeps those that are there', () => {
      const isolation = { podCIDRs: [], closedCIDRs: [] };
      const there = (count: number, namespace = 'shop'): KubeObject[] =>
        Array.from({ length: count }, (_, at) => {
          const { metadata, ...rest } = policy({}, namespace);
          return kind.toSuper({ ...rest, metadata: { ...metadata, name: `other-${at}` } }, context());
        });
      const admitted = (superObjects: KubeObject[], over: object = { isolation }) =>
        kind.admit?.(policy({}), testContext({ tenant: over, superObjects, kinds: [kind] }));
      expect(admitted(there(499))?.wanted).toBe(true);
      expect(admitted(there(500, 'office'))?.wanted).toBe(true);
      expect(admitted(there(500))).toMatchObject({
        wanted: false,
        keep: true,
        notice: { reason: 'NotSupported', message: expect.stringContaining('500 NetworkPolicies') },
      });
      expect(admitted([...there(500), kind.toSuper(policy({}), context())])?.wanted).toBe(true);
      expect(admitted(there(500), {})?.wanted).toBe(true);
    });

    it('leaves behind those that select pods by more than can be compared with each, where tenants are isolated', () => {
      const isolation = { podCIDRs: [], closedCIDRs: [] };
      const isolated = testContext({ tenant: { isolation }, kinds: [kind] });
      const selecting = (count: number) => {
        const values = Array.from({ length: count - 2 }, (_, at) => `v${at}`);
        return policy({
          podSelector: {
            matchLabels: { app: 'web' },
            matchExpressions: [{ key: 'tier', operator: 'NotIn', values }],
          },
        });
      };
      expect(kind.admit?.(selecting(200), isolated).wanted).toBe(true);
      expect(kind.admit?.(selecting(201), isolated)).toMatchObject({
        wanted: false,
        keep: true,
        notice: { reason: 'NotSupported', message: expect.stringContaining('201 labels') },
      });
      expect(kind.admit?.(selecting(201), context()).wanted).toBe(true);
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
});

describe('reachability', () => {
  const blue = testContext({ tenant: { uid: 'uid-of-blue', id: 'idofblue01', name: 'blue' } });
  const red = testContext({ tenant: { uid: 'uid-of-red', id: 'idofred001', name: 'red' } });
  const outside: End[] = [
    { id: 'outside', ip: '203.0.113.9' },
    { id: 'outside-6', ip: '2001:db8::9' },
  ];
  const own = tenantObjects(1);
  const others = tenantObjects(2);

  describe('who may reach whom, with the translated policies of two tenants in one super cluster', () => {
    it('is among the pods of one tenant, and between them and the outside, what its own policies say', () => {
      fc.assert(
        fc.property(own, others, (mine, theirs) => {
          const below = merged(translated(mine, blue), translated(theirs, red));
          const seen = asSeen(mine, blue);
          const before = allowedAmong(seen, [...seen.pods, ...outside], targets);
          const after = allowedAmong(below, [...podsOf(below, mine), ...outside], targets);
          expect(after).toEqual(before);
        }),
        { numRuns: 300 },
      );
    });

    it('is between two tenants what each says of addresses that it knows nothing of', () => {
      fc.assert(
        fc.property(own, others, (mine, theirs) => {
          const below = merged(translated(mine, blue), translated(theirs, red));
          const [blueAlone, redAlone] = [asSeen(mine, blue), asSeen(theirs, red)];
          for (const from of podsOf(below, mine)) {
            for (const to of podsOf(below, theirs)) {
              const stranger = (pod: NetworkPod): End => ({ id: pod.id, ip: pod.ip });
              for (const target of targets) {
                // A named port is looked up on a pod that the other side's policies do not know.
                const leaves = allows(
                  blueAlone,
                  podOf(blueAlone, from.id),
                  { ...stranger(to), ports: to.ports } as End,
                  target,
                );
                const enters = allows(redAlone, stranger(from), podOf(redAlone, to.id), target);
                expect(allows(below, from, to, target)).toBe(leaves && enters);
              }
            }
          }
        }),
        { numRuns: 150 },
      );
    });

    it('follows the labels of namespaces, without a new policy', () => {
      fc.assert(
        fc.property(own, namespaces, (mine, changed) => {
          const below = translated(mine, blue);
          const after: Network = { ...below, namespaces: followed(mine, changed, blue) };
          const seen = asSeen({ ...mine, namespaces: changed }, blue);
          expect(allowedAmong(after, after.pods, targets)).toEqual(allowedAmong(seen, seen.pods, targets));
        }),
        { numRuns: 200 },
      );
    });
  });

  describe('an update', () => {
    it('of a policy makes of the old super object what a new one would be, and then rests', () => {
      fc.assert(
        fc.property(policySpec, policySpec, (before, after) => {
          const old = networkPolicyKind.toSuper(policy('shop', before), blue);
          const changed = policy('shop', after);
          const { superObject } = carryOut(
            { tenantObject: changed, superObject: old },
            networkPolicyKind.down(changed, old, blue),
          );
          expect(networkPolicyKind.down(changed, superObject as KubeObject, blue)).toEqual([]);
          const { ingress = [], egress = [], ...rest } = specOf(networkPolicyKind.toSuper(changed, blue));
          expect({ ingress: [], egress: [], ...specOf(superObject as KubeObject) }).toEqual({
            ...rest,
            ingress,
            egress,
          });
        }),
        { numRuns: 300 },
      );
    });
  });

  function policy(namespace: string, spec: object, name = 'policy'): KubeObject {
    return {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { namespace, name, uid: `uid-of-${name}` },
      spec,
    };
  }

  function superNamespaceOf(name: string, labels: object, context: SyncContext): KubeObject {
    const metadata = { name, uid: `uid-of-${name}`, labels: { ...labels } };
    return namespaceKind.toSuper({ apiVersion: 'v1', kind: 'Namespace', metadata }, context);
  }

  /** A tenant's world as the super cluster gets it. */
  function translated(objects: TenantObjects, context: SyncContext): Network {
    const superNamespaces = [...objects.namespaces].map(([name, labels]) =>
      superNamespaceOf(name, labels, context),
    );
    return {
      namespaces: new Map(
        superNamespaces.map(({ metadata }) => [metadata.name ?? '', metadata.labels ?? {}]),
      ),
      pods: objects.pods.map((pod) => {
        const { namespace, labels } = pod;
        const metadata = superMetadata(
          { metadata: { name: pod.id, uid: pod.id, namespace, labels: { ...labels } } },
          context,
        );
        return { ...pod, namespace: metadata.namespace ?? '', labels: metadata.labels ?? {} };
      }),
      policies: objects.policies.map(({ namespace, spec }, index) => {
        const superObject = networkPolicyKind.toSuper(policy(namespace, spec, `policy-${index}`), context);
        return { namespace: superObject.metadata.namespace ?? '', spec: specOf(superObject) };
      }),
    };
  }

  /** The labels of super namespaces after the tenant's have changed. */
  function followed(
    { namespaces: before }: TenantObjects,
    after: TenantObjects['namespaces'],
    context: SyncContext,
  ): Network['namespaces'] {
    return new Map(
      [...after].map(([name, labels]) => {
        const superObject = superNamespaceOf(name, before.get(name) ?? {}, context);
        const metadata = { name, uid: `uid-of-${name}`, labels: { ...labels } };
        const [action] = namespaceKind.down({ metadata }, superObject, context);
        const patch = action?.do === 'patchSuper' ? action.patch : {};
        const changed = applyMergePatch(superObject, patch) as KubeObject;
        return [changed.metadata.name ?? '', changed.metadata.labels ?? {}];
      }),
    );
  }

  /** A tenant's own world; labels of pods that do not go down count as absent. */
  function asSeen(objects: TenantObjects, { tenant }: SyncContext): Network {
    const pods = objects.pods.map((pod) => ({
      ...pod,
      labels: Object.fromEntries(Object.entries(pod.labels).filter(([key]) => podLabelGoesDown(key, tenant))),
    }));
    return { ...objects, pods };
  }

  function merged(one: Network, other: Network): Network {
    return {
      namespaces: new Map([...one.namespaces, ...other.namespaces]),
      pods: [...one.pods, ...other.pods],
      policies: [...one.policies, ...other.policies],
    };
  }

  function podsOf(network: Network, { pods }: TenantObjects): NetworkPod[] {
    return pods.map(({ id }) => podOf(network, id));
  }

  function podOf(network: Network, id: string): NetworkPod {
    const found = network.pods.find((pod) => pod.id === id);
    if (found === undefined) throw new Error(`no pod ${id}`);
    return found;
  }
});

it('never takes the place of those that keep tenants apart', () => {
  const own = {
    metadata: { name: 'skerry-egress', namespace: 'shop', uid: 'u1' },
    spec: { podSelector: {} },
  };
  expect(kind.admit?.(own, testContext())).toEqual({
    wanted: false,
    notice: expect.objectContaining({ reason: 'ReservedName' }),
  });
  expect(kind.superName?.('skerry-egress', testTenant())).not.toBe('skerry-egress');
  const { metadata, ...rest } = own;
  const ordinary = { ...rest, metadata: { ...metadata, name: 'egress' } };
  expect(kind.admit?.(ordinary, testContext())?.wanted).toBe(true);
  expect(kind.superName?.('egress', testTenant())).toBe('egress');
  expect(kind.tenantName?.(kind.superName?.('skerry-egress', testTenant()) ?? '')).toBe('skerry-egress');
});
