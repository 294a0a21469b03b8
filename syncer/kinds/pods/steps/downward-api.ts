import { annotationKeys, labelKeys } from '../../../../api/labels.ts';
import type { ObjectMeta } from '../../../../kube/index.ts';
import { mapChanged, mapContainers } from '../containers.ts';
import type { PodStep } from '../translate.ts';
import type { Container, DownwardItem, EnvVar, PodSpec, Projection, Volume } from '../types.ts';

/**
 * Sync rule 10: a pod that asks for its namespace or UID learns T's. In a variable it is a literal, in a
 * file it is read from the marks on S, which hold just that.
 */
export const downwardApi: PodStep = (spec, pod) => {
  const volumes = mapChanged(spec.volumes, inVolume);
  const changed: PodSpec = volumes === undefined || volumes === spec.volumes ? spec : { ...spec, volumes };
  return mapContainers(changed, (container) => inContainer(container, pod.metadata));
};

function inContainer(container: Container, metadata: ObjectMeta): Container {
  const env = mapChanged(container.env, (variable: EnvVar) => literal(variable, metadata));
  return env === undefined || env === container.env ? container : { ...container, env };
}

function literal(variable: EnvVar, { namespace = '', uid = '' }: ObjectMeta): EnvVar {
  const field = variable.valueFrom?.fieldRef?.fieldPath;
  if (field === 'metadata.namespace') return { name: variable.name, value: namespace };
  if (field === 'metadata.uid') return { name: variable.name, value: uid };
  return variable;
}

const fileFields: Readonly<Record<string, string>> = {
  'metadata.namespace': `metadata.labels['${labelKeys.namespace}']`,
  'metadata.uid': `metadata.annotations['${annotationKeys.uid}']`,
};

function inVolume(volume: Volume): Volume {
  const items = mapChanged(volume.downwardAPI?.items, inItem);
  if (items !== undefined && items !== volume.downwardAPI?.items) {
    return { ...volume, downwardAPI: { ...volume.downwardAPI, items } };
  }
  const sources = mapChanged(volume.projected?.sources, inProjection);
  if (sources === undefined || sources === volume.projected?.sources) return volume;
  return { ...volume, projected: { ...volume.projected, sources } };
}

function inProjection(source: Projection): Projection {
  const items = mapChanged(source.downwardAPI?.items, inItem);
  if (items === undefined || items === source.downwardAPI?.items) return source;
  return { ...source, downwardAPI: { ...source.downwardAPI, items } };
}

function inItem(item: DownwardItem): DownwardItem {
  const fieldPath = fileFields[item.fieldRef?.fieldPath ?? ''];
  return fieldPath === undefined ? item : { ...item, fieldRef: { ...item.fieldRef, fieldPath } };
}
