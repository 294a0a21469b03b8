import { createHash } from 'node:crypto';
import { deepEqual } from 'fast-equals';
import { labelKeys } from '../../api/labels.ts';
import {
  apiVersionOf,
  isRecord,
  type KubeObject,
  type MergePatch,
  mergePatch,
  type ObjectMeta,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { originalUid } from '../mapping/labels.ts';
import { copyMetadata, exactMetadataPatch } from '../mapping/metadata.ts';
import type { Action, Notice, UpKind } from './contract.ts';
import { isPublished } from './published-kind.ts';
import { warning } from './validation.ts';

/** A CustomResourceDefinition as far as it is read here. Its schemas are not looked into. */
export interface Definition extends KubeObject {
  spec?: {
    group?: string;
    scope?: 'Namespaced' | 'Cluster';
    names?: { plural?: string; kind?: string; [field: string]: unknown };
    versions?: readonly DefinedVersion[];
    conversion?: { strategy?: string; [field: string]: unknown };
    [field: string]: unknown;
  };
  status?: {
    conditions?: readonly { type?: string; status?: string }[];
    storedVersions?: readonly string[];
    [field: string]: unknown;
  };
}

export interface DefinedVersion {
  readonly name: string;
  readonly served?: boolean;
  readonly storage?: boolean;
  readonly subresources?: { readonly status?: object };
  /** In a cache, instead of everything that makes up the version: the same for the same content. */
  readonly digest?: string;
  readonly [field: string]: unknown;
}

export function versionsOf(definition: Definition): readonly DefinedVersion[] {
  const versions = definition.spec?.versions;
  // What a tenant's server sends may be anything.
  return Array.isArray(versions) ? versions.filter((each): each is DefinedVersion => isRecord(each)) : [];
}

export function servedVersion(definition: Definition, name: string | undefined): DefinedVersion | undefined {
  return versionsOf(definition).find((version) => version.name === name && version.served === true);
}

function storageVersion(definition: Definition): DefinedVersion | undefined {
  return versionsOf(definition).find(({ storage }) => storage === true);
}

/** The storage version if it is served, else the most mature one that is: `v2` before `v1` before `v1beta1`. */
export function preferredVersion(versions: readonly DefinedVersion[]): DefinedVersion | undefined {
  const served = versions.filter((version) => version.served === true);
  return (
    served.find(({ storage }) => storage === true) ??
    served.toSorted((a, b) => compareVersions(b.name, a.name))[0]
  );
}

/** The API by which the objects of a definition are reached in one of its versions. */
export function resourceOf(definition: Definition, version: string): Resource | undefined {
  const { group, names, scope } = definition.spec ?? {};
  if (group === undefined || names?.plural === undefined || names.kind === undefined) return undefined;
  return { group, version, plural: names.plural, kind: names.kind, namespaced: scope === 'Namespaced' };
}

/** Whether the server answers for objects of this definition, and will go on doing so. */
export function isEstablished({ metadata, status }: Definition): boolean {
  const conditions: unknown = status?.conditions;
  if (metadata.deletionTimestamp !== undefined || !Array.isArray(conditions)) return false;
  return conditions.some(
    (each: unknown) => isRecord(each) && each['type'] === 'Established' && each['status'] === 'True',
  );
}

/** Kubernetes' order of maturity: GA over beta over alpha, then by number; names of another shape come first. */
function compareVersions(a: string, b: string): number {
  const one = maturity(a);
  const other = maturity(b);
  for (const [index, value] of one.entries()) {
    const difference = value - (other[index] as number);
    if (difference !== 0) return difference;
  }
  return a < b ? 1 : -1;
}

function maturity(name: string): readonly [stage: number, major: number, minor: number] {
  const match = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(name);
  if (match === null) return [0, 0, 0];
  const [, major, stage, minor] = match;
  return [stage === undefined ? 3 : stage === 'beta' ? 2 : 1, Number(major), Number(minor ?? 0)];
}

/** Often as large as the definition itself, and of use only to the client that applied it. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/**
 * Schemas are large, every tenant has a copy of each, and few definitions are published: only originals are kept
 * whole. Of a copy the cache has a digest of each version, of an unpublished definition only the names of its API.
 */
const compact = {
  super: (object: KubeObject): KubeObject => {
    dropLastApplied(object);
    return isPublished(object) ? withDigests(object) : brief(object);
  },
  tenant: (object: KubeObject): KubeObject => {
    dropLastApplied(object);
    return originalUid(object) === undefined ? withoutContent(object) : digested(object);
  },
};

/** Where the digests of an original's versions are in the cache, by version. */
const digestsField = `${labelKeys.public}-digests`;

/** The digest of a version, taken from the cached original where it is known. */
function digestOf(original: Definition, version: DefinedVersion): string {
  const digests = original[digestsField] as Readonly<Record<string, string>> | undefined;
  return digests?.[version.name] ?? digestVersion(version);
}

/** The same for versions that differ in nothing but their name and in whether they are served and stored. */
function digestVersion(version: DefinedVersion): string {
  const { name: _name, served: _served, storage: _storage, ...content } = version;
  return createHash('sha256')
    .update(JSON.stringify(sorted(content)))
    .digest('base64')
    .slice(0, 22);
}

function withDigests(object: KubeObject): KubeObject {
  object[digestsField] = Object.fromEntries(
    versionsOf(object).map((version) => [version.name, digestVersion(version)]),
  );
  return object;
}

function digested(object: KubeObject): KubeObject {
  const { spec } = object as Definition;
  if (spec?.versions === undefined) return object;
  const versions = versionsOf(object).map((version) => ({
    ...flagsOf(version),
    digest: digestVersion(version),
  }));
  return { ...object, spec: { ...spec, versions } };
}

/** What one must know to reach objects that are left from before. */
function brief(object: KubeObject): KubeObject {
  const { group, scope, names } = (object as Definition).spec ?? {};
  const spec = { group, scope, names, versions: versionsOf(object).map(flagsOf) };
  return { ...withoutContent(object), spec };
}

function flagsOf({ name, served, storage, subresources }: DefinedVersion): DefinedVersion {
  return {
    name,
    served: served === true,
    storage: storage === true,
    ...(subresources?.status === undefined ? {} : { subresources: { status: {} } }),
  };
}

function withoutContent({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  return { ...(apiVersion && { apiVersion }), ...(kind && { kind }), metadata };
}

function dropLastApplied({ metadata }: KubeObject): void {
  if (metadata.annotations !== undefined) delete metadata.annotations[lastApplied];
}

/** Servers need not agree on the order of fields. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, part]) => [key, sorted(part)]),
  );
}

/** Annotation on a copy: the version that it was last set to store objects in. */
const storageVersionAnnotation = 'skerry.dev/storage-version';

/** What a copy is to offer. */
interface CopiedVersions {
  /** Those of the original. */
  readonly versions: readonly DefinedVersion[];
  /** Those that only the tenant's API server still needs. */
  readonly retired: readonly DefinedVersion[];
  readonly storage: string;
  /** Versions that the original serves and the copy does not, as they would have to be converted. */
  readonly left: readonly string[];
}

/**
 * The versions of a copy. Where the super cluster converts between versions by a webhook, which tenants' API
 * servers cannot reach and are not to trust, a copy has one version only: there is nothing to convert then. It
 * stays with it, as what the tenant has stored has that version's shape.
 * `undefined`: the original no longer has the version that the tenant's objects are stored in, so that
 * they could not be read any more.
 */
function copiedVersions(original: Definition, copy: Definition | undefined): CopiedVersions | undefined {
  const versions = versionsOf(original);
  const given = copy?.metadata.annotations?.[storageVersionAnnotation];
  const isAlike = (original.spec?.conversion?.strategy ?? 'None') === 'None';
  const stored = given === undefined ? undefined : versions.find(({ name }) => name === given);
  if (given !== undefined && stored === undefined) return undefined;

  if (isAlike) {
    const storage = storageVersion(original)?.name;
    if (storage === undefined) return undefined;
    return { versions, retired: retired(copy, versions), storage, left: [] };
  }
  const only = given === undefined ? preferredVersion(versions) : servedVersion(original, given);
  if (only === undefined) return undefined;
  const kept = [{ ...only, served: true, storage: true }];
  const left = versions.filter(({ name, served }) => served === true && name !== only.name);
  return {
    versions: kept,
    retired: retired(copy, kept),
    storage: only.name,
    left: left.map(({ name }) => name),
  };
}

/**
 * Versions that are gone and that the tenant's API server may still have stored objects in: it refuses to lose
 * them. They are served no more, so any schema does.
 */
function retired(copy: Definition | undefined, versions: readonly DefinedVersion[]): DefinedVersion[] {
  const names = new Set(versions.map(({ name }) => name));
  const stored: unknown = copy?.status?.storedVersions;
  return (Array.isArray(stored) ? stored : [])
    .filter((name): name is string => typeof name === 'string' && !names.has(name))
    .map((name) => ({
      name,
      served: false,
      storage: false,
      schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
    }));
}

const resource = resources.customResourceDefinitions;

/**
 * CustomResourceDefinition: a copy of each that the operator has published, but for the way it converts between
 * versions. Its status is that of the tenant's API server.
 */
export const customResourceDefinitionKind: UpKind = {
  name: resource.plural,
  resource,
  direction: 'up',
  compact,
  indexes: { super: { byPublished: (object) => (isPublished(object) ? ['true'] : []) } },
  tenantRef(superObject) {
    const { name } = superObject.metadata;
    if (name === undefined || !isPublished(superObject) || isSkerrys(superObject)) return undefined;
    return preferredVersion(versionsOf(superObject)) === undefined ? undefined : { name };
  },
  superRef: ({ name }) => ({ name }),
  toTenant(superObject: Definition) {
    const { group, names, scope } = superObject.spec ?? {};
    const wanted = copiedVersions(superObject, undefined);
    return {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: metadataOf(superObject, wanted),
      spec: { group, names, scope, conversion, versions: wanted?.versions ?? [] },
    };
  },
  up,
  superGone,
};

const conversion = { strategy: 'None' };

function up(tenantObject: Definition, superObject: Definition): readonly Action[] {
  if (tenantObject.metadata.deletionTimestamp !== undefined) return [];
  const own = tenantObject.spec ?? {};
  const { group, names, scope } = superObject.spec ?? {};
  if (own.group !== group || own.scope !== scope || own.names?.kind !== names?.kind) {
    return [{ do: 'deleteTenant' }];
  }
  const wanted = copiedVersions(superObject, tenantObject);
  const patch: MergePatch = {
    ...exactMetadataPatch(tenantObject, metadataOf(superObject, wanted, tenantObject)),
  };
  if (wanted !== undefined) {
    const spec: MergePatch = {
      ...mergePatch({ names: own.names, conversion: own.conversion }, { names, conversion }),
      ...(haveVersions(versionsOf(tenantObject), wanted, superObject)
        ? {}
        : { versions: [...wanted.versions, ...wanted.retired] }),
    };
    if (Object.keys(spec).length > 0) patch['spec'] = spec;
  }
  const actions: Action[] = Object.keys(patch).length === 0 ? [] : [{ do: 'patchTenant', patch }];
  const notice = noticeOf(wanted);
  return notice === undefined ? actions : [...actions, { do: 'notice', notice }];
}

/** Whether a cached copy has these versions, and in them what the original has. */
function haveVersions(
  present: readonly DefinedVersion[],
  wanted: CopiedVersions,
  original: Definition,
): boolean {
  const brief = ({ name, served, storage }: DefinedVersion, digest: string | undefined) => ({
    name,
    served: served === true,
    storage: storage === true,
    digest,
  });
  return deepEqual(
    present.map((version) => brief(version, version.digest)),
    [
      ...wanted.versions.map((version) => brief(version, digestOf(original, version))),
      ...wanted.retired.map((version) => brief(version, digestVersion(version))),
    ],
  );
}

function noticeOf(wanted: CopiedVersions | undefined): Notice | undefined {
  if (wanted === undefined)
    return warning(
      'VersionGone',
      'the cluster no longer has the version in which objects are stored here, so this definition follows it no more; save the objects, delete the definition, and apply them to the one that takes its place',
    );
  if (wanted.left.length === 0) return undefined;
  return warning(
    'VersionsNotOffered',
    `only version ${wanted.storage} is served here: the cluster converts ${wanted.left.join(', ')} by a webhook that is not yours to call`,
  );
}

function metadataOf(
  superObject: Definition,
  wanted: CopiedVersions | undefined,
  copy?: Definition,
): ObjectMeta {
  const metadata = copyMetadata(superObject);
  const annotations = Object.fromEntries(
    // A tenant's own cert-manager would take them for orders.
    Object.entries(metadata.annotations ?? {}).filter(([key]) => !key.startsWith('cert-manager.io/inject-')),
  );
  const storage = wanted?.storage ?? copy?.metadata.annotations?.[storageVersionAnnotation];
  return {
    ...metadata,
    annotations: { ...annotations, ...(storage && { [storageVersionAnnotation]: storage }) },
  };
}

/** Definitions of Skerry's own objects are no tenant's business. */
function isSkerrys(superObject: Definition): boolean {
  return superObject.spec?.group === 'skerry.dev';
}

/**
 * An original that was made anew takes over the copy of the one before: deleting that would delete all that
 * the tenant has made of it.
 */
function superGone(tenantObject: Definition, context: SyncContext): readonly Action[] {
  if (tenantObject.metadata.deletionTimestamp !== undefined) return [];
  const superObject = context.superObjects.get<Definition>(resource, {
    name: tenantObject.metadata.name ?? '',
  });
  if (
    superObject === undefined ||
    customResourceDefinitionKind.tenantRef(superObject, context) === undefined
  ) {
    return [{ do: 'deleteTenant' }];
  }
  const wanted = copiedVersions(superObject, tenantObject);
  const patch = exactMetadataPatch(tenantObject, metadataOf(superObject, wanted, tenantObject));
  return patch === undefined ? [] : [{ do: 'patchTenant', patch }];
}

/** The resource of a definition's objects, in a version that is served. */
export function servedResource(definition: Definition): Resource | undefined {
  const version = versionsOf(definition).find(({ served }) => served === true);
  return version === undefined ? undefined : resourceOf(definition, version.name);
}
