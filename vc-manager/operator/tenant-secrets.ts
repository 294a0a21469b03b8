import { isDeepStrictEqual } from 'node:util';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { formerSecretNames, internalSecretNames, secretNames } from '../../api/names.ts';
import {
  decodeSecretData,
  deleteIfPresent,
  encodeSecretData,
  ignoreNotFound,
  isConflict,
  isNotFound,
  type KubeObject,
  type ObjectRef,
  resources,
  type Secret,
} from '../../kube/index.ts';
import { secretNotCopied, secretNotOurs } from './errors.ts';
import { ensureObject } from './objects.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

/*
 * Where the Secrets of a tenant are. The owner of a VirtualCluster reads and writes Secrets in its namespace: only the
 * kubeconfig of the tenant's admin is there. The others are in Skerry's own namespace, named by the tenant's id. An
 * ownerReference does not reach across namespaces: they bear id and name of the VirtualCluster instead, and are removed
 * with it.
 */

export type SecretData = Readonly<Record<string, string>>;

type Which = keyof ReturnType<typeof internalSecretNames>;
type SecretServices = Pick<Services, 'client' | 'settings'>;

/** A Secret in Skerry's own namespace, whether it exists or not. */
export function internalSecretRef({ settings }: Pick<Services, 'settings'>, id: string, which: Which) {
  return { namespace: settings.namespace, name: internalSecretNames(id)[which] };
}

/** The decoded data of a Secret that was made for the VirtualCluster `key` under this id; undefined if there is none. */
export async function findInternalSecret(
  tenant: Pick<Tenant, 'key' | 'signal'>,
  services: SecretServices,
  id: string,
  which: Which,
): Promise<SecretData | undefined> {
  return (await findStoredSecret(tenant, services, id, which))?.data;
}

/** A Secret of a tenant as it was read: it is changed and removed only as long as it is still the same. */
export interface StoredSecret {
  ref: ObjectRef;
  data: SecretData;
  uid: string;
  resourceVersion: string;
}

/** As `findInternalSecret`, with what is needed to change it only as it was read. */
export async function findStoredSecret(
  tenant: Pick<Tenant, 'key' | 'signal'>,
  services: SecretServices,
  id: string,
  which: Which,
): Promise<StoredSecret | undefined> {
  const ref = internalSecretRef(services, id, which);
  const secret = await findSecret(tenant, services, ref);
  if (secret === undefined || !isMadeFor(tenant, id, secret)) return undefined;
  const { uid = '', resourceVersion = '' } = secret.metadata;
  return { ref, data: decodeSecretData(secret), uid, resourceVersion };
}

/** False: it was changed or removed since it was read, and nothing was written. */
export async function replaceStoredSecret(
  { signal }: Pick<Tenant, 'signal'>,
  { client }: SecretServices,
  { ref, uid, resourceVersion }: StoredSecret,
  data: SecretData,
): Promise<boolean> {
  const patch = { metadata: { uid, resourceVersion }, data: encodeSecretData(data) };
  return isUnchanged(client.patch(resources.secrets, ref, patch, { type: 'merge', signal }));
}

/** False: it was changed or removed since it was read, and is left alone. */
export async function removeStoredSecret(
  { signal }: Pick<Tenant, 'signal'>,
  { client }: SecretServices,
  { ref, uid, resourceVersion }: StoredSecret,
): Promise<boolean> {
  return isUnchanged(client.delete(resources.secrets, ref, { uid, resourceVersion, signal }));
}

async function isUnchanged(write: Promise<unknown>): Promise<boolean> {
  try {
    await write;
    return true;
  } catch (error) {
    if (isNotFound(error) || isConflict(error)) return false;
    throw error;
  }
}

