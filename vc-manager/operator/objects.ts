import { isDeepStrictEqual } from 'node:util';
import {
  ignoreNotFound,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
} from '../../kube/index.ts';
import { answersContradict } from './errors.ts';

const pageSize = 100;
const maxPages = 10_000;

/**
 * A list page by page: as a whole it may be larger than what is read of one. Throws what the client throws, and RangeError for a
 * list without an end.
 */
export async function* pagesOf<T extends KubeObject = KubeObject>(
  client: KubeClient,
  resource: Resource,
  signal: AbortSignal,
): AsyncGenerator<readonly T[]> {
  let token: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const { items, metadata } = await client.list<T>(resource, { limit: pageSize, continue: token, signal });
    yield items;
    token = metadata.continue;
    if (!token) return;
  }
  throw new RangeError(`the list of ${resource.plural} has no end`);
}

/** Others may create and delete it meanwhile, but not each time. */
const maxRounds = 3;

/**
 * Creates an object, or patches the top-level fields, labels and annotations that differ; what others added stays. An
 * object that does not differ costs one read and no write; one that is `likely` absent is created without a read. `check`
 * gets an existing object before it is patched and may throw. Throws AnswersContradict for an object that is neither there
 * nor absent, time after time.
 */
export async function ensureObject<T extends KubeObject>(
  client: KubeClient,
  resource: Resource,
  wanted: T,
  options: { signal: AbortSignal; check?: (current: T) => void; likely?: 'there' | 'absent' },
): Promise<T> {
  const { signal, check } = options;
  const ref = { name: wanted.metadata.name ?? '', namespace: wanted.metadata.namespace };
  let { likely = 'there' } = options;
  for (let round = 0; round < maxRounds; round++, likely = 'there') {
    const current =
      likely === 'absent' ? undefined : await ignoreNotFound(client.get<T>(resource, ref, { signal }));
    if (current === undefined) {
      try {
        return await client.create(resource, wanted, { signal });
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
        continue;
      }
    }
    check?.(current);
    const patch = difference(current, wanted);
    if (patch === undefined) return current;
    const { uid, resourceVersion } = current.metadata;
    const withPreconditions = {
      ...patch,
      metadata: { ...(patch['metadata'] as object), uid, resourceVersion },
    };
    return await client.patch<T>(resource, ref, withPreconditions, { type: 'merge', signal });
  }
  throw answersContradict(
    `${resource.kind} ${ref.namespace === undefined ? '' : `${ref.namespace}/`}${ref.name}`,
  );
}

function difference(current: KubeObject, wanted: KubeObject): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(wanted)) {
    if (field === 'apiVersion' || field === 'kind' || field === 'metadata') continue;
    if (!isDeepStrictEqual(current[field], value)) patch[field] = value;
  }
  const metadata: Record<string, unknown> = {};
  for (const field of ['labels', 'annotations'] as const) {
    const missing = Object.entries(wanted.metadata[field] ?? {}).filter(
      ([key, value]) => current.metadata[field]?.[key] !== value,
    );
    if (missing.length > 0) metadata[field] = Object.fromEntries(missing);
  }
  if (Object.keys(metadata).length > 0) patch['metadata'] = metadata;
  return Object.keys(patch).length === 0 ? undefined : patch;
}
