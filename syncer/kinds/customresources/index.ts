import {
  apiVersionOf,
  type KubeObject,
  type MergePatch,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { superMetadata, superMetadataPatch } from '../../mapping/index.ts';
import type { Action } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { DownKind } from '../kind.ts';
import { isPublished } from '../published/index.ts';
import { parseShape, payloadOf, payloadPatch, shapeText } from './fields.ts';
import { statusPatch } from './status.ts';

/** Annotation on S: which fields came from T (see `shapeText`). */
const fieldsMark = 'skerry.dev/synced-fields';

export interface CustomResource {
  /** In the version that both sides serve. Namespaced. */
  readonly resource: Resource;
  /** Whether the status of that version is a subresource. */
  readonly hasStatus: boolean;
}

/** `<plural>.<group>`: the name of the definition, and of the kind. */
function customResourceName({ plural, group }: Resource): string {
  return `${plural}.${group}`;
}

/**
 * The objects of a published CustomResourceDefinition, for the tenants that have opted in: all but the status is
 * the tenant's, the status is the super cluster's. What they refer to is not looked into.
 */
export function customResourceKind({ resource, hasStatus }: CustomResource): DownKind {
  const name = customResourceName(resource);
  return {
    name,
    resource,
    direction: 'down',
    // Nobody means all of them to go by changing a label or a setting, and real things may hang on each.
    unwantedIsMissing: true,
    admit: (_tenantObject, context) => ({ wanted: isWanted(name, context) }),
    toSuper(tenantObject, context) {
      const metadata = superMetadata(tenantObject, context);
      const payload = payloadOf(tenantObject);
      return {
        ...payload,
        apiVersion: apiVersionOf(resource),
        kind: resource.kind,
        metadata: { ...metadata, annotations: { ...metadata.annotations, [fieldsMark]: shapeText(payload) } },
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
  const before = parseShape(superObject.metadata.annotations?.[fieldsMark]);
  return payloadPatch(payloadOf(superObject), payload, parseShape(shapeText(payload)), before);
}

function downPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const { metadata = {} } = superMetadataPatch(tenantObject, superObject, context) ?? {};
  const shape = shapeText(payloadOf(tenantObject));
  const { annotations, ...rest } = metadata as MergePatch;
  const marked =
    superObject.metadata.annotations?.[fieldsMark] === shape
      ? annotations
      : { ...(annotations as MergePatch | undefined), [fieldsMark]: shape };
  const metadataPatch = { ...rest, ...(marked === undefined ? {} : { annotations: marked }) };
  const payload = payloadChange(tenantObject, superObject);
  if (payload === undefined && Object.keys(metadataPatch).length === 0) return undefined;
  return {
    ...payload,
    ...(Object.keys(metadataPatch).length === 0 ? {} : { metadata: metadataPatch }),
  };
}
