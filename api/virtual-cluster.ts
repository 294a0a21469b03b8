import { z } from 'zod';
import type { Condition, KubeObject } from '../kube/index.ts';
import { driverNames } from './drivers.ts';
import { jobStatusSchema } from './job-status.ts';
import { idPattern, nameProblem } from './names.ts';
import {
  checkedText,
  effectivePolicySchema,
  nodeSelector,
  requestedPolicySchema,
  shareByWeight,
  textSet,
  weight,
} from './policy.ts';
import { quotaSchema, usedQuantity, usedQuotaSchema } from './quota.ts';
import { monthlyUsageSchema } from './usage.ts';
import { wakeReasons } from './wake-reasons.ts';

const dnsName = /^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const address = /^[0-9a-fA-F:.]+$/;

function neverChanged(field: string): { rule: string; message: string }[] {
  return [{ rule: 'self == oldSelf', message: `${field} cannot be changed once it is set` }];
}

const datastoreNames = ['shared', 'own'] as const;
export const dnsChoices = ['coredns', 'none'] as const;

const cron = z
  .string()
  .max(100)
  .regex(/^[-A-Za-z0-9*,/#? ]+$/)
  .optional();

export const virtualClusterSpecSchema = z.strictObject({
  version: z
    .string()
    .max(12)
    .regex(/^1\.[0-9]{1,3}(\.[0-9]{1,3})?$/)
    .describe(
      'Kubernetes version of the control plane, as 1.36 or 1.36.3. The newest known by default. It can only grow, ' +
        'by one minor version at a time; back to what has run it can go until the new API server was ready.',
    )
    .optional(),
  template: z
    .string()
    .min(1)
    .max(253)
    .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/)
    .describe('Name of the ControlPlaneTemplate to build it from. The one of its version by default.')
    .optional(),
  driver: z
    .enum(driverNames)
    .describe(
      "What runs the control plane: processes of the manager's machine, containers, or pods; one that the manager has. A " +
        'change moves it. Without it, it is what runs it, or the first of the manager.',
    )
    .optional(),
  clusterDomain: z
    .string()
    .max(180)
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/)
    .meta({ 'x-kubernetes-validations': neverChanged('clusterDomain') })
    .describe("DNS domain of the tenant's services. It cannot be changed.")
    .default('cluster.local'),
  extraNames: z
    .array(
      z
        .string()
        .min(1)
        .max(253)
        .regex(new RegExp(`${dnsName.source}|${address.source}`)),
    )
    .max(32)
    .meta({ 'x-kubernetes-list-type': 'set' })
    .describe("More DNS names and addresses for the API server's certificate.")
    .optional(),
  weight: weight.describe(shareByWeight).default(1),
  deletionProtection: z
    .boolean()
    .describe('Whether the super cluster refuses to delete it, until this is false.')
    .default(false),
  sleep: z
    .strictObject({
      afterIdle: z
        .string()
        .max(16)
        .regex(/^([1-9][0-9]{0,4}(m|h)|never)$/)
        .describe(
          'The control plane is stopped when no client has been connected through the gateway for this long, as 30m or 12h. ' +
            'Its pods keep running, and the next connection starts it again. Unset or never: it is stopped only by a request or by at.',
        )
        .optional(),
      at: cron.describe(
        'When the control plane is stopped by the clock, as five fields of cron: 0 19 * * 1-5. It may be in use.',
      ),
      wakeAt: cron.describe('When it is started by the clock, unless it was a request that put it to sleep.'),
      timeZone: z
        .string()
        .max(64)
        .regex(/^[A-Za-z0-9][-+_/A-Za-z0-9]*$/)
        .describe('Of both, as Europe/Zurich. UTC by default.')
        .optional(),
      wakeForPods: z
        .boolean()
        .describe(
          "Whether requests of the tenant's own pods wake the control plane and keep it awake, where they reach its API server " +
            'through the gateway. With false they connect to the API server directly.',
        )
        .default(true),
    })
    .describe('When the control plane is stopped and started again to save resources.')
    .optional(),
  restoreFrom: z
    .string()
    .max(253)
    .meta({ 'x-kubernetes-validations': neverChanged('restoreFrom') })
    .describe(
      'Name of a snapshot, NAMESPACE/NAME/FILE, of another tenant of this namespace: what the new one begins with. Read ' +
        'once, before it is ready.',
    )
    .optional(),
  restoreCertificates: z
    .boolean()
    .meta({ 'x-kubernetes-validations': neverChanged('restoreCertificates') })
    .describe(
      'Whether it takes over the authorities and the token key in that snapshot, so that kubeconfigs and tokens of that ' +
        'tenant are valid here.',
    )
    .optional(),
  snapshots: z
    .strictObject({
      every: z
        .string()
        .max(16)
        .regex(/^([1-9][0-9]{0,3})(h|d)$/)
        .describe('A snapshot is taken so often, as 6h or 1d. Without it only on request.')
        .optional(),
      keep: z
        .int()
        .min(1)
        .max(30)
        .describe(
          'So many are kept of those on schedule, and as many of those on request; older ones are removed.',
        )
        .default(7),
    })
    .describe('Snapshots of what the tenant has in the datastore.')
    .optional(),
  nodes: z
    .strictObject({
      mode: z
        .enum(['all', 'used'])
        .describe(
          'all: every node that the tenant may use is shown. used: those that run pods of the tenant.',
        )
        .default('all'),
      hidden: z
        .boolean()
        .describe(
          "Nodes are shown under names of Skerry's own, and pods that ask for the real ones are refused.",
        )
        .default(false),
      selector: nodeSelector
        .describe('Labels of the nodes that the tenant uses and sees; every node by default.')
        .optional(),
    })
    .describe('Which nodes the tenant sees.')
    .optional(),
  dns: z
    .enum(dnsChoices)
    .describe(
      "coredns: the manager installs a DNS server in the tenant's kube-system. none: it installs none and " +
        'removes what it installed. The default is a setting of the manager.',
    )
    .optional(),
  policy: requestedPolicySchema
    .describe(
      'What the tenant may beyond the defaults. It is limited by the VirtualClusterPolicy of its namespace; ' +
        'what comes of it stands in status.policy.',
    )
    .optional(),
  quota: quotaSchema
    .describe(
      'How much of each resource the tenant may have in the super cluster, as a ResourceQuota names them; "*": no ' +
        'limit. It is limited by the VirtualClusterPolicy of its namespace; what comes of it stands in status.policy.quota.',
    )
    .optional(),
  sync: z
    .strictObject({
      configMaps: z
        .enum(['used', 'all'])
        .describe('used: ConfigMaps that a pod refers to or that are labelled skerry.dev/sync=true.')
        .default('used'),
      secrets: z
        .enum(['used', 'all'])
        .describe('used: Secrets that a pod or Ingress refers to or that are labelled skerry.dev/sync=true.')
        .default('used'),
      ingresses: z
        .boolean()
        .describe('Whether Ingresses are mirrored. Their hosts have to be allowed by policy.ingressHosts.')
        .default(false),
      networkPolicies: z.boolean().describe('Whether NetworkPolicies are mirrored.').default(true),
      customResources: textSet(
        checkedText(
          /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/,
          253,
          'has to be the plural and group of a published CustomResourceDefinition, as in certificates.cert-manager.io',
        ),
      )
        .describe('Published CustomResourceDefinitions whose objects are mirrored, as plural.group.')
        .optional(),
    })
    .describe('What is mirrored into the super cluster.')
    .optional(),
});

