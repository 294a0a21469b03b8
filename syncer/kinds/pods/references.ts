import { type Resource, resources } from '../../../kube/index.ts';
import type { KeyRef, SyncContext } from '../../context.ts';
import { rootCaName } from '../../mapping/names.ts';
import { isMissing, lateName } from '../late-references.ts';
import { isReserved } from '../reserved-names.ts';
import {
  allContainers,
  type Container,
  type EnvFromSource,
  type EnvVar,
  mapChanged,
  mapContainers,
  mapItems,
  type ObjectName,
  type Pod,
  type PodStep,
  type Projection,
  type Volume,
} from './types.ts';

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

type NamedKind = 'configmaps' | 'secrets';
type NamingFields = readonly (readonly [field: string, kind: NamedKind])[];

/** Where references by `name` stand. */
const ofVolume: NamingFields = [['configMap', 'configmaps']];
const ofVolumeSource: NamingFields = [
  ['secretRef', 'secrets'],
  ['nodePublishSecretRef', 'secrets'],
];
const ofProjection: NamingFields = [
  ['configMap', 'configmaps'],
  ['secret', 'secrets'],
];
const ofVariable: NamingFields = [
  ['configMapKeyRef', 'configmaps'],
  ['secretKeyRef', 'secrets'],
];
const ofVariables: NamingFields = [
  ['configMapRef', 'configmaps'],
  ['secretRef', 'secrets'],
];

/**
 * Sync rule `late-references`: what the tenant does not have goes down by a name under which nothing stands but what the
 * tenant makes later. Runs while all references but Skerry's own have the tenant's names.
 */
export const lateReferences: PodStep = (spec, { metadata: { namespace } }, context) => {
  const superName = (kind: NamedKind, name: string | undefined): string | undefined => {
    if (name === undefined || name === '' || isReserved(name)) return name;
    if (kind === 'configmaps' && name === rootCaName) return name;
    return isMissing({ kind, namespace, name }, context) ? lateName(name) : name;
  };
  const renamed = <T extends object>(holder: T, fields: NamingFields): T => {
    let result = holder;
    for (const [field, kind] of fields) {
      const to = (holder as Record<string, ObjectName | null | undefined>)[field];
      const name = superName(kind, to?.name);
      if (name !== to?.name) result = { ...result, [field]: { ...to, name } };
    }
    return result;
  };
  const inVolume = (volume: Volume): Volume => {
    let result = renamed(volume, ofVolume);
    for (const key in result) {
      const source = result[key];
      if (typeof source !== 'object' || source === null) continue;
      let changed: SecretSource & { sources?: Projection[] | null } = renamed(source, ofVolumeSource);
      const secretName = superName('secrets', changed.secretName);
      if (secretName !== undefined && secretName !== changed.secretName) changed = { ...changed, secretName };
      const sources = mapChanged(changed.sources, (each: Projection) => renamed(each, ofProjection));
      if (sources !== changed.sources && sources !== undefined) changed = { ...changed, sources };
      if (changed !== source) result = { ...result, [key]: changed };
    }
    return result;
  };
  const inVariable = (variable: EnvVar): EnvVar => {
    const valueFrom = variable.valueFrom && renamed(variable.valueFrom, ofVariable);
    return valueFrom === undefined || valueFrom === variable.valueFrom
      ? variable
      : { ...variable, valueFrom };
  };
  const inContainer = (container: Container): Container => {
    const inSource = (source: EnvFromSource): EnvFromSource => renamed(source, ofVariables);
    return mapItems(mapItems(container, 'env', inVariable), 'envFrom', inSource);
  };
  const inPullSecret = (to: ObjectName): ObjectName => {
    const name = superName('secrets', to.name);
    return name === undefined || name === to.name ? to : { ...to, name };
  };
  const inContainers = mapContainers(spec, inContainer);
  return mapItems(mapItems(inContainers, 'imagePullSecrets', inPullSecret), 'volumes', inVolume);
};

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
