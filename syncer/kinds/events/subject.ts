import { type KubeObject, type Resource, resources } from '../../../kube/index.ts';
import { isOurs, tenantNamespaceOf, uidMark } from '../../mapping/index.ts';
import { configMapKind } from '../configmaps/index.ts';
import type { SyncContext } from '../kind.ts';
import { secretKind } from '../secrets/index.ts';

export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  fieldPath?: string;
  resourceVersion?: string;
}

interface Subject {
  readonly resource: Resource;
  readonly tenantName?: (superName: string) => string;
}

/** Kinds that go down, by the kind that an event names. */
const subjects: ReadonlyMap<string, Subject> = new Map<string, Subject>([
  ['Pod', { resource: resources.pods }],
  ['Service', { resource: resources.services }],
  ['PersistentVolumeClaim', { resource: resources.persistentVolumeClaims }],
  ['EndpointSlice', { resource: resources.endpointSlices }],
  ['ServiceAccount', { resource: resources.serviceAccounts }],
  ['ConfigMap', { resource: resources.configMaps, ...nameOf(configMapKind) }],
  ['Secret', { resource: resources.secrets, ...nameOf(secretKind) }],
]);

function nameOf(kind: { tenantName?(superName: string): string }): {
  tenantName?: (superName: string) => string;
} {
  return kind.tenantName === undefined
    ? {}
    : { tenantName: (superName) => kind.tenantName?.(superName) ?? superName };
}

/**
 * The tenant's object that an event of the super cluster is about, as an event in the tenant names it;
 * `undefined` when it is about something that the tenant does not have, or no longer has.
 */
export function subjectOf(event: KubeObject, context: SyncContext): ObjectReference | undefined {
  const involved = event['involvedObject'] as ObjectReference | undefined;
  const subject = subjects.get(involved?.kind ?? '');
  if (involved?.name === undefined || involved.namespace === undefined || subject === undefined)
    return undefined;
  if (involved.namespace !== event.metadata.namespace) return undefined;
  const superNamespace = context.superObjects.get(resources.namespaces, { name: involved.namespace });
  const namespace = superNamespace === undefined ? undefined : tenantNamespaceOf(superNamespace);
  if (namespace === undefined) return undefined;

  const name = subject.tenantName?.(involved.name) ?? involved.name;
  const own = context.tenantObjects.get(subject.resource, { namespace, name });
  const uid = own?.metadata.uid;
  if (own === undefined || uid === undefined) return undefined;
  const there = context.superObjects.get(subject.resource, {
    namespace: involved.namespace,
    name: involved.name,
  });
  if (!isAbout(event, involved, own, there, context)) return undefined;
  return {
    ...(involved.apiVersion === undefined ? {} : { apiVersion: involved.apiVersion }),
    ...(involved.kind === undefined ? {} : { kind: involved.kind }),
    namespace,
    name,
    uid,
    ...(involved.fieldPath === undefined ? {} : { fieldPath: involved.fieldPath }),
  };
}

/** Whether the S that the event names was made from this T, and not from an earlier one of its name. */
function isAbout(
  event: KubeObject,
  involved: ObjectReference,
  own: KubeObject,
  there: KubeObject | undefined,
  context: SyncContext,
): boolean {
  if (there !== undefined) {
    if (!isOurs(there, context.tenant) || uidMark(there) !== own.metadata.uid) return false;
    return involved.uid === undefined || involved.uid === there.metadata.uid;
  }
  // The event was faster than its subject, or outlived it: it counts unless it is older than T.
  const at = Date.parse(
    (event['firstTimestamp'] ?? event['eventTime'] ?? event.metadata.creationTimestamp ?? '') as string,
  );
  return !(at < Date.parse(own.metadata.creationTimestamp ?? ''));
}
