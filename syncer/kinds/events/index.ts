import { type KubeObject, type ObjectRef, resources } from '../../../kube/index.ts';
import { copyMetadata, isOurs, superNamespaceName, tenantNamespaceOf } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import type { UpKind } from '../kind.ts';
import { tokenSecretName } from '../pod-tokens.ts';
import { type ObjectReference, subjectOf } from './subject.ts';
import { told, toldPatch } from './told.ts';

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
      involvedObject: subjectOf(superObject, context),
      ...told(superObject, context),
    };
  },
  up(tenantObject, superObject, context) {
    const patch = toldPatch(tenantObject, told(superObject, context));
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
