import { describe, expect, it } from 'vitest';
import { defaultEffectivePolicy } from '../api/default-policy.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import type { KubeObject } from '../kube/index.ts';
import { FakeClock } from '../kube/testing/index.ts';
import { BucketScope } from './bucket-scope.ts';
import { bucketOf } from './mapping/labels.ts';
import type { SuperScope } from './super-side.ts';

const tenant = (uid: string): KubeObject => ({ metadata: { uid } });
const blue = tenant('blue');
const green = tenant('green');
const buckets = (...tenants: KubeObject[]): Set<number> =>
  new Set(tenants.map(({ metadata }) => bucketOf(metadata.uid ?? '')));
const open: VirtualCluster = {
  metadata: {},
  status: { policy: { ...defaultEffectivePolicy, endpointCIDRs: ['192.0.2.0/24'] } },
};

/** Caches that are complete when a test says so. */
class World implements AsyncDisposable {
  readonly asked: string[] = [];
  readonly clock = new FakeClock();
  readonly coverage: BucketScope;
  /** What was told to the listener: whom it may serve. */
  readonly told: string[] = [];
  /** Until this, tenants are not let go of. */
  letGo = Promise.resolve();
  readonly #answers: (() => void)[] = [];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor() {
    this.coverage = new BucketScope({
      cover: (scope) => this.#cover(scope),
      onResumed: () => undefined,
      clock: this.clock,
    });
    this.coverage.subscribe(async () => {
      this.told.push(
        [blue, green]
          .filter((each) => this.coverage.serves(each))
          .map((each) => each.metadata.uid)
          .join(),
      );
      await this.letGo;
    });
    this.#running = this.coverage.run(this.#stop.signal);
  }

  /** The caches hold what was asked for. */
  async complete(): Promise<void> {
    await this.turn();
    this.#answers.shift()?.();
    await this.turn();
  }

  turn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  serves(each: KubeObject): boolean {
    return this.coverage.serves(each);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('test is over'));
    for (const answer of this.#answers) answer();
    await this.#running;
  }

  #cover(scope: SuperScope): Promise<void> {
    this.asked.push(scope === 'all' ? scope : [...scope].join());
    return new Promise((resolve) => this.#answers.push(resolve));
  }
}

describe('what a replica serves', () => {
  it('is what it has, when the caches hold it and all VirtualClusters are known', async () => {
    await using world = new World();
    world.coverage.take(buckets(blue));
    await world.turn();
    expect(world.asked).toEqual([[...buckets(blue)].join()]);
    world.coverage.see([]);
    expect(world.serves(blue)).toBe(false);
    await world.complete();
    expect(world.serves(blue)).toBe(true);
    expect(world.serves(green)).toBe(false);
    expect(world.told.at(-1)).toBe('blue');
  });

  it('may fill the caches before it is its own, and is not served before', async () => {
    await using world = new World();
    world.coverage.see([]);
    world.coverage.expect(buckets(blue, green));
    await world.complete();
    expect(world.serves(blue)).toBe(false);
    world.coverage.take(buckets(blue, green));
    expect(world.serves(blue) && world.serves(green)).toBe(true);
    await world.turn();
    expect(world.asked).toHaveLength(1);
  });

  it('shrinks before the caches do', async () => {
    await using world = new World();
    world.coverage.see([]);
    world.coverage.take(buckets(blue, green));
    await world.complete();
    const left = Promise.withResolvers<void>();
    world.letGo = left.promise;
    let isDone = false;
    const dropped = world.coverage.drop(buckets(green)).then(() => (isDone = true));
    await world.turn();
    expect(isDone).toBe(false);
    expect(world.serves(green)).toBe(false);
    expect(world.asked).toHaveLength(1);
    left.resolve();
    await dropped;
    await world.turn();
    expect(world.asked.at(-1)).toBe([...buckets(blue)].join());
  });

  it('that is lost and had again is served when the caches hold it again', async () => {
    await using world = new World();
    world.coverage.see([]);
    world.coverage.take(buckets(blue, green));
    await world.complete();
    await world.coverage.drop(buckets(green));
    await world.turn();
    world.coverage.take(buckets(green));
    expect(world.serves(green)).toBe(false);
    expect(world.serves(blue)).toBe(true);
    await world.complete();
    expect(world.serves(green)).toBe(false);
    await world.complete();
    expect(world.serves(green)).toBe(true);
  });

  it('begins when everything is seen, if a tenant may point at addresses that are not its own', async () => {
    await using world = new World();
    world.coverage.take(buckets(blue));
    await world.complete();
    world.coverage.see([open]);
    expect(world.serves(blue)).toBe(false);
    await world.complete();
    expect(world.asked.at(-1)).toBe('all');
    expect(world.serves(blue)).toBe(true);
  });

  it('is gone through again when writes are let out again: what was refused may have been a last word', async () => {
    await using world = new World();
    const before = world.told.length;
    world.coverage.resumed();
    expect(world.told).toHaveLength(before + 1);
  });

  it('is seen beside everything else as long as a tenant may point at addresses that are not its own', async () => {
    await using world = new World();
    world.coverage.see([open]);
    world.coverage.take(buckets(blue));
    await world.complete();
    expect(world.asked).toEqual(['all']);
    expect(world.coverage.seesAll).toBe(true);
    expect(world.serves(blue)).toBe(true);
    expect(world.serves(green)).toBe(false);
    world.coverage.see([]);
    await world.clock.advance(10 * 60_000);
    await world.turn();
    expect(world.coverage.seesAll).toBe(false);
    expect(world.serves(blue)).toBe(true);
    expect(world.asked.at(-1)).toBe([...buckets(blue)].join());
  });

  it('is not listed anew however often a tenant begins and ends to need everything', async () => {
    await using world = new World();
    world.coverage.see([]);
    world.coverage.take(buckets(blue));
    await world.complete();
    for (let n = 0; n < 3; n++) {
      world.coverage.see([open]);
      await world.complete();
      world.coverage.see([]);
      await world.turn();
    }
    expect(world.asked).toEqual([[...buckets(blue)].join(), 'all']);
    await world.clock.advance(10 * 60_000);
    await world.turn();
    expect(world.asked.at(-1)).toBe([...buckets(blue)].join());
  });

  it('is everything for as long as a tenant that needs that again goes on needing it', async () => {
    await using world = new World();
    world.coverage.see([open]);
    world.coverage.take(buckets(blue));
    await world.complete();
    world.coverage.see([]);
    world.coverage.see([open]);
    await world.clock.advance(20 * 60_000);
    await world.turn();
    expect(world.asked).toEqual(['all']);
  });
});
