import { apiVersionOf, type KubeObject, type MergePatch, resources } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { tenantNamespaceOf } from '../mapping/labels.ts';
import {
  namespaceAllowedKeys,
  type SuperMetadataOptions,
  superMetadata,
  superMetadataPatch,
} from '../mapping/metadata.ts';
import { superNamespaceName } from '../mapping/names.ts';
import {
  isMirroredNamespaceLabel,
  maxMirroredLabels,
  mirroredNamespaceLabels,
} from '../mapping/namespace-labels.ts';
import type { DownKind, Notice } from './contract.ts';
import { withKeys } from './patches.ts';
import { nodeLeaseNamespace } from './reserved-names.ts';
import { warning } from './validation.ts';

/**
 * A tenant's namespaces and the super namespaces that stand for them. What a tenant writes on its own Namespace is its
 * own affair: but for an allow-list, labels and annotations of the super object are Skerry's, the level of Pod Security
 * among them. Labels are there once more under keys of Skerry's, which mean something only to selectors that Skerry has
 * translated (sync rules `namespaces`, `namespace-metadata`).
 */
export const namespaceKind: DownKind = {
  name: 'namespaces',
  joinsFirst: true,
  direction: 'down',
  resource: resources.namespaces,
  deleteNeedsLiveCheck: true,
  hasConditions: true,
  ofAllTenants: true,
  indexes: { tenant: { all: () => [''] } },
  admit(tenantObject) {
    if (tenantObject.metadata.name === nodeLeaseNamespace) return { wanted: false };
    const notice = excessNotice(tenantObject);
    return notice === undefined ? { wanted: true } : { wanted: true, notice };
  },
  superName: (name, tenant) => superNamespaceName(tenant, name),
  tenantName: (superName, superObject) => (superObject && tenantNamespaceOf(superObject)) ?? superName,
  toSuper(tenantObject, context) {
    const name = superNamespaceName(context.tenant, tenantObject.metadata.name ?? '');
    return {
      apiVersion: apiVersionOf(resources.namespaces),
      kind: resources.namespaces.kind,
      metadata: superMetadata(tenantObject, context, { ...options(tenantObject, context), name }),
    };
  },
  down(tenantObject, superObject, context) {
    const patch = withoutDropped(
      tenantObject,
      superObject,
      superMetadataPatch(tenantObject, superObject, context, options(tenantObject, context)),
    );
    if (patch === undefined) return [];
    const notice = excessNotice(tenantObject);
    return [
      { do: 'patchSuper', patch },
      ...(notice === undefined ? [] : [{ do: 'notice', notice } as const]),
    ];
  },
};

/**
 * No state but a memory of what is a function of an object; objects in caches are never changed. All that a namespace
 * holds asks for its admission.
 */
const labelCounts = new WeakMap<KubeObject, number>();

function excessNotice(namespace: KubeObject): Notice | undefined {
  let count = labelCounts.get(namespace);
  if (count === undefined) {
    count = Object.keys(namespace.metadata.labels ?? {}).length;
    labelCounts.set(namespace, count);
  }
  if (count <= maxMirroredLabels) return undefined;
  const message = `the Namespace has ${count} labels; selectors of pods and NetworkPolicies find it by ${maxMirroredLabels} of them`;
  return warning('NotSupported', message);
}

function options({ metadata }: KubeObject, { tenant }: SyncContext): SuperMetadataOptions {
  return {
    namespace: metadata.name ?? '',
    goesDown: (key) => namespaceAllowedKeys.includes(key),
    labels: {
      ...mirroredNamespaceLabels(metadata.labels),
      'pod-security.kubernetes.io/enforce': tenant.policy.podSecurity,
      'pod-security.kubernetes.io/enforce-version': 'latest',
    },
  };
}

/** What the tenant object has dropped of its labels: no other writer uses these keys. */
function withoutDropped(
  tenantObject: KubeObject,
  superObject: KubeObject,
  patch: MergePatch | undefined,
): MergePatch | undefined {
  const wanted = mirroredNamespaceLabels(tenantObject.metadata.labels);
  const dropped = Object.keys(superObject.metadata.labels ?? {}).filter(
    (key) => isMirroredNamespaceLabel(key) && !(key in wanted),
  );
  return withKeys(patch, 'labels', Object.fromEntries(dropped.map((key) => [key, null])));
}
