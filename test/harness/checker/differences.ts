import type { KubeObject } from '../../../kube/index.ts';
import { kindChecks } from './kinds.ts';
import {
  at,
  type CheckedKind,
  type CheckedTenant,
  checkedPaths,
  label,
  nameOf,
  type SuperSide,
  type TenantSide,
  View,
} from './view.ts';

/**
 * What is not as the sync rules want it, in words; empty when both sides agree. Pure, and made from the rules and
 * the marks alone.
 */
export function differences(tenant: CheckedTenant, own: TenantSide, superSide: SuperSide): string[] {
  const view = new View(tenant, own, superSide);
  return [
    ...kindChecks.flatMap(({ compare }) => compare.flatMap((each) => each(view))),
    ...compareSecrecy(view),
  ].map((difference) => `${tenant.namespace}/${tenant.name}: ${difference}`);
}

/** Super objects that are marked for a VirtualCluster that is not there (any more). */
export function orphanedSuperObjects(superSide: SuperSide): string[] {
  const living = new Set(superSide.virtualclusters.map(({ metadata }) => metadata.uid));
  const found: string[] = [];
  for (const kind of [...(Object.keys(checkedPaths) as CheckedKind[]), 'ipaddresses' as const]) {
    for (const object of superSide[kind]) {
      const uid = label(object, 'skerry.dev/tenant');
      if (uid !== undefined && !living.has(uid)) {
        found.push(`${kind} ${nameOf(object)} is left of the deleted tenant ${uid}`);
      }
    }
  }
  const namespaces = new Set(superSide.namespaces.map(({ metadata }) => metadata.name));
  for (const volume of superSide.persistentvolumes) {
    const namespace = at<string>(volume, 'spec', 'claimRef', 'namespace');
    if (namespace !== undefined && !namespaces.has(namespace)) {
      found.push(`persistentvolumes ${volume.metadata.name} is left of the namespace ${namespace}`);
    }
  }
  return found;
}

/** No object of the tenant names a super namespace. */
function compareSecrecy(view: View): string[] {
  const names = [...view.superNamespaces.values()].flat().map(({ metadata }) => metadata.name ?? '');
  return (Object.keys(checkedPaths) as CheckedKind[]).flatMap((kind) =>
    view.own[kind].flatMap((object: KubeObject) => {
      const text = JSON.stringify(object);
      const shown = names.find((name) => text.includes(name));
      return shown === undefined ? [] : [`${kind} ${nameOf(object)}: shows the super namespace ${shown}`];
    }),
  );
}
