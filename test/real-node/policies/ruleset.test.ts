import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../kube/index.ts';
import { type NetworkPod, type NetworkPolicy, renderRuleset } from './ruleset.ts';

const namespaces: KubeObject[] = ['shop', 'office'].map((name) => ({
  metadata: { name, labels: { 'kubernetes.io/metadata.name': name } },
}));

function pod(namespace: string, app: string, podIP?: string, more: Partial<NetworkPod> = {}): NetworkPod {
  return {
    metadata: { namespace, name: app, labels: { app } },
    spec: { containers: [{ ports: [{ name: 'http', containerPort: 8080 }] }] },
    status: { phase: 'Running', ...(podIP !== undefined && { podIP }) },
    ...more,
  };
}

function policy(spec: NetworkPolicy['spec']): NetworkPolicy {
  return { metadata: { namespace: 'shop', name: 'wall' }, spec: spec ?? {} };
}

const pods = [
  pod('shop', 'web', '10.1.0.2'),
  pod('shop', 'till', '10.1.0.3'),
  pod('office', 'desk', '10.1.0.4'),
];
const web = { matchLabels: { app: 'web' } };

/** The rules, without what all rulesets have. */
function rules(spec: NetworkPolicy['spec'], all: NetworkPod[] = pods): string[] {
  return (renderRuleset({ namespaces, pods: all, policies: [policy(spec)] }).split('chain input')[0] ?? '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => / (return|jump) /.test(line))
    .map((line) => line.replace(' return comment "shop/wall"', ''));
}

describe('the rules of a node', () => {
  it('are none where no policy selects a pod', () => {
    const empty = renderRuleset({ namespaces, pods, policies: [] });
    expect(empty).not.toContain('chain');
    const spec = { podSelector: { matchLabels: { app: 'absent' } }, policyTypes: ['Ingress'] };
    expect(renderRuleset({ namespaces, pods, policies: [policy(spec)] })).toBe(empty);
  });

  it('isolate a pod in the directions of a policy, and in no other', () => {
    expect(rules({ podSelector: web, policyTypes: ['Ingress'] })).toEqual([
      'ip daddr { 10.1.0.2 } jump ingress',
    ]);
    expect(rules({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] })).toEqual([
      'ip saddr { 10.1.0.2, 10.1.0.3 } jump egress',
      'ip daddr { 10.1.0.2, 10.1.0.3 } jump ingress',
    ]);
  });

  it('keep isolated pods from their own node, too, which these do not hinder', () => {
    const ofNode = (policyTypes: string[]): string | undefined =>
      renderRuleset({ namespaces, pods, policies: [policy({ podSelector: web, policyTypes })] }).split(
        'hook input',
      )[1];
    expect(ofNode(['Egress'])).toContain('ip saddr { 10.1.0.2 } jump egress');
    expect(ofNode(['Ingress'])).not.toContain('jump');
  });

  it('let in whom a rule names, by pods, namespaces and addresses', () => {
    const from = [
      { podSelector: { matchLabels: { app: 'till' } } },
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'office' } } },
      { podSelector: { matchLabels: { app: 'absent' } }, namespaceSelector: {} },
      { ipBlock: { cidr: '10.2.0.0/16', except: ['10.2.1.0/24'] } },
      { ipBlock: { cidr: '::/0' } },
    ];
    expect(rules({ podSelector: web, policyTypes: ['Ingress'], ingress: [{ from }] })).toEqual([
      'ip daddr { 10.1.0.2 } ip saddr 10.2.0.0/16 ip saddr != 10.2.1.0/24',
      'ip daddr { 10.1.0.2 } ip saddr { 10.1.0.3 }',
      'ip daddr { 10.1.0.2 } ip saddr { 10.1.0.4 }',
      'ip daddr { 10.1.0.2 } jump ingress',
    ]);
  });

  it('let out to ports by number, range, protocol, and the name that the other pod has for it', () => {
    const to = [{ namespaceSelector: {}, podSelector: { matchLabels: { app: 'desk' } } }];
    const ports = [
      { port: 53, protocol: 'UDP' },
      { port: 80, endPort: 90 },
      { protocol: 'SCTP' },
      { port: 'http' },
      { port: 'absent' },
    ];
    expect(
      rules({
        podSelector: web,
        policyTypes: ['Egress'],
        egress: [{ to, ports }, { ports: [{ port: 443 }] }],
      }),
    ).toEqual([
      'ip saddr { 10.1.0.2 } ip daddr { 10.1.0.4 } ip daddr . tcp dport { 10.1.0.4 . 8080 }',
      'ip saddr { 10.1.0.2 } ip daddr { 10.1.0.4 } meta l4proto sctp',
      'ip saddr { 10.1.0.2 } ip daddr { 10.1.0.4 } tcp dport 80-90',
      'ip saddr { 10.1.0.2 } ip daddr { 10.1.0.4 } udp dport 53',
      'ip saddr { 10.1.0.2 } tcp dport 443',
      'ip saddr { 10.1.0.2 } jump egress',
    ]);
  });

  it('leave out pods that have no address of their own, or none any more', () => {
    const others = [
      pod('shop', 'web'),
      pod('shop', 'web', '10.1.0.5', { status: { phase: 'Succeeded', podIP: '10.1.0.5' } }),
      pod('shop', 'web', '172.31.1.11', { spec: { hostNetwork: true, containers: [] } }),
    ];
    expect(rules({ podSelector: web, policyTypes: ['Ingress'] }, [...pods, ...others])).toEqual([
      'ip daddr { 10.1.0.2 } jump ingress',
    ]);
  });
});
