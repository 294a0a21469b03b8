import { getHeapStatistics } from 'node:v8';
import { defaultSystemNamespace } from '../api/names.ts';

export const networkPolicyEnforcements = ['auto', 'enforced', 'unenforced'] as const;

/** Whether something in the super cluster acts on NetworkPolicies, as the operator says; `auto`: look for it. */
export type NetworkPolicyEnforcement = (typeof networkPolicyEnforcements)[number];

/** Where the syncer listens and how much it does at once. */
export interface SyncerOptions {
  /** Name of this replica, which no other has; default: one that is never used again. */
  replica?: string | undefined;
  /** Where the replicas keep their Leases and the map of buckets to replicas. */
  namespace: string;
  /** Reconciles at once, over all tenants. */
  workers: number;
  /** Host and port of `/metrics`, `/healthz` and `/readyz`. */
  metrics: { host: string; port: number };
  /**
   * Where it answers as the kubelet of tenants' nodes, and the address by which tenants reach it. `name`: the name by
   * which their API servers look for it, where its certificate names no address. `fallbackPort`: where it listens when
   * the port is taken.
   */
  kubelet: {
    host: string;
    port: number;
    fallbackPort?: number | undefined;
    advertise: string;
    name?: string | undefined;
  };
  /** Labels of nodes that tenants see beside the usual ones: keys, or prefixes that end in `/`. */
  nodeLabels: readonly string[];
  /** Where tenants' EndpointSlices may never point, beside what the syncer finds out itself. */
  protectedCIDRs: readonly string[];
  /** Annotations of pods and Services that go down beside the usual ones: keys, or prefixes that end in `/`. */
  allowedAnnotations: readonly string[];
  /** Labels that go down beside the usual ones, of pods though they are on the deny-list: keys, or prefixes that end in `/`. */
  allowedLabels: readonly string[];
  deniedKeyPrefixes: readonly string[];
  transparentKeyPrefixes: readonly string[];
  /** Annotations of Ingresses that go down: keys, or prefixes that end in `/`. */
  ingressAnnotations: readonly string[];
  /** Whether something in the super cluster acts on NetworkPolicies; `auto`: looked for at the start. */
  networkPolicies: NetworkPolicyEnforcement;
  /** How much memory, in MiB, the objects of a tenant may take whose policy does not say it. */
  tenantCacheMiB: number;
  /** How much memory, in MiB, the objects of all tenants together may take. */
  totalCacheMiB: number;
  /** How much, in MiB per second, the logs and the streams into containers of a tenant may carry. */
  tenantStreamMiB: number;
  /** Whether the pods of tenants are kept from each other where NetworkPolicies are enforced. */
  isolateTenants: boolean;
  /** Ranges of pod addresses, where nodes do not say theirs. */
  podCIDRs: readonly string[];
  /** Off only to measure what fairness is worth. */
  fair: boolean;
}

/** The other half is for the copies in the super cluster, and for what is being worked on. */
function halfOfHeapMiB(): number {
  return Math.floor(getHeapStatistics().heap_size_limit / 2 / 1024 / 1024);
}

/**
 * Workers where everything shares the processors of one machine: more calls at once are not answered sooner, they wait in
 * the API servers, which know no fairness among tenants, instead of in the syncer's queue.
 */
export function localWorkers(processors: number): number {
  return Math.min(60, Math.max(12, 6 * processors));
}

export const defaultOptions: SyncerOptions = {
  namespace: defaultSystemNamespace,
  workers: 60,
  metrics: { host: '127.0.0.1', port: 10451 },
  kubelet: { host: '127.0.0.1', port: 10250, advertise: '127.0.0.1' },
  nodeLabels: [],
  protectedCIDRs: [],
  allowedAnnotations: [],
  allowedLabels: [],
  deniedKeyPrefixes: [],
  transparentKeyPrefixes: [],
  ingressAnnotations: [],
  networkPolicies: 'auto',
  tenantCacheMiB: 256,
  totalCacheMiB: halfOfHeapMiB(),
  tenantStreamMiB: 32,
  isolateTenants: true,
  podCIDRs: [],
  fair: true,
};

/** Where others reach `/metrics`, as far as that is known here. */
export function metricsUrl({ metrics, kubelet }: SyncerOptions, port: number): string {
  const isAnywhere = metrics.host === '0.0.0.0' || metrics.host === '::';
  const host = isAnywhere ? kubelet.advertise : metrics.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
