import { z } from 'zod';

/**
 * Names of what is limited, as a ResourceQuota of Kubernetes has them (`pods`, `requests.cpu`, `services.loadbalancers`,
 * `gold.storageclass.storage.k8s.io/requests.storage`, `count/ingresses.networking.k8s.io`), and Skerry's own:
 *
 * - `objects`: objects of the tenant in the super cluster; `objects.bytes`: their size as JSON.
 * - `customresources`: those of them that are of published CustomResourceDefinitions.
 * - `writes.bytes-per-minute`: bytes that creating and changing them may cost the super cluster's datastore.
 */
const fixedNames = [
  'pods',
  'requests\\.(cpu|memory|ephemeral-storage|storage)',
  'limits\\.(cpu|memory|ephemeral-storage)',
  'services(\\.nodeports|\\.loadbalancers)?',
  'persistentvolumeclaims',
  'configmaps',
  'secrets',
  'customresources',
  'objects(\\.bytes)?',
  'writes\\.bytes-per-minute',
];
const dnsName = '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*';
const perClass = `${dnsName}\\.storageclass\\.storage\\.k8s\\.io/(requests\\.storage|persistentvolumeclaims)`;

const resourceName = z
  .string()
  .max(317)
  .regex(
    new RegExp(`^(${fixedNames.join('|')}|count/${dnsName}|${perClass})$`),
    'has to be a resource that is limited, as pods, requests.cpu, services.loadbalancers or count/ingresses.networking.k8s.io',
  );

const amount = '[0-9]{1,15}(\\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?';
const amountRemedy = 'has to be a quantity, as "20", "500m" or "64Gi"';

function quantities(pattern: string, remedy: string): z.ZodRecord<z.ZodString, z.ZodString> {
  const value = z.string().max(32).regex(new RegExp(pattern), remedy);
  return z.record(resourceName, value).meta({ maxProperties: 64 });
}

/** `spec.quota` of a VirtualCluster and of a VirtualClusterPolicy: a quantity, or `*` for no limit. */
export const quotaSchema = quantities(`^(${amount}|\\*)$`, `${amountRemedy}, or "*" for no limit`);

/** What came of it, and what is used: quantities alone. What is not named is not limited. */
export const quantitiesSchema = quantities(`^${amount}$`, amountRemedy);

export type Quota = Readonly<Record<string, string>>;

/** What a tenant may have in the super cluster as long as no VirtualClusterPolicy allows more. */
export const defaultQuota: Quota = {
  pods: '5000',
  'requests.cpu': '2000',
  'requests.memory': '8Ti',
  'requests.ephemeral-storage': '8Ti',
  services: '2000',
  'services.nodeports': '200',
  'services.loadbalancers': '20',
  persistentvolumeclaims: '2000',
  'requests.storage': '50Ti',
  'count/namespaces': '1000',
  'count/ingresses.networking.k8s.io': '1000',
  configmaps: '10000',
  secrets: '10000',
  customresources: '10000',
  objects: '50000',
  'objects.bytes': '1Gi',
  'writes.bytes-per-minute': '256Mi',
};
