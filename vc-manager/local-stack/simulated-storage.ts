import { isAlreadyExists, type KubeClient, type KubeObject, resource, resources } from '../../kube/index.ts';
import {
  simulatedCsiDriver,
  simulatedLabel,
  simulatedProvisionerName,
  simulatedStorageClass,
} from './simulation.ts';

const csiDrivers = resource('storage.k8s.io', 'v1', 'csidrivers', 'CSIDriver', false);

/** Makes sure that claims can be made: the default StorageClass `simulated`, published to tenants. */
export async function createSimulatedStorage(client: KubeClient, signal: AbortSignal): Promise<void> {
  await createUnlessThere(client, csiDrivers, csiDriver(), signal);
  await createUnlessThere(client, resources.storageClasses, storageClass(), signal);
}

async function createUnlessThere(
  client: KubeClient,
  kind: typeof csiDrivers,
  object: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  await client.create(kind, object, { signal }).catch((error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
  });
}

function storageClass(): KubeObject {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: {
      name: simulatedStorageClass,
      labels: { [simulatedLabel]: 'true', 'skerry.dev/public': 'true' },
      annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
    },
    provisioner: simulatedProvisionerName,
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'Immediate',
    allowVolumeExpansion: true,
  };
}

// Without it the controller manager would wait for an attacher that does not exist.
function csiDriver(): KubeObject {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'CSIDriver',
    metadata: { name: simulatedCsiDriver, labels: { [simulatedLabel]: 'true' } },
    spec: { attachRequired: false, podInfoOnMount: false, fsGroupPolicy: 'None' },
  };
}
