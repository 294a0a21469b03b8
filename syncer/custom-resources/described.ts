import { type KubeObject, resources } from '../../kube/index.ts';
import type { Caches } from '../engine/index.ts';
import { type CustomResource, type Definition, resourceOf, servedVersion } from '../kinds/index.ts';

/** The definition of this name as one side has it. */
export function definitionIn(caches: Caches, name: string): Definition | undefined {
  return caches.get<Definition & KubeObject>(resources.customResourceDefinitions, { name });
}

/** What the objects of a definition are in one of its versions; `undefined`: they are not to be had in it. */
export function describe(definition: Definition | undefined, version: string): CustomResource | undefined {
  if (definition === undefined || definition.metadata.deletionTimestamp !== undefined) return undefined;
  const served = servedVersion(definition, version);
  const resource = resourceOf(definition, version);
  if (served === undefined || resource === undefined || !resource.namespaced) return undefined;
  return { resource, hasStatus: served.subresources?.status !== undefined };
}
