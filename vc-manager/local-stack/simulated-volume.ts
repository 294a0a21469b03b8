import type { KubeObject } from '../../kube/index.ts';
import { simulatedCsiDriver, simulatedLabel, simulatedProvisionerName } from './simulation.ts';

export interface Claim extends KubeObject {
  spec?: {
    accessModes?: string[];
    resources?: { requests?: { storage?: string } };
    storageClassName?: string;
    volumeMode?: string;
    volumeName?: string;
  };
  status?: { phase?: string; capacity?: { storage?: string } };
}

export interface Volume extends KubeObject {
  spec?: {
    capacity?: { storage?: string };
    claimRef?: { apiVersion?: string; kind?: string; namespace?: string; name?: string; uid?: string };
    persistentVolumeReclaimPolicy?: string;
    [field: string]: unknown;
  };
  status?: { phase?: string };
}

const provisionedBy = 'pv.kubernetes.io/provisioned-by';

/** Whether the claim waits for us: the binder says so, once a node has been chosen where one is needed. */
export function wantsVolume(claim: Claim): boolean {
  return (
    claim.metadata.annotations?.['volume.kubernetes.io/storage-provisioner'] === simulatedProvisionerName &&
    claim.metadata.deletionTimestamp === undefined &&
    claim.spec?.volumeName === undefined
  );
}

export function isOurs(volume: Volume): boolean {
  return volume.metadata.annotations?.[provisionedBy] === simulatedProvisionerName;
}

/** Whether the volume's claim is gone and nobody wants to keep it. */
export function isToBeDeleted(volume: Volume): boolean {
  return (
    isOurs(volume) &&
    volume.status?.phase === 'Released' &&
    volume.spec?.persistentVolumeReclaimPolicy === 'Delete' &&
    volume.metadata.deletionTimestamp === undefined
  );
}

/** The name follows from the claim's UID: a second attempt finds the volume of the first. */
export function volumeName(claim: Claim): string {
  return `pvc-${claim.metadata.uid}`;
}

export function volumeFor(claim: Claim, reclaimPolicy: string): Volume {
  const { metadata, spec = {} } = claim;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name: volumeName(claim),
      labels: { [simulatedLabel]: 'true' },
      annotations: { [provisionedBy]: simulatedProvisionerName },
    },
    spec: {
      capacity: { storage: spec.resources?.requests?.storage ?? '1Gi' },
      accessModes: spec.accessModes ?? ['ReadWriteOnce'],
      volumeMode: spec.volumeMode ?? 'Filesystem',
      persistentVolumeReclaimPolicy: reclaimPolicy,
      storageClassName: spec.storageClassName ?? '',
      claimRef: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
        ...(metadata.name === undefined ? {} : { name: metadata.name }),
        ...(metadata.uid === undefined ? {} : { uid: metadata.uid }),
      },
      csi: { driver: simulatedCsiDriver, volumeHandle: volumeName(claim) },
    },
  };
}
