import { type KubeClient, type KubeObject, Reflector, type Resource, Store } from '../../kube/index.ts';
import { nameOf } from './checker/view.ts';
import { patienceMs } from './poll.ts';

export interface Question {
  client: KubeClient;
  resource: Resource;
  namespace?: string | undefined;
  /** Only the object of this name. */
  name?: string | undefined;
  labelSelector?: string;
  /** Default: `patienceMs`. */
  timeoutMs?: number | undefined;
  /** Completes "waited in vain for ...". */
  what: string;
  /** What else is to be said of what was waited for in vain. */
  explain?: () => Promise<string>;
}

const maxInFull = 10;
const maxGone = 20;

/**
 * Looks at the objects at once and after every watched change, until `answer` gives something that is neither
 * undefined nor false. Rejects with what it last saw.
 */
export async function until<R, T extends KubeObject = KubeObject>(
  question: Question,
  answer: (objects: T[]) => R | undefined | false,
): Promise<R> {
  const { client, resource, namespace, name, labelSelector, timeoutMs = patienceMs, what } = question;
  const { promise, resolve, reject } = Promise.withResolvers<R>();
  const store = new Store<T>();
  const ending = new AbortController();
  const problems: string[] = [];
  /** Objects that went while this was waiting, in their last states. */
  const gone: T[] = [];
  const reflector = new Reflector<T>({
    client,
    resource,
    store,
    consistentStart: true,
    onProblem: ({ error }) => problems.push(String(error)),
    ...(namespace === undefined ? {} : { namespace }),
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(name === undefined ? {} : { fieldSelector: `metadata.name=${name}` }),
  });
  const look = (): void => {
    try {
      const found = answer([...store.list()]);
      if (found !== undefined && found !== false) resolve(found);
    } catch (error) {
      reject(error);
    }
  };
  store.subscribe(({ type, object }) => {
    if (type === 'deleted') gone.push(object);
    // While a list is taken over, the store is neither the old state nor the new one.
    if (reflector.hasSynced) queueMicrotask(look);
  });
  const running = reflector.run(ending.signal);
  reflector.synced(ending.signal).then(look, () => undefined);
  const failed = async (): Promise<void> => {
    const parts = [
      `waited ${timeoutMs / 1000} s in vain for ${what}`,
      `${resource.plural}: ${listed(store.list())}`,
      ...(gone.length === 0 ? [] : [`gone meanwhile: ${listed(gone.slice(-maxGone))}`]),
      ...(problems.length === 0 ? [] : [`last problem: ${problems.at(-1)}`]),
    ];
    const more = await question.explain?.().catch((error: unknown) => `nothing more is known: ${error}`);
    reject(new Error([...parts, ...(more ? [more] : [])].join('; ')));
  };
  const timer = setTimeout(() => void failed(), timeoutMs);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    ending.abort(new Error('answered'));
    await running;
  }
}

/** The first in full, the others by name. */
export function listed(objects: Iterable<KubeObject>): string {
  const all = [...objects];
  if (all.length === 0) return 'none';
  const full = all.slice(0, maxInFull).map((object) => brief(object));
  const others = all.slice(maxInFull).map(nameOf);
  return [...full, ...(others.length === 0 ? [] : [`and ${others.join(', ')}`])].join('\n  ');
}

function brief(object: KubeObject): string {
  const status = JSON.stringify(object['status'] ?? {}).slice(0, 600);
  return `${nameOf(object)}${object.metadata.deletionTimestamp ? ' (being deleted)' : ''} ${status}`;
}