const snapshotReasons = ['Requested', 'Scheduled', 'BeforeRestore'] as const;

const phases = [
  'Pending',
  'Provisioning',
  'Ready',
  'Failed',
  'Deleting',
  'Upgrading',
  'Asleep',
  'Restoring',
  'Moving',
  'Cancelled',
] as const;

const placementSchema = z.strictObject({
  driver: z.enum(driverNames),
  datastore: z.enum(datastoreNames),
  template: z.string().max(253),
});

const moveStages = ['preparing', 'copying', 'starting', 'settling', 'returning'] as const;

const conditionSchema = z.strictObject({
  type: z.string().min(1).max(316),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().max(1024),
  message: z.string().max(32768),
  lastTransitionTime: z.string().meta({ format: 'date-time' }),
  observedGeneration: z.int().min(0).optional(),
});

const secretKeySchema = z.strictObject({ name: z.string().max(253), key: z.string().max(253) });

export const virtualClusterStatusSchema = z.strictObject({
  id: z
    .string()
    .regex(idPattern)
    .max(20)
    .meta({ 'x-kubernetes-validations': neverChanged('id') })
    .describe('Root of all names of this control plane.')
    .optional(),
  fromPool: z
    .strictObject({
      member: z
        .string()
        .max(63)
        .describe("Name of the VirtualCluster in Skerry's own namespace that it was."),
      uid: z.string().max(64),
      moved: z.boolean().describe('Whether all that bore the name of that one bears this one.').optional(),
    })
    .describe('Its control plane was made before it was asked for, and had no owner before.')
    .optional(),
  phase: z.enum(phases).optional(),
  conditions: z
    .array(conditionSchema)
    .max(64)
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] })
    .optional(),
  observedGeneration: z.int().min(0).optional(),
  endpoint: z
    .string()
    .max(512)
    .describe('Where the API server listens. People reach it there too, unless there is a gateway.')
    .optional(),
  gateway: z
    .strictObject({
      server: z.string().max(512).describe('As kubeconfigs name it.'),
      serverName: z.string().max(253).describe('TLS server name by which the gateway knows the tenant.'),
      port: z
        .int()
        .min(1)
        .max(65535)
        .describe('Port of the gateway that is for this tenant alone, where no server name is needed.')
        .optional(),
      podAddress: z
        .string()
        .max(64)
        .describe('Address of the gateway at which pods reach the API server, with that port.')
        .optional(),
    })
    .describe('Where people reach the API server, when there is a gateway.')
    .optional(),
  advertisedAddress: z
    .string()
    .max(64)
    .describe('Where pods reach the API server itself, unless the gateway has an address for them.')
    .optional(),
  advertisedPort: z.int().min(1).max(65535).optional(),
  replacementPort: z
    .int()
    .min(1)
    .max(65535)
    .describe('Of an API server that is started beside the one that runs, to take its place.')
    .optional(),
  datastorePorts: z
    .array(z.int().min(1).max(65535))
    .max(8)
    .describe("Of an etcd of its own on the manager's machine.")
    .optional(),
  serviceCIDR: z.string().max(64).describe("Range of the tenant's service addresses.").optional(),
  serviceIPMode: z
    .enum(['slice', 'assigned'])
    .describe('slice: a service has one address on both sides. assigned: the super cluster chooses it.')
    .optional(),
  version: z.string().max(32).describe('Exact Kubernetes version that runs.').optional(),
  certificatesDue: z
    .string()
    .meta({ format: 'date-time' })
    .describe('When the next certificate is renewed.')
    .optional(),
  certificates: z
    .array(
      z.strictObject({
        name: z.string().max(64),
        kind: z.enum(['authority', 'certificate']),
        expires: z.string().meta({ format: 'date-time' }),
      }),
    )
    .max(32)
    .describe(
      'The authorities and certificates of the control plane. Certificates are renewed by themselves.',
    )
    .optional(),
  authorities: z
    .strictObject({
      stage: z
        .enum(['distribute', 'overlap'])
        .describe(
          'distribute: the old ones sign and the new ones are trusted too. overlap: the new ones sign and the old ones are trusted too.',
        ),
      until: z
        .string()
        .meta({ format: 'date-time' })
        .describe('When the stage ends; absent until the control plane has taken it up.')
        .optional(),
    })
    .describe('How far a renewal of the authorities is.')
    .optional(),
  tokenKey: z
    .string()
    .max(64)
    .describe('Stands for the key that signs tokens, once it was renewed: pods get new ones when it changes.')
    .optional(),
  encryption: z
    .strictObject({
      key: z.string().max(64).describe('Name of the key that writes; absent when none does yet.').optional(),
      rotation: z
        .enum(['distribute', 'write'])
        .describe(
          'Another key is being taken up. distribute: API servers learn it. write: they write with it.',
        )
        .optional(),
    })
    .describe('What the Secrets of the tenant are encrypted with in the datastore.')
    .optional(),
  sleep: z
    .strictObject({
      since: z.string().meta({ format: 'date-time' }).describe('Absent while it is awake.').optional(),
      reason: z.enum(['Requested', 'Idle', 'Scheduled']).optional(),
      stopped: z.boolean().describe('Whether all of its components have ended.').optional(),
      dueAt: z
        .string()
        .meta({ format: 'date-time' })
        .describe('When it is woken for a CronJob or a Job that has to be removed; absent while it is awake.')
        .optional(),
      dueFor: z
        .string()
        .max(512)
        .describe(
          'For which one: `CronJob NAMESPACE/NAME` or `Job NAMESPACE/NAME`; absent while it is awake.',
        )
        .optional(),
      pods: z
        .int()
        .min(0)
        .describe(
          'How many of its pods were running as it fell asleep: when there are fewer in the super cluster, it is woken.',
        )
        .optional(),
      wokenAt: z
        .string()
        .meta({ format: 'date-time' })
        .describe('When it was woken last, and its API server was ready.')
        .optional(),
      wokenBy: z.enum(wakeReasons).describe('Why it was woken last, or is being woken.').optional(),
      wokenFor: z
        .string()
        .max(512)
        .describe('With `CronJobDue` and `JobExpired`: for which one, as in `dueFor`.')
        .optional(),
      slept: z.string().max(64).describe('The last request to sleep that was followed.').optional(),
      woken: z.string().max(64).describe('The last request to wake that was followed.').optional(),
    })
    .describe('Whether its control plane is stopped to save resources, and when it last slept and woke.')
    .optional(),
  snapshots: z
    .strictObject({
      taken: z.string().max(64).describe('The last request that was followed.').optional(),
      tried: z
        .string()
        .meta({ format: 'date-time' })
        .describe('When one on schedule failed last; absent after one that succeeded.')
        .optional(),
      begun: z
        .string()
        .max(253)
        .describe(
          'Name of one that is being written, or of the last one until those are gone that went for it. One that was not finished is removed.',
        )
        .optional(),
      left: z
        .array(z.string().max(253))
        .max(16)
        .describe(
          'Names of those that were not recorded: the next one removes them, but for those that a tenant is put back to or filled from.',
        )
        .optional(),
      kept: z
        .array(
          z.strictObject({
            name: z.string().max(253).describe('NAMESPACE/NAME/FILE in the store.'),
            at: z.string().meta({ format: 'date-time' }),
            reason: z.enum(snapshotReasons),
            kubernetes: z.string().max(32),
            entries: z.int().min(0),
            bytes: z.int().min(0).describe('As stored.'),
            certificates: z.boolean().describe('Whether its authorities and token key are in it.').optional(),
          }),
        )
        .max(96)
        .describe('The latest first.')
        .optional(),
      storage: z
        .strictObject({
          usedBytes: z.int().min(0),
          maxBytes: z.int().min(0).describe('maxSnapshotStorage of the policy of its namespace.'),
        })
        .describe(
          'What the snapshots of its namespace take in the store and may take, when one of this tenant was taken or refused; absent without a limit.',
        )
        .optional(),
    })
    .describe('Snapshots of what it has in the datastore.')
    .optional(),
  restore: z
    .strictObject({
      request: z.string().max(64),
      from: z.string().max(253),
      replaced: z.boolean().describe('Whether all of it is written.').optional(),
    })
    .describe('A snapshot is being put back; the syncer keeps away meanwhile.')
    .optional(),
  restored: z
    .strictObject({
      request: z.string().max(64).describe('The last request that was followed or refused.'),
      from: z.string().max(253),
      at: z.string().meta({ format: 'date-time' }),
      refused: z.string().max(4096).describe('Why nothing was changed.').optional(),
    })
    .describe('The last request to restore.')
    .optional(),
  move: z
    .strictObject({
      stage: z
        .enum(moveStages)
        .describe(
          'preparing: the old one serves. copying, starting: none serves. settling: the new one serves. returning: back to the ' +
            'old one.',
        ),
      from: placementSchema,
      to: placementSchema,
      startedAt: z.string().meta({ format: 'date-time' }),
      pausedAt: z.string().meta({ format: 'date-time' }).describe('Since when none serves.').optional(),
      pausedMs: z.int().min(0).describe('How long none has served; absent until one does.').optional(),
      catchUp: z
        .strictObject({
          behind: z.int().min(0).describe('How many it lacked at least at the end of a round.'),
          idleRounds: z.int().min(0).describe('Rounds in a row since then that have gained nothing.'),
        })
        .describe('How far the new datastore counts to the revision of the old one.')
        .optional(),
    })
    .describe('It is on its way to another driver or datastore.')
    .optional(),
  moved: z
    .strictObject({
      at: z.string().meta({ format: 'date-time' }),
      from: placementSchema,
      to: placementSchema,
      pausedMs: z.int().min(0).describe('How long none has served.').optional(),
      why: z.string().max(1024).describe('Why it went back. Absent: it is there.').optional(),
    })
    .describe('The last move to another driver or datastore.')
    .optional(),
  jobs: jobStatusSchema.describe('Long operations: what is under way, and what was.').optional(),
  driver: z
    .enum(driverNames)
    .describe("What runs the control plane: processes of the manager's machine, containers, or pods.")
    .optional(),
  template: z
    .string()
    .max(253)
    .describe('Name of the ControlPlaneTemplate that it was built from last.')
    .optional(),
  datastore: z
    .enum(datastoreNames)
    .describe('Where its keys lie: in the etcd of all tenants or in one of its own.')
    .optional(),
  datastoreUsage: z
    .strictObject({
      keys: z.int().min(0),
      bytes: z.int().min(0).describe('Keys and values, without history.'),
      measured: z.string().meta({ format: 'date-time' }),
      writesStopped: z
        .boolean()
        .describe('Whether the API server refuses to create and change objects until enough are deleted.')
        .optional(),
      stoppedSince: z.string().meta({ format: 'date-time' }).optional(),
      sealed: z
        .boolean()
        .describe('Whether that holds for the controllers that finish deletions, too: it went on growing.')
        .optional(),
    })
    .describe('What it takes in the etcd of all tenants, measured every ten minutes or less often.')
    .optional(),
  kubeconfigSecret: secretKeySchema.optional(),
  syncerSecret: secretKeySchema
    .extend({
      namespace: z
        .string()
        .max(63)
        .describe("Skerry's own. Absent: an earlier version keeps it beside the VirtualCluster.")
        .optional(),
      version: z.string().max(64).describe('Changes with what is in it.').optional(),
    })
    .optional(),
  policy: effectivePolicySchema
    .describe('What the tenant may: what it asks for, within the limits of its VirtualClusterPolicy.')
    .optional(),
  identities: z
    .strictObject({ tenant: z.string().max(64).optional(), superCluster: z.string().max(64).optional() })
    .describe('UID of the kube-system namespace on each side.')
    .optional(),
  observedResourceVersion: z
    .string()
    .max(20)
    .regex(/^[0-9]+$/)
    .describe(
      "The latest resourceVersion of the tenant's objects that the syncer has seen, every few minutes.",
    )
    .optional(),
  joinAttempts: z
    .int()
    .min(0)
    .describe(
      'Times in a row that the syncer began to take up what the tenant has and neither succeeded nor ended in order: a replica died.',
    )
    .optional(),
  confinement: z
    .array(z.enum(['resources', 'egress']))
    .max(8)
    .meta({ 'x-kubernetes-list-type': 'set' })
    .describe(
      "What the manager's driver limits the control plane in: memory and CPU; where its connections lead on the machine " +
        'that it runs on. Absent for a driver that leaves that to others.',
    )
    .optional(),
  usage: z
    .strictObject({
      pods: z.int().min(0).optional(),
      services: z.int().min(0).optional(),
      nodes: z.int().min(0).optional(),
      cpu: usedQuantity.describe('What its containers use, in cores, measured every few minutes.').optional(),
      memory: usedQuantity.describe('Their working sets, in bytes.').optional(),
      resources: usedQuotaSchema
        .describe(
          'What the tenant has of what status.policy.quota limits, and its requests.cpu, requests.memory and requests.storage ' +
            'in any case, written at most once a minute.',
        )
        .optional(),
      month: monthlyUsageSchema
        .describe('What it has used since the month began (UTC), written every ten minutes by the manager.')
        .optional(),
    })
    .optional(),
});

