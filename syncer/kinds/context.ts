import type { KubeObject, ObjectRef, Resource } from '../../kube/index.ts';
import type { DownKind } from './kind.ts';

/** What a tenant's objects may ask of the super cluster: the manager's verdict, not the tenant's wish. */
export interface TenantPolicy {
  /** Pod Security level enforced on the way down. */
  readonly podSecurity: 'privileged' | 'baseline' | 'restricted';
  /** Whether pods of DaemonSets run, each on a node that it names. */
  readonly daemonSets: 'deny' | 'allow';
  /** Sources of volumes that are allowed beside those that need nothing but the tenant's own objects. */
  readonly volumeTypes: readonly string[];
  /** Schedulers of the super cluster that a pod may name beside `default-scheduler`. */
  readonly schedulerNames: readonly string[];
  /** Runtime class that every pod gets, whatever it asks for. */
  readonly runtimeClassName?: string;
  /** Services may carry `externalIPs`. */
  readonly externalIPs: boolean;
  /** Services may carry `loadBalancerIP` and `loadBalancerSourceRanges`. */
  readonly loadBalancerOptions: boolean;
  /** Ranges beside the tenant's own pods that its EndpointSlices may point into. */
  readonly endpointCIDRs: readonly string[];
  /** Host names of Ingresses: `shop.example.com`, or `*.example.com` for every name below it. */
  readonly ingressHosts: readonly string[];
}

/** What a tenant may that nobody has decided on. */
export const defaultPolicy: TenantPolicy = {
  podSecurity: 'baseline',
  daemonSets: 'deny',
  volumeTypes: [],
  schedulerNames: [],
  externalIPs: false,
  loadBalancerOptions: false,
  endpointCIDRs: [],
  ingressHosts: [],
};

/** What a kind may know of the tenant it translates for. Plain data, fixed for one reconcile. */
export interface TenantInfo {
  /** UID of the VirtualCluster: value of the label `skerry.dev/tenant`. */
  readonly uid: string;
  /** `status.id` of the VirtualCluster: root of all names. */
  readonly id: string;
  /** Namespace and name of the VirtualCluster. */
  readonly namespace: string;
  readonly name: string;
  readonly clusterDomain: string;
  /** The slices of the service pool that this tenant's API server allocates from, as CIDRs. */
  readonly serviceCidrs: readonly string[];
  /** `slice`: ClusterIPs are asked for as they are; `assigned`: the super cluster chooses, the tenant follows. */
  readonly serviceIpMode: 'slice' | 'assigned';
  /** Where pods reach the tenant's API server: what `default/kubernetes` points at. */
  readonly apiServer: {
    readonly address: string;
    readonly port: number;
    /** The address is a Service's of the super cluster, where the manager leads pods to their API server itself. */
    readonly isService?: boolean;
  };
  /** Where the tenant's API server reaches what it believes to be kubelets. */
  readonly kubelet: { readonly address: string; readonly port: number; readonly name?: string };
  readonly nodes: 'all' | 'used';
  readonly syncConfigMaps: 'used' | 'all';
  readonly syncSecrets: 'used' | 'all';
  /** Nodes are shown under names of Skerry's own; nothing that names a real node goes up. */
  readonly hideNodes: boolean;
  /** Labels of the super cluster's nodes that the tenant may use; empty: every node. */
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly syncIngresses: boolean;
  readonly syncNetworkPolicies: boolean;
  /** Whether something in the super cluster acts on NetworkPolicies. */
  readonly networkPoliciesEnforced: boolean;
  /** Annotations of Ingresses that go down: keys, or prefixes that end in `/`. */
  readonly ingressAnnotations: readonly string[];
  /** Published custom resources whose objects are synced, as `<plural>.<group>`. */
  readonly customResources: readonly string[];
  readonly policy: TenantPolicy;
  /** Labels of nodes that tenants see beside those of rule 25: keys, or prefixes that end in `/`. */
  readonly nodeLabels: readonly string[];
  /** Where no EndpointSlice may point, whatever the policy allows: the operator's own. */
  readonly protectedCIDRs: readonly string[];
  /** Label and annotation keys with these prefixes never go down. */
  readonly deniedKeyPrefixes: readonly string[];
  /** Label and annotation keys with these prefixes belong to the super cluster and are copied up. */
  readonly transparentKeyPrefixes: readonly string[];
}

/** Reads from the caches of one side; what it returns must not be changed. */
export interface Lookup {
  get<T extends KubeObject = KubeObject>(resource: Resource, ref: ObjectRef): T | undefined;
  /** `index` is one that a kind declares in `indexes` for that side. */
  byIndex<T extends KubeObject = KubeObject>(resource: Resource, index: string, value: string): readonly T[];
}

export interface SyncContext {
  readonly tenant: TenantInfo;
  readonly tenantObjects: Lookup;
  readonly superObjects: Lookup;
  /** Custom resources that are synced for this tenant at this moment, by API group and kind. */
  readonly customKind?: (group: string, kind: string) => DownKind | undefined;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}
