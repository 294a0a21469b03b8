import { deepEqual } from 'fast-equals';
import { labelKeys } from '../../api/labels.ts';
import type { RestrictingList } from '../../api/policy.ts';
import {
  apiVersionOf,
  type KubeObject,
  type MergePatch,
  mergePatch,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { originalUid } from '../mapping/labels.ts';
import { copyMetadata, exactMetadataPatch } from '../mapping/metadata.ts';
import type { Action, UpKind } from './contract.ts';
import { memoized } from './memoized.ts';

/** Whether the operator offers this object of the super cluster to all tenants. */
export function isPublished(superObject: KubeObject | undefined): boolean {
  return superObject?.metadata.labels?.[labelKeys.public] === 'true';
}

/** Where a policy has a list of the published objects that its tenant is offered, by resource. */
const listOf: Readonly<Record<string, RestrictingList>> = {
  [resources.priorityClasses.plural]: 'priorityClasses',
  [resources.storageClasses.plural]: 'storageClasses',
  [resources.runtimeClasses.plural]: 'runtimeClasses',
  [resources.ingressClasses.plural]: 'ingressClasses',
};

/** Whether the operator offers this object of the super cluster to this tenant. */
export function isPublishedTo(
  resource: Resource,
  superObject: KubeObject | undefined,
  { tenant }: SyncContext,
): boolean {
  if (!isPublished(superObject)) return false;
  const list = listOf[resource.plural];
  const offered = list === undefined ? undefined : tenant.policy[list];
  return offered === undefined || offered.includes(superObject?.metadata.name ?? '');
}

/**
 * Whether an object of the tenant that names this one means something that the operator has published: the
 * tenant's object is the copy of it. Both sides are asked, as the tenant can write any mark on an object of
 * its own.
 */
export function isOffered(resource: Resource, name: string, context: SyncContext): boolean {
  const copy = context.tenantObjects.get(resource, { name });
  const original = context.superObjects.get(resource, { name });
  return (
    copy !== undefined &&
    isPublishedTo(resource, original, context) &&
    originalUid(copy) === original?.metadata.uid
  );
}

/** Whether the operator offers an object of this name and the tenant's copy of it is still on its way. */
export function isBeingPublished(resource: Resource, name: string, context: SyncContext): boolean {
  return (
    isPublishedTo(resource, context.superObjects.get(resource, { name }), context) &&
    context.tenantObjects.get(resource, { name }) === undefined
  );
}

/** The tenant's default StorageClass; of several, the youngest, as the API server chooses. */
export function defaultStorageClass({ tenantObjects }: SyncContext): string | undefined {
  return youngestDefault(tenantObjects, 'true');
}

const youngestDefault = memoized(resources.storageClasses, (objects, isDefault) => {
  const classes = objects.byIndex(resources.storageClasses, 'byDefault', isDefault);
  const [youngest] = classes.toSorted((a, b) => compareAge(b, a) || compareNames(a, b));
  return youngest?.metadata.name;
});

export function isDefaultStorageClass(object: KubeObject): boolean {
  const { annotations } = object.metadata;
  return (
    annotations?.['storageclass.kubernetes.io/is-default-class'] === 'true' ||
    annotations?.['storageclass.beta.kubernetes.io/is-default-class'] === 'true'
  );
}

function compareAge(a: KubeObject, b: KubeObject): number {
  return Date.parse(a.metadata.creationTimestamp ?? '') - Date.parse(b.metadata.creationTimestamp ?? '');
}

function compareNames(a: KubeObject, b: KubeObject): number {
  return (a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1;
}

type Fields = Readonly<Record<string, unknown>>;

interface PublishedOptions extends Pick<UpKind, 'indexes' | 'touches'> {
  readonly resource: Resource;
  /** Top-level fields that a copy takes from its original and from nowhere else. */
  readonly fields: readonly string[];
  /** Fields that are immutable, by path: a copy that differs in one is created anew. */
  readonly frozen: readonly string[];
  /** Which values a tenant sees; `fields` holds those of the super object. */
  readonly shown?: (fields: Fields, superObject: KubeObject, context: SyncContext) => Fields;
  /** False for objects that have no place in tenants, label or not. */
  readonly offers?: (name: string) => boolean;
}

/**
 * A cluster-scoped kind of which every tenant gets copies: those that the operator has published. What a
 * tenant changes on a copy is put back (sync rule `published-kinds`).
 */
export function publishedKind(options: PublishedOptions): UpKind {
  const { resource, fields, frozen, shown, offers, indexes, touches } = options;

  const wantedFields = (superObject: KubeObject, context: SyncContext): Fields => {
    const own = pick(superObject, fields);
    return shown === undefined ? own : shown(own, superObject, context);
  };

  return {
    name: resource.plural,
    resource,
    direction: 'up',
    ...(indexes && { indexes }),
    ...(touches && { touches }),
    tenantRef(superObject, context) {
      const { name } = superObject.metadata;
      return name !== undefined && isPublishedTo(resource, superObject, context) && offers?.(name) !== false
        ? { name }
        : undefined;
    },
    superRef: ({ name }) => ({ name }),
    toTenant: (superObject, context) => ({
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: copyMetadata(superObject),
      ...wantedFields(superObject, context),
    }),
    up(tenantObject, superObject, context): readonly Action[] {
      if (tenantObject.metadata.deletionTimestamp !== undefined) return [];
      const present = pick(tenantObject, fields);
      const wanted = wantedFields(superObject, context);
      if (frozen.some((path) => !deepEqual(at(present, path), at(wanted, path)))) {
        return [{ do: 'deleteTenant' }];
      }
      const patch: MergePatch = {
        ...exactMetadataPatch(tenantObject, copyMetadata(superObject)),
        ...mergePatch(present, wanted),
      };
      return Object.keys(patch).length === 0 ? [] : [{ do: 'patchTenant', patch }];
    },
  };
}

function pick(object: KubeObject, fields: readonly string[]): Fields {
  return Object.fromEntries(
    fields.filter((field) => object[field] !== undefined).map((field) => [field, object[field]]),
  );
}

function at(fields: Fields, path: string): unknown {
  let value: unknown = fields;
  for (const step of path.split('.')) value = (value as Record<string, unknown> | undefined)?.[step];
  return value;
}