/** The decoded data of the PKI Secret beside the VirtualCluster, where earlier versions kept it. */
export async function findFormerPki(
  tenant: Tenant,
  services: SecretServices,
): Promise<SecretData | undefined> {
  const ref = { namespace: tenant.ref.namespace, name: formerSecretNames(tenant.ref.name).pki };
  const secret = await findSecret(tenant, services, ref);
  return secret !== undefined && isOwned(tenant, secret) ? decodeSecretData(secret) : undefined;
}

/** The decoded data of one of this tenant's own Secrets. Throws `SecretNotOurs`. */
export async function readInternalSecret(
  tenant: Tenant,
  services: SecretServices,
  which: Which,
): Promise<SecretData | undefined> {
  const ref = internalSecretRef(services, tenant.id, which);
  const secret = await findSecret(tenant, services, ref);
  if (secret === undefined) return undefined;
  if (!isMadeFor(tenant, tenant.id, secret)) throw secretNotOurs(ref.namespace, ref.name);
  return decodeSecretData(secret);
}

/** Writes one of this tenant's own Secrets where it differs. Throws `SecretNotOurs` before touching another's. */
export async function writeInternalSecret(
  tenant: Tenant,
  services: SecretServices,
  which: Which,
  data: SecretData,
  likely: 'there' | 'absent' = 'there',
): Promise<void> {
  const ref = internalSecretRef(services, tenant.id, which);
  const annotations = { [annotationKeys.id]: tenant.id, [annotationKeys.tenantName]: tenant.key };
  const wanted = opaque({ ...ref, labels: tenant.labels, annotations }, data);
  const isOurs = (secret: KubeObject): boolean => isMadeFor(tenant, tenant.id, secret);
  await write(tenant, services, wanted, likely, isOurs);
}

/** Writes the kubeconfig of the tenant's admin, for its owner to read. Throws `SecretNotOurs`. */
export async function writeKubeconfigSecret(
  tenant: Tenant,
  services: SecretServices,
  data: SecretData,
  likely: 'there' | 'absent',
): Promise<void> {
  const metadata = {
    name: secretNames(tenant.ref.name).kubeconfig,
    namespace: tenant.ref.namespace,
    labels: tenant.labels,
    annotations: { [annotationKeys.id]: tenant.id },
    ownerReferences: [tenant.ownerReference],
  };
  await write(tenant, services, opaque(metadata, data), likely, (secret) => isOwned(tenant, secret));
}

/**
 * Whether Secrets of this tenant may still be where earlier versions kept them. From when the status says otherwise,
 * nothing is read there any more: its owner may have put it there.
 */
export function mayHaveFormerSecrets({ vc }: Tenant): boolean {
  return vc.status?.syncerSecret?.namespace === undefined;
}

/** Compares what was copied from a former place with what is stored now. Throws `SecretNotCopied`. */
export async function verifyCopy(
  tenant: Tenant,
  services: SecretServices,
  which: Which,
  data: SecretData,
): Promise<void> {
  const stored = await readInternalSecret(tenant, services, which);
  if (isDeepStrictEqual({ ...stored }, { ...data })) return;
  const { namespace, name } = internalSecretRef(services, tenant.id, which);
  throw secretNotCopied(`${namespace}/${name}`);
}

/** Removes one where earlier versions kept it. What was not made for this tenant stays. */
export async function removeFormerSecret(
  tenant: Tenant,
  services: SecretServices,
  which: Which,
): Promise<void> {
  const ref = { namespace: tenant.ref.namespace, name: formerSecretNames(tenant.ref.name)[which] };
  await remove(tenant, services, ref, (secret) => isOwned(tenant, secret));
}

