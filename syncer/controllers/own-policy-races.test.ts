import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { isolationPolicies, matchesSelector, type NetworkPolicySpec } from '../mapping/network-isolation.ts';
import type { ActionGate } from '../reconcile/execute.ts';
import { ReconcilerHarness } from '../reconcile/testing/reconciler-harness.ts';

const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['192.0.2.1/32'] };
const ofWeb = { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress', 'Egress'] };
const wall = { metadata: { name: 'wall', namespace: 'shop' }, spec: ofWeb };
const web = {
  metadata: { name: 'web', namespace: 'shop', labels: { app: 'web' } },
  spec: { containers: [{ name: 'main', image: 'busybox' }] },
};

interface Shop {
  readonly harness: ReconcilerHarness;
  readonly pod: KubeObject;
  readonly policy: KubeObject;
}

/** A pod and a policy that holds for it; both are in the super cluster, and the pod has no label yet. */
async function shop(gates: Record<string, ActionGate> = {}, isThere = true): Promise<Shop> {
  const harness = await ReconcilerHarness.start({ tenant: { isolation }, gates });
  harness.namespace('shop');
  harness.have('tenant', resources.serviceAccounts, { metadata: { name: 'default', namespace: 'shop' } });
  const account = harness.state.caches.get(resources.serviceAccounts, { namespace: 'shop', name: 'default' });
  if (account !== undefined) harness.have('super', resources.serviceAccounts, harness.superOf(account));
  const pod = harness.have('tenant', resources.pods, web);
  if (isThere) harness.have('super', resources.pods, harness.superOf(pod, { spec: web.spec }));
  const policy = harness.have('tenant', resources.networkPolicies, wall);
  await harness.reconcile('networkpolicies', 'wall', 'shop');
  show(harness, 'networkPolicies');
  return { harness, pod, policy };
}

/** The cache shows what the super cluster has. */
function show(harness: ReconcilerHarness, what: 'pods' | 'networkPolicies'): void {
  for (const each of harness.super.server.list(resources[what])) harness.show('super', resources[what], each);
}

function goes({ harness, policy }: Shop): Promise<unknown> {
  harness.tenant.server.remove(resources.networkPolicies, { namespace: 'shop', name: 'wall' });
  harness.hide('tenant', resources.networkPolicies, policy);
  return harness.reconcile('networkpolicies', 'wall', 'shop');
}

/** The tenant object is another by now; the cache shows it. */
function changes(
  harness: ReconcilerHarness,
  resource: typeof resources.pods,
  from: KubeObject,
  to: object,
): void {
  harness.have('tenant', resource, { ...from, ...to } as KubeObject);
}

/** Policies in the super cluster that select its pod, in the egress direction; the default one among them. */
function holding(harness: ReconcilerHarness): string[] {
  const pod = harness.super.server.get(resources.pods, { namespace: harness.shop, name: 'web' });
  const own = harness.super.server
    .list(resources.networkPolicies)
    .map(({ metadata, ...rest }) => [metadata.name, rest['spec']]);
  const all = [...own, ...Object.entries(isolationPolicies(harness.state.info, isolation))];
  return (all as [string, NetworkPolicySpec][])
    .filter(
      ([name, spec]) => name !== 'skerry-ingress' && pod !== undefined && spec.podSelector !== undefined,
    )
    .filter(([, { podSelector = {} }]) => matchesSelector(podSelector, pod?.metadata.labels ?? {}))
    .map(([name]) => name);
}

const podWrites = (harness: ReconcilerHarness): number =>
  harness.super.server.requests.filter(({ verb, plural }) => verb === 'patch' && plural === 'pods').length;

describe('some policy holds for a pod at any moment (sync rule `tenant-isolation`)', () => {
  it('though the cache does not show its label when its own policy goes', async () => {
    const all = await shop();
    await using harness = all.harness;
    await harness.reconcile('pods', 'web', 'shop');
    expect(holding(harness)).toEqual(['wall']);
    await goes(all);
    expect(holding(harness)).toEqual(['skerry-egress']);
  });

  it('though its label is being written when its own policy goes', async () => {
    const all = await shop();
    await using harness = all.harness;
    const labelled = harness.reconcile('pods', 'web', 'shop');
    const gone = goes(all);
    await Promise.all([labelled, gone]);
    expect(harness.super.server.list(resources.networkPolicies)).toEqual([]);
    expect(holding(harness)).toEqual(['skerry-egress']);
  });

  it('though its own policy goes between the decision to make it and the write', async () => {
    let policyGoes = async (): Promise<unknown> => undefined;
    const all = await shop(
      {
        pods: async (_work, action) => {
          await policyGoes();
          return action;
        },
      },
      false,
    );
    await using harness = all.harness;
    policyGoes = () => goes(all);
    expect(await harness.reconcile('pods', 'web', 'shop')).toEqual({ is: 'retry', code: 'isolation' });
    policyGoes = async () => undefined;
    // The cache does not show yet that the policy is gone.
    await harness.reconcile('pods', 'web', 'shop');
    expect(holding(harness)).toEqual(['skerry-egress']);
  });

  it('though its own policy is about to select others, and the cache shows it as it was', async () => {
    const all = await shop();
    await using harness = all.harness;
    const spec = { ...ofWeb, podSelector: { matchLabels: { app: 'db' } } };
    changes(harness, resources.networkPolicies, all.policy, { spec });
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    // The tenant takes it back before the cache has shown it.
    changes(harness, resources.networkPolicies, all.policy, { spec: ofWeb });
    await harness.reconcile('pods', 'web', 'shop');
    expect(holding(harness)).toEqual(['skerry-egress']);
  });

  it('though another policy selects it by labels that have not gone down', async () => {
    const all = await shop();
    await using harness = all.harness;
    await harness.reconcile('pods', 'web', 'shop');
    show(harness, 'pods');
    harness.have('tenant', resources.networkPolicies, {
      metadata: { name: 'fence', namespace: 'shop' },
      spec: { ...ofWeb, podSelector: { matchLabels: { app: 'api' } } },
    });
    await harness.reconcile('networkpolicies', 'fence', 'shop');
    show(harness, 'networkPolicies');
    const metadata = { ...all.pod.metadata, labels: { app: 'api' } };
    changes(harness, resources.pods, all.pod, { metadata });
    await goes(all);
    expect(holding(harness)).toEqual(['skerry-egress']);
  });

  it('though the tenant gives it a label that only a binding gives in the super cluster', async () => {
    const all = await shop();
    await using harness = all.harness;
    const zone = { 'topology.kubernetes.io/zone': 'a' };
    harness.have('tenant', resources.networkPolicies, {
      metadata: { name: 'fence', namespace: 'shop' },
      spec: { ...ofWeb, podSelector: { matchLabels: zone } },
    });
    await harness.reconcile('networkpolicies', 'fence', 'shop');
    show(harness, 'networkPolicies');
    await goes(all);
    const wallInSuper = harness.superCaches.get(resources.networkPolicies, {
      namespace: harness.shop,
      name: 'wall',
    });
    if (wallInSuper !== undefined) harness.hide('super', resources.networkPolicies, wallInSuper);
    changes(harness, resources.pods, all.pod, { metadata: { ...all.pod.metadata, labels: zone } });
    await harness.reconcile('pods', 'web', 'shop');
    expect(holding(harness)).toEqual(['skerry-egress']);
  });

  it('its own policy stays while nobody knows whether its label was written', async () => {
    const all = await shop();
    await using harness = all.harness;
    harness.super.server.inject({ fault: { kind: 'status', code: 504 }, verb: 'patch', plural: 'pods' });
    await harness.reconcile('pods', 'web', 'shop');
    expect(await goes(all)).toEqual({ is: 'retry', code: 'isolation' });
    expect(harness.super.server.list(resources.networkPolicies)).toHaveLength(1);
    await harness.clock.advance(90_000);
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    expect(harness.super.server.list(resources.networkPolicies)).toEqual([]);
  });
});

describe('a change of a policy', () => {
  it('that holds for a pod before and after leaves its labels alone', async () => {
    const all = await shop();
    await using harness = all.harness;
    await harness.reconcile('pods', 'web', 'shop');
    show(harness, 'pods');
    const writes = podWrites(harness);
    changes(harness, resources.networkPolicies, all.policy, { spec: { ...ofWeb, ingress: [{}] } });
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    await harness.reconcile('pods', 'web', 'shop');
    expect(podWrites(harness)).toBe(writes);
    expect(holding(harness)).toEqual(['wall']);
  });

  it('that the server refused lets it count again after a time', async () => {
    const all = await shop();
    await using harness = all.harness;
    const spec = { ...ofWeb, podSelector: { matchLabels: { app: 'db' } } };
    changes(harness, resources.networkPolicies, all.policy, { spec });
    harness.super.server.inject({
      fault: { kind: 'status', code: 422 },
      verb: 'patch',
      plural: 'networkpolicies',
    });
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    changes(harness, resources.networkPolicies, all.policy, { spec: ofWeb });
    expect(await harness.reconcile('pods', 'web', 'shop')).toEqual({ is: 'later', afterMs: 90_000 });
    await harness.clock.advance(90_000);
    await harness.reconcile('pods', 'web', 'shop');
    expect(harness.super.server.get(resources.pods, { namespace: harness.shop, name: 'web' })).toMatchObject({
      metadata: { labels: { [labelKeys.ownEgress]: 'true' } },
    });
  });
});
