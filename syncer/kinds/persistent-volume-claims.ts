import {
  type Condition,
  findCondition,
  type KubeObject,
  type MergePatch,
  parseQuantity,
  resources,
  withoutUndefined,
} from '../../kube/index.ts';
import type { KeyRef, SyncContext } from '../context.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import { superMetadata, superMetadataPatch, transparentMetadataPatch } from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { scrubbedConditions } from '../mapping/scrub.ts';
import { conditionsOf, withinQuotaCondition } from './conditions.ts';
import type { Action, Admission, DownKind } from './contract.ts';
import { type Shape, selectorShape, unknownRefusal } from './known-fields.ts';
import { fieldsPatch, unlessEmpty, withKeys } from './patches.ts';
import { defaultStorageClass, isBeingPublished, isOffered } from './published-kind.ts';
import { refusedButKept, warning } from './validation.ts';

interface DataSource {
  apiGroup?: string;
  kind: string;
  name: string;
  namespace?: string;
}

interface ClaimSpec {
  accessModes?: string[];
  resources?: { requests?: Record<string, string>; limits?: Record<string, string> };
  storageClassName?: string;
  volumeMode?: string;
  volumeName?: string;
  selector?: Record<string, unknown>;
  dataSource?: DataSource;
  dataSourceRef?: DataSource;
  [field: string]: unknown;
}

interface Claim extends KubeObject {
  spec?: ClaimSpec;
  status?: { phase?: string; capacity?: Record<string, string>; [field: string]: unknown };
}

const dataSourceFields = { apiGroup: true, kind: true, name: true } as const;

/** What goes down, or is refused by a rule of its own. */
const specShape: Shape = {
  accessModes: true,
  resources: { requests: true, limits: true },
  storageClassName: true,
  volumeMode: true,
  volumeName: true,
  selector: selectorShape,
  dataSource: dataSourceFields,
  dataSourceRef: { ...dataSourceFields, namespace: true },
};

function specOf(claim: KubeObject): ClaimSpec {
  return (claim as Claim).spec ?? {};
}

function statusOf(claim: KubeObject): NonNullable<Claim['status']> {
  return (claim as Claim).status ?? {};
}

/** The class that a claim names; `undefined` when it leaves the choice to the cluster. */
function classOf(claim: KubeObject): string | undefined {
  return (
    claim.metadata.annotations?.['volume.beta.kubernetes.io/storage-class'] ?? specOf(claim).storageClassName
  );
}

/** The class that a claim without a volume waits for; that without a name is the default. */
function classReference(claim: KubeObject): readonly KeyRef[] {
  return specOf(claim).volumeName === undefined
    ? [{ kind: 'storageclasses', name: classOf(claim) ?? '' }]
    : [];
}

/**
 * Whether a claim goes down. One that is there already stays, whatever its class or the tenant's edits
 * have become: there may be data behind it.
 */
function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  const { volumeName } = specOf(tenantObject);
  const there = superClaimOf(tenantObject, context);
  if (
    volumeName !== undefined &&
    volumeName !== (there === undefined ? undefined : specOf(there).volumeName)
  ) {
    return refusedButKept(
      'NotAllowed',
      'a claim cannot choose its volume (spec.volumeName); name a storage class instead',
    );
  }
  const unknown = unknownRefusal(specOf(tenantObject), specShape);
  if (unknown !== undefined) return { wanted: false, keep: true, notice: unknown };
  if (there !== undefined) return { wanted: true };

  const name = wantedClass(tenantObject, context);
  if (name === undefined) {
    return refusedButKept('NoStorageClass', 'the claim names no storage class, and none is the default here');
  }
  if (
    !isOffered(resources.storageClasses, name, context) &&
    !isBeingPublished(resources.storageClasses, name, context)
  ) {
    return refusedButKept(
      'StorageClassNotPublished',
      `storage class "${name}" is not one that this cluster offers`,
    );
  }
  const source = dataSourceOf(tenantObject);
  if (source !== undefined && !isOwnClaim(source, tenantObject)) {
    return refusedButKept('NotSupported', 'only another claim of the same namespace can be a data source');
  }
  return { wanted: true };
}

