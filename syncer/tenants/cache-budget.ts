import { estimateBytes, type KubeObject } from '../../kube/index.ts';

const mebibyte = 1024 * 1024;

/** What a tenant has takes more memory than it may. */
export class CacheLimitExceeded extends Error {
  override readonly name = 'CacheLimitExceeded';
  readonly code = 'CacheLimitExceeded';
  readonly limitBytes: number;

  constructor(limitBytes: number) {
    const limit = Math.round(limitBytes / mebibyte);
    super(
      `its objects would take more than ${limit} MiB in the syncer: delete objects in the tenant, or raise cacheMiB in its VirtualClusterPolicy`,
    );
    this.limitBytes = limitBytes;
  }
}

interface CacheBudgetOptions {
  limitBytes: () => number;
  /** What the caches take now. */
  cachedBytes: () => number;
  onExceeded: (error: CacheLimitExceeded) => void;
}

/**
 * How much of the syncer's memory the objects of one tenant may take: in its caches, and as much again in lists that
 * are being read. Says once that it is more.
 */
export class CacheBudget {
  readonly #options: CacheBudgetOptions;
  #listedBytes = 0;
  #isExceeded = false;

  constructor(options: CacheBudgetOptions) {
    this.#options = options;
  }

  /** To be called when the caches have grown. */
  grown(): void {
    const { cachedBytes, limitBytes } = this.#options;
    if (!this.#isExceeded && cachedBytes() > limitBytes()) this.#exceed();
  }

  /** For one list: `page` throws CacheLimitExceeded when all lists under way are too large; `end` when it is no more. */
  list(): { page: (objects: readonly KubeObject[]) => void; end: () => void } {
    let bytes = 0;
    return {
      page: (objects) => {
        const more = estimateBytes(objects);
        bytes += more;
        this.#listedBytes += more;
        if (this.#listedBytes > this.#options.limitBytes()) throw this.#exceed();
      },
      end: () => {
        this.#listedBytes -= bytes;
        bytes = 0;
      },
    };
  }

  #exceed(): CacheLimitExceeded {
    const error = new CacheLimitExceeded(this.#options.limitBytes());
    if (!this.#isExceeded) {
      this.#isExceeded = true;
      this.#options.onExceeded(error);
    }
    return error;
  }
}
