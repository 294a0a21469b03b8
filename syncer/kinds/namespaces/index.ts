import { apiVersionOf, type KubeObject, resources } from '../../../kube/index.ts';
import {
  namespaceAllowedKeys,
  type SuperMetadataOptions,
  superMetadata,
  superMetadataPatch,
  superNamespaceName,
} from '../../mapping/index.ts';
import type { DownKind, SyncContext } from '../kind.ts';

/** Holds the heartbeats of nodes; nothing that runs. */
export const nodeLeaseNamespace = 'kube-node-lease';

/**
 * A tenant's namespaces and the super namespaces that stand for them. What a tenant writes on its own
 * Namespace is its own affair: but for an allow-list, labels and annotations of S are Skerry's, the level
 * of Pod Security among them.
 */
export const namespaceKind: DownKind = {
  name: 'namespaces',
  direction: 'down',
  resource: resources.namespaces,
  deleteNeedsLiveCheck: true,
  indexes: { tenant: { all: () => [''] } },
  admit: ({ metadata }) => ({ wanted: metadata.name !== nodeLeaseNamespace }),
  toSuper(tenantObject, context) {
    const name = superNamespaceName(context.tenant, tenantObject.metadata.name ?? '');
    return {
      apiVersion: apiVersionOf(resources.namespaces),
      kind: resources.namespaces.kind,
      metadata: superMetadata(tenantObject, context, { ...options(tenantObject, context), name }),
    };
  },
  down(tenantObject, superObject, context) {
    const patch = superMetadataPatch(tenantObject, superObject, context, options(tenantObject, context));
    return patch === undefined ? [] : [{ do: 'patchSuper', patch }];
  },
};

function options({ metadata }: KubeObject, { tenant }: SyncContext): SuperMetadataOptions {
  return {
    namespace: metadata.name ?? '',
    goesDown: (key) => namespaceAllowedKeys.includes(key),
    labels: {
      'pod-security.kubernetes.io/enforce': tenant.policy.podSecurity,
      'pod-security.kubernetes.io/enforce-version': 'latest',
    },
  };
}
