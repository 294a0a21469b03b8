import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch, type ObjectRef, resources } from '../../kube/index.ts';
import {
  copyMetadata,
  isOurs,
  scrub,
  superNamespaceName,
  tenantNamespaceOf,
  uidMark,
} from '../mapping/index.ts';
import { configMapKind } from './configmaps/index.ts';
import type { SyncContext } from './context.ts';
import { endpointSliceKind } from './endpointslices/index.ts';
import { ingressKind } from './ingresses/index.ts';
import type { DownKind, UpKind } from './kind.ts';
import { networkPolicyKind } from './networkpolicies/index.ts';
import { persistentVolumeClaimKind } from './persistentvolumeclaims/index.ts';
import { tokenSecretName } from './pod-tokens.ts';
import { podDisruptionBudgetKind } from './poddisruptionbudgets/index.ts';
import { podKind } from './pods/index.ts';
import { secretKind } from './secrets/index.ts';
import { serviceAccountKind } from './serviceaccounts/index.ts';
import { serviceKind } from './services/index.ts';

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
export function involvedObjectOf(event: KubeObject, context: SyncContext): ObjectReference | undefined {
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

/** What is told of an occurrence; the rest of an event (its subject, its name) is made anew. */
const contentFields = [
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

/** Of an event with a series; scrubbing can make a text longer. */
const maxMessageLength = 1_024;

/** What the copy of an event says, in the tenant's words. */
export function eventContent(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const field of contentFields) {
    const value = superObject[field];
    if (value === undefined || value === null) continue;
    if (field === 'message') result[field] = scrub(String(value), context).slice(0, maxMessageLength);
    else if (field === 'source') result[field] = source(value as Source, context);
    else result[field] = value;
  }
  const instance = result['reportingInstance'];
  if (context.tenant.hideNodes && typeof instance === 'string' && instance !== '') {
    // Kubelet's is its node; others end in the name of the machine that they run on.
    const shown = scrub(instance, context);
    result['reportingInstance'] = shown === instance ? (result['reportingComponent'] ?? '') : shown;
  }
  return result;
}

/** What has to change in a copy so that it says this; `undefined` when it does. */
export function eventContentPatch(
  tenantObject: KubeObject,
  wanted: Record<string, unknown>,
): MergePatch | undefined {
  const present: Record<string, unknown> = {};
  for (const field of contentFields) {
    const value = tenantObject[field];
    if (value !== undefined && value !== null) present[field] = value;
  }
  return deepEqual(present, wanted) ? undefined : mergePatch(present, wanted);
}

interface Source {
  component?: string;
  host?: string;
}

function source({ component, host }: Source, context: SyncContext): Source {
  return {
    ...(component === undefined ? {} : { component }),
    ...(host === undefined ? {} : { host: scrub(host, context) }),
  };
}

/** Event: what the super cluster says about the tenant's synced objects, counts kept current. */
export const eventKind: UpKind = {
  name: 'events',
  resource: resources.events,
  direction: 'up',
  patient: true,
  watchTenant: false,
  superScope: 'all',
  patchEveryMs: 5_000,
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
      involvedObject: involvedObjectOf(superObject, context),
      ...eventContent(superObject, context),
    };
  },
  up(tenantObject, superObject, context) {
    const patch = eventContentPatch(tenantObject, eventContent(superObject, context));
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
  if (tenantNamespace === undefined || involvedObjectOf(superObject, context) === undefined) return undefined;
  if (isWaitForTokens(superObject)) return undefined;
  return { namespace: tenantNamespace, name };
}

/**
 * Kubelet is on the node before the tokens are issued, and finds no Secret at first. The tenant knows of no such
 * Secret; when there is something to say of tokens, a notice says it.
 */
function isWaitForTokens(event: KubeObject): boolean {
  const { kind, name = '' } = (event['involvedObject'] ?? {}) as ObjectReference;
  if (kind !== 'Pod' || event['reason'] !== 'FailedMount') return false;
  return String(event['message'] ?? '').includes(`"${tokenSecretName(name)}"`);
}
