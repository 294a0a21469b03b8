import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { findCondition, type KubeObject, resources } from '../kube/index.ts';
import { at, listAt, selects } from './harness/checker/view.ts';
import { namespace, pod } from './harness/manifests.ts';
import { type Tenant, World } from './harness/world.ts';

describe('network policies', () => {
  let world: World;
  let tenant: Tenant;
  let neighbour: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [tenant, neighbour] = await world.sharedTenants('walls');
    for (const each of [tenant, neighbour]) {
      await each.apply(namespace('office'));
      await each.apply(pod('walls', 'web'), pod('office', 'desk'), pod('kube-system', 'walled-dns'));
    }
  });

  afterAll(async () => {
    for (const each of [tenant, neighbour])
      await each?.tryKubectl(['-n', 'kube-system', 'delete', 'pod', 'walled-dns', '--wait=false']);
    await world?.close();
  });

  const policy = (name: string, spec: object): KubeObject => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name, namespace: 'walls' },
    spec,
  });

  /** Super namespaces that the first peer of S selects, in the tenants' words. */
  const selected = async (
    name: string,
    direction: 'ingress' | 'egress',
    side: 'from' | 'to',
  ): Promise<string[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
    const { client } = world.superCluster;
    const { items } = await client.list(resources.networkPolicies, { labelSelector });
    const there = items.find(({ metadata }) => metadata.name === name);
    const [peer] = listAt(at(there, 'spec', direction, '0'), side);
    const { items: namespaces } = await client.list(resources.namespaces);
    return namespaces
      .filter(({ metadata }) => selects(at(peer, 'namespaceSelector'), metadata.labels))
      .map(({ metadata }) => {
        const { 'skerry.dev/tenant': uid, 'skerry.dev/namespace': own } = metadata.labels ?? {};
        return uid === tenant.uid ? `${own}` : `foreign ${metadata.name}`;
      })
      .sort();
  };

  it('go down with every selector narrowed to their tenant, and follow its namespaces', async () => {
    await tenant.apply(
      policy('team', {
        podSelector: { matchLabels: { app: 'web' } },
        policyTypes: ['Ingress'],
        ingress: [
          {
            from: [{ namespaceSelector: { matchLabels: { team: 'blue' } }, podSelector: {} }],
            ports: [{ protocol: 'TCP', port: 8000, endPort: 8080 }],
          },
        ],
      }),
      policy('everywhere', { podSelector: {}, ingress: [{ from: [{ namespaceSelector: {} }] }] }),
      policy('dns', {
        podSelector: {},
        policyTypes: ['Egress'],
        egress: [
          {
            to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }],
            ports: [
              { protocol: 'UDP', port: 53 },
              { protocol: 'SCTP', port: 53 },
            ],
          },
        ],
      }),
    );
    await neighbour.kubectl('label', 'namespace', 'office', 'team=blue');
    await world.expectAgreement();
    expect(await selected('team', 'ingress', 'from')).toEqual([]);
    expect(await selected('everywhere', 'ingress', 'from')).toEqual(
      expect.arrayContaining(['default', 'kube-system', 'office', 'walls']),
    );
    expect(await selected('dns', 'egress', 'to')).toEqual(['kube-system']);

    await tenant.kubectl('label', 'namespace', 'office', 'team=blue');
    await world.expectAgreement();
    expect(await selected('team', 'ingress', 'from')).toEqual(['office']);
    await tenant.kubectl('label', 'namespace', 'office', 'team-');
    await tenant.kubectl('label', 'namespace', 'walls', 'team=blue');
    await world.expectAgreement();
    expect(await selected('team', 'ingress', 'from')).toEqual(['walls']);

    await tenant.kubectl('-n', 'walls', 'delete', 'networkpolicy', 'everywhere');
    await world.expectAgreement();
  });

  it('that nothing enforces say so, once each, and the VirtualCluster has it as a condition', async () => {
    await tenant.apply(policy('quiet', { podSelector: {}, policyTypes: ['Ingress'] }));
    const warnings = (events: KubeObject[]): KubeObject[] =>
      events.filter(
        (event) =>
          event['reason'] === 'NetworkPolicyNotEnforced' &&
          event['type'] === 'Warning' &&
          at(event, 'involvedObject', 'name') === 'quiet',
      );
    await tenant.until(
      { resource: resources.events, namespace: 'walls', what: 'a warning on the policy' },
      (events) => warnings(events).length > 0,
    );
    await tenant.kubectl('-n', 'walls', 'label', 'networkpolicy', 'quiet', 'turn=1');
    await world.expectAgreement();
    const { items } = await tenant.client.list(resources.events, { namespace: 'walls' });
    expect(warnings(items).map((event) => event['count'])).toEqual([1]);
    const enforced = await world.superCluster.until(
      { resource: resources.virtualClusters, ...tenant.ref, what: 'the condition NetworkPoliciesEnforced' },
      ([vc]) => findCondition(listAt(vc, 'status', 'conditions'), 'NetworkPoliciesEnforced'),
    );
    expect(enforced).toMatchObject({ status: 'False', reason: 'NoEngine' });
  });
});
