import { createHash } from 'node:crypto';
import { parseAllDocuments } from 'yaml';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  deleteIfPresent,
  ignoreNotFound,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
  resource,
  resources,
} from '../../kube/index.ts';
import { addonNotOurs, invalidAddon } from './errors.ts';

/** One object of an addon as the manager wants it in the tenant. */
export interface AddonObject {
  resource: Resource;
  object: KubeObject;
  /** Created once; the tenant's from then on. */
  once: boolean;
}

interface AddonValues {
  clusterDomain: string;
  /** The tenth address of the tenant's slice. */
  dnsAddress: string;
  /** JSON: `env` of a container whose requests are neither to wake the tenant nor to keep it awake. */
  backgroundEnv: string;
  /** JSON: `hostAliases` of its pod. */
  backgroundAliases: string;
}

const rbac = (plural: string, kind: string, namespaced: boolean): Resource =>
  resource('rbac.authorization.k8s.io', 'v1', plural, kind, namespaced);

/** What an addon may consist of. */
const kinds: readonly Resource[] = [
  resources.serviceAccounts,
  resources.configMaps,
  resources.services,
  resources.deployments,
  resources.clusterRoleBindings,
  rbac('clusterroles', 'ClusterRole', false),
  rbac('roles', 'Role', true),
  rbac('rolebindings', 'RoleBinding', true),
  resource('policy', 'v1', 'poddisruptionbudgets', 'PodDisruptionBudget', true),
];

/** Annotation in the text of an addon: `once` for an object that is the tenant's as soon as it exists. */
const applyKey = 'skerry.dev/apply';

/**
 * The objects of an addon, in the order of its text, which is YAML with the placeholders `${clusterDomain}`,
 * `${dnsAddress}`, `${backgroundEnv}` and `${backgroundAliases}`. Each bears the addon's name as a label, and in an annotation what it was made from.
 * Throws `InvalidAddon`.
 */
export function renderAddon(name: string, text: string, values: AddonValues): AddonObject[] {
  const filled = text.replaceAll(/\$\{([^}]*)\}/g, (_match, placeholder: string) => {
    const value = (values as unknown as Record<string, string | undefined>)[placeholder];
    if (value === undefined) throw invalidAddon(name, `nothing fills \${${placeholder}} in`);
    return value;
  });
  return parseAllDocuments(filled).map((document, index) => {
    const [problem] = document.errors;
    if (problem !== undefined) throw invalidAddon(name, problem.message);
    return addonObject(name, document.toJS() as Partial<KubeObject> | null, index);
  });
}

function addonObject(name: string, object: Partial<KubeObject> | null, index: number): AddonObject {
  const { apiVersion, kind, metadata } = object ?? {};
  const found = kinds.find((each) => each.kind === kind && versionOf(each) === apiVersion);
  if (found === undefined) {
    throw invalidAddon(name, `object ${index + 1} is of ${apiVersion} ${kind}, which an addon cannot have`);
  }
  if (typeof metadata?.name !== 'string' || (metadata.namespace !== undefined) !== found.namespaced) {
    const what = found.namespaced ? 'a name and a namespace' : 'a name and no namespace';
    throw invalidAddon(name, `object ${index + 1}, a ${kind}, has to have ${what}`);
  }
  const { [applyKey]: apply, ...annotations } = metadata.annotations ?? {};
  const wanted: KubeObject = {
    ...object,
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, [labelKeys.addon]: name },
      annotations: { ...annotations, [annotationKeys.addonHash]: hashOf(object) },
    },
  };
  return { resource: found, object: wanted, once: apply === 'once' };
}

function versionOf({ group, version }: Resource): string {
  return group === '' ? version : `${group}/${version}`;
}

function hashOf(object: unknown): string {
  return createHash('sha256').update(JSON.stringify(object)).digest('hex').slice(0, 16);
}

const addonFieldManager = 'skerry-vc-manager';

/**
 * Creates the objects of an addon that are missing, applies those that were made from another text (what the tenant
 * added stays), and returns all as they are. One that has the name without Skerry's label belongs to the tenant: throws
 * `AddonNotOurs`, and nothing is changed.
 */
export async function installAddon(
  client: KubeClient,
  name: string,
  objects: readonly AddonObject[],
  signal: AbortSignal,
): Promise<KubeObject[]> {
  const existing: (KubeObject | undefined)[] = [];
  for (const { resource, object } of objects) {
    const current = await ignoreNotFound(client.get(resource, refOf(object), { signal }));
    if (current !== undefined && !isOf(name, current)) throw addonNotOurs(name, resource.kind, refOf(object));
    existing.push(current);
  }
  const installed: KubeObject[] = [];
  for (const [index, wanted] of objects.entries()) {
    installed.push(await ensure(client, wanted, existing[index], signal));
  }
  return installed;
}

/** Deletes the objects of an addon that bear its label, and no others. */
export async function removeAddon(
  client: KubeClient,
  name: string,
  objects: readonly AddonObject[],
  signal: AbortSignal,
): Promise<void> {
  // In reverse: workloads before what they depend on.
  for (const { resource, object } of objects.toReversed()) {
    const current = await ignoreNotFound(client.get(resource, refOf(object), { signal }));
    if (current === undefined || !isOf(name, current)) continue;
    const { uid } = current.metadata;
    await deleteIfPresent(client, resource, refOf(object), { uid, signal, propagationPolicy: 'Background' });
  }
}

async function ensure(
  client: KubeClient,
  { resource, object, once }: AddonObject,
  current: KubeObject | undefined,
  signal: AbortSignal,
): Promise<KubeObject> {
  if (current !== undefined) {
    const isSame =
      current.metadata.annotations?.[annotationKeys.addonHash] ===
      object.metadata.annotations?.[annotationKeys.addonHash];
    if (once || isSame) return current;
  } else if (once) {
    try {
      return await client.create(resource, object, { signal, fieldManager: addonFieldManager });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return object;
    }
  }
  return client.patch(resource, refOf(object), object, {
    type: 'apply',
    fieldManager: addonFieldManager,
    force: true,
    signal,
  });
}

function isOf(name: string, { metadata }: KubeObject): boolean {
  return metadata.labels?.[labelKeys.addon] === name;
}

function refOf({ metadata }: KubeObject): { name: string; namespace: string | undefined } {
  return { name: metadata.name ?? '', namespace: metadata.namespace };
}
