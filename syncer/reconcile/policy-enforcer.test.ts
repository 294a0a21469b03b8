import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import type { KeyRef } from '../context.ts';
import { allKinds } from '../kinds/registry.ts';
import { testTenant } from '../kinds/testing.ts';
import { bucketOf } from '../mapping/labels.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { Caches } from './caches.ts';
import type { Outcome } from './controller.ts';
import { keyId } from './keys.ts';
import { PolicyEnforcer } from './policy-enforcer.ts';
import type { TenantState } from './tenant-state.ts';

const ingress = (name: string): KeyRef => ({ kind: 'ingresses', namespace: 'shop', name });

/** An enforcer for tenants `uid` that have the keys that a test gives them. */
class World implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly superCaches = new Caches(allKinds, 'super');
  readonly keys = new Map<string, readonly KeyRef[]>();
  readonly settledKeys = new Map<string, readonly KeyRef[]>();
  /** Ids that policy demands something of. */
  readonly demanded = new Set<string>();
  /** What was judged and what was enforced, `uid name`. */
  readonly judged: string[] = [];
  readonly enforced: string[] = [];
  readonly queuedJoined: string[] = [];
  readonly errors: unknown[] = [];
  joined: TenantState | undefined;
  /** How long the judgement of one key takes. */
  validateMs = 0;
  #busyMs = 0;
  outcome: Outcome = { is: 'done' };
  /** Of what was enforced last. */
  signal: AbortSignal | undefined;
  /** Whether nothing can be told of an error. */
  isMute = false;
  readonly enforcer: PolicyEnforcer;
  readonly running: Promise<void>;
  readonly #stop = new AbortController();

  constructor() {
    this.enforcer = new PolicyEnforcer({
      kinds: allKinds,
      superCaches: this.superCaches,
      clock: {
        now: () => this.clock.now(),
        monotonic: () => this.clock.monotonic() + this.#busyMs,
        sleep: (ms, signal) => this.clock.sleep(ms, signal),
      },
      random: () => 1,
      keysOf: ({ info }) => this.keys.get(info.uid) ?? [],
      settledKeysOf: ({ info }) => this.settledKeys.get(info.uid) ?? [],
      isDemanded: ({ info }, key) => {
        this.judged.push(`${info.uid} ${key.name}`);
        if (key.name === 'broken') throw new Error('a defect');
        this.#busyMs += this.validateMs;
        return this.demanded.has(keyId(key));
      },
      enforce: async ({ info }, key, signal) => {
        this.signal = signal;
        this.enforced.push(`${info.uid} ${key.name}`);
        return this.outcome;
      },
      isJoined: (tenant) => tenant === this.joined,
      enqueueJoined: (_tenant, key) => this.queuedJoined.push(key.name),
      onError: (_tenant, _key, error) => {
        if (this.isMute) throw error;
        this.errors.push(error);
      },
    });
    this.running = this.enforcer.run(this.#stop.signal);
  }

  add(uid: string, keys: readonly KeyRef[], more: Partial<Parameters<typeof testTenant>[0]> = {}): void {
    this.keys.set(uid, keys);
    this.enforcer.add(testTenant({ uid, id: uid, ...more }), 'super');
  }

  /** Time, and a turn for all that has become due. */
  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    for (let turns = 0; turns < 5; turns++) await setImmediate();
  }

  /** Its super object, as the cache shows it. */
  show(
    uid: string,
    kind: 'pods' | 'endpointSlices' | 'services' | 'ingresses',
    object: KubeObject,
    type: 'ADDED' | 'MODIFIED' | 'DELETED' = 'ADDED',
  ): void {
    const { name, ...rest } = object.metadata;
    const labels = {
      'skerry.dev/tenant': uid,
      'skerry.dev/bucket': String(bucketOf(uid)),
      'skerry.dev/namespace': 'shop',
    };
    const metadata = {
      ...rest,
      ...(name !== undefined && { name }),
      namespace: superNamespaceName(testTenant({ uid, id: uid }), 'shop'),
      labels,
      annotations: { 'skerry.dev/uid': 't1' },
    };
    this.superCaches.store(resources[kind]).apply(type, { ...object, metadata });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('test is over'));
    await this.running;
  }
}

