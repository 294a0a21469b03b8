import { z } from 'zod';
import type { KubeObject } from '../kube/index.ts';
import { driverNames } from './drivers.ts';
import { effectiveQuotaSchema, quantityOrAny, quotaSchema } from './quota.ts';

/**
 * Text of a shape, with what to write instead as the message, on both roads: when a command checks an
 * object before it is sent, and when the API server does. `pattern` has to be understood by both, so it
 * has no flags and no look-around.
 */
export function checkedText(pattern: RegExp, maxLength: number, remedy: string): z.ZodType<string, string> {
  if (pattern.source.includes("'"))
    throw new TypeError(`the pattern ${pattern.source} cannot stand in a rule`);
  return z
    .string()
    .max(maxLength)
    .refine((text) => pattern.test(text), remedy)
    .meta({ 'x-kubernetes-validations': [{ rule: `self.matches(r'${pattern.source}')`, message: remedy }] });
}

/** A set of such texts: at most `maxItems`, none twice. */
export function textSet<T extends z.ZodType<string, string>>(item: T, maxItems = 64): z.ZodArray<T> {
  return z.array(item).max(maxItems).meta({ 'x-kubernetes-list-type': 'set' });
}

/** From the most to the least that a pod may do. */
export const podSecurityLevels = ['privileged', 'baseline', 'restricted'] as const;
export const daemonSetPolicies = ['deny', 'allow'] as const;

/**
 * Sources of volumes that reach beyond a tenant's own objects. Not among them: those that every pod may
 * use, and those that Skerry cannot carry (claims of resources, bundles and certificates of the super cluster).
 */
const volumeTypes = [
  'awsElasticBlockStore',
  'azureDisk',
  'azureFile',
  'cephfs',
  'cinder',
  'csi',
  'fc',
  'flexVolume',
  'flocker',
  'gcePersistentDisk',
  'gitRepo',
  'glusterfs',
  'hostPath',
  'image',
  'iscsi',
  'nfs',
  'photonPersistentDisk',
  'portworxVolume',
  'quobyte',
  'rbd',
  'scaleIO',
  'storageos',
  'vsphereVolume',
] as const;

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const dnsName = `${label}(\\.${label})*`;
const labelName = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';

const objectName = checkedText(
  new RegExp(`^${dnsName}$`),
  253,
  'has to be the name of an object, as in gvisor or my-scheduler: lower case letters, digits, "-" and "."',
);

const addressRange = checkedText(
  /^[0-9a-fA-F:.]+\/[0-9]{1,3}$/,
  64,
  'has to be a range of addresses with its prefix length, as in 192.0.2.0/24, or 192.0.2.7/32 for one address',
);

const hostName = checkedText(
  new RegExp(`^(\\*\\.)?${dnsName}$`),
  253,
  'has to be a host name, as in shop.example.com, or *.example.com for every name below example.com',
);

const taintKey = checkedText(
  new RegExp(`^(\\*|${dnsName}/|(${dnsName}/)?${labelName})$`),
  317,
  'has to be the key of a taint, as in example.com/pool, or example.com/ for all keys that begin so, or * for all but those of control planes',
);

