import { deepEqual } from 'fast-equals';
import {
  apiVersionOf,
  type MergePatch,
  mergePatch,
  type ObjectMeta,
  resources,
} from '../../../kube/index.ts';
import { copyMetadata } from '../../mapping/index.ts';
import type { Action, Notice } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { exactMetadataPatch } from '../copy.ts';
import type { UpKind } from '../kind.ts';
import { isPublished } from '../published/index.ts';
import { compact, digestOf, digestVersion } from './compact.ts';
import {
  type DefinedVersion,
  type Definition,
  preferredVersion,
  resourceOf,
  versionsOf,
} from './definition.ts';
import { type CopiedVersions, copiedVersions, storageMark } from './versions.ts';

export {
  type Definition,
  isEstablished,
  preferredVersion,
  resourceOf,
  servedVersion,
  versionsOf,
} from './definition.ts';

const resource = resources.customResourceDefinitions;

/**
 * CustomResourceDefinition: a copy of each that the operator has published, but for the way it converts between
 * versions. Its status is that of the tenant's API server.
 */
export const customResourceDefinitionKind: UpKind = {
  name: resource.plural,
  resource,
  direction: 'up',
  watchTenant: true,
  superScope: 'all',
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
  contents(tenantObject: Definition) {
    const version = versionsOf(tenantObject).find(({ served }) => served === true);
    return version === undefined ? undefined : resourceOf(tenantObject, version.name);
  },
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
      ...(haveVersions(own.versions, wanted, superObject)
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
  present: readonly DefinedVersion[] = [],
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
  if (wanted === undefined) {
    return {
      type: 'Warning',
      reason: 'VersionGone',
      message:
        'the cluster no longer has the version in which objects are stored here, so this definition follows it no more; save the objects, delete the definition, and apply them to the one that takes its place',
    };
  }
  if (wanted.left.length === 0) return undefined;
  return {
    type: 'Warning',
    reason: 'VersionsNotOffered',
    message: `only version ${wanted.storage} is served here: the cluster converts ${wanted.left.join(', ')} by a webhook that is not yours to call`,
  };
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
  const storage = wanted?.storage ?? copy?.metadata.annotations?.[storageMark];
  return { ...metadata, annotations: { ...annotations, ...(storage && { [storageMark]: storage }) } };
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
