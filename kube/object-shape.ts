import { isRecord, type KubeObject, type ObjectRef, type Resource } from './types.ts';

/** Of which resource an object is; absent: of one with names as most have them. */
type Named = Pick<Resource, 'group' | 'plural'>;

/** What is wrong with a value that should be an object of a resource; undefined: nothing. */
function shapeProblem(value: unknown, resource: Named | undefined): string | undefined {
  if (!isRecord(value)) return 'it is no object';
  const { metadata } = value;
  if (!isRecord(metadata)) return 'it has no metadata';
  if (typeof metadata['name'] !== 'string' || metadata['name'] === '') return 'it has no name';
  const problem = textProblem(metadata, resource);
  if (problem !== undefined) return problem;
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

/** What is wrong with the texts that tell one object from others: these are kept where nothing else of it is. */
function textProblem(metadata: Record<string, unknown>, resource: Named | undefined): string | undefined {
  for (const field of Object.keys(longestTexts)) {
    const text = metadata[field];
    if (text === undefined || text === null) continue;
    if (typeof text !== 'string') return `metadata.${field} is no text`;
    if (text.length > longest(field, resource)) return `metadata.${field} is too long`;
  }
  return undefined;
}

/** Throws a TypeError for what no Kubernetes API server would send as an object. */
export function asObject<T extends KubeObject>(value: unknown, resource?: Named): T {
  const problem = shapeProblem(value, resource);
  if (problem !== undefined) throw new TypeError(`the server sent an object of a wrong shape: ${problem}`);
  return value as T;
}

/** Throws a TypeError for another object than was asked for: a server that answers with one is none of Kubernetes. */
export function asObjectNamed<T extends KubeObject>(
  value: unknown,
  { namespace, name }: ObjectRef,
  resource?: Named,
): T {
  const object = asObject<T>(value, resource);
  if (object.metadata.name !== name || (object.metadata.namespace ?? undefined) !== namespace)
    throw new TypeError('the server sent another object than was asked for');
  return object;
}

/**
 * Throws a TypeError for an answer that is no object, or whose metadata says what no API server's would. It may have none,
 * or no name: not everything that is created is an object that stays.
 */
export function asAnswer<T>(value: unknown, resource?: Named): T {
  const problem = answerProblem(value, resource);
  if (problem !== undefined) throw new TypeError(`the server sent an answer of a wrong shape: ${problem}`);
  return value as T;
}

function answerProblem(value: unknown, resource: Named | undefined): string | undefined {
  if (!isRecord(value)) return 'it is no object';
  const { metadata } = value;
  return isRecord(metadata) ? textProblem(metadata, resource) : undefined;
}

/** A version is compared and kept as a text; those of Kubernetes have up to twenty digits. */
export function isVersion(value: unknown): value is string {
  return typeof value === 'string' && value.length <= longestTexts.resourceVersion;
}

/** In characters. A token holds a version and a key, and servers get it back in the address of the next call. */
const longestContinueToken = 4_096;

export function isContinueToken(value: unknown): value is string {
  return typeof value === 'string' && value.length <= longestContinueToken;
}

/** In characters: names as Kubernetes bounds them, the others several times what API servers send. */
const longestTexts = {
  name: 253,
  namespace: 63,
  uid: 128,
  resourceVersion: 128,
  creationTimestamp: 64,
  deletionTimestamp: 64,
} as const;
/** Of Events and of roles and their bindings, which may have any name that can stand in a path. */
const longestFreeName = 1_024;

function longest(field: string, resource: Named | undefined): number {
  const isFree = resource?.plural === 'events' || resource?.group === 'rbac.authorization.k8s.io';
  return field === 'name' && isFree ? longestFreeName : longestTexts[field as keyof typeof longestTexts];
}

const textMaps = ['labels', 'annotations'] as const;

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isOptionalList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.every(isItem));
}
