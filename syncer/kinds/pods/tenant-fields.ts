import { annotationKeys } from '../../../api/labels.ts';
import { repositoryOf } from '../../../api/policy-lists.ts';
import { isRecord } from '../../../kube/index.ts';
import type { Container, Pod, PodSpec, Volume } from './types.ts';

/** Sources of volumes that need only objects of the tenant, and that policy therefore does not restrict. */
export const unrestrictedVolumeSources: ReadonlySet<string> = new Set([
  'configMap',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

export function volumeSourcesOf(volume: Volume): string[] {
  return Object.keys(volume).filter((key) => key !== 'name' && volume[key] !== undefined);
}

/**
 * Value of the annotation `skerry.dev/volumes`: the volume sources of the tenant's pod that policy has to allow, as JSON,
 * each once and only with the fields that policy checks. Undefined: there are none.
 */
export function volumesAnnotation({ volumes }: PodSpec): string | undefined {
  const sources = new Set<string>();
  for (const volume of volumes ?? []) {
    for (const source of volumeSourcesOf(volume)) {
      if (unrestrictedVolumeSources.has(source)) continue;
      const { image } = volume;
      const seen = source === 'image' && isRecord(image) ? { reference: image['reference'] } : {};
      sources.add(JSON.stringify({ [source]: seen }));
    }
  }
  return sources.size === 0 ? undefined : `[${[...sources].join()}]`;
}

const maxImagesBytes = 16_384;

/**
 * Value of the annotation `skerry.dev/images`: repositories of the images of the tenant's containers, as JSON, each once.
 * `null` stands for an image without a repository, and for all of them if the list is too long.
 */
export function imagesAnnotation({ initContainers = [], containers = [] }: PodSpec): string {
  const repositories = new Set(
    [...initContainers, ...containers].map(({ image }) => repositoryOf(image) ?? null),
  );
  const json = JSON.stringify([...repositories]);
  return json.length <= maxImagesBytes ? json : '[null]';
}

/** The repositories in that annotation; none on pods of earlier versions, which lack it. */
export function annotatedRepositories({ metadata }: Pod): readonly unknown[] {
  return listOf(metadata.annotations?.[annotationKeys.images]);
}

/**
 * The tenant's part of a super pod: without what the super cluster's webhooks added. Of its volumes, those that policy has
 * to allow. Undefined: the super pod does not say which containers are the tenant's.
 */
export function tenantFieldsOf(superPod: Pod): Pod | undefined {
  const { annotations = {} } = superPod.metadata;
  const names = annotations[annotationKeys.containers];
  if (names === undefined) return undefined;
  const marked = new Set(names.split(','));
  const ofTenant = (list: Container[] = []) => list.filter(({ name }) => marked.has(name));
  const { ephemeralContainers: _added, containers, initContainers, ...spec } = superPod.spec ?? {};
  const volumes = volumesOf(annotations[annotationKeys.volumes]);
  const parts = { containers: ofTenant(containers), initContainers: ofTenant(initContainers), volumes };
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
