import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { secretNotOurs } from './errors.ts';
import { ensureObject, find } from './objects.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

export interface Secret extends KubeObject {
  type?: string;
  data?: Record<string, string>;
}

/** The decoded data of a Secret of this tenant, undefined if there is none. Throws `SecretNotOurs`. */
export async function readSecret(
  tenant: Tenant,
  { client }: Services,
  name: string,
): Promise<Record<string, string> | undefined> {
  const ref = { namespace: tenant.ref.namespace, name };
  const secret = await find<Secret>(client, resources.secrets, ref, tenant.signal);
  if (secret === undefined) return undefined;
  assertOurs(tenant, secret);
  return Object.fromEntries(
    Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}

/** Writes a Secret of this tenant where it differs. Throws `SecretNotOurs` before touching another's. */
export async function writeSecret(
  tenant: Tenant,
  { client }: Services,
  name: string,
  data: Readonly<Record<string, string>>,
  likely: 'there' | 'absent' = 'there',
): Promise<void> {
  const wanted: Secret = {
    metadata: {
      name,
      namespace: tenant.ref.namespace,
      labels: tenant.labels,
      annotations: { [annotationKeys.id]: tenant.id },
      ownerReferences: [tenant.ownerReference],
    },
    type: 'Opaque',
    data: Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    ),
  };
  await ensureObject(client, resources.secrets, wanted, {
    signal: tenant.signal,
    likely,
    check: (current) => assertOurs(tenant, current),
  });
}

/**
 * A Secret is this tenant's when it is owned by this very object, or by none and bears its id, as after
 * restoring from a backup.
 */
export function isOurs(tenant: Tenant, secret: KubeObject): boolean {
  const { labels, annotations, ownerReferences } = secret.metadata;
  if (labels?.[labelKeys.virtualCluster] !== tenant.ref.name) return false;
  const owners = (ownerReferences ?? []).filter((owner) => owner.kind === resources.virtualClusters.kind);
  if (owners.length > 0) return owners.some((owner) => owner.uid === tenant.uid);
  return (
    annotations?.[annotationKeys.id] !== undefined && annotations[annotationKeys.id] === tenant.vc.status?.id
  );
}

function assertOurs(tenant: Tenant, secret: KubeObject): void {
  if (!isOurs(tenant, secret)) throw secretNotOurs(tenant.ref.namespace, secret.metadata.name ?? '');
}
