import {
  ApiError,
  type Clock,
  isNotFound,
  type KubeClient,
  type KubeList,
  type KubeObject,
  resources,
  withoutUndefined,
} from '../../../kube/index.ts';
import type { RewritePosition } from '../../pki/index.ts';

const pageSize = 500;
/** Calls in flight: the tenant's own clients have their limits beside it. */
const parallel = 8;
/** A worker of the manager is held no longer than this and one call. */
const sliceMs = 15_000;
const listTimeoutMs = 60_000;
/** Longer than a webhook may take. */
const patchTimeoutMs = 35_000;
/** More than etcd holds. A hijacked API server may go on with pages for ever. */
const maxPages = 20_000;
/** Of those that were refused: these are tried by themselves next time. More of them, and all are tried again. */
const maxRefused = 100;
/** Kubernetes' tokens have a few hundred characters. */
const longestToken = 4_096;

interface RewriteOptions {
  clock: Pick<Clock, 'monotonic'>;
  signal: AbortSignal;
}

/**
 * For one slice of time: has the API server write Secrets anew, from `position` on. An empty patch changes nothing, but
 * a value that was encrypted with another key than the first one is stored again. Returns where to go on, or
 * undefined when all of them are rewritten. One that cannot be does not keep the others from it.
 */
export async function rewriteSecrets(
  client: KubeClient,
  position: RewritePosition,
  options: RewriteOptions,
): Promise<RewritePosition | undefined> {
  const rewriter = new Rewriter(client, position, options);
  return position.retries === undefined ? rewriter.pages() : rewriter.refused(position.retries);
}

class Rewriter {
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  readonly #isOver: () => boolean;
  readonly #start: RewritePosition;
  #done: number;
  #refusals: number;
  #why: string | undefined;
  readonly #refused: string[];

  constructor(client: KubeClient, start: RewritePosition, { clock, signal }: RewriteOptions) {
    this.#client = client;
    this.#signal = signal;
    this.#start = start;
    const endMs = clock.monotonic() + sliceMs;
    this.#isOver = () => clock.monotonic() >= endMs;
    this.#done = start.done;
    this.#refusals = start.refusals;
    // Of an earlier round it may be mended.
    this.#why = start.blockedBy === undefined ? start.why : undefined;
    this.#refused = [...start.refused];
  }

  async pages(): Promise<RewritePosition | undefined> {
    let { token, after, pages } = this.#start;
    for (;;) {
      if (pages >= maxPages) throw new RangeError('the list of Secrets has no end');
      const page = await this.#page(token);
      const from = after;
      const names = page.names.filter((name) => from === undefined || compare(name, from) > 0);
      const count = await this.#rewriteAll(names);
      if (count < names.length) return this.#at({ token, after: names[count - 1] ?? from, pages });
      pages += 1;
      token = page.next;
      after = undefined;
      if (token === undefined) return this.#ended();
      if (this.#isOver()) return this.#at({ token, pages });
    }
  }

  /** Only those that were refused before. */
  async refused(names: readonly string[]): Promise<RewritePosition | undefined> {
    const count = await this.#rewriteAll(names);
    if (count < names.length) return { ...this.#at({ pages: 0 }), retries: names.slice(count) };
    return this.#ended();
  }

  #at(
    place: Pick<RewritePosition, 'pages'> & { token?: string | undefined; after?: string | undefined },
  ): RewritePosition {
    const { token, after, pages } = place;
    return {
      slices: this.#start.slices + 1,
      pages,
      done: this.#done,
      refusals: this.#refusals,
      refused: this.#refused,
      ...withoutUndefined({ token, after, why: this.#why }),
    };
  }

  #ended(): RewritePosition | undefined {
    if (this.#refusals === 0) return undefined;
    const isListed = this.#refusals === this.#refused.length;
    return {
      ...this.#at({ pages: 0 }),
      refusals: 0,
      refused: [],
      blockedBy: this.#refusals,
      ...(isListed ? { retries: this.#refused } : {}),
    };
  }

  async #page(token: string | undefined): Promise<{ names: string[]; next: string | undefined }> {
    let hasBegun = false;
    const begun = (): void => {
      hasBegun = true;
    };
    const list = await this.#list(token, begun).catch((error: unknown) => {
      // The token is too old. The answer carries one that goes on at the same place, in the present state; of a later
      // part of the page it would leave out what is before it.
      const next =
        token !== undefined && !hasBegun && error instanceof ApiError && error.code === 410
          ? tokenOf(error.status?.metadata)
          : undefined;
      if (next === undefined) throw error;
      return this.#list(next, begun);
    });
    const names = list.items.map(({ metadata: { namespace = '', name = '' } }) => `${namespace}/${name}`);
    return { names, next: tokenOf(list.metadata) };
  }

  #list(token: string | undefined, onPage: () => void): Promise<KubeList<KubeObject>> {
    return this.#client.list(resources.secrets, {
      metadataOnly: true,
      limit: pageSize,
      onPage,
      // A server may send a page in any number of pieces.
      signal: AbortSignal.any([this.#signal, AbortSignal.timeout(listTimeoutMs)]),
      continue: token,
    });
  }

  /** In their order, until the slice is over. Returns how many of them are through. */
  async #rewriteAll(names: readonly string[]): Promise<number> {
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < names.length && !this.#isOver()) {
        const name = names[next++] ?? '';
        await this.#rewrite(name);
      }
    };
    await Promise.all(Array.from({ length: parallel }, work));
    return next;
  }

  async #rewrite(key: string): Promise<void> {
    const [namespace = '', name = ''] = key.split('/');
    try {
      await this.#client.patch(
        resources.secrets,
        { namespace, name },
        {},
        { type: 'merge', signal: this.#signal, timeoutMs: patchTimeoutMs },
      );
      this.#done += 1;
    } catch (error) {
      this.#signal.throwIfAborted();
      if (isNotFound(error)) return;
      // The server, or the way to it, is at fault and not this Secret.
      if (!(error instanceof ApiError) || error.code === 401 || error.code === 429) throw error;
      this.#refusals += 1;
      this.#why ??= `${key}: ${error.message}`.slice(0, 500);
      if (this.#refused.length < maxRefused) this.#refused.push(key);
    }
  }
}

/** As the datastore orders its keys. */
function compare(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function tokenOf(metadata: unknown): string | undefined {
  const token = (metadata as { continue?: unknown } | undefined)?.continue;
  if (typeof token !== 'string' || token === '') return undefined;
  if (token.length > longestToken) throw new RangeError('the continue token of a list is too long');
  return token;
}
