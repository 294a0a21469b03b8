import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject, MergePatch, ObjectMeta } from '../../kube/index.ts';
import type { TenantInfo } from '../kinds/index.ts';
import { bucketOf } from './bucket.ts';
import { goesDown } from './keys.ts';
import { superNamespaceName } from './names.ts';

type Keys = Record<string, string>;
type KeyPatch = Record<string, string | null>;
type TenantContext = { readonly tenant: TenantInfo };

export interface SuperMetadataOptions {
  /** Where S is called otherwise than T. */
  readonly name?: string;
  /** Which of T's labels and annotations go down; default: all but the denied. */
  readonly goesDown?: (key: string) => boolean;
  /** Labels that Skerry itself puts on S. */
  readonly labels?: Keys;
  /** The tenant namespace that S is marked with; default: T's own, none for cluster-scoped kinds. */
  readonly namespace?: string;
}

/** Metadata of S as it is created: name, mapped namespace, labels and annotations; no owners, no finalizers. */
export function superMetadata(
  tenantObject: KubeObject,
  context: TenantContext,
  options: SuperMetadataOptions = {},
): ObjectMeta {
  const { namespace, name } = tenantObject.metadata;
  const finalName = options.name ?? name;
  return {
    ...(finalName === undefined ? {} : { name: finalName }),
    ...(namespace === undefined ? {} : { namespace: superNamespaceName(context.tenant, namespace) }),
    ...wantedKeys(tenantObject, context, options),
  };
}

/**
 * Brings S's labels and annotations to what T asks for, as `{ metadata: … }`; undefined when they are.
 * Keys that T has dropped go, keys that others put on S stay. Runs at every echo: kept cheap.
 */
export function superMetadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: TenantContext,
  options: SuperMetadataOptions = {},
): MergePatch | undefined {
  const wanted = wantedKeys(tenantObject, context, options);
  const present = superObject.metadata;
  const labels = differing(wanted.labels, present.labels);
  const annotations = differing(wanted.annotations, present.annotations);
  const before = present.annotations?.[annotationKeys.syncedKeys];
  if (before !== wanted.annotations[annotationKeys.syncedKeys]) {
    const synced = parseSyncedKeys(before);
    drop(labels, synced.l, wanted.labels, present.labels);
    drop(annotations, synced.a, wanted.annotations, present.annotations);
  }
  drop(annotations, passingMarks, wanted.annotations, present.annotations);
  const metadata: MergePatch = {};
  if (Object.keys(labels).length > 0) metadata['labels'] = labels;
  if (Object.keys(annotations).length > 0) metadata['annotations'] = annotations;
  return Object.keys(metadata).length === 0 ? undefined : { metadata };
}

/** Marks that S has only while there is a reason for them. */
const passingMarks = [annotationKeys.ownerReferences, annotationKeys.syncedKeys];

function wantedKeys(
  tenantObject: KubeObject,
  { tenant }: TenantContext,
  options: SuperMetadataOptions,
): { labels: Keys; annotations: Keys } {
  const { metadata } = tenantObject;
  const passes = options.goesDown ?? ((key: string) => goesDown(key, tenant));
  const labels = pick(metadata.labels, passes);
  const annotations = pick(metadata.annotations, passes);
  const synced = syncedKeys(labels, annotations);
  Object.assign(labels, options.labels);
  labels[labelKeys.tenant] = tenant.uid;
  labels[labelKeys.bucket] = String(bucketOf(tenant.uid));
  const namespace = options.namespace ?? metadata.namespace;
  if (namespace !== undefined) labels[labelKeys.namespace] = namespace;
  annotations[annotationKeys.tenantName] = `${tenant.namespace}/${tenant.name}`;
  const { uid, ownerReferences } = metadata;
  if (uid !== undefined) annotations[annotationKeys.uid] = uid;
  if (ownerReferences !== undefined && ownerReferences.length > 0) {
    annotations[annotationKeys.ownerReferences] = JSON.stringify(ownerReferences);
  }
  if (synced !== undefined) annotations[annotationKeys.syncedKeys] = synced;
  return { labels, annotations };
}

function pick(keys: Keys | undefined, passes: (key: string) => boolean): Keys {
  const picked: Keys = {};
  for (const key in keys) {
    const value = keys[key];
    if (value !== undefined && passes(key)) picked[key] = value;
  }
  return picked;
}

function differing(wanted: Keys, present: Keys | undefined): KeyPatch {
  const patch: KeyPatch = {};
  for (const key in wanted) {
    const value = wanted[key];
    if (value !== undefined && present?.[key] !== value) patch[key] = value;
  }
  return patch;
}

function drop(patch: KeyPatch, keys: readonly string[], wanted: Keys, present: Keys | undefined): void {
  for (const key of keys) {
    // `constructor` is a legal key too.
    if (!Object.hasOwn(wanted, key) && present !== undefined && Object.hasOwn(present, key))
      patch[key] = null;
  }
}

function syncedKeys(labels: Keys, annotations: Keys): string | undefined {
  const l = Object.keys(labels).sort();
  const a = Object.keys(annotations).sort();
  return l.length === 0 && a.length === 0 ? undefined : JSON.stringify({ l, a });
}

/** Tolerates anything: the annotation can be edited in the super cluster. */
function parseSyncedKeys(text: string | undefined): { l: readonly string[]; a: readonly string[] } {
  try {
    const parsed: unknown = JSON.parse(text ?? '{}');
    const { l, a } = (parsed ?? {}) as { l?: unknown; a?: unknown };
    return { l: strings(l), a: strings(a) };
  } catch {
    return { l: [], a: [] };
  }
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];
}
