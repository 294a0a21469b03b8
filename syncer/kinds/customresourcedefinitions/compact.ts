import { createHash } from 'node:crypto';
import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { uidMark } from '../../mapping/index.ts';
import { isPublished } from '../published/index.ts';
import type { DefinedVersion, Definition } from './definition.ts';

/** Often as large as the definition itself, and of no use to anybody but who applied it. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/**
 * Schemas are large, every tenant has a copy of each, and few definitions are published: only originals are kept
 * whole. Of a copy the cache has a digest of each version, of what nobody has published what its API is called.
 */
export const compact = {
  super: (object: KubeObject): KubeObject => {
    dropLastApplied(object);
    return isPublished(object) ? withDigests(object) : brief(object);
  },
  tenant: (object: KubeObject): KubeObject => {
    dropLastApplied(object);
    return uidMark(object) === undefined ? withoutContent(object) : digested(object);
  },
};

/** Where the digests of an original's versions are in the cache, by version. */
const digestsField = `${labelKeys.public}-digests`;

/** The digest of a version, taken from the cached original where it is known. */
export function digestOf(original: Definition, version: DefinedVersion): string {
  const digests = original[digestsField] as Readonly<Record<string, string>> | undefined;
  return digests?.[version.name] ?? digestVersion(version);
}

/** The same for versions that differ in nothing but their name and in whether they are served and stored. */
export function digestVersion(version: DefinedVersion): string {
  const { name: _name, served: _served, storage: _storage, ...content } = version;
  return createHash('sha256')
    .update(JSON.stringify(sorted(content)))
    .digest('base64')
    .slice(0, 22);
}

function withDigests(object: KubeObject): KubeObject {
  const versions = (object as Definition).spec?.versions ?? [];
  object[digestsField] = Object.fromEntries(
    versions.map((version) => [version.name, digestVersion(version)]),
  );
  return object;
}

function digested(object: KubeObject): KubeObject {
  const { spec } = object as Definition;
  if (spec?.versions === undefined) return object;
  const versions = spec.versions.map((version) => ({ ...flagsOf(version), digest: digestVersion(version) }));
  return { ...object, spec: { ...spec, versions } };
}

/** What one must know to reach objects that are left from before. */
function brief(object: KubeObject): KubeObject {
  const { group, scope, names, versions } = (object as Definition).spec ?? {};
  const spec = { group, scope, names, versions: versions?.map(flagsOf) };
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
