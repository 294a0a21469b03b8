import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules } from '../down.ts';
import { at, listAt, unequal } from '../raw.ts';
import { selects } from '../selects.ts';
import type { View } from '../view.ts';

type Selected = (selector: unknown, policyNamespace: string | undefined) => string[];

/** Judged by what they select on either side, not by how it is written there. */
export function compareNetworkPolicies(view: View): string[] {
  const rules: DownRules = {
    kind: 'networkpolicies',
    what: 'NetworkPolicy',
    expected: (_, { tenant }) => (tenant.networkPolicies ? 'yes' : 'no'),
    compare: (own, superObject) => [
      ...unequal(at(own, 'spec', 'policyTypes'), at(superObject, 'spec', 'policyTypes'), 'policyTypes'),
      ...unequal(
        picture(own, ownPods(view), ownNamespaces(view)),
        picture(superObject, superPods(view), superNamespaces(view)),
        'what it selects',
      ),
    ],
  };
  return compareDown(rules, view);
}

/** A policy with all selectors replaced by what they select, in the tenant's terms. */
function picture(policy: KubeObject, pods: Selected, namespaces: Selected): unknown {
  const { namespace } = policy.metadata;
  const peer = (each: Record<string, unknown>): unknown => ({
    ipBlock: each['ipBlock'] ?? null,
    namespaces:
      each['namespaceSelector'] === undefined ? null : namespaces(each['namespaceSelector'], undefined),
    pods:
      each['podSelector'] === undefined
        ? null
        : pods(each['podSelector'], each['namespaceSelector'] ? undefined : namespace),
  });
  const rules = (direction: string, side: string): unknown =>
    listAt(policy, 'spec', direction).map((rule) => ({
      ports: listAt(rule, 'ports'),
      peers: listAt(rule, side).map(peer),
    }));
  return {
    pods: pods(at(policy, 'spec', 'podSelector'), namespace),
    ingress: rules('ingress', 'from'),
    egress: rules('egress', 'to'),
  };
}

/** Pods are named by their UIDs; those that are on one side only are another's business. */
function ownPods(view: View): Selected {
  const below = new Set(view.marked('pods').map((pod) => pod.metadata.annotations?.['skerry.dev/uid']));
  return (selector, namespace) =>
    view.own.pods
      .filter(
        ({ metadata }) => below.has(metadata.uid) && (namespace ?? metadata.namespace) === metadata.namespace,
      )
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => metadata.uid ?? '')
      .sort();
}

/** Of all tenants' pods: one of another tenant would show as a difference. */
function superPods(view: View): Selected {
  const above = new Set(view.own.pods.map(({ metadata }) => metadata.uid));
  return (selector, namespace) =>
    view.superSide.pods
      .filter(({ metadata }) => (namespace ?? metadata.namespace) === metadata.namespace)
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => metadata.annotations?.['skerry.dev/uid'] ?? `unmarked ${metadata.name}`)
      .filter((uid) => above.has(uid) || !belongsTo(view, uid))
      .sort();
}

function belongsTo(view: View, uid: string): boolean {
  return view.marked('pods').some((pod) => pod.metadata.annotations?.['skerry.dev/uid'] === uid);
}

function ownNamespaces(view: View): Selected {
  return (selector) =>
    view.own.namespaces
      .filter(({ metadata }) => view.superNamespaces.has(metadata.name ?? ''))
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => metadata.name ?? '')
      .sort();
}

function superNamespaces(view: View): Selected {
  return (selector) =>
    view.superSide.namespaces
      .filter(({ metadata }) => selects(selector, metadata.labels))
      .map(({ metadata }) => {
        const { 'skerry.dev/tenant': tenant, 'skerry.dev/namespace': name } = metadata.labels ?? {};
        return tenant === view.tenant.uid ? (name ?? '') : `foreign ${metadata.name}`;
      })
      .sort();
}