describe('PolicyEnforcer', () => {
  it('looks at a tenant when it comes, when its settings change, and once a minute', async () => {
    await using world = new World();
    world.add('a', [ingress('web')]);
    await world.pass(100);
    expect(world.judged).toEqual(['a web']);
    world.add('a', [ingress('web')]);
    await world.pass(100);
    expect(world.judged).toEqual(['a web']);
    world.add('a', [ingress('web')], { syncIngresses: true });
    await world.pass(100);
    expect(world.judged).toEqual(['a web', 'a web']);
    await world.pass(60_000);
    expect(world.judged).toHaveLength(3);
    expect(world.enforced).toEqual([]);
    world.demanded.add(keyId(ingress('web')));
    await world.pass(70_000);
    expect(world.enforced).toEqual(['a web']);
  });

  it('looks once with each settings at what tells of its changes itself', async () => {
    await using world = new World();
    world.settledKeys.set('a', [{ kind: 'networkisolation', name: 'shop' }]);
    world.add('a', [ingress('web')]);
    await world.pass(70_000);
    expect(world.judged).toEqual(['a web', 'a shop', 'a web']);
    world.add('a', [ingress('web')], { syncIngresses: true });
    await world.pass(100);
    expect(world.judged.slice(3)).toEqual(['a web', 'a shop']);
  });

  it('leaves one alone that has joined, and looks at it when it has left', async () => {
    await using world = new World();
    world.demanded.add(keyId(ingress('web')));
    world.enforcer.joined('a');
    world.add('a', [ingress('web')]);
    await world.pass(70_000);
    expect(world.enforcer.tenant('a')).toBeUndefined();
    expect(world.judged).toEqual([]);
    world.enforcer.left('a');
    await world.pass(100);
    expect(world.enforced).toEqual(['a web']);
    world.enforcer.remove('a');
    await world.pass(70_000);
    expect(world.enforced).toEqual(['a web']);
  });

  it('forgets one that was removed while it had joined', async () => {
    await using world = new World();
    world.enforcer.joined('a');
    world.add('a', [ingress('web')]);
    world.enforcer.remove('a');
    world.enforcer.left('a');
    await world.pass(70_000);
    expect(world.judged).toEqual([]);
  });

  it('ends what it does for a tenant when that joins', async () => {
    await using world = new World();
    world.demanded.add(keyId(ingress('web')));
    world.outcome = { is: 'retry', code: '500' };
    world.add('a', [ingress('web')]);
    await world.pass(50);
    expect(world.enforced.length).toBeGreaterThan(0);
    expect(world.signal?.aborted).toBe(false);
    world.enforcer.joined('a');
    expect(world.signal?.aborted).toBe(true);
    const before = world.enforced.length;
    await world.pass(70_000);
    expect(world.enforced).toHaveLength(before);
  });

  it('tries again what was refused', async () => {
    await using world = new World();
    world.demanded.add(keyId(ingress('web')));
    world.outcome = { is: 'refused', code: '403', message: 'a webhook says no' };
    world.add('a', [ingress('web')]);
    for (let second = 0; second < 5; second++) await world.pass(1_000);
    expect(world.enforced.length).toBeGreaterThan(2);
  });

  it('goes on past a defect', async () => {
    await using world = new World();
    world.demanded.add(keyId(ingress('web')));
    world.add('a', [ingress('broken'), ingress('web')]);
    await world.pass(100);
    expect(world.errors).toHaveLength(1);
    expect(world.enforced).toEqual(['a web']);
  });

  it('ends with its looks when these cannot go on, and says why', async () => {
    const world = new World();
    world.isMute = true;
    world.demanded.add(keyId(ingress('web')));
    world.outcome = { is: 'retry', code: '500' };
    world.add('a', [ingress('web'), ingress('broken')]);
    const ended = expect(world.running).rejects.toThrow('a defect');
    await world.pass(100);
    await ended;
    const enforced = world.enforced.length;
    await world.pass(70_000);
    expect(world.enforced).toHaveLength(enforced);
  });

  it('looks at tenants in turns, so that one with very much does not hold up the others', async () => {
    await using world = new World();
    world.validateMs = 2;
    world.add(
      'large',
      Array.from({ length: 1_000 }, (_item, index) => ingress(`${index}`)),
    );
    for (const uid of ['a', 'b']) world.add(uid, [ingress('web')]);
    await world.pass(60);
    expect(world.judged).toEqual(expect.arrayContaining(['a web', 'b web']));
    expect(world.judged.length).toBeLessThan(100);
    // Then it rests as long as it has looked.
    expect(world.clock.sleeps.filter((ms) => ms === 6).length).toBeGreaterThan(2);
  });

  it('looks once more at a tenant that is asked for while it is looked at', async () => {
    await using world = new World();
    world.validateMs = 2;
    const keys = Array.from({ length: 20 }, (_item, index) => ingress(`${index}`));
    world.add('a', keys);
    await world.pass(10);
    expect(world.judged.length).toBeLessThan(20);
    const state = world.enforcer.tenant('a') as TenantState;
    for (let times = 0; times < 5; times++) world.enforcer.look(state);
    await world.pass(1_000);
    expect(world.judged).toHaveLength(40);
    expect(world.judged.slice(20)).toEqual(world.judged.slice(0, 20));
  });

  it('queues what policy demands of a tenant that has joined, and does nothing itself', async () => {
    await using world = new World();
    world.demanded.add(keyId(ingress('web')));
    world.add('a', [ingress('web'), ingress('other')]);
    const state = world.enforcer.tenant('a') as TenantState;
    world.enforcer.joined('a');
    world.joined = state;
    world.enforcer.look(state);
    await world.pass(100);
    expect(world.queuedJoined).toEqual(['web']);
    expect(world.enforced).toEqual([]);
  });

  it('looks at an Ingress at once when a Service that it leads to becomes an ExternalName', async () => {
    await using world = new World();
    const service = (type: string) => ({ metadata: { name: 'db', uid: 's' }, spec: { type } });
    const backend = { service: { name: 'db', port: { number: 80 } } };
    const rules = [{ http: { paths: [{ path: '/', backend }] } }];
    world.show('a', 'services', service('ClusterIP'));
    world.show('a', 'ingresses', { metadata: { name: 'web', uid: 'i' }, spec: { rules } });
    world.add('a', []);
    await world.pass(100);
    world.show('a', 'services', service('ExternalName'), 'MODIFIED');
    await world.pass(100);
    expect(world.enforced).toEqual(['a db', 'a web']);
  });

  it('looks at slices at once when a pod that they name goes, and as a whole at one that has very many', async () => {
    await using world = new World();
    const pod = { metadata: { name: 'web', uid: 'p' }, status: { podIP: '10.244.1.7' } };
    const slice = (index: number) => ({
      metadata: { name: `db-${index}`, uid: `e-${index}` },
      endpoints: [{ addresses: ['10.244.1.7'] }],
    });
    for (const uid of ['few', 'many']) world.show(uid, 'pods', pod);
    world.show('few', 'endpointSlices', slice(0));
    for (let index = 0; index < 101; index++) world.show('many', 'endpointSlices', slice(index));
    for (const uid of ['few', 'many']) world.add(uid, [ingress('all')]);
    await world.pass(100);
    expect(world.judged).toEqual(['few all', 'many all']);
    for (const uid of ['few', 'many']) world.show(uid, 'pods', pod, 'DELETED');
    await world.pass(100);
    expect(world.enforced).toEqual(['few db-0']);
    expect(world.judged).toEqual(['few all', 'many all', 'many all']);
  });
});
