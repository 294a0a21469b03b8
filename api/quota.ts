import { z } from 'zod';

/**
 * Names of what is limited, as a ResourceQuota of Kubernetes has them (`pods`, `requests.cpu`, `services.loadbalancers`,
 * `gold.storageclass.storage.k8s.io/requests.storage`, `count/ingresses.networking.k8s.io`), and Skerry's own:
 *
 * - `objects`: objects of the tenant in the super cluster; `objects.bytes`: their size as JSON, or
 *   a quarter of the memory that they take where that is more.
 * - `customresources`: those of them that are of published CustomResourceDefinitions.
 * - `writes.bytes-per-minute`: bytes that creating and changing them may cost the super cluster's datastore, with 4 KiB
 *   for each deletion; for new namespaces there is as much again, of which each takes 256 KiB.
 * - `datastore.keys`, `datastore.bytes`: what its own objects take in the etcd of all tenants, history left out. The
 *   manager measures them; of a tenant beyond one of them the API server creates and changes nothing until it deletes.
 */
const longestName = 317;
const name =
  /^(pods|requests\.(cpu|memory|ephemeral-storage|storage)|limits\.(cpu|memory|ephemeral-storage)|services(\.nodeports|\.loadbalancers)?|persistentvolumeclaims|configmaps|secrets|customresources|objects(\.bytes)?|writes\.bytes-per-minute|datastore\.(keys|bytes)|count\/[a-z0-9][-a-z0-9.]{0,252}|[a-z0-9][-a-z0-9.]{0,252}\.storageclass\.storage\.k8s\.io\/(requests\.storage|persistentvolumeclaims))$/;

/** Whether there is such a resource to limit. */
export function isLimitedResource(resource: string): boolean {
  return resource.length <= longestName && name.test(resource);
}

const resourceName = z
  .string()
  .max(longestName)
  .regex(
    name,
    'has to be a resource that is limited, as pods, requests.cpu, services.loadbalancers or count/ingresses.networking.k8s.io',
  );

const remedy = 'has to be a quantity, as "20", "500m" or "64Gi"';

function quantities(value: z.ZodString, maxProperties: number): z.ZodRecord<z.ZodString, z.ZodString> {
  return z.record(resourceName, value).meta({ maxProperties });
}

/** A quantity, or `*` for no limit. */
export const quantityOrAny = z
  .string()
  .max(32)
  .regex(/^([0-9]{1,15}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?|\*)$/, `${remedy}, or "*" for no limit`);

/** `spec.quota` of a VirtualCluster and of a VirtualClusterPolicy. */
export const quotaSchema = quantities(quantityOrAny, 64);

/** What came of it. What is not named is not limited. */
export const effectiveQuotaSchema = quantities(
  z
    .string()
    .max(32)
    .regex(/^[0-9]{1,15}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$/, remedy),
  192,
);

/** What is used of it: sums, which may be larger and finer than any limit. */
export const usedQuantity = z
  .string()
  .max(64)
  .regex(/^[0-9]{1,48}(n|u|m|Ki|Mi|Gi|Ti|Pi|Ei)?$/, remedy);

export const usedQuotaSchema = quantities(usedQuantity, 192);

export type Quota = Readonly<Record<string, string>>;
