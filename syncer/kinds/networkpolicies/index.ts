import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch, resources } from '../../../kube/index.ts';
import { superMetadata, superMetadataPatch, transparentMetadataPatch } from '../../mapping/index.ts';
import type { Action, Notice } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { Admission, DownKind } from '../kind.ts';
import { unknownFields } from '../known-fields.ts';
import { specOf, specShape } from './model.ts';
import { knownSpec, unseenKeys, wantedSpec } from './spec.ts';

/** NetworkPolicy: who of the tenant's pods may talk to whom, said in the super cluster's terms. */
export const networkPolicyKind: DownKind = {
  name: 'networkpolicies',
  resource: resources.networkPolicies,
  direction: 'down',
  // To take all of them away lets in what nobody has asked for, and a setting may do so by mistake.
  unwantedIsMissing: true,
  admit,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: superMetadata(tenantObject, context),
      spec: wantedSpec(tenantObject, context.tenant),
    };
  },
  down,
  up(tenantObject, superObject, context) {
    const patch = transparentMetadataPatch(tenantObject, superObject, context);
    return patch === undefined ? [] : [{ do: 'patchTenant', patch }];
  },
};

function admit(tenantObject: KubeObject, { tenant }: SyncContext): Admission {
  if (!tenant.syncNetworkPolicies) return { wanted: false };
  const unknown = unknownFields(specOf(tenantObject), specShape);
  if (unknown.length > 0) {
    // What is in force already stays: to take it away would let in what nobody has asked for.
    const message = `the cluster does not know ${[...new Set(unknown)].join(', ')} of a NetworkPolicy`;
    return { wanted: false, keep: true, notice: { type: 'Warning', reason: 'NotSupported', message } };
  }
  const notice = tenant.networkPoliciesEnforced ? unseenNotice(tenantObject, tenant) : unenforced;
  return notice === undefined ? { wanted: true } : { wanted: true, notice };
}

const unenforced: Notice = {
  type: 'Warning',
  reason: 'NetworkPolicyNotEnforced',
  message: 'nothing in this cluster acts on NetworkPolicies; traffic is as if there were none',
};

function unseenNotice(tenantObject: KubeObject, tenant: SyncContext['tenant']): Notice | undefined {
  const keys = unseenKeys(tenantObject, tenant);
  if (keys.length === 0) return undefined;
  return {
    type: 'Warning',
    reason: 'NotSupported',
    message: `pods cannot be selected by the labels ${keys.join(', ')}; the policy takes them to be on no pod`,
  };
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const metadata = superMetadataPatch(tenantObject, superObject, context);
  const spec = specPatch(tenantObject, superObject, context);
  if (metadata === undefined && spec === undefined) return [];
  const patch: MergePatch = { ...metadata, ...(spec === undefined ? {} : { spec }) };
  const notice = spec === undefined ? undefined : unseenNotice(tenantObject, context.tenant);
  const written: Action = { do: 'patchSuper', patch };
  return notice === undefined ? [written] : [written, { do: 'notice', notice }];
}

function specPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const wanted = wantedSpec(tenantObject, context.tenant);
  const there = knownSpec(superObject);
  const patch: MergePatch = {};
  for (const field of ['policyTypes', 'ingress', 'egress'] as const) {
    // A server leaves out an empty list.
    if (!deepEqual(wanted[field] ?? [], there[field] ?? [])) patch[field] = wanted[field] ?? null;
  }
  const podSelector = mergePatch(there.podSelector ?? {}, wanted.podSelector ?? {});
  if (podSelector !== undefined) patch['podSelector'] = podSelector;
  return Object.keys(patch).length === 0 ? undefined : patch;
}
