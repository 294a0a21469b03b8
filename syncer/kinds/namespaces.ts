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
import { isMirroredNamespaceLabel, mirroredNamespaceLabels } from '../mapping/namespace-labels.ts';
import type { DownKind } from './contract.ts';
import { nodeLeaseNamespace } from './reserved-names.ts';

/**
 * A tenant's namespaces and the super namespaces that stand for them. What a tenant writes on its own Namespace is its
 * own affair: but for an allow-list, labels and annotations of the super object are Skerry's, the level of Pod Security
 * among them. Labels are there once more under keys of Skerry's, which mean something only to selectors that Skerry has
 * translated.
 */
export const namespaceKind: DownKind = {
  name: 'namespaces',
  direction: 'down',
  resource: resources.namespaces,
  deleteNeedsLiveCheck: true,
  indexes: { tenant: { all: () => [''] } },
  admit: ({ metadata }) => ({ wanted: metadata.name !== nodeLeaseNamespace }),
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
    return patch === undefined ? [] : [{ do: 'patchSuper', patch }];
  },
};

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
  if (dropped.length === 0) return patch;
  const metadata = (patch?.['metadata'] ?? {}) as { labels?: Record<string, string | null> };
  const labels = { ...metadata.labels, ...Object.fromEntries(dropped.map((key) => [key, null])) };
  return { ...patch, metadata: { ...metadata, labels } };
}
