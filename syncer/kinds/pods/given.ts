import { annotationKeys } from '../../../api/labels.ts';
import { repositoryOf } from '../../../api/policy-lists.ts';
import { isRecord } from '../../../kube/index.ts';
import type { Container, Pod, PodSpec, Volume } from './types.ts';

/** Sources of volumes that need nothing but the tenant's own objects. */
export const ownVolumes: ReadonlySet<string> = new Set([
  'configMap',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

export function sourcesOf(volume: Volume): string[] {
  return Object.keys(volume).filter((key) => key !== 'name' && volume[key] !== undefined);
}

/**
 * Value of the annotation `skerry.dev/volumes`: sources of volumes that the tenant has given its pod and policy has to allow,
 * as JSON, each once and with no more than policy looks at. Undefined: there are none.
 */
export function givenVolumes({ volumes }: PodSpec): string | undefined {
  const given = new Set<string>();
  for (const volume of volumes ?? []) {
    for (const source of sourcesOf(volume)) {
      if (ownVolumes.has(source)) continue;
      const { image } = volume;
      const seen = source === 'image' && isRecord(image) ? { reference: image['reference'] } : {};
      given.add(JSON.stringify({ [source]: seen }));
    }
  }
  return given.size === 0 ? undefined : `[${[...given].join()}]`;
}

const maxImagesBytes = 16_384;

/**
 * Value of the annotation `skerry.dev/images`: repositories of the images that the tenant has given its containers, as JSON,
 * each once. `null`: an image that has none, and all of them where they are too long to be kept.
 */
export function givenImages({ initContainers = [], containers = [] }: PodSpec): string {
  const given = new Set([...initContainers, ...containers].map(({ image }) => repositoryOf(image) ?? null));
  const json = JSON.stringify([...given]);
  return json.length <= maxImagesBytes ? json : '[null]';
}

/** What that annotation says; nothing on pods of versions before it. */
export function givenRepositories({ metadata }: Pod): readonly unknown[] {
  return listOf(metadata.annotations?.[annotationKeys.images]);
}

/**
 * What the super object shows of the pod that the tenant has given: without what the super cluster's webhooks have put
 * beside it. Of its volumes, those that policy has to allow. Undefined: the super object does not say which part that is.
 */
export function givenPod(superPod: Pod): Pod | undefined {
  const { annotations = {} } = superPod.metadata;
  const names = annotations[annotationKeys.containers];
  if (names === undefined) return undefined;
  const marked = new Set(names.split(','));
  const given = (list: Container[] = []) => list.filter(({ name }) => marked.has(name));
  const { ephemeralContainers: _added, containers, initContainers, ...spec } = superPod.spec ?? {};
  const volumes = volumesOf(annotations[annotationKeys.volumes]);
  const parts = { containers: given(containers), initContainers: given(initContainers), volumes };
  return { ...superPod, spec: { ...spec, ...parts } };
}

function volumesOf(annotation: string | undefined): Volume[] {
  return listOf(annotation)
    .filter(isRecord)
    .map((source) => ({ ...source, name: '' }));
}

/** Tolerates anything: the annotation can be edited in the super cluster. */
function listOf(annotation: string | undefined): readonly unknown[] {
  if (annotation === undefined) return [];
  try {
    const list: unknown = JSON.parse(annotation);
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
