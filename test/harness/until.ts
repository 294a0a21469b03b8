import { type KubeClient, type KubeObject, Reflector, type Resource, Store } from '../../kube/index.ts';

export interface Question {
  client: KubeClient;
  resource: Resource;
  namespace?: string | undefined;
  /** Only the object of this name. */
  name?: string | undefined;
  labelSelector?: string;
  timeoutMs?: number;
  /** Completes "waited in vain for ...". */
  what: string;
}

const defaultTimeoutMs = 60_000;

/**
 * Looks at the objects at once and after every watched change, until `answer` gives something that is neither
 * undefined nor false. Rejects with what it last saw.
 */
export async function until<R, T extends KubeObject = KubeObject>(
  { client, resource, namespace, name, labelSelector, timeoutMs = defaultTimeoutMs, what }: Question,
  answer: (objects: T[]) => R | undefined | false,
): Promise<R> {
  const { promise, resolve, reject } = Promise.withResolvers<R>();
  const store = new Store<T>();
  const ending = new AbortController();
  const problems: string[] = [];
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
  store.subscribe(() => {
    // While a list is taken over, the store is neither the old state nor the new one.
    if (reflector.hasSynced) queueMicrotask(look);
  });
  const running = reflector.run(ending.signal);
  reflector.synced(ending.signal).then(look, () => undefined);
  const timer = setTimeout(() => {
    const seen = [...store.list()].map((object) => brief(object));
    reject(
      new Error(
        `waited ${timeoutMs / 1000} s in vain for ${what}; ` +
          `${resource.plural}: ${seen.length === 0 ? 'none' : seen.slice(0, 10).join('\n  ')}` +
          (problems.length === 0 ? '' : `; last problem: ${problems.at(-1)}`),
      ),
    );
  }, timeoutMs);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    ending.abort(new Error('answered'));
    await running;
  }
}

function brief(object: KubeObject): string {
  const { namespace, name, deletionTimestamp } = object.metadata;
  const status = JSON.stringify(object['status'] ?? {}).slice(0, 600);
  return `${namespace === undefined ? '' : `${namespace}/`}${name}${deletionTimestamp ? ' (being deleted)' : ''} ${status}`;
}
