import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyMergePatch, type KubeObject } from '../../../kube/index.ts';
import { goesDown, superMetadata } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import { namespaceKind } from '../namespaces/index.ts';
import { carryOut, testContext } from '../testing.ts';
import { networkPolicyKind } from './index.ts';
import { specOf } from './model.ts';
import { namespaces, policySpec, type TenantObjects, targets, tenantObjects } from './testing/arbitrary.ts';
import { allowedAmong, allows, type End, type Network, type NetworkPod } from './testing/evaluator.ts';

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
  it('of a policy makes of the old S what a new one would be, and then rests', () => {
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
    namespaces: new Map(superNamespaces.map(({ metadata }) => [metadata.name ?? '', metadata.labels ?? {}])),
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
    labels: Object.fromEntries(Object.entries(pod.labels).filter(([key]) => goesDown(key, tenant))),
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
