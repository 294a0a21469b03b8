import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { isolationPolicies, matchesSelector, type NetworkPolicySpec } from '../mapping/network-isolation.ts';
import type { ActionGate } from '../reconcile/execute.ts';
import { Bench } from '../reconcile/testing/bench.ts';

const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['192.0.2.1/32'] };
const ofWeb = { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress', 'Egress'] };
const wall = { metadata: { name: 'wall', namespace: 'shop' }, spec: ofWeb };
const web = {
  metadata: { name: 'web', namespace: 'shop', labels: { app: 'web' } },
  spec: { containers: [{ name: 'main', image: 'busybox' }] },
};

interface Shop {
  readonly bench: Bench;
  readonly pod: KubeObject;
  readonly policy: KubeObject;
}

/** A pod and a policy that holds for it; both are in the super cluster, and the pod has no label yet. */
async function shop(gates: Record<string, ActionGate> = {}, isThere = true): Promise<Shop> {
  const bench = await Bench.start({ tenant: { isolation }, gates });
  bench.namespace('shop');
  bench.have('tenant', resources.serviceAccounts, { metadata: { name: 'default', namespace: 'shop' } });
  const account = bench.state.caches.get(resources.serviceAccounts, { namespace: 'shop', name: 'default' });
  if (account !== undefined) bench.have('super', resources.serviceAccounts, bench.superOf(account));
  const pod = bench.have('tenant', resources.pods, web);
  if (isThere) bench.have('super', resources.pods, bench.superOf(pod, { spec: web.spec }));
  const policy = bench.have('tenant', resources.networkPolicies, wall);
  await bench.reconcile('networkpolicies', 'wall', 'shop');
  show(bench, 'networkPolicies');
  return { bench, pod, policy };
}

/** The cache shows what the super cluster has. */
function show(bench: Bench, what: 'pods' | 'networkPolicies'): void {
  for (const each of bench.super.server.list(resources[what])) bench.show('super', resources[what], each);
}

function goes({ bench, policy }: Shop): Promise<unknown> {
  bench.tenant.server.remove(resources.networkPolicies, { namespace: 'shop', name: 'wall' });
  bench.hide('tenant', resources.networkPolicies, policy);
  return bench.reconcile('networkpolicies', 'wall', 'shop');
}

/** The tenant object is another by now; the cache shows it. */
function changes(bench: Bench, resource: typeof resources.pods, from: KubeObject, to: object): void {
  bench.have('tenant', resource, { ...from, ...to } as KubeObject);
}

/** Policies in the super cluster that select its pod, in the egress direction; the default one among them. */
function holding(bench: Bench): string[] {
  const pod = bench.super.server.get(resources.pods, { namespace: bench.shop, name: 'web' });
  const own = bench.super.server
    .list(resources.networkPolicies)
    .map(({ metadata, ...rest }) => [metadata.name, rest['spec']]);
  const all = [...own, ...Object.entries(isolationPolicies(bench.state.info, isolation))];
  return (all as [string, NetworkPolicySpec][])
    .filter(
      ([name, spec]) => name !== 'skerry-ingress' && pod !== undefined && spec.podSelector !== undefined,
    )
    .filter(([, { podSelector = {} }]) => matchesSelector(podSelector, pod?.metadata.labels ?? {}))
    .map(([name]) => name);
}

const podWrites = (bench: Bench): number =>
  bench.super.server.requests.filter(({ verb, plural }) => verb === 'patch' && plural === 'pods').length;

describe('some policy holds for a pod at any moment (sync rule `tenant-isolation`)', () => {
  it('though the cache does not show its label when its own policy goes', async () => {
    const all = await shop();
    await using bench = all.bench;
    await bench.reconcile('pods', 'web', 'shop');
    expect(holding(bench)).toEqual(['wall']);
    await goes(all);
    expect(holding(bench)).toEqual(['skerry-egress']);
  });

  it('though its label is being written when its own policy goes', async () => {
    const all = await shop();
    await using bench = all.bench;
    const labelled = bench.reconcile('pods', 'web', 'shop');
    const gone = goes(all);
    await Promise.all([labelled, gone]);
    expect(bench.super.server.list(resources.networkPolicies)).toEqual([]);
    expect(holding(bench)).toEqual(['skerry-egress']);
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
    await using bench = all.bench;
    policyGoes = () => goes(all);
    expect(await bench.reconcile('pods', 'web', 'shop')).toEqual({ is: 'retry', code: 'isolation' });
    policyGoes = async () => undefined;
    // The cache does not show yet that the policy is gone.
    await bench.reconcile('pods', 'web', 'shop');
    expect(holding(bench)).toEqual(['skerry-egress']);
  });

  it('though its own policy is about to select others, and the cache shows it as it was', async () => {
    const all = await shop();
    await using bench = all.bench;
    const spec = { ...ofWeb, podSelector: { matchLabels: { app: 'db' } } };
    changes(bench, resources.networkPolicies, all.policy, { spec });
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    // The tenant takes it back before the cache has shown it.
    changes(bench, resources.networkPolicies, all.policy, { spec: ofWeb });
    await bench.reconcile('pods', 'web', 'shop');
    expect(holding(bench)).toEqual(['skerry-egress']);
  });

  it('though another policy selects it by labels that have not gone down', async () => {
    const all = await shop();
    await using bench = all.bench;
    await bench.reconcile('pods', 'web', 'shop');
    show(bench, 'pods');
    bench.have('tenant', resources.networkPolicies, {
      metadata: { name: 'fence', namespace: 'shop' },
      spec: { ...ofWeb, podSelector: { matchLabels: { app: 'api' } } },
    });
    await bench.reconcile('networkpolicies', 'fence', 'shop');
    show(bench, 'networkPolicies');
    const metadata = { ...all.pod.metadata, labels: { app: 'api' } };
    changes(bench, resources.pods, all.pod, { metadata });
    await goes(all);
    expect(holding(bench)).toEqual(['skerry-egress']);
  });

  it('though the tenant gives it a label that only a binding gives in the super cluster', async () => {
    const all = await shop();
    await using bench = all.bench;
    const zone = { 'topology.kubernetes.io/zone': 'a' };
    bench.have('tenant', resources.networkPolicies, {
      metadata: { name: 'fence', namespace: 'shop' },
      spec: { ...ofWeb, podSelector: { matchLabels: zone } },
    });
    await bench.reconcile('networkpolicies', 'fence', 'shop');
    show(bench, 'networkPolicies');
    await goes(all);
    const wallInSuper = bench.superCaches.get(resources.networkPolicies, {
      namespace: bench.shop,
      name: 'wall',
    });
    if (wallInSuper !== undefined) bench.hide('super', resources.networkPolicies, wallInSuper);
    changes(bench, resources.pods, all.pod, { metadata: { ...all.pod.metadata, labels: zone } });
    await bench.reconcile('pods', 'web', 'shop');
    expect(holding(bench)).toEqual(['skerry-egress']);
  });

  it('its own policy stays while nobody knows whether its label was written', async () => {
    const all = await shop();
    await using bench = all.bench;
    bench.super.server.inject({ fault: { kind: 'status', code: 504 }, verb: 'patch', plural: 'pods' });
    await bench.reconcile('pods', 'web', 'shop');
    expect(await goes(all)).toEqual({ is: 'retry', code: 'isolation' });
    expect(bench.super.server.list(resources.networkPolicies)).toHaveLength(1);
    await bench.clock.advance(90_000);
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    expect(bench.super.server.list(resources.networkPolicies)).toEqual([]);
  });
});

describe('a change of a policy', () => {
  it('that holds for a pod before and after leaves its labels alone', async () => {
    const all = await shop();
    await using bench = all.bench;
    await bench.reconcile('pods', 'web', 'shop');
    show(bench, 'pods');
    const writes = podWrites(bench);
    changes(bench, resources.networkPolicies, all.policy, { spec: { ...ofWeb, ingress: [{}] } });
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    await bench.reconcile('pods', 'web', 'shop');
    expect(podWrites(bench)).toBe(writes);
    expect(holding(bench)).toEqual(['wall']);
  });

  it('that the server refused lets it count again after a time', async () => {
    const all = await shop();
    await using bench = all.bench;
    const spec = { ...ofWeb, podSelector: { matchLabels: { app: 'db' } } };
    changes(bench, resources.networkPolicies, all.policy, { spec });
    bench.super.server.inject({
      fault: { kind: 'status', code: 422 },
      verb: 'patch',
      plural: 'networkpolicies',
    });
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    changes(bench, resources.networkPolicies, all.policy, { spec: ofWeb });
    expect(await bench.reconcile('pods', 'web', 'shop')).toEqual({ is: 'later', afterMs: 90_000 });
    await bench.clock.advance(90_000);
    await bench.reconcile('pods', 'web', 'shop');
    expect(bench.super.server.get(resources.pods, { namespace: bench.shop, name: 'web' })).toMatchObject({
      metadata: { labels: { [labelKeys.ownEgress]: 'true' } },
    });
  });
});
