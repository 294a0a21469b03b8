import { setImmediate } from 'node:timers/promises';
import {
  ApiError,
  type KubeClient,
  type KubeObject,
  type ObjectMeta,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { FakeClock } from '../../../kube/testing/index.ts';
import type { TenantInfo } from '../../context.ts';
import { superWatches } from '../../controllers/registry.ts';
import { type EngineObserver, SyncEngine } from '../../engine.ts';
import type { DownKind } from '../../kinds/contract.ts';
import { allKinds } from '../../kinds/registry.ts';
import { testTenant } from '../../kinds/testing.ts';
import { Caches } from '../caches.ts';
import { IdentityGuard } from '../guards.ts';
import { TenantState } from '../tenant-state.ts';

/** A write that has been made and not answered yet. */
interface Call {
  /** `super`, or the name of a tenant. */
  readonly to: string;
  readonly what: string;
  readonly answer: (error?: Error) => void;
}

/** What a server does with a call: answers it when its turn comes, never, or refuses it. */
type Behaviour = 'answers' | 'hangs' | 'conflicts';

/**
 * An engine with servers that are a list of calls: caches show what the test puts there, and a call is answered
 * when the test says so. Nothing here takes time; what is counted is turns.
 */
export class StepEngine implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly engine: SyncEngine;
  readonly superCaches = new Caches(allKinds, 'super', superWatches);
  /** Calls under way, the oldest first. */
  readonly pending: Call[] = [];
  /** Calls in the order in which they were made, `to what name`. */
  readonly made: string[] = [];
  /** Of tenants, by resource, namespace and name; reads do not count as calls. */
  readonly #objects = new Map<string, KubeObject>();
  readonly #superClient = this.#client('super');
  readonly #behaviours = new Map<string, Behaviour>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #count = 0;

  constructor(options: { workers: number; fair?: boolean; observer?: EngineObserver }) {
    const metadata = { name: 'kube-system', uid: 'super' };
    this.#objects.set(objectId('super', resources.namespaces, metadata), { metadata });
    this.engine = new SyncEngine({
      kinds: allKinds,
      superClient: this.#superClient,
      superCaches: this.superCaches,
      superIdentity: new IdentityGuard(this.#superClient, undefined),
      clock: this.clock,
      workers: options.workers,
      fair: options.fair ?? true,
      onMismatch: () => undefined,
      onHeld: () => undefined,
      ...(options.observer === undefined ? {} : { observer: options.observer }),
    });
    this.#running = this.engine.run(this.#stop.signal);
  }

  /** A tenant with the namespace `shop`, ready on both sides. */
  join(name: string, weight = 1): TenantState {
    const info: TenantInfo = testTenant({ uid: `uid-of-${name}`, id: `id${name}`, name });
    const state = new TenantState({
      info,
      client: this.#client(name),
      caches: new Caches(allKinds, 'tenant'),
      superCaches: this.superCaches,
      identity: 'x',
      nowMs: () => this.clock.now(),
    });
    this.show(state, resources.namespaces, { metadata: { name: 'shop' } });
    this.show(state, resources.serviceAccounts, { metadata: { namespace: 'shop', name: 'default' } });
    this.showSuper(state, 'namespaces', state.caches.get(resources.namespaces, { name: 'shop' }));
    const account = { namespace: 'shop', name: 'default' };
    this.showSuper(state, 'serviceaccounts', state.caches.get(resources.serviceAccounts, account));
    this.engine.join(state, weight);
    return state;
  }

  /** What this server, `super` or a tenant, does with calls from now on. */
  behave(to: string, behaviour: Behaviour): void {
    this.#behaviours.set(to, behaviour);
  }

  /** The tenant's cache shows it. */
  show(state: TenantState, resource: Resource, object: KubeObject): void {
    this.#count += 1;
    const uid = `${state.info.name}-${resource.plural}-${object.metadata.namespace ?? ''}-${object.metadata.name}`;
    const metadata = { uid, resourceVersion: String(this.#count), ...object.metadata };
    this.#objects.set(objectId(state.info.name, resource, object.metadata), { ...object, metadata });
    state.caches.store(resource).apply('ADDED', { ...object, metadata });
  }

  /** The super cluster's cache shows the super object as it is made from this tenant object, with more on top. */
  showSuper(state: TenantState, kind: string, own: KubeObject | undefined, parts: object = {}): void {
    if (own === undefined) throw new Error(`the tenant has no such ${kind}`);
    this.#count += 1;
    const down = allKinds.find(({ name }) => name === kind) as DownKind;
    const made = down.toSuper(own, state.context());
    const metadata = { ...made.metadata, uid: `s-${own.metadata.uid}`, resourceVersion: String(this.#count) };
    const spec = { ...(made['spec'] as object), ...(parts as { spec?: object }).spec };
    this.superCaches.of(down).apply('MODIFIED', { ...made, ...parts, metadata, spec });
  }

  /** Answers the oldest call whose server answers at all, and lets the engine go on; whether there was one. */
  async turn(): Promise<boolean> {
    await this.idle();
    const index = this.pending.findIndex(({ to }) => this.#behaviours.get(to) !== 'hangs');
    const [call] = index < 0 ? [] : this.pending.splice(index, 1);
    if (call === undefined) return false;
    const conflict = { reason: 'Conflict', message: 'it has been changed' };
    call.answer(
      this.#behaviours.get(call.to) === 'conflicts' ? new ApiError(409, conflict, call.what) : undefined,
    );
    await this.idle();
    return true;
  }

  /** Until the engine has done all that it can do without an answer. */
  async idle(): Promise<void> {
    let before = -1;
    while (before !== this.made.length) {
      before = this.made.length;
      for (let i = 0; i < 3; i += 1) await setImmediate();
    }
  }

  /** Turns until this call is made, at most so many. */
  async turnsUntil(made: string, most: number): Promise<number> {
    await this.idle();
    for (let turns = 0; turns <= most; turns += 1) {
      if (this.made.includes(made)) return turns;
      if (!(await this.turn())) break;
    }
    throw new Error(`${made} was not called within ${most} turns`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('over'));
    for (const { answer } of this.pending.splice(0)) answer(new Error('over'));
    await this.#running;
  }

  #client(to: string): KubeClient {
    const call = <T>(what: string, name: string | undefined, result: T): Promise<T> =>
      new Promise((resolve, reject) => {
        this.made.push(`${to} ${what} ${name}`);
        this.pending.push({
          to,
          what,
          answer: (error) => (error === undefined ? resolve(result) : reject(error)),
        });
      });
    const stored = (object: KubeObject): KubeObject => ({
      ...object,
      metadata: { ...object.metadata, uid: `s-${object.metadata.name}`, resourceVersion: '1' },
    });
    const client = {
      get: async (resource: Resource, ref: ObjectMeta) => {
        const object = this.#objects.get(objectId(to, resource, ref));
        if (object === undefined) throw new ApiError(404, { reason: 'NotFound' }, 'get');
        if (this.#behaviours.get(to) === 'hangs') await call(`get ${resource.plural}`, ref.name, undefined);
        return object;
      },
      create: (resource: Resource, object: KubeObject) =>
        call(`create ${resource.plural}`, object.metadata.name, stored(object)),
      createSubresource: (resource: Resource, ref: { name: string }, subresource: string, body: unknown) =>
        call(`create ${resource.plural}/${subresource}`, ref.name, body),
      patch: (resource: Resource, ref: { name: string }, _patch: unknown, o: { subresource?: string }) =>
        call(`patch ${resource.plural}${o.subresource === undefined ? '' : `/${o.subresource}`}`, ref.name, {
          metadata: {},
        }),
      delete: (resource: Resource, ref: { name: string }) =>
        call(`delete ${resource.plural}`, ref.name, undefined),
    };
    return client as unknown as KubeClient;
  }
}

function objectId(to: string, { plural }: Resource, { namespace, name }: ObjectMeta): string {
  return `${to}/${plural}/${namespace ?? ''}/${name}`;
}
