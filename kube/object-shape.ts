import { isRecord, type KubeObject, type ObjectRef } from './types.ts';

/** What is wrong with a value that should be an object of a resource; undefined: nothing. */
function shapeProblem(value: unknown): string | undefined {
  if (!isRecord(value)) return 'it is no object';
  const { metadata } = value;
  if (!isRecord(metadata)) return 'it has no metadata';
  if (typeof metadata['name'] !== 'string' || metadata['name'] === '') return 'it has no name';
  for (const field of texts) if (!isOptionalText(metadata[field])) return `metadata.${field} is no text`;
  for (const field of textMaps) {
    const map = metadata[field];
    if (map === undefined || map === null) continue;
    if (!isRecord(map) || !Object.values(map).every(isText)) return `metadata.${field} is no map of texts`;
  }
  const { ownerReferences, finalizers } = metadata;
  if (!isOptionalList(ownerReferences, isRecord)) return 'metadata.ownerReferences is no list of references';
  if (!isOptionalList(finalizers, isText)) return 'metadata.finalizers is no list of texts';
  return undefined;
}

/** Throws a TypeError for what no Kubernetes API server would send as an object. */
export function asObject<T extends KubeObject>(value: unknown): T {
  const problem = shapeProblem(value);
  if (problem !== undefined) throw new TypeError(`the server sent an object of a wrong shape: ${problem}`);
  return value as T;
}

/** Throws a TypeError for another object than was asked for: a server that answers with one is none of Kubernetes. */
export function asObjectNamed<T extends KubeObject>(value: unknown, { namespace, name }: ObjectRef): T {
  const object = asObject<T>(value);
  if (object.metadata.name !== name || (object.metadata.namespace ?? undefined) !== namespace)
    throw new TypeError('the server sent another object than was asked for');
  return object;
}

const texts = ['namespace', 'uid', 'resourceVersion', 'creationTimestamp', 'deletionTimestamp'] as const;
const textMaps = ['labels', 'annotations'] as const;

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isOptionalText(value: unknown): boolean {
  return value === undefined || value === null || typeof value === 'string';
}

function isOptionalList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.every(isItem));
}
