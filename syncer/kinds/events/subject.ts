import { type KubeObject, resources } from '../../../kube/index.ts';
import { isOurs, tenantNamespaceOf, uidMark } from '../../mapping/index.ts';
import { configMapKind } from '../configmaps/index.ts';
import type { SyncContext } from '../context.ts';
import { endpointSliceKind } from '../endpointslices/index.ts';
import { ingressKind } from '../ingresses/index.ts';
import type { DownKind } from '../kind.ts';
import { networkPolicyKind } from '../networkpolicies/index.ts';
import { persistentVolumeClaimKind } from '../persistentvolumeclaims/index.ts';
import { podDisruptionBudgetKind } from '../poddisruptionbudgets/index.ts';
import { podKind } from '../pods/index.ts';
import { secretKind } from '../secrets/index.ts';
import { serviceAccountKind } from '../serviceaccounts/index.ts';
import { serviceKind } from '../services/index.ts';

export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  fieldPath?: string;
  resourceVersion?: string;
}

/**
 * Kinds whose events come up. Not nodes and volumes, though tenants have them: what is told of those is about
 * machines and disks that others use too.
 */
const subjects: ReadonlyMap<string, DownKind> = new Map(
  [
    podKind,
    serviceKind,
    persistentVolumeClaimKind,
    endpointSliceKind,
    serviceAccountKind,
    configMapKind,
    secretKind,
    ingressKind,
    networkPolicyKind,
    podDisruptionBudgetKind,
  ].map((kind) => [kind.resource.kind, kind]),
);

/**
 * The tenant's object that an event of the super cluster is about, as an event in the tenant names it;
 * `undefined` when it is about something that the tenant does not have, or no longer has.
 */
export function subjectOf(event: KubeObject, context: SyncContext): ObjectReference | undefined {
  const involved = event['involvedObject'] as ObjectReference | undefined;
  const kind = kindOf(involved, context);
  if (involved?.name === undefined || involved.namespace === undefined || kind === undefined)
    return undefined;
  if (involved.namespace !== event.metadata.namespace) return undefined;
  const superNamespace = context.superObjects.get(resources.namespaces, { name: involved.namespace });
  const namespace = superNamespace === undefined ? undefined : tenantNamespaceOf(superNamespace);
  if (namespace === undefined) return undefined;

  const there = context.superObjects.get(kind.resource, {
    namespace: involved.namespace,
    name: involved.name,
  });
  const name = kind.tenantName?.(involved.name, there) ?? involved.name;
  const own = context.tenantObjects.get(kind.resource, { namespace, name });
  const uid = own?.metadata.uid;
  if (own === undefined || uid === undefined) return undefined;
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

/** Kinds of different groups may have one name: a custom `Service` is none of ours. */
function kindOf(involved: ObjectReference | undefined, context: SyncContext): DownKind | undefined {
  const { apiVersion, kind = '' } = involved ?? {};
  const builtIn = subjects.get(kind);
  if (apiVersion === undefined) return builtIn;
  const group = apiVersion.includes('/') ? (apiVersion.split('/')[0] ?? '') : '';
  return builtIn?.resource.group === group ? builtIn : context.customKind?.(group, kind);
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
