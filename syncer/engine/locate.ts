import type { KubeObject } from '../../kube/index.ts';
import { marks, uidMark } from '../mapping/index.ts';
import type { DownKind, KeyRef } from '../kinds/index.ts';

/** The key in its tenant's coordinates of a super object that carries our marks. */
export function downKeyOf(kind: DownKind, superObject: KubeObject): KeyRef | undefined {
  const namespace = superObject.metadata.labels?.[marks.namespace];
  const name = superObject.metadata.name;
  if (namespace === undefined || name === undefined || uidMark(superObject) === undefined) return undefined;
  if (kind.resource.plural === 'namespaces') return { kind: kind.name, name: namespace };
  const tenantName = kind.tenantName?.(name) ?? name;
  return kind.resource.namespaced ? { kind: kind.name, namespace, name: tenantName } : { kind: kind.name, name: tenantName };
}
