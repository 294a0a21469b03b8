import type { Condition, KubeObject } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import type { LabelRequirement, LabelSelector } from '../../mapping/network-isolation.ts';
import type { TokenSource } from './token-requests.ts';

/** The fields of pods that are looked at; everything else passes through untouched. */
export interface Pod extends KubeObject {
  spec?: PodSpec;
  status?: PodStatus;
}

export interface PodSpec {
  nodeName?: string;
  containers?: Container[];
  initContainers?: Container[];
  ephemeralContainers?: Container[];
  volumes?: Volume[];
  serviceAccountName?: string;
  imagePullSecrets?: { name?: string }[];
  nodeSelector?: Record<string, string>;
  tolerations?: Toleration[];
  affinity?: Affinity;
  topologySpreadConstraints?: SpreadConstraint[];
  activeDeadlineSeconds?: number;
  terminationGracePeriodSeconds?: number;
  priorityClassName?: string;
  resources?: ResourceRequirements;
  readinessGates?: { conditionType: string }[];
  schedulingGates?: unknown[];
  resourceClaims?: unknown[];
  schedulingGroup?: unknown;
  schedulerName?: string;
  runtimeClassName?: string;
  securityContext?: PodSecurityContext;
  hostNetwork?: boolean;
  hostPID?: boolean;
  hostIPC?: boolean;
  hostUsers?: boolean;
  os?: { name?: string };
  hostname?: string;
  subdomain?: string;
  setHostnameAsFQDN?: boolean;
  dnsPolicy?: string;
  dnsConfig?: DnsConfig;
  enableServiceLinks?: boolean;
  [field: string]: unknown;
}

export interface DnsConfig {
  nameservers?: string[];
  searches?: string[];
  options?: DnsOption[];
}

export interface DnsOption {
  name: string;
  value?: string;
}

export interface Container {
  name: string;
  image?: string;
  resources?: ResourceRequirements;
  resizePolicy?: { resourceName: string; restartPolicy: string }[];
  env?: EnvVar[];
  envFrom?: EnvFromSource[];
  ports?: { hostPort?: number; [field: string]: unknown }[];
  securityContext?: ContainerSecurityContext;
  livenessProbe?: Handler;
  readinessProbe?: Handler;
  startupProbe?: Handler;
  lifecycle?: { postStart?: Handler; preStop?: Handler };
  [field: string]: unknown;
}

export interface ResourceRequirements {
  requests?: Record<string, string>;
  limits?: Record<string, string>;
  [field: string]: unknown;
}

export interface Handler {
  httpGet?: { host?: string };
  tcpSocket?: { host?: string };
  [field: string]: unknown;
}

export interface EnvVar {
  name: string;
  value?: string;
  valueFrom?: {
    fieldRef?: FieldRef;
    configMapKeyRef?: ObjectName;
    secretKeyRef?: ObjectName;
    fileKeyRef?: { optional?: boolean };
    [field: string]: unknown;
  };
}

export interface EnvFromSource {
  prefix?: string;
  configMapRef?: ObjectName;
  secretRef?: ObjectName;
  [field: string]: unknown;
}

export interface ObjectName {
  name?: string;
  optional?: boolean;
  [field: string]: unknown;
}

interface FieldRef {
  fieldPath: string;
  [field: string]: unknown;
}

/** One source is set beside the name; its key says which. */
export interface Volume {
  name: string;
  configMap?: ObjectName;
  secret?: { secretName?: string; [field: string]: unknown };
  projected?: { sources?: Projection[] | null; [field: string]: unknown };
  downwardAPI?: { items?: DownwardItem[]; [field: string]: unknown };
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  ephemeral?: { readOnly?: boolean; [field: string]: unknown };
  [source: string]: unknown;
}

export interface Projection {
  configMap?: ObjectName;
  secret?: ObjectName;
  downwardAPI?: { items?: DownwardItem[] };
  serviceAccountToken?: TokenSource;
  clusterTrustBundle?: unknown;
  podCertificate?: unknown;
  [source: string]: unknown;
}

export interface DownwardItem {
  path: string;
  fieldRef?: FieldRef;
  [field: string]: unknown;
}

export interface Toleration {
  key?: string;
  operator?: string;
  value?: string;
  effect?: string;
  tolerationSeconds?: number;
}

export interface NodeSelectorTerm {
  matchExpressions?: LabelRequirement[];
  matchFields?: LabelRequirement[];
}

export interface Affinity {
  nodeAffinity?: {
    requiredDuringSchedulingIgnoredDuringExecution?: { nodeSelectorTerms?: NodeSelectorTerm[] };
    preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; preference?: NodeSelectorTerm }[];
    [field: string]: unknown;
  };
  podAffinity?: PodAffinity;
  podAntiAffinity?: PodAffinity;
}

export interface PodAffinity {
  requiredDuringSchedulingIgnoredDuringExecution?: PodAffinityTerm[];
  preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; podAffinityTerm?: PodAffinityTerm }[];
}

