import { deepEqual } from 'fast-equals';
import {
  apiVersionOf,
  groupResource,
  isRecord,
  type KubeObject,
  type MergePatch,
  mergePatch,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import {
  allAnnotations,
  goesDown,
  type SuperMetadataOptions,
  superMetadata,
  superMetadataPatch,
} from '../mapping/metadata.ts';
import { scrub } from '../mapping/scrub.ts';
import type { Action, DownKind } from './contract.ts';
import { unlessEmpty, withKeys } from './patches.ts';
import { isPublished } from './published-kind.ts';

type Fields = Readonly<Record<string, unknown>>;
/** Which fields an object has, without their values; `1` for what is carried over whole, lists for example. */
interface Shape {
  readonly [field: string]: Shape | 1;
}

/** Everything of a custom resource but its type, metadata and status. */
function payloadOf(object: KubeObject): Fields {
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, status: _status, ...payload } = object;
  return payload;
}

const longestShape = 16_384;

/**
 * What the super object remembers of the fields that came from the tenant object, so that one which the tenant
 * object has dropped can be told from one that the super cluster added. Of large objects only the outer fields,
 * which are then carried over whole.
 */
export function shapeText(payload: Fields): string {
  for (const depth of [16, 4, 2]) {
    const text = JSON.stringify(shapeOf(payload, depth));
    if (text.length <= longestShape) return text;
  }
  return JSON.stringify(shapeOf(payload, 1));
}

/** Tolerates anything: the annotation can be edited in the super cluster. */
export function parseShape(text: string | undefined): Shape {
  try {
    const parsed: unknown = JSON.parse(text ?? '{}');
    return isRecord(parsed) ? (parsed as Shape) : {};
  } catch {
    return {};
  }
}

/**
 * Brings what came from the tenant object to what the tenant object has now, and leaves alone what others put beside
 * it.
 * @param shape of the tenant object as it is now
 * @param before what the super object remembers
 */
export function payloadPatch(from: Fields, to: Fields, shape: Shape, before: Shape): MergePatch | undefined {
  const patch = new Map<string, unknown>();
  for (const [field, value] of Object.entries(to)) {
    const present = own(from, field);
    const inner = own(shape, field);
    const known = own(before, field);
    // What was carried over whole is replaced as a whole.
    if (isRecord(value) && isRecord(present) && isRecord(inner) && known !== 1) {
      const change = payloadPatch(present, value, inner, known ?? {});
      if (change !== undefined) patch.set(field, change);
    } else if (!deepEqual(present ?? null, value ?? null)) {
      const change = isRecord(value) && isRecord(present) ? mergePatch(present, value) : value;
      if (change !== undefined) patch.set(field, change);
    }
  }
  for (const [field, known] of Object.entries(before)) {
    const present = own(from, field);
    if (Object.hasOwn(to, field) || present === undefined) continue;
    const change = isRecord(known) && isRecord(present) ? removal(present, known) : null;
    if (change !== undefined) patch.set(field, change);
  }
  return patch.size === 0 ? undefined : Object.fromEntries(patch);
}

/** Takes away what came from the tenant object: the whole of it, if nothing was added. */
function removal(from: Fields, known: Shape): MergePatch | null | undefined {
  return hasMore(from, known) ? payloadPatch(from, {}, {}, known) : null;
}

function hasMore(value: unknown, known: Shape | 1 | undefined): boolean {
  if (known === undefined) return true;
  if (!isRecord(value) || !isRecord(known)) return false;
  return Object.entries(value).some(([field, part]) => hasMore(part, own(known, field)));
}

function shapeOf(fields: Fields, depth: number): Shape {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== null)
      .map(([field, value]) => [field, isRecord(value) && depth > 1 ? shapeOf(value, depth - 1) : 1]),
  );
}

function own<T>(object: Readonly<Record<string, T>>, field: string): T | undefined {
  return Object.hasOwn(object, field) ? object[field] : undefined;
}

type Status = Record<string, unknown> & { observedGeneration?: number; conditions?: unknown };

interface StatusOptions {
  /** The status is a subresource: writing it does not change the tenant object's generation. */
  readonly isSubresource: boolean;
  /** Whether the super object has all that the tenant object asks for. */
  readonly isCarriedDown: boolean;
}

/**
 * Makes the tenant object's status what the super object's says, in the tenant's words, whatever was written to it
 * in the tenant. Generations are translated: `observedGeneration` says whether the tenant object as it is now has
 * been seen.
 */
function statusPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
  options: StatusOptions,
): MergePatch | undefined {
  const present = tenantObject['status'];
  const wanted = wantedStatus(tenantObject, superObject, context, options);
  if (deepEqual(present, wanted)) return undefined;
  if (wanted === undefined) return { status: null };
  const change = mergePatch(isRecord(present) ? present : {}, wanted);
  return change === undefined ? undefined : { status: change };
}

