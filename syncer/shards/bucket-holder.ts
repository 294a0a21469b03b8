/** Who serves the tenants of the buckets that a replica has. */
export interface BucketHolder {
  /** These will be ours, if nothing comes in between: caches may be filled, nothing may be written. */
  expect(buckets: ReadonlySet<number>): void;
  /** These are ours too from now on. */
  take(buckets: ReadonlySet<number>): void;
  /** These are not ours any more; resolves when nothing is done for their tenants, calls under way included. */
  drop(buckets: ReadonlySet<number>): Promise<void>;
  /** Writes are let out again that were refused for a while. */
  resumed(): void;
}
