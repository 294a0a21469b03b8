import type { Resource } from '../../kube/index.ts';
import type { Lookup } from '../context.ts';

/**
 * A function of the objects of one resource on one side, computed anew only when one of them has changed: each look at
 * an object may ask for it, and there may be thousands of both.
 */
export function memoized<T>(
  resource: Resource,
  compute: (objects: Lookup, about: string) => T,
): (objects: Lookup, about: string) => T {
  const known = new WeakMap<Lookup, { version: number; values: Map<string, T> }>();
  return (objects, about) => {
    const version = objects.version(resource);
    let found = known.get(objects);
    if (found?.version !== version) {
      found = { version, values: new Map() };
      known.set(objects, found);
    }
    if (!found.values.has(about)) found.values.set(about, compute(objects, about));
    return found.values.get(about) as T;
  };
}