function wantedStatus(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
  options: StatusOptions,
): Status | undefined {
  const theirs = superObject['status'] as Status | undefined;
  if (theirs === undefined) return undefined;
  const status = scrubbed(theirs, context) as Status;
  if (!options.isSubresource) return status;
  const translate = (seen: unknown, shown: unknown): number | undefined => {
    if (typeof seen !== 'number') return undefined;
    const generation = tenantObject.metadata.generation ?? 1;
    const isPresent = seen >= (superObject.metadata.generation ?? 0) && options.isCarriedDown;
    if (isPresent) return generation;
    return typeof shown === 'number' && shown < generation ? shown : Math.max(0, generation - 1);
  };
  const own = tenantObject['status'] as Status | undefined;
  const observed = translate(status.observedGeneration, own?.observedGeneration);
  if (observed !== undefined) status.observedGeneration = observed;
  if (Array.isArray(status.conditions)) {
    status.conditions = status.conditions.map((condition: unknown) => {
      if (!isRecord(condition)) return condition;
      const generation = translate(condition['observedGeneration'], generationOf(own, condition['type']));
      return generation === undefined ? condition : { ...condition, observedGeneration: generation };
    });
  }
  return status;
}

function generationOf(status: Status | undefined, type: unknown): unknown {
  if (!Array.isArray(status?.conditions)) return undefined;
  const condition = status.conditions.find((each: unknown) => isRecord(each) && each['type'] === type);
  return isRecord(condition) ? condition['observedGeneration'] : undefined;
}

/** All text of a status in the tenant's words. */
function scrubbed(value: unknown, context: SyncContext): unknown {
  if (typeof value === 'string') return scrub(value, context);
  if (Array.isArray(value)) return value.map((item) => scrubbed(item, context));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([field, part]) => [scrub(field, context), scrubbed(part, context)]),
  );
}

/** Annotation on the super object: which fields came from the tenant object (see `shapeText`). */
const syncedFieldsAnnotation = 'skerry.dev/synced-fields';

export interface CustomResource {
  /** In the version that both sides serve. Namespaced. */
  readonly resource: Resource;
  /** Whether the status of that version is a subresource. */
  readonly hasStatus: boolean;
}

/**
 * The objects of a published CustomResourceDefinition, for the tenants that have opted in: all but the status is
 * the tenant's, the status is the super cluster's. What they refer to is not looked into (sync rule `custom-resources`).
 */
export function customResourceKind({ resource, hasStatus }: CustomResource): DownKind {
  // The name of the definition, and of the kind.
  const name = groupResource(resource);
  return {
    name,
    resource,
    direction: 'down',
    // A changed label or setting is hardly meant to delete all of them, and real things may hang on each.
    unwantedIsMissing: true,
    admit: (_tenantObject, context) => ({ wanted: isWanted(name, context) }),
    toSuper(tenantObject, context) {
      const metadata = superMetadata(tenantObject, context, metadataOptions(context));
      const payload = payloadOf(tenantObject);
      return {
        ...payload,
        apiVersion: apiVersionOf(resource),
        kind: resource.kind,
        metadata: {
          ...metadata,
          annotations: { ...metadata.annotations, [syncedFieldsAnnotation]: shapeText(payload) },
        },
      };
    },
    down(tenantObject, superObject, context) {
      const patch = downPatch(tenantObject, superObject, context);
      return patch === undefined ? [] : [{ do: 'patchSuper', patch }];
    },
    up(tenantObject, superObject, context): readonly Action[] {
      const isCarriedDown = payloadChange(tenantObject, superObject) === undefined;
      const patch = statusPatch(tenantObject, superObject, context, {
        isSubresource: hasStatus,
        isCarriedDown,
      });
      if (patch === undefined) return [];
      return [{ do: 'patchTenant', patch, ...(hasStatus ? { subresource: 'status' } : {}) }];
    },
  };
}

/** Whether objects of a definition are synced for a tenant: it is published, and the tenant has opted in. */
function isWanted(name: string, { tenant, superObjects }: SyncContext): boolean {
  return (
    tenant.customResources.includes(name) &&
    isPublished(superObjects.get(resources.customResourceDefinitions, { name }))
  );
}

function payloadChange(tenantObject: KubeObject, superObject: KubeObject): MergePatch | undefined {
  const payload = payloadOf(tenantObject);
  const before = parseShape(superObject.metadata.annotations?.[syncedFieldsAnnotation]);
  return payloadPatch(payloadOf(superObject), payload, parseShape(shapeText(payload)), before);
}

/** All that are not denied: the operator, who has published the kind, knows what they mean. */
function metadataOptions(context: SyncContext): SuperMetadataOptions {
  return { ...allAnnotations(context), goesDown: (key) => goesDown(key, context.tenant) };
}

function downPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const metadata = superMetadataPatch(tenantObject, superObject, context, metadataOptions(context));
  const shape = shapeText(payloadOf(tenantObject));
  const isMarked = superObject.metadata.annotations?.[syncedFieldsAnnotation] === shape;
  const marked = isMarked ? metadata : withKeys(metadata, 'annotations', { [syncedFieldsAnnotation]: shape });
  return unlessEmpty({ ...payloadChange(tenantObject, superObject), ...marked });
}