/** Makes a Secret that was made under this id for the VirtualCluster `from` this tenant's; none or another's is left alone. */
export async function moveInternalSecret(
  tenant: Tenant,
  services: SecretServices,
  which: Which,
  from: string,
): Promise<void> {
  const ref = internalSecretRef(services, tenant.id, which);
  for (;;) {
    const secret = await findSecret(tenant, services, ref);
    const { annotations, uid, resourceVersion } = secret?.metadata ?? {};
    if (annotations?.[annotationKeys.id] !== tenant.id || annotations[annotationKeys.tenantName] !== from)
      return;
    const moved = { [annotationKeys.tenantName]: tenant.key };
    const patch = { metadata: { annotations: moved, labels: tenant.labels, uid, resourceVersion } };
    try {
      await services.client.patch(resources.secrets, ref, patch, { type: 'merge', signal: tenant.signal });
      return;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
}

/** Removes one of this tenant's own Secrets; another's is left alone. */
export async function removeInternalSecret(
  tenant: Tenant,
  services: SecretServices,
  which: Which,
): Promise<void> {
  const ref = internalSecretRef(services, tenant.id, which);
  await remove(tenant, services, ref, (secret) => isMadeFor(tenant, tenant.id, secret));
}

/** Removes all Secrets of this tenant; those under the id only if it has one. */
export async function removeSecrets(
  tenant: Tenant,
  services: SecretServices,
  id: string | undefined,
): Promise<void> {
  const { namespace, name } = tenant.ref;
  const beside = [secretNames(name).kubeconfig, ...Object.values(formerSecretNames(name))];
  for (const each of beside)
    await remove(tenant, services, { namespace, name: each }, (secret) => isOwned(tenant, secret));
  if (id === undefined) return;
  for (const each of Object.values(internalSecretNames(id))) {
    const ref = { namespace: services.settings.namespace, name: each };
    await remove(tenant, services, ref, (secret) => isMadeFor(tenant, id, secret));
  }
}

/** In Skerry's own namespace: it was made for the VirtualCluster of this name, under this id. */
function isMadeFor(
  { key }: Pick<Tenant, 'key'>,
  id: string,
  { metadata: { annotations } }: KubeObject,
): boolean {
  return annotations?.[annotationKeys.id] === id && annotations[annotationKeys.tenantName] === key;
}

/**
 * Beside the VirtualCluster: it is owned by this very object, or by none and bears its id, as after restoring from a
 * backup.
 */
function isOwned(tenant: Tenant, { metadata }: KubeObject): boolean {
  const { labels, annotations, ownerReferences } = metadata;
  if (labels?.[labelKeys.virtualCluster] !== tenant.ref.name) return false;
  const owners = (ownerReferences ?? []).filter((owner) => owner.kind === resources.virtualClusters.kind);
  if (owners.length > 0) return owners.some((owner) => owner.uid === tenant.uid);
  const id = tenant.vc.status?.id ?? tenant.vc.metadata.annotations?.[annotationKeys.id];
  return annotations?.[annotationKeys.id] !== undefined && annotations[annotationKeys.id] === id;
}

async function findSecret(
  { signal }: Pick<Tenant, 'signal'>,
  { client }: SecretServices,
  ref: ObjectRef,
): Promise<Secret | undefined> {
  return ignoreNotFound(client.get<Secret>(resources.secrets, ref, { signal }));
}

async function write(
  { signal }: Tenant,
  { client }: SecretServices,
  wanted: Secret,
  likely: 'there' | 'absent',
  isOurs: (secret: KubeObject) => boolean,
): Promise<void> {
  const { namespace = '', name = '' } = wanted.metadata;
  await ensureObject(client, resources.secrets, wanted, {
    signal,
    likely,
    check: (current) => {
      if (!isOurs(current)) throw secretNotOurs(namespace, name);
    },
  });
}

async function remove(
  tenant: Tenant,
  services: SecretServices,
  ref: ObjectRef,
  isOurs: (secret: KubeObject) => boolean,
): Promise<void> {
  const secret = await findSecret(tenant, services, ref);
  if (secret === undefined || !isOurs(secret)) return;
  const { uid } = secret.metadata;
  await deleteIfPresent(services.client, resources.secrets, ref, { uid, signal: tenant.signal });
}

function opaque(metadata: Secret['metadata'], data: SecretData): Secret {
  return { metadata, type: 'Opaque', data: encodeSecretData(data) };
}