/**
 * The claim that the super object is to be filled from, and the tenant's copy of the class, which right after joining
 * is on its way.
 */
function requires(tenantObject: KubeObject, context: SyncContext): readonly KeyRef[] {
  const keys: KeyRef[] = [];
  const source = dataSourceOf(tenantObject);
  const { namespace } = tenantObject.metadata;
  if (source !== undefined) keys.push({ kind: 'persistentvolumeclaims', namespace, name: source.name });
  const name = wantedClass(tenantObject, context);
  if (name !== undefined && isBeingPublished(resources.storageClasses, name, context))
    keys.push({ kind: 'storageclasses', name });
  return keys;
}

/**
 * The class that the super object is to name: the tenant object's, or the default of the tenant, never the super
 * cluster's own choice.
 */
function wantedClass(tenantObject: KubeObject, context: SyncContext): string | undefined {
  return classOf(tenantObject) ?? defaultStorageClass(context);
}

function dataSourceOf(tenantObject: KubeObject): DataSource | undefined {
  const { dataSource, dataSourceRef } = specOf(tenantObject);
  return dataSourceRef ?? dataSource;
}

function isOwnClaim(source: DataSource, tenantObject: KubeObject): boolean {
  const namespace = source.namespace ?? tenantObject.metadata.namespace;
  return (
    source.kind === 'PersistentVolumeClaim' &&
    (source.apiGroup ?? '') === '' &&
    namespace === tenantObject.metadata.namespace
  );
}

/** The super object of this very tenant object, as the cache shows it. */
function superClaimOf(tenantObject: KubeObject, context: SyncContext): KubeObject | undefined {
  const { namespace = '', name = '', uid } = tenantObject.metadata;
  const ref = { namespace: superNamespaceName(context.tenant, namespace), name };
  const there = context.superObjects.get(resources.persistentVolumeClaims, ref);
  if (there === undefined || !isOurs(there, context.tenant) || originalUid(there) !== uid) return undefined;
  return there;
}

/** What a volume controller says of a claim; the tenant has no such controller. */
const statusFields = [
  'phase',
  'accessModes',
  'capacity',
  'conditions',
  'allocatedResources',
  'allocatedResourceStatuses',
] as const;

/** What the volume controller leaves on a claim that it has bound. */
const bindingMarks = ['pv.kubernetes.io/bind-completed', 'pv.kubernetes.io/bound-by-controller'] as const;

/** Brings up which volume the super object got, once the tenant can see that volume, and how the super object fares. */
function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const own = specOf(tenantObject);
  const { volumeName, storageClassName } = specOf(superObject);
  const spec: MergePatch = {};
  if (volumeName !== undefined && volumeName !== own.volumeName) {
    // The tenant has named another one, and a claim is bound but once.
    if (own.volumeName !== undefined) return [];
    const volume = context.tenantObjects.get(resources.persistentVolumes, { name: volumeName });
    if (!isFor(volume, tenantObject)) {
      return [{ do: 'require', keys: [{ kind: 'persistentvolumes', name: volumeName }] }];
    }
    spec['volumeName'] = volumeName;
  }
  if (storageClassName !== undefined && classOf(tenantObject) === undefined)
    spec['storageClassName'] = storageClassName;

  const actions: Action[] = [];
  const metadata = metadataPatch(tenantObject, superObject, context);
  const patch = withoutUndefined({ ...metadata, spec: unlessEmpty(spec) });
  if (unlessEmpty(patch) !== undefined) actions.push({ do: 'patchTenant', patch });
  const status = statusPatch(tenantObject, superObject, context);
  if (status !== undefined) actions.push({ do: 'patchTenant', subresource: 'status', patch: { status } });
  return actions;
}