export type VirtualClusterSpec = z.input<typeof virtualClusterSpecSchema>;
export type DnsChoice = (typeof dnsChoices)[number];
export type DatastoreName = (typeof datastoreNames)[number];
export type Move = NonNullable<VirtualClusterStatus['move']>;
/** What runs a control plane, and where its keys lie. */
export type ControlPlanePlacement = Move['from'];
export type SnapshotReason = (typeof snapshotReasons)[number];
export type KeptSnapshot = NonNullable<NonNullable<VirtualClusterStatus['snapshots']>['kept']>[number];
export type VirtualClusterPhase = (typeof phases)[number];
export type VirtualClusterStatus = Omit<z.input<typeof virtualClusterStatusSchema>, 'conditions'> & {
  conditions?: Condition[];
};

/** A tenant control plane as its owner asks for it. The API server fills in the defaults of `spec`. */
export interface VirtualCluster extends KubeObject {
  spec?: VirtualClusterSpec;
  status?: VirtualClusterStatus;
}

/** Every mistake in a VirtualCluster that is about to be sent; empty when it is valid. */
export function virtualClusterProblems(object: VirtualCluster): string[] {
  const problems: string[] = [];
  const name = nameProblem(object.metadata.name ?? '');
  if (name !== undefined) problems.push(`metadata.name: ${name}`);
  const namespace = object.metadata.namespace;
  const badNamespace = namespace === undefined ? undefined : nameProblem(namespace);
  if (badNamespace !== undefined) problems.push(`metadata.namespace: ${badNamespace}`);
  const spec = virtualClusterSpecSchema.safeParse(object.spec ?? {});
  if (!spec.success) problems.push(...spec.error.issues.map(describe));
  return problems;
}

function describe(issue: z.core.$ZodIssue): string {
  const path = ['spec', ...issue.path].join('.');
  // The message about a key of a map is one level deeper.
  const message = (issue.code === 'invalid_key' && issue.issues[0]?.message) || issue.message;
  return `${path}: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
}