export interface PodAffinityTerm {
  labelSelector?: LabelSelector;
  namespaces?: string[];
  namespaceSelector?: LabelSelector;
  matchLabelKeys?: string[];
  mismatchLabelKeys?: string[];
  [field: string]: unknown;
}

export interface SpreadConstraint {
  labelSelector?: LabelSelector;
  matchLabelKeys?: string[];
  [field: string]: unknown;
}

interface PodSecurityContext extends CommonSecurityContext {
  sysctls?: { name: string; value: string }[];
}

interface ContainerSecurityContext extends CommonSecurityContext {
  privileged?: boolean;
  allowPrivilegeEscalation?: boolean;
  procMount?: string;
  capabilities?: { add?: string[]; drop?: string[] };
}

/** What a pod and its containers can both set. */
interface CommonSecurityContext {
  runAsNonRoot?: boolean;
  runAsUser?: number;
  seLinuxOptions?: { type?: string; user?: string; role?: string };
  seccompProfile?: { type?: string };
  appArmorProfile?: { type?: string };
  windowsOptions?: { hostProcess?: boolean };
  [field: string]: unknown;
}

export interface PodStatus {
  phase?: string;
  conditions?: Condition[];
  podIP?: string;
  podIPs?: { ip?: string }[];
  observedGeneration?: number;
  [field: string]: unknown;
}

/** All containers of a pod, in the order in which Kubernetes' own messages name them. */
export function allContainers(spec: PodSpec): Container[] {
  return [...(spec.initContainers ?? []), ...(spec.containers ?? []), ...(spec.ephemeralContainers ?? [])];
}

export function isFinished(pod: Pod): boolean {
  return pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
}

export function isDeleting(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp !== undefined;
}

/**
 * One translation of a pod's spec on its way down. Returns a new spec, or the given one when there is nothing to
 * translate; never changes it. `pod` is the tenant's pod as it is.
 */
export type PodStep = (spec: PodSpec, pod: Pod, context: SyncContext) => PodSpec;

/** A spec with each container changed. Containers that `change` gives back as they are cost nothing. */
export function mapContainers(spec: PodSpec, change: (container: Container) => Container): PodSpec {
  return mapItems(mapItems(spec, 'containers', change), 'initContainers', change);
}

/** A volume with each source of a projection changed. */
export function mapSources(volume: Volume, change: (source: Projection) => Projection): Volume {
  if (!volume.projected) return volume;
  const projected = mapItems(volume.projected, 'sources', change);
  return projected === volume.projected ? volume : { ...volume, projected };
}

type Item<List> = NonNullable<List> extends readonly (infer I)[] ? I : never;

/** An object with each item of one of its lists changed; the object itself when no item was. */
export function mapItems<T extends object, Field extends keyof T>(
  object: T,
  field: Field,
  change: (item: Item<T[Field]>) => Item<T[Field]>,
): T {
  const list = object[field] as readonly Item<T[Field]>[] | null | undefined;
  const changed = mapChanged(list, change);
  return changed === list ? object : { ...object, [field]: changed };
}

/** Like `map`, but gives back the list itself when no item was changed. */
export function mapChanged<T, L extends readonly T[] | null | undefined>(list: L, change: (item: T) => T): L {
  if (list === undefined || list === null) return list;
  let changed: T[] | undefined;
  list.forEach((item, index) => {
    const result = change(item);
    if (result === item) return;
    changed ??= [...list];
    changed[index] = result;
  });
  return (changed ?? list) as L;
}

/** The containers that a test holds for, as `container "a"` or `containers "a", "b"`; undefined: none. */
export function containersThat(spec: PodSpec, holds: (container: Container) => boolean): string | undefined {
  return named(allContainers(spec).filter(holds));
}

/** Like `containersThat` for what pod and containers have in common in their security contexts. */
export function describeOffenders(
  spec: PodSpec,
  holds: (securityContext: CommonSecurityContext) => boolean,
): string | undefined {
  const pod = spec.securityContext !== undefined && holds(spec.securityContext) ? 'pod' : undefined;
  const containers = containersThat(
    spec,
    ({ securityContext }) => securityContext !== undefined && holds(securityContext),
  );
  return pod !== undefined && containers !== undefined ? `${pod} and ${containers}` : (pod ?? containers);
}

export function quoted(values: Iterable<string>): string {
  return [...new Set(values)].map((value) => `"${value}"`).join(', ');
}

function named(containers: readonly Container[]): string | undefined {
  if (containers.length === 0) return undefined;
  return `${containers.length === 1 ? 'container' : 'containers'} ${quoted(containers.map(({ name }) => name))}`;
}

/**
 * Types of pod conditions that kubelet, scheduler and controllers of Kubernetes set themselves. A readiness gate of that
 * name would have the syncer write what they write.
 * https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/api/core/v1/types.go (PodConditionType)
 */
export const ownedConditionTypes: ReadonlySet<string> = new Set([
  'AllContainersRestarting',
  'ContainersReady',
  'DisruptionTarget',
  'Initialized',
  'PodReadyToStartContainers',
  'PodResizeInProgress',
  'PodResizePending',
  'PodScheduled',
  'Ready',
]);