const imageRegistry = checkedText(
  /^(localhost|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+|[a-z0-9]([-a-z0-9]*[a-z0-9])?:[0-9]{1,5})(:[0-9]{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/,
  255,
  'has to be a registry, with the beginning of a path or without, as in registry.example.com:5000/team, or docker.io/library',
);

const capability = checkedText(
  /^[A-Z][A-Z0-9_]*$/,
  64,
  'has to be the name of a capability as pods write it, as in NET_ADMIN, without CAP_',
);

const hostPortRange = checkedText(
  /^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$/,
  11,
  'has to be a port or a range of them, as in 9100 or 30100-30199',
);

const cacheMiB = z.int().min(1).max(1_048_576);
const memoryOfObjects = "How much memory, in MiB, a tenant's objects may take in the syncer.";

export const weight = z.int().min(1).max(1000);
export const shareByWeight =
  "The tenant's share of the syncer, of the scheduler and of the processors that control planes use, in proportion to the " +
  "other tenants' weights (of processors, with the drivers compose and kubernetes at most 10 to 1 between API servers; " +
  'with kubernetes by CPU requests, which nodes reserve). A change restarts nothing.';

/** Labels that a node has to carry, with the values that they have to have. */
export const nodeSelector = z
  .record(
    z
      .string()
      .max(317)
      .regex(
        new RegExp(`^(${dnsName}/)?${labelName}$`),
        'has to be the key of a label, as in example.com/pool',
      ),
    checkedText(
      new RegExp(`^(${labelName})?$`),
      63,
      'has to be the value of a label: at most 63 letters, digits, "-", "_" and "."',
    ),
  )
  .meta({ maxProperties: 32 });

const podSecurity = z
  .enum(podSecurityLevels)
  .describe('Pod Security level that pods are held to: privileged, baseline or restricted.');
const daemonSets = z
  .enum(daemonSetPolicies)
  .describe('Whether pods of DaemonSets run: each claims a place on every node.');
const volumes = textSet(z.enum(volumeTypes), volumeTypes.length).describe(
  'Sources of volumes allowed beside those that need nothing but objects of the tenant, as in hostPath or nfs.',
);
const schedulerNames = textSet(objectName).describe(
  'Schedulers of the super cluster that pods may name beside default-scheduler.',
);
const runtimeClassName = objectName.describe('Runtime class that every pod gets, whatever it asks for.');
const externalIPs = z.boolean().describe('Whether Services may have externalIPs.');
const loadBalancerOptions = z
  .boolean()
  .describe('Whether Services may have loadBalancerIP, loadBalancerSourceRanges and loadBalancerClass.');
const endpointCIDRs = textSet(addressRange).describe(
  "Ranges beside the tenant's own pods that its EndpointSlices may point into.",
);
const ingressHosts = textSet(hostName, 256).describe(
  'Host names of Ingresses: shop.example.com, or *.example.com for every name below it.',
);

const tolerations = textSet(taintKey).describe(
  'Keys of taints that pods may tolerate beside node.kubernetes.io/not-ready and unreachable; example.com/ for all keys that begin so, * for all but those of control planes.',
);
const alwaysPullImages = z
  .boolean()
  .describe(
    'Whether every container pulls its image with the credentials of its pod, as by imagePullPolicy Always.',
  );
const imageRegistries = textSet(imageRegistry, 256).describe(
  'Where images may come from: registries, or beginnings of paths in them. Any when absent.',
);
const capabilities = textSet(capability).describe(
  'Capabilities that containers may add, of those that the Pod Security level allows. All of those when absent.',
);
const hostPorts = textSet(hostPortRange).describe(
  'Ports of nodes that pods may have, where the Pod Security level allows any. All when absent.',
);
const priorityClasses = textSet(objectName, 256).describe(
  'Priority classes that the tenant is offered, of those that are published. All of those when absent.',
);
const storageClasses = textSet(objectName, 256).describe(
  'Storage classes that the tenant is offered, of those that are published. All of those when absent.',
);
const runtimeClasses = textSet(objectName, 256).describe(
  'Runtime classes that the tenant is offered, of those that are published. All of those when absent.',
);
const ingressClasses = textSet(objectName, 256).describe(
  'Ingress classes that the tenant is offered, of those that are published. All of those when absent.',
);

/**
 * Lists that tighten: what stands in both the request and the ceiling, or in the one that has it; without either,
 * everything. The same in all three schemas.
 */
const restrictingLists = {
  imageRegistries: imageRegistries.optional(),
  capabilities: capabilities.optional(),
  hostPorts: hostPorts.optional(),
  priorityClasses: priorityClasses.optional(),
  storageClasses: storageClasses.optional(),
  runtimeClasses: runtimeClasses.optional(),
  ingressClasses: ingressClasses.optional(),
};
export type RestrictingList = keyof typeof restrictingLists;

/** What a VirtualCluster asks for: `spec.policy`. What it gets stands in `status.policy`. */
export const requestedPolicySchema = z.strictObject({
  podSecurity: podSecurity.optional(),
  daemonSets: daemonSets.optional(),
  volumeTypes: volumes.optional(),
  schedulerNames: schedulerNames.optional(),
  runtimeClassName: runtimeClassName.optional(),
  externalIPs: externalIPs.optional(),
  loadBalancerOptions: loadBalancerOptions.optional(),
  endpointCIDRs: endpointCIDRs.optional(),
  ingressHosts: ingressHosts.optional(),
  tolerations: tolerations.optional(),
  alwaysPullImages: alwaysPullImages.optional(),
  ...restrictingLists,
});

/** What the manager has decided on: `status.policy`. The syncer enforces it and reads no other policy. */
export const effectivePolicySchema = z.strictObject({
  ceiling: z
    .string()
    .max(253)
    .describe('VirtualClusterPolicy that limits this tenant; absent where the defaults do.')
    .optional(),
  podSecurity,
  daemonSets,
  volumeTypes: volumes,
  schedulerNames,
  runtimeClassName: runtimeClassName.optional(),
  externalIPs,
  loadBalancerOptions,
  endpointCIDRs,
  ingressHosts,
  tolerations: tolerations.optional(),
  alwaysPullImages: alwaysPullImages.optional(),
  ...restrictingLists,
  nodeSelector: nodeSelector.describe('Labels of the nodes that the tenant may use; empty: every node.'),
  hideNodes: z.boolean().describe("Whether nodes are shown under names of Skerry's own."),
  weight: weight.describe(shareByWeight).optional(),
  cacheMiB: cacheMiB.describe(memoryOfObjects).optional(),
  quota: effectiveQuotaSchema
    .describe(
      'How much of each resource the tenant may have in the super cluster; what is not named is not limited.',
    )
    .optional(),
});

type ReadonlyLists<T> = {
  readonly [K in keyof T]: NonNullable<T[K]> extends string[]
    ? readonly string[] | Exclude<T[K], string[]>
    : T[K];
};

/** What the objects of a tenant may ask of the super cluster: the manager's decision, not what the tenant asks for. */
export type TenantPolicy = ReadonlyLists<
  Omit<EffectivePolicy, 'ceiling' | 'nodeSelector' | 'hideNodes' | 'weight' | 'cacheMiB'>
>;

export type RequestedPolicy = z.input<typeof requestedPolicySchema>;
export type EffectivePolicy = z.input<typeof effectivePolicySchema>;
export type PodSecurityLevel = (typeof podSecurityLevels)[number];

const any = "'*' for whatever is asked";

const namespace = checkedText(
  /^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$/,
  63,
  'has to be the name of a namespace of the super cluster, or * for all that no other policy names',
);

const schedulerName = checkedText(
  new RegExp(`^(\\*|${dnsName})$`),
  253,
  'has to be the name of a scheduler, or * for any',
);

const host = checkedText(
  new RegExp(`^(\\*|(\\*\\.)?${dnsName})$`),
  253,
  'has to be a host name, *.example.com for every name below example.com, or * for any',
);

/** `maxSnapshotStorage` of a namespace for which no VirtualClusterPolicy has one. */
export const defaultSnapshotStorage = '10Gi';

/** `spec` of a VirtualClusterPolicy: the most that VirtualClusters of these namespaces may ask for. */
export const virtualClusterPolicySpecSchema = z.strictObject({
  namespaces: textSet(namespace, 1024)
    .min(1)
    .describe(
      'Namespaces whose VirtualClusters are limited by this policy; * for all that no other policy names.',
    ),
  podSecurity: z
    .enum(podSecurityLevels)
    .describe('The least strict Pod Security level to be had. baseline when absent.')
    .optional(),
  daemonSets: z
    .enum(daemonSetPolicies)
    .describe('Whether pods of DaemonSets may be asked for. deny when absent.')
    .optional(),
  volumeTypes: textSet(z.enum(['*', ...volumeTypes]))
    .describe(`Sources of volumes that may be asked for; ${any}. None when absent.`)
    .optional(),
  schedulerNames: textSet(schedulerName)
    .describe(`Schedulers that may be asked for; ${any}. None when absent.`)
    .optional(),
  runtimeClassName: objectName
    .describe('Runtime class of every pod of every tenant, whatever is asked for.')
    .optional(),
  externalIPs: z
    .boolean()
    .describe('Whether externalIPs of Services may be asked for. false when absent.')
    .optional(),
  loadBalancerOptions: z
    .boolean()
    .describe(
      'Whether loadBalancerIP, loadBalancerSourceRanges and loadBalancerClass of Services may be asked for. false when absent.',
    )
    .optional(),
  endpointCIDRs: textSet(addressRange)
    .describe('Ranges that what is asked for has to lie within. None when absent.')
    .optional(),
  ingressHosts: textSet(host, 256)
    .describe(`Host names that may be asked for, *.example.com with all below it; ${any}. None when absent.`)
    .optional(),
  tolerations: textSet(taintKey)
    .describe(
      `Keys of taints that may be asked for; example.com/ for all keys that begin so, * for all but those of control planes. None when absent.`,
    )
    .optional(),
  alwaysPullImages: alwaysPullImages.optional(),
  ...restrictingLists,
  templates: textSet(objectName)
    .describe('Names of the ControlPlaneTemplates to choose from; the first is for those that name none.')
    .min(1)
    .optional(),
  drivers: z
    .array(z.enum(driverNames))
    .min(1)
    .max(driverNames.length)
    .describe('Drivers that spec.driver may name. Every one of the manager when absent.')
    .optional(),
  maxVirtualClusters: z
    .int()
    .min(0)
    .max(100_000)
    .describe('How many VirtualClusters there may be in each of the namespaces. No limit when absent.')
    .optional(),
  maxSnapshotStorage: quantityOrAny
    .describe(
      'How much the snapshots of each of the namespaces may take in the store, those of deleted tenants included; ' +
        `"*": no limit. ${defaultSnapshotStorage} when absent.`,
    )
    .optional(),
  maxWeight: weight
    .describe('The greatest weight that a VirtualCluster may have. No limit when absent.')
    .optional(),
  cacheMiB: cacheMiB.describe(`${memoryOfObjects} As vc-syncer was started with when absent.`).optional(),
  nodeSelector: nodeSelector.describe('Labels of the nodes that pods of tenants are kept to.').optional(),
  hideNodes: z.boolean().describe('Whether the names of nodes are kept from every tenant.').optional(),
  quota: quotaSchema
    .describe(`The most of each resource that may be asked for; ${any}. What is not named has its default.`)
    .optional(),
});

export type VirtualClusterPolicySpec = z.input<typeof virtualClusterPolicySpecSchema>;

/** The limit that an operator sets: a VirtualCluster of the namespaces gets no more. */
export interface VirtualClusterPolicy extends KubeObject {
  spec?: VirtualClusterPolicySpec;
}
