import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, type Resource, resources } from '../../kube/index.ts';
import type { KeyRef, SyncContext } from '../context.ts';
import { lateNamePrefix, superNamespaceName } from '../mapping/names.ts';
import type { Admission, DownKind } from './contract.ts';
import { unknownFieldsAdmission } from './payload.ts';

/**
 * Sync rule `late-references`: ConfigMaps and Secrets that the tenant did not have when a pod that refers to them went
 * down. The super pod refers to them by names that only Skerry gives, so that it gets nothing that stands in the super
 * namespace under the name itself; when the tenant has one, a copy of it goes down under that name.
 */

/** Index of super pods: `lateReferenceId` of each ConfigMap and Secret that they refer to by a late name. */
export const lateReferencesIndex = 'byLateReference';

/** `kind`: `configmaps` or `secrets`; `name`: that of the super cluster. */
export function lateReferenceId(kind: string, superNamespace: string, name: string): string {
  return `${kind}/${superNamespace}/${name}`;
}

/** What a super pod calls an object that the tenant did not have when the pod went down. */
export function lateName(name: string): string {
  return lateNamePrefix + name;
}

/** Whether a pod in the super cluster refers to this object of the tenant by its late name. */
function isAwaited(kind: string, { metadata }: KubeObject, { tenant, superObjects }: SyncContext): boolean {
  const superNamespace = superNamespaceName(tenant, metadata.namespace ?? '');
  const id = lateReferenceId(kind, superNamespace, lateName(metadata.name ?? ''));
  return superObjects.byIndex(resources.pods, lateReferencesIndex, id).length > 0;
}

/** What a ConfigMap or Secret touches: its late copy (`lateKind`), if a pod refers to that. */
export function lateCopyOf(kind: 'configmaps' | 'secrets') {
  return (tenantObject: KubeObject, context: SyncContext): readonly KeyRef[] => {
    const { namespace, name = '' } = tenantObject.metadata;
    return isAwaited(kind, tenantObject, context) ? [{ kind: `late-${kind}`, namespace, name }] : [];
  };
}

/** Of an object's name. */
const maxLength = 253;

const late: Readonly<Record<string, { readonly resource: Resource; readonly kind: string }>> = {
  configmaps: { resource: resources.configMaps, kind: 'late-configmaps' },
  secrets: { resource: resources.secrets, kind: 'late-secrets' },
};

/** Whether a late name of it would be longer than a name can be. */
export function isTooLongForLate(name: string): boolean {
  return lateNamePrefix.length + name.length > maxLength;
}

/** Inverse of `lateName`; undefined for other names. */
export function nameOfLate(name: string): string | undefined {
  return name.startsWith(lateNamePrefix) ? name.slice(lateNamePrefix.length) : undefined;
}

/** Whether a pod that goes down now has to wait for this ConfigMap or Secret: the tenant does not have it. */
export function isMissing({ kind, namespace, name }: KeyRef, { tenantObjects }: SyncContext): boolean {
  const resource = late[kind]?.resource;
  return resource !== undefined && tenantObjects.get(resource, { namespace, name }) === undefined;
}

/** Keys of the copies that a super pod refers to, given its references in the names of the super cluster. */
export function lateKeysOf(superPod: KubeObject, references: readonly string[]): readonly KeyRef[] {
  const namespace = superPod.metadata.labels?.[labelKeys.namespace];
  return references.flatMap((id) => {
    const [plural = '', , name = ''] = id.split('/');
    const kind = late[plural]?.kind;
    const own = nameOfLate(name);
    return kind === undefined || own === undefined ? [] : [{ kind, namespace, name: own }];
  });
}

/** The kind of the late copies beside a kind whose copies keep their names. */
export function lateKind(kind: DownKind): DownKind {
  const { adopts: _adopts, touches: _touches, references: _references, up: _up, ...rest } = kind;
  const { payload = [] } = kind;
  return {
    ...rest,
    name: late[kind.name]?.kind ?? '',
    isSecondCopy: true,
    selector: { super: labelKeys.late },
    superName: lateName,
    tenantName: (superName) => nameOfLate(superName) ?? superName,
    admit(tenantObject, context): Admission {
      if (!isAwaited(kind.name, tenantObject, context)) return { wanted: false };
      return unknownFieldsAdmission(tenantObject, payload) ?? { wanted: true };
    },
    toSuper(tenantObject, context) {
      const made = kind.toSuper(tenantObject, context);
      const { metadata } = made;
      const name = lateName(tenantObject.metadata.name ?? '');
      const labels = { ...metadata.labels, [labelKeys.late]: 'true' };
      return { ...made, metadata: { ...metadata, name, labels } };
    },
  };
}
