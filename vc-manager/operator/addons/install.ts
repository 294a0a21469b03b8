import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import {
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
} from '../../../kube/index.ts';
import { addonNotOurs } from '../errors.ts';
import { find } from '../objects.ts';
import type { AddonObject } from './render.ts';

const fieldManager = 'skerry-vc-manager';

/**
 * Makes the objects of an addon be there, and answers them as they are. One that is missing is made; one
 * that was made from another text is applied anew, which leaves alone what the tenant added. One that
 * bears the name and not our label is somebody else's: throws `AddonNotOurs`, and nothing is changed.
 */
export async function installAddon(
  client: KubeClient,
  name: string,
  objects: readonly AddonObject[],
  signal: AbortSignal,
): Promise<KubeObject[]> {
  const existing: (KubeObject | undefined)[] = [];
  for (const { resource, object } of objects) {
    const current = await find(client, resource, refOf(object), signal);
    if (current !== undefined && !isOf(name, current)) throw addonNotOurs(name, resource.kind, refOf(object));
    existing.push(current);
  }
  const installed: KubeObject[] = [];
  for (const [index, wanted] of objects.entries()) {
    installed.push(await ensure(client, wanted, existing[index], signal));
  }
  return installed;
}

/** Deletes the objects of an addon that bear its label, and no others. */
export async function removeAddon(
  client: KubeClient,
  name: string,
  objects: readonly AddonObject[],
  signal: AbortSignal,
): Promise<void> {
  // What works first, and what it needs last.
  for (const { resource, object } of objects.toReversed()) {
    const current = await find(client, resource, refOf(object), signal);
    if (current === undefined || !isOf(name, current)) continue;
    const { uid } = current.metadata;
    try {
      const precondition = uid === undefined ? {} : { uid };
      await client.delete(resource, refOf(object), {
        ...precondition,
        signal,
        propagationPolicy: 'Background',
      });
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
}

async function ensure(
  client: KubeClient,
  { resource, object, once }: AddonObject,
  current: KubeObject | undefined,
  signal: AbortSignal,
): Promise<KubeObject> {
  if (current !== undefined) {
    const isSame =
      current.metadata.annotations?.[annotationKeys.addonHash] ===
      object.metadata.annotations?.[annotationKeys.addonHash];
    if (once || isSame) return current;
  } else if (once) {
    try {
      return await client.create(resource, object, { signal, fieldManager });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return object;
    }
  }
  return client.patch(resource, refOf(object), object, { type: 'apply', fieldManager, force: true, signal });
}

function isOf(name: string, { metadata }: KubeObject): boolean {
  return metadata.labels?.[labelKeys.addon] === name;
}

function refOf({ metadata }: KubeObject): { name: string; namespace: string | undefined } {
  return { name: metadata.name ?? '', namespace: metadata.namespace };
}
