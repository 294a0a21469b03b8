import type { TenantPolicy } from '../api/policy.ts';
import type { KubeObject, ObjectRef, Resource } from '../kube/index.ts';

/** Names one object in the tenant's coordinates; `kind` is the kind's `name`. */
export interface KeyRef {
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** Where pods are and what they may not reach (sync rule `tenant-isolation`), as CIDRs. */
export interface NetworkIsolation {
  /** Ranges that pods get their addresses from, of all tenants and of the operator. */
  readonly podCIDRs: readonly string[];
  /** Nodes, API servers and what else the operator protects. */
  readonly closedCIDRs: readonly string[];
}

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
  /** Stands for the key that signs tokens; absent until it was first renewed. */
  readonly tokenKey?: string | undefined;
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
  readonly kubelet: { readonly address: string; readonly port: number; readonly name?: string | undefined };
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
  /** What keeps the pods of this tenant from those of others; undefined: nothing does. */
  readonly isolation?: NetworkIsolation | undefined;
  /** Whether something acts on policies, or what they have to close, has not been found out yet. */
  readonly isSuperClusterUnknown?: true | undefined;
  /** Annotations of Ingresses that go down: keys, or prefixes that end in `/`. */
  readonly ingressAnnotations: readonly string[];
  /** Published custom resources whose objects are synced, as `<plural>.<group>`. */
  readonly customResources: readonly string[];
  readonly policy: TenantPolicy;
  /** Labels of nodes that tenants see beside those of sync rule `virtual-nodes`: keys, or prefixes that end in `/`. */
  readonly nodeLabels: readonly string[];
  /** Where no EndpointSlice may point, whatever the policy allows: the operator's own. */
  readonly protectedCIDRs: readonly string[];
  /** Annotations of pods and Services that go down: keys, or prefixes that end in `/`. */
  readonly allowedAnnotations: readonly string[];
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
  /** Another number after each change of an object of this resource. */
  version(resource: Resource): number;
}

/** A resource, and what its objects are called on the other side; the same unless given. */
export interface NamedResource {
  readonly resource: Resource;
  /** Name in the super namespace, of a Namespace its own. */
  superName?(name: string, tenant: TenantInfo): string;
  /** Inverse of `superName`; the super object itself may know better than its name. */
  tenantName?(superName: string, superObject?: KubeObject): string;
}

/** NetworkPolicies of a tenant that are being changed in the super cluster (sync rule `tenant-isolation`). */
export interface ChangingPolicies {
  /** How many are; 0: none. */
  readonly size: number;
  /** What the super cluster's policy is being changed to, given what the cache shows; undefined: it stays as it is. */
  becomes(policy: KubeObject): KubeObject | 'gone' | undefined;
}

export interface SyncContext {
  readonly tenant: TenantInfo;
  readonly tenantObjects: Lookup;
  readonly superObjects: Lookup;
  /** Custom resources that are synced for this tenant at this moment, by API group and kind. */
  readonly customKind?: (group: string, kind: string) => NamedResource | undefined;
  /** Whether an object that is in the super cluster, or is to be, needs this one there (`References.needed`). */
  isReferenced(to: KeyRef): boolean;
  /** Keys in `data` of a ConfigMap or Secret of the tenant that is in the super cluster; empty for any other. */
  dataKeysOf(resource: Resource, ref: ObjectRef): readonly string[];
  readonly changingPolicies?: ChangingPolicies;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}
