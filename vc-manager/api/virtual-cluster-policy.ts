import { z } from 'zod';
import type { KubeObject } from '../../kube/index.ts';
import { checkedText, textSet } from './checked-text.ts';
import {
  addressRange,
  daemonSetPolicies,
  dnsName,
  nodeSelector,
  objectName,
  podSecurityLevels,
  volumeTypes,
  weight,
} from './policy.ts';

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
      'Whether loadBalancerIP and loadBalancerSourceRanges of Services may be asked for. false when absent.',
    )
    .optional(),
  endpointCIDRs: textSet(addressRange)
    .describe('Ranges that what is asked for has to lie within. None when absent.')
    .optional(),
  ingressHosts: textSet(host, 256)
    .describe(`Host names that may be asked for, *.example.com with all below it; ${any}. None when absent.`)
    .optional(),
  templates: textSet(objectName)
    .describe('Names of the ControlPlaneTemplates to choose from; the first is for those that name none.')
    .min(1)
    .optional(),
  maxVirtualClusters: z
    .int()
    .min(0)
    .max(100_000)
    .describe('How many VirtualClusters there may be in each of the namespaces. No limit when absent.')
    .optional(),
  maxWeight: weight
    .describe('The greatest weight that a VirtualCluster may have. No limit when absent.')
    .optional(),
  nodeSelector: nodeSelector.describe('Labels of the nodes that pods of tenants are kept to.').optional(),
  hideNodes: z.boolean().describe('Whether the names of nodes are kept from every tenant.').optional(),
});

export type VirtualClusterPolicySpec = z.input<typeof virtualClusterPolicySpecSchema>;

/** The ceiling that an operator sets: whoever makes a VirtualCluster can only ask for less. */
export interface VirtualClusterPolicy extends KubeObject {
  spec?: VirtualClusterPolicySpec;
}
