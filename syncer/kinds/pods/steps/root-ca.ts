import { rootCaName, superRootCaName } from '../../../mapping/index.ts';
import { mapChanged, mapContainers } from '../containers.ts';
import type { PodStep } from '../translate.ts';
import type { Container, EnvFromSource, EnvVar, ObjectName, PodSpec, Projection, Volume } from '../types.ts';

/** Sync rule 7: `kube-root-ca.crt` is the tenant's CA, which has another name in the super cluster. */
export const rootCa: PodStep = (spec) => {
  const volumes = mapChanged(spec.volumes, inVolume);
  const renamed: PodSpec = volumes === undefined || volumes === spec.volumes ? spec : { ...spec, volumes };
  return mapContainers(renamed, inContainer);
};

function inVolume(volume: Volume): Volume {
  if (isRootCa(volume.configMap)) return { ...volume, configMap: rename(volume.configMap) };
  const sources = mapChanged(volume.projected?.sources, inProjection);
  if (sources === volume.projected?.sources) return volume;
  return { ...volume, projected: { ...volume.projected, ...(sources === undefined ? {} : { sources }) } };
}

function inProjection(source: Projection): Projection {
  return isRootCa(source.configMap) ? { ...source, configMap: rename(source.configMap) } : source;
}

function inContainer(container: Container): Container {
  const env = mapChanged(container.env, inVariable);
  const envFrom = mapChanged(container.envFrom, inSource);
  if (env === container.env && envFrom === container.envFrom) return container;
  return {
    ...container,
    ...(env === undefined ? {} : { env }),
    ...(envFrom === undefined ? {} : { envFrom }),
  };
}

function inVariable(variable: EnvVar): EnvVar {
  const reference = variable.valueFrom?.configMapKeyRef;
  if (!isRootCa(reference)) return variable;
  return { ...variable, valueFrom: { ...variable.valueFrom, configMapKeyRef: rename(reference) } };
}

function inSource(source: EnvFromSource): EnvFromSource {
  return isRootCa(source.configMapRef) ? { ...source, configMapRef: rename(source.configMapRef) } : source;
}

function isRootCa(reference: ObjectName | undefined): reference is ObjectName {
  return reference?.name === rootCaName;
}

function rename(reference: ObjectName): ObjectName {
  return { ...reference, name: superRootCaName };
}
