import type { DefinedVersion, Definition } from './definition.ts';
import { preferredVersion, servedVersion, storageVersion, versionsOf } from './definition.ts';

/** Annotation on a copy: the version that it was last told to store objects in. */
export const storageMark = 'skerry.dev/storage-version';

/** What a copy is to offer. */
export interface CopiedVersions {
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
export function copiedVersions(
  original: Definition,
  copy: Definition | undefined,
): CopiedVersions | undefined {
  const versions = versionsOf(original);
  const given = copy?.metadata.annotations?.[storageMark];
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
  return (copy?.status?.storedVersions ?? [])
    .filter((name) => !names.has(name))
    .map((name) => ({
      name,
      served: false,
      storage: false,
      schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
    }));
}