/** The super object had a volume and is no more: no new, empty volume may stand in for it. */
function superGone(tenantObject: KubeObject): readonly Action[] | undefined {
  if (tenantObject.metadata.deletionTimestamp !== undefined) return undefined;
  const { phase } = statusOf(tenantObject);
  if (specOf(tenantObject).volumeName === undefined || (phase !== 'Bound' && phase !== 'Lost'))
    return undefined;
  if (phase === 'Lost') return [];
  return [
    { do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Lost' } } },
    {
      do: 'notice',
      notice: warning('ClaimLost', 'the claim was deleted in the cluster that held its volume'),
    },
  ];
}

function isFor(volume: KubeObject | undefined, tenantObject: KubeObject): boolean {
  const claimRef = (volume?.['spec'] as { claimRef?: { uid?: string } } | undefined)?.claimRef;
  return claimRef?.uid !== undefined && claimRef.uid === tenantObject.metadata.uid;
}

function metadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const patch = transparentMetadataPatch(tenantObject, superObject, context);
  const marks: Record<string, string> = {};
  for (const key of bindingMarks) {
    const value = superObject.metadata.annotations?.[key];
    if (value !== undefined && value !== tenantObject.metadata.annotations?.[key]) marks[key] = value;
  }
  return withKeys(patch, 'annotations', marks);
}

function statusPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const own = statusOf(tenantObject);
  const there = statusOf(superObject);
  const conditions = conditionsFor(tenantObject, superObject, context);
  return fieldsPatch(own, { ...there, conditions }, statusFields);
}

/** The super object's, and the tenant object's own that says that it waits for its quota. */
function conditionsFor(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): Condition[] | undefined {
  const shown = scrubbedConditions(statusOf(superObject)['conditions'] as Condition[] | undefined, context);
  const waiting = findCondition(conditionsOf(tenantObject), withinQuotaCondition);
  return waiting === undefined ? shown : [...(shown ?? []), waiting];
}

/** PersistentVolumeClaim: asks the super cluster for storage of a class that was published to the tenant. */
export const persistentVolumeClaimKind: DownKind = {
  name: 'persistentvolumeclaims',
  resource: resources.persistentVolumeClaims,
  direction: 'down',
  deleteNeedsLiveCheck: true,
  hasConditions: true,
  references: { of: classReference, followed: ['storageclasses'] },
  touches: { tenant: volumeOf, super: volumeOf },
  admit,
  requires,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: superMetadata(tenantObject, context),
      spec: superSpec(tenantObject, context),
    };
  },
  down,
  up,
  superGone,
};

/** The tenant's copy of the volume comes and goes with the claim. */
function volumeOf(claim: KubeObject): readonly KeyRef[] {
  const { volumeName } = specOf(claim);
  return volumeName === undefined ? [] : [{ kind: 'persistentvolumes', name: volumeName }];
}

function superSpec(tenantObject: KubeObject, context: SyncContext): ClaimSpec {
  const { accessModes, resources: amounts, volumeMode, selector } = specOf(tenantObject);
  const storageClassName = wantedClass(tenantObject, context);
  const source = dataSourceOf(tenantObject);
  const dataSource = source && { kind: source.kind, name: source.name };
  return withoutUndefined({
    accessModes,
    resources: amounts,
    storageClassName,
    volumeMode,
    selector,
    dataSource,
  });
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const metadata = superMetadataPatch(tenantObject, superObject, context);
  const storage = wantedStorage(tenantObject, superObject);
  if (metadata === undefined && storage === undefined) return [];
  const patch: MergePatch = {
    ...metadata,
    ...(storage === undefined ? {} : { spec: { resources: { requests: { storage } } } }),
  };
  return [{ do: 'patchSuper', patch }];
}

/**
 * What the super object has to ask for instead of what it does: more, or, when an expansion failed, less but still
 * more than there is.
 */
function wantedStorage(tenantObject: KubeObject, superObject: KubeObject): string | undefined {
  const text = specOf(tenantObject).resources?.requests?.['storage'];
  const wanted = parseQuantity(text);
  const present = parseQuantity(specOf(superObject).resources?.requests?.['storage']);
  const { phase, capacity } = statusOf(superObject);
  if (wanted === undefined || present === undefined || wanted === present || phase !== 'Bound')
    return undefined;
  if (wanted > present) return text;
  return wanted > (parseQuantity(capacity?.['storage']) ?? Number.POSITIVE_INFINITY) ? text : undefined;
}
