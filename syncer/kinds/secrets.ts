import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { listedKeys, superMetadata, superMetadataPatch } from '../mapping/metadata.ts';
import type { Admission, DownKind } from './contract.ts';
import { lateCopyOf, lateKind } from './late-references.ts';
import { metadataUp } from './patches.ts';
import {
  bringPayloadDown,
  isToBeReplaced,
  metadataAlone,
  payloadOf,
  summarized,
  unknownFieldsAdmission,
} from './payload.ts';
import { isReserved, reservedNameOf, reservedNotice, superNameOfReserved } from './reserved-names.ts';

const fields = ['data', 'immutable'] as const;
const payload = ['type', ...fields] as const;

/** Secret: those that a pod or an Ingress refers to, those that are marked, or all (sync rule `configmaps-and-secrets`). */
export const secretKind: DownKind = {
  name: 'secrets',
  resource: resources.secrets,
  direction: 'down',
  payload,
  compact: { tenant: metadataAlone, super: summarized(payload) },
  selector: { super: `!${labelKeys.token},!${labelKeys.late}` },
  touches: { tenant: lateCopyOf('secrets') },
  superName: (name) => (isReserved(name) ? superNameOfReserved(name) : name),
  tenantName: reservedNameOf,
  admit,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: superMetadata(tenantObject, context, listedKeys(context)),
      type: superType(tenantObject),
      ...payloadOf(tenantObject, fields),
    };
  },
  down(tenantObject, superObject, context) {
    const metadata = superMetadataPatch(tenantObject, superObject, context, listedKeys(context));
    const type = superType(tenantObject);
    if (isToBeReplaced(superObject))
      return bringPayloadDown({ ...tenantObject, type }, superObject, payload, metadata);
    if (superObject['type'] !== undefined && superObject['type'] !== type) return [{ do: 'deleteSuper' }];
    return bringPayloadDown(tenantObject, superObject, fields, metadata);
  },
  up: metadataUp,
};

/** Secrets that the tenant made after a pod that refers to them. */
export const lateSecretKind: DownKind = lateKind(secretKind);

/** A token Secret that kept its type would be filled with a token of the super cluster. */
function superType(tenantObject: KubeObject): string {
  const type = tenantObject['type'];
  return typeof type !== 'string' || type === 'kubernetes.io/service-account-token' ? 'Opaque' : type;
}

function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  const { name = '', namespace, labels } = tenantObject.metadata;
  const wanted =
    context.tenant.syncSecrets === 'all' ||
    labels?.[labelKeys.sync] === 'true' ||
    context.isReferenced({ kind: 'secrets', namespace, name });
  if (!wanted) return { wanted: false };
  if (isReserved(name)) return { wanted: false, notice: reservedNotice(name) };
  return unknownFieldsAdmission(tenantObject, payload) ?? { wanted: true };
}
