import type { Container, PodSpec } from './types.ts';

/** A spec with each container changed. Containers that `change` gives back as they are cost nothing. */
export function mapContainers(spec: PodSpec, change: (container: Container) => Container): PodSpec {
  const containers = mapChanged(spec.containers, change);
  const initContainers = mapChanged(spec.initContainers, change);
  if (containers === spec.containers && initContainers === spec.initContainers) return spec;
  return {
    ...spec,
    ...(containers === undefined ? {} : { containers }),
    ...(initContainers === undefined ? {} : { initContainers }),
  };
}

/** Like `map`, but gives back the list itself when no item was changed. */
export function mapChanged<T, L extends readonly T[] | null | undefined>(list: L, change: (item: T) => T): L {
  if (list === undefined || list === null) return list;
  let changed: T[] | undefined;
  list.forEach((item, index) => {
    const result = change(item);
    if (result === item) return;
    changed ??= [...list];
    changed[index] = result;
  });
  return (changed ?? list) as L;
}
