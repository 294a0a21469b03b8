import { CodedError, estimateObjectBytes, type ListMeter } from '../../kube/index.ts';

const mebibyte = 1024 * 1024;

/** What a tenant has, or what all of them have, takes more memory than it may. */
export class CacheLimitExceeded extends CodedError<'CacheLimitExceeded'> {
  override readonly name = 'CacheLimitExceeded';
  readonly limitBytes: number;

  constructor(limitBytes: number, message: string) {
    super('CacheLimitExceeded', message, false);
    this.limitBytes = limitBytes;
  }
}

function inMiB(bytes: number): string {
  return `${Math.round(bytes / mebibyte)} MiB`;
}

function ownLimit(limitBytes: number): CacheLimitExceeded {
  return new CacheLimitExceeded(
    limitBytes,
    `its objects would take more than ${inMiB(limitBytes)} in the syncer: delete objects in the tenant, or raise cacheMiB in its VirtualClusterPolicy`,
  );
}

function sharedLimit(limitBytes: number, own: { bytes: number; limitBytes: number }): CacheLimitExceeded {
  return new CacheLimitExceeded(
    own.limitBytes,
    `the objects of all tenants would take more than ${inMiB(limitBytes)} in this syncer, and those of this one take most of it, ${inMiB(own.bytes)}: ` +
      'delete objects in the tenant, run more replicas of the syncer, or give each more memory and a higher --total-cache-mib',
  );
}

/**
 * How much of the syncer's memory the objects of all its tenants may take. When they take more, the tenant with the most
 * is let go of: one that has little never pays for what another has.
 */
export class SharedCacheBudget {
  readonly #limitBytes: () => number;
  readonly #members = new Map<CacheBudget, number>();
  #bytes = 0;

  constructor(limitBytes: () => number) {
    this.#limitBytes = limitBytes;
  }

  /** Notes what a member takes now. */
  takes(member: CacheBudget, bytes: number): void {
    this.#set(member, bytes);
    if (this.#bytes <= this.#limitBytes()) return;
    // Members say when they take more, not when they take less.
    for (const each of this.#members.keys()) this.#set(each, each.bytes);
    while (this.#bytes > this.#limitBytes()) {
      const [largest, most] = [...this.#members].reduce((a, b) => (b[1] > a[1] ? b : a));
      this.remove(largest);
      largest.exceed((own) => sharedLimit(this.#limitBytes(), { bytes: most, limitBytes: own }));
    }
  }

  /** The member that takes more than all others together, if that is at least so much. */
  largest(atLeastBytes: number): CacheBudget | undefined {
    let all = 0;
    let largest: [member: CacheBudget | undefined, bytes: number] = [undefined, 0];
    for (const member of this.#members.keys()) {
      const { bytes } = member;
      all += bytes;
      if (bytes > largest[1]) largest = [member, bytes];
    }
    const [member, bytes] = largest;
    return bytes > all / 2 && bytes >= atLeastBytes ? member : undefined;
  }

  /** Whether the member with this UID takes at least so much. */
  fills(uid: string, atLeastBytes: number): boolean {
    for (const member of this.#members.keys()) if (member.uid === uid) return member.bytes >= atLeastBytes;
    return false;
  }

  remove(member: CacheBudget): void {
    this.#bytes -= this.#members.get(member) ?? 0;
    this.#members.delete(member);
  }

  #set(member: CacheBudget, bytes: number): void {
    this.#bytes += bytes - (this.#members.get(member) ?? 0);
    this.#members.set(member, bytes);
  }
}

interface CacheBudgetOptions {
  /** Of the tenant's VirtualCluster. */
  uid: string;
  limitBytes: () => number;
  /** What the caches take now. */
  cachedBytes: () => number;
  /** Of all tenants. */
  shared: SharedCacheBudget;
  onExceeded: (error: CacheLimitExceeded) => void;
}

/**
 * How much of the syncer's memory the objects of one tenant may take: in its caches, and as much again in lists that
 * are being read. Says once that it is more.
 */
export class CacheBudget {
  readonly #options: CacheBudgetOptions;
  #listedBytes = 0;
  #exceeded: CacheLimitExceeded | undefined;
  #isClosed = false;

  constructor(options: CacheBudgetOptions) {
    this.#options = options;
  }

  get uid(): string {
    return this.#options.uid;
  }

  get bytes(): number {
    return this.#options.cachedBytes() + this.#listedBytes;
  }

  /** To be called when the caches have grown. */
  grown(): void {
    if (this.#exceeded !== undefined || this.#isClosed) return;
    const { cachedBytes, limitBytes, shared } = this.#options;
    const cached = cachedBytes();
    if (cached > limitBytes()) this.exceed(ownLimit);
    else shared.takes(this, cached + this.#listedBytes);
  }

  /** For one list: `page` throws CacheLimitExceeded when all lists under way are too large; `end` when it is no more. */
  list(): ListMeter {
    let bytes = 0;
    return {
      page: (objects) => {
        let more = 0;
        for (const object of objects) more += estimateObjectBytes(object);
        bytes += more;
        this.#listedBytes += more;
        if (this.#listedBytes > this.#options.limitBytes()) this.exceed(ownLimit);
        this.grown();
        if (this.#exceeded !== undefined) throw this.#exceeded;
      },
      end: () => {
        this.#listedBytes -= bytes;
        bytes = 0;
      },
    };
  }

  /** Lets go of the tenant. `why` gets the limit of its own. */
  exceed(why: (limitBytes: number) => CacheLimitExceeded): void {
    if (this.#exceeded !== undefined) return;
    this.#exceeded = why(this.#options.limitBytes());
    this.#options.onExceeded(this.#exceeded);
  }

  /** Nothing of the tenant is in memory any more. */
  close(): void {
    this.#isClosed = true;
    this.#options.shared.remove(this);
  }
}
