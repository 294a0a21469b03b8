import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { listedKeys, superMetadata, superMetadataPatch } from '../mapping/metadata.ts';
import { rootCaName, superRootCaName } from '../mapping/names.ts';
import type { Admission, DownKind } from './contract.ts';
import { lateCopyOf, lateKind } from './late-references.ts';
import { metadataUp } from './patches.ts';
import { bringPayloadDown, metadataAlone, payloadOf, summarized, unknownFieldsAdmission } from './payload.ts';
import { isReserved, reservedNameOf, reservedNotice, superNameOfReserved } from './reserved-names.ts';

const fields = ['data', 'binaryData', 'immutable'] as const;

/** ConfigMap: those that a pod refers to, those that are marked, or all (sync rule `configmaps-and-secrets`). */
export const configMapKind: DownKind = {
  name: 'configmaps',
  resource: resources.configMaps,
  direction: 'down',
  payload: fields,
  compact: { tenant: metadataAlone, super: summarized(fields) },
  selector: { super: `!${labelKeys.late}` },
  touches: { tenant: lateCopyOf('configmaps') },
  superName,
  tenantName,
  admit,
  toSuper(tenantObject, context) {
    const name = superName(tenantObject.metadata.name ?? '');
    return {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: superMetadata(tenantObject, context, { ...listedKeys(context), name }),
      ...payloadOf(tenantObject, fields),
    };
  },
  down(tenantObject, superObject, context) {
    const metadata = superMetadataPatch(tenantObject, superObject, context, listedKeys(context));
    return bringPayloadDown(tenantObject, superObject, fields, metadata);
  },
  up: metadataUp,
};

/** ConfigMaps that the tenant made after a pod that refers to them. */
export const lateConfigMapKind: DownKind = lateKind(configMapKind);

function superName(name: string): string {
  if (name === rootCaName) return superRootCaName;
  return name === superRootCaName || isReserved(name) ? superNameOfReserved(name) : name;
}

function tenantName(name: string): string {
  return name === superRootCaName ? rootCaName : reservedNameOf(name);
}

function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  const { name = '', namespace, labels } = tenantObject.metadata;
  const wanted =
    context.tenant.syncConfigMaps === 'all' ||
    labels?.[labelKeys.sync] === 'true' ||
    context.isReferenced({ kind: 'configmaps', namespace, name });
  if (!wanted) return { wanted: false };
  const reserved = name === superRootCaName || isReserved(name);
  if (reserved) return { wanted: false, notice: reservedNotice(name) };
  return unknownFieldsAdmission(tenantObject, fields) ?? { wanted: true };
}
