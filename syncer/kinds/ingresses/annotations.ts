import type { KubeObject } from '../../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { classAnnotation } from './model.ts';

type Rules = Pick<TenantInfo, 'ingressAnnotations'>;

/**
 * T with the annotations that go down. To a controller that all tenants share, annotations are
 * configuration: a snippet in one can read the keys of everybody. So nothing goes down that has a prefix,
 * but what the operator has allowed; a key without one means nothing to any controller.
 */
export function withAllowedAnnotations(tenantObject: KubeObject, tenant: Rules): KubeObject {
  const { annotations } = tenantObject.metadata;
  if (annotations === undefined) return tenantObject;
  const allowed = Object.entries(annotations).filter(([key]) => isAllowed(key, tenant));
  return {
    ...tenantObject,
    metadata: { ...tenantObject.metadata, annotations: Object.fromEntries(allowed) },
  };
}

/** Tools' notes to themselves: nobody misses them. */
const silent = ['kubectl.kubernetes.io/', 'meta.helm.sh/', 'skerry.dev/'];

/** Keys of annotations that stay behind and may have been meant for a controller. */
export function annotationsLeftBehind({ metadata }: KubeObject, tenant: Rules): string[] {
  return Object.keys(metadata.annotations ?? {}).filter(
    (key) =>
      key !== classAnnotation && !isAllowed(key, tenant) && !silent.some((prefix) => key.startsWith(prefix)),
  );
}

function isAllowed(key: string, { ingressAnnotations }: Rules): boolean {
  if (key === classAnnotation) return false;
  if (!key.includes('/')) return true;
  return ingressAnnotations.some((each) => (each.endsWith('/') ? key.startsWith(each) : key === each));
}
