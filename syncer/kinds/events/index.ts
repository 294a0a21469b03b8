import { deepEqual } from 'fast-equals';
import {
  type KubeObject,
  type MergePatch,
  mergePatch,
  type ObjectRef,
  resources,
} from '../../../kube/index.ts';
import { copyMetadata, isOurs, scrub, superNamespaceName, tenantNamespaceOf } from '../../mapping/index.ts';
import type { SyncContext, UpKind } from '../kind.ts';
import { subjectOf } from './subject.ts';

/** What is told of an occurrence; the rest of an event (its subject, its name) is made anew. */
const toldFields = [
  'reason',
  'message',
  'type',
  'source',
  'reportingComponent',
  'reportingInstance',
  'action',
  'count',
  'firstTimestamp',
  'lastTimestamp',
  'eventTime',
  'series',
] as const;

/** Event: what the super cluster says about the tenant's synced objects, counts kept current. */
export const eventKind: UpKind = {
  name: 'events',
  resource: resources.events,
  direction: 'up',
  watchTenant: false,
  superScope: 'all',
  superNamespaceOf: (superObject) => superObject.metadata.namespace,
  tenantRef,
  superRef({ namespace, name }, context) {
    return namespace === undefined
      ? undefined
      : { namespace: superNamespaceName(context.tenant, namespace), name };
  },
  toTenant(superObject, context) {
    const { name, namespace } = tenantRef(superObject, context) ?? {};
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: {
        ...copyMetadata(superObject),
        ...(name === undefined ? {} : { name }),
        ...(namespace === undefined ? {} : { namespace }),
      },
      involvedObject: subjectOf(superObject, context),
      ...told(superObject, context),
    };
  },
  up(tenantObject, superObject, context) {
    const patch = difference(tenantObject, told(superObject, context));
    return patch === undefined ? [] : [{ do: 'patchTenant', patch }];
  },
  // An event outlives what it tells of; the tenant's API server forgets it in its own time.
  superGone: () => [],
};

function tenantRef(superObject: KubeObject, context: SyncContext): ObjectRef | undefined {
  const { namespace, name } = superObject.metadata;
  if (namespace === undefined || name === undefined) return undefined;
  const superNamespace = context.superObjects.get(resources.namespaces, { name: namespace });
  if (superNamespace === undefined || !isOurs(superNamespace, context.tenant)) return undefined;
  const tenantNamespace = tenantNamespaceOf(superNamespace);
  if (tenantNamespace === undefined || subjectOf(superObject, context) === undefined) return undefined;
  return { namespace: tenantNamespace, name };
}

function told(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const field of toldFields) {
    const value = superObject[field];
    if (value === undefined || value === null) continue;
    result[field] = field === 'message' && typeof value === 'string' ? scrub(value, context) : value;
  }
  return result;
}

function difference(tenantObject: KubeObject, wanted: Record<string, unknown>): MergePatch | undefined {
  const present: Record<string, unknown> = {};
  for (const field of toldFields) {
    const value = tenantObject[field];
    if (value !== undefined && value !== null) present[field] = value;
  }
  return deepEqual(present, wanted) ? undefined : mergePatch(present, wanted);
}
