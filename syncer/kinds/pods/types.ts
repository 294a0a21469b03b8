import type { Condition, KubeObject } from '../../../kube/index.ts';
import type { TokenSource } from '../pod-tokens.ts';

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

export interface FieldRef {
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

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: SelectorRequirement[];
}

export interface SelectorRequirement {
  key: string;
  operator: string;
  values?: string[];
}

export interface NodeSelectorTerm {
  matchExpressions?: SelectorRequirement[];
  matchFields?: SelectorRequirement[];
}

export interface Affinity {
  nodeAffinity?: {
    requiredDuringSchedulingIgnoredDuringExecution?: { nodeSelectorTerms: NodeSelectorTerm[] };
    preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; preference: NodeSelectorTerm }[];
    [field: string]: unknown;
  };
  podAffinity?: PodAffinity;
  podAntiAffinity?: PodAffinity;
}

export interface PodAffinity {
  requiredDuringSchedulingIgnoredDuringExecution?: PodAffinityTerm[];
  preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; podAffinityTerm: PodAffinityTerm }[];
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

export interface PodSecurityContext extends CommonSecurityContext {
  sysctls?: { name: string; value: string }[];
}

export interface ContainerSecurityContext extends CommonSecurityContext {
  privileged?: boolean;
  allowPrivilegeEscalation?: boolean;
  procMount?: string;
  capabilities?: { add?: string[]; drop?: string[] };
}

/** What a pod and its containers can both set. */
export interface CommonSecurityContext {
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
