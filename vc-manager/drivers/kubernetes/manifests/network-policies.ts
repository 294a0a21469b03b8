import { isIP, isIPv6 } from 'node:net';
import type { KubeObject } from '../../../../kube/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../../../control-plane/index.ts';
import { apiServer, componentLabel, datastore, idLabel, labelsOf, namespaceOf } from '../names.ts';

export interface NetworkOptions {
  /** Namespace of manager and syncer. */
  systemNamespace: string;
  /** Where syncers answer as kubelets. Their pods serve metrics too, which are no tenant's business. */
  kubeletPort?: number;
  /** Ranges that API servers may dial beyond what every one needs: a syncer or a datastore outside of the cluster. */
  egress: readonly string[];
}

type Peer = Record<string, unknown>;

/**
 * Who may talk to whom. A tenant decides what its API server dials: webhooks, aggregated APIs and addresses of Nodes
 * are objects of its own. So API servers reach their datastore, DNS, the syncer, and pods and services of their own
 * tenant, and nothing else. Whether a cluster enforces policies is up to its network.
 */
export function networkPolicies(plan: ControlPlanePlan, options: NetworkOptions): KubeObject[] {
  const policies = [policy(plan.id, 'default-deny', { podSelector: {}, policyTypes: ['Ingress', 'Egress'] })];
  for (const component of plan.components) {
    if (component.name === apiServer) policies.push(ofApiServer(plan, component, options));
    else if (component.name === datastore) policies.push(ofDatastore(plan.id, component));
    else policies.push(ofClient(plan, component));
  }
  return policies;
}

function ofApiServer(
  { id, network, components }: ControlPlanePlan,
  { name, ports }: ComponentPlan,
  { systemNamespace, egress, kubeletPort = 10_450 }: NetworkOptions,
): KubeObject {
  const own = components.find((each) => each.name === datastore);
  const to: { to: Peer[]; ports?: Peer[] }[] = [dns];
  if (own !== undefined) to.push({ to: [pods(datastore)], ports: tcp(mainPort(own)) });
  if (network?.datastore !== undefined) to.push(toDatastore(network.datastore));
  // What API servers take for kubelets.
  to.push({
    to: [
      {
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': systemNamespace } },
        podSelector: { matchLabels: { 'app.kubernetes.io/component': 'syncer' } },
      },
    ],
    ports: tcp(kubeletPort),
  });
  if (network !== undefined) {
    to.push({
      to: [
        { namespaceSelector: { matchLabels: { 'skerry.dev/tenant': network.tenantUid } } },
        // For networks that judge before a service's address is translated.
        { ipBlock: { cidr: network.serviceCIDR } },
      ],
    });
  }
  if (egress.length > 0) to.push({ to: egress.map((cidr) => ({ ipBlock: { cidr } })) });
  return policy(id, name, {
    podSelector: selector(name),
    policyTypes: ['Ingress', 'Egress'],
    // Pods of the tenant, people, syncer and manager: who may do what, it decides itself.
    ingress: [{ ports: ports.flatMap(({ port }) => tcp(port)) }],
    egress: to,
  });
}

/** Nobody but the API servers of the same control plane. */
function ofDatastore(id: string, component: ComponentPlan): KubeObject {
  return policy(id, component.name, {
    podSelector: selector(component.name),
    policyTypes: ['Ingress', 'Egress'],
    ingress: [{ from: [pods(apiServer)], ports: tcp(mainPort(component)) }],
  });
}

/** Everything else is a client of the API server. */
function ofClient({ id, components }: ControlPlanePlan, { name }: ComponentPlan): KubeObject {
  const server = components.find((each) => each.name === apiServer);
  return policy(id, name, {
    podSelector: selector(name),
    policyTypes: ['Ingress', 'Egress'],
    egress: [dns, ...(server === undefined ? [] : [{ to: [pods(apiServer)], ports: tcp(mainPort(server)) }])],
  });
}

const dns = {
  to: [
    {
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } },
      podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
    },
  ],
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
};

/** A policy knows addresses and pods, but no names: of a name outside of the cluster only the port is known. */
function toDatastore(endpoint: string): { to: Peer[]; ports: Peer[] } {
  const url = new URL(endpoint);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const ports = tcp(Number(url.port || 443));
  if (isIP(host) !== 0) return { to: [{ ipBlock: { cidr: `${host}/${isIPv6(host) ? 128 : 32}` } }], ports };
  const namespace = /^[^.]+\.([^.]+)\.svc(\.|$)/.exec(host)?.[1];
  const to =
    namespace === undefined
      ? [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }]
      : [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } }];
  return { to, ports };
}

/** The port that has the component's name, or its first one. */
function mainPort({ name, ports }: ComponentPlan): number {
  return (ports.find((each) => each.name === name) ?? ports[0])?.port ?? 0;
}

function tcp(port: number): Peer[] {
  return [{ protocol: 'TCP', port }];
}

function selector(component: string): Peer {
  return { matchLabels: { [componentLabel]: component } };
}

function pods(component: string): Peer {
  return { podSelector: selector(component) };
}

function policy(id: string, name: string, spec: Record<string, unknown>): KubeObject {
  return {
    metadata: { name, namespace: namespaceOf(id), labels: { ...labelsOf(id), [idLabel]: id } },
    spec,
  };
}
