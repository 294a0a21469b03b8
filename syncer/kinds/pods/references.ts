import { type Resource, resources } from '../../../kube/index.ts';
import type { KeyRef, SyncContext } from '../../context.ts';
import { allContainers, type Container, type Pod, type Volume } from './types.ts';

/** The claim that the tenant's own controller makes for an ephemeral volume. */
export function ephemeralClaimName(podName: string, volumeName: string): string {
  return `${podName}-${volumeName}`;
}

/**
 * Everything in its namespace that a pod cannot run without: ServiceAccount, ConfigMaps, Secrets (those
 * for pulling images among them) and claims, each once. In the tenant's names.
 */
export function references(pod: Pod): KeyRef[] {
  const found = new Map<string, KeyRef>();
  const { namespace } = pod.metadata;
  const add = (kind: string, name: string | undefined): void => {
    if (name !== undefined && name !== '') found.set(`${kind}/${name}`, { kind, namespace, name });
  };
  const spec = pod.spec ?? {};
  add('serviceaccounts', spec.serviceAccountName ?? 'default');
  for (const { name } of spec.imagePullSecrets ?? []) add('secrets', name);
  for (const volume of spec.volumes ?? []) volumeReferences(volume, pod, add);
  for (const container of allContainers(spec)) containerReferences(container, add);
  return [...found.values()];
}

type Add = (kind: string, name: string | undefined) => void;

function volumeReferences(volume: Volume, pod: Pod, add: Add): void {
  add('configmaps', volume.configMap?.name);
  add('persistentvolumeclaims', volume.persistentVolumeClaim?.claimName);
  if (volume.ephemeral !== undefined) {
    add('persistentvolumeclaims', ephemeralClaimName(pod.metadata.name ?? '', volume.name));
  }
  for (const { configMap, secret } of volume.projected?.sources ?? []) {
    add('configmaps', configMap?.name);
    add('secrets', secret?.name);
  }
  for (const key in volume) {
    const source = volume[key];
    if (typeof source === 'object' && source !== null) sourceSecrets(source as SecretSource, add);
  }
}

/** How the sources of volumes, from `secret` to the drivers of old, name a Secret. */
interface SecretSource {
  secretName?: string;
  secretRef?: { name?: string };
  nodePublishSecretRef?: { name?: string };
}

function sourceSecrets({ secretName, secretRef, nodePublishSecretRef }: SecretSource, add: Add): void {
  add('secrets', secretName);
  add('secrets', secretRef?.name);
  add('secrets', nodePublishSecretRef?.name);
}

function containerReferences(container: Container, add: Add): void {
  for (const { valueFrom } of container.env ?? []) {
    add('configmaps', valueFrom?.configMapKeyRef?.name);
    add('secrets', valueFrom?.secretKeyRef?.name);
  }
  for (const { configMapRef, secretRef } of container.envFrom ?? []) {
    add('configmaps', configMapRef?.name);
    add('secrets', secretRef?.name);
  }
}

const referredKinds: Readonly<Record<string, Resource>> = {
  serviceaccounts: resources.serviceAccounts,
  configmaps: resources.configMaps,
  secrets: resources.secrets,
  persistentvolumeclaims: resources.persistentVolumeClaims,
};

/** What a pod refers to, as far as the tenant has it: a pod may wait for the rest, as on any cluster. */
export function requiredObjects(pod: Pod, { tenantObjects }: SyncContext): readonly KeyRef[] {
  return references(pod).filter(({ kind, namespace, name }) => {
    const resource = referredKinds[kind];
    return resource !== undefined && tenantObjects.get(resource, { namespace, name }) !== undefined;
  });
}
