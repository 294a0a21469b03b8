import type { KubeObject, MergePatch } from '../../kube/index.ts';
import type { TenantInfo } from '../kinds/index.ts';
import { isTransparent } from './keys.ts';

type Keys = Record<string, string>;
type Rules = Pick<TenantInfo, 'transparentKeyPrefixes'>;

/**
 * Copies the keys that belong to the super cluster up to T, as `{ metadata: … }`; undefined when T
 * has them all, and no others under those prefixes.
 */
export function transparentMetadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  { tenant }: { readonly tenant: Rules },
): MergePatch | undefined {
  if (tenant.transparentKeyPrefixes.length === 0) return undefined;
  const labels = difference(tenantObject.metadata.labels, superObject.metadata.labels, tenant);
  const annotations = difference(tenantObject.metadata.annotations, superObject.metadata.annotations, tenant);
  if (labels === undefined && annotations === undefined) return undefined;
  return {
    metadata: {
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations }),
    },
  };
}

function difference(own: Keys = {}, theirs: Keys = {}, tenant: Rules): MergePatch | undefined {
  const patch: MergePatch = {};
  for (const [key, value] of Object.entries(theirs)) {
    if (own[key] !== value && isTransparent(key, tenant)) patch[key] = value;
  }
  for (const key of Object.keys(own)) {
    if (theirs[key] === undefined && isTransparent(key, tenant)) patch[key] = null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
