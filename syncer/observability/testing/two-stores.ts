import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import { type KubeObject, Store } from '../../../kube/index.ts';
import { FakeClock } from '../../../kube/testing/index.ts';
import type { KeyRef } from '../../context.ts';
import type { EngineObserver } from '../../engine.ts';
import type { Action } from '../../kinds/contract.ts';
import { observePods, PodTraces } from '../pod-traces.ts';

type Tenant = Parameters<NonNullable<EngineObserver['queued']>>[0];

export const shop = 'acme/blue';

/** Traces between the pod stores of two sides, and the events that API servers and engine would cause. */
export class TwoStores {
  readonly clock = new FakeClock();
  readonly spans: [string, number][] = [];
  readonly readies: [string, number][] = [];
  readonly traces: PodTraces;
  readonly super = new Store();
  readonly #tenants = new Map<string, Store>();
  readonly #observer: ReturnType<typeof observePods>;

  constructor({ limit = 100, tenants = ['blue'] }: { limit?: number; tenants?: string[] } = {}) {
    this.traces = new PodTraces({
      clock: this.clock,
      limit,
      onSpan: (name, tookMs) => this.spans.push([name, tookMs]),
      onReady: (tenant, tookMs) => this.readies.push([tenant, tookMs]),
    });
    this.traces.followSuper(this.super);
    this.#observer = observePods(this.traces);
    for (const name of tenants) {
      const store = new Store();
      this.#tenants.set(name, store);
      this.traces.follow(name, `acme/${name}`, store);
    }
  }

  store(tenant = 'blue'): Store {
    return this.#tenants.get(tenant) as Store;
  }

  after(ms: number): Promise<void> {
    return this.clock.advance(ms);
  }

  /** A pod of the tenant appears or changes. */
  tenantPod(name: string, fields: object = {}, { tenant = 'blue', uid = `uid-${name}` } = {}): void {
    const metadata = { namespace: 'shop', name, uid, creationTimestamp: '2030-01-01T00:00:00Z' };
    const store = this.store(tenant);
    const type = store.get({ namespace: 'shop', name })?.metadata.uid === uid ? 'MODIFIED' : 'ADDED';
    store.apply(type, { metadata, ...fields });
  }

  /** Its super pod appears or changes. */
  superPod(name: string, fields: object = {}, { tenant = 'blue', uid = `uid-${name}` } = {}): void {
    const metadata = {
      namespace: 'super-shop',
      name,
      uid: `super-${uid}`,
      labels: { [labelKeys.tenant]: tenant, [labelKeys.namespace]: 'shop' },
      annotations: { [annotationKeys.uid]: uid },
    };
    const known = this.super.get({ namespace: 'super-shop', name })?.metadata.uid === metadata.uid;
    this.super.apply(known ? 'MODIFIED' : 'ADDED', { metadata, ...fields } as KubeObject);
  }

  /** The engine says this of a pod. */
  engine(
    what: 'queued' | 'taken' | 'held' | 'admitted' | Action['do'] | `${Action['do']} done`,
    name: string,
    { kind = 'pods', tenant = 'blue', uid = `uid-${name}` } = {},
  ): void {
    const state = { info: { uid: tenant } } as unknown as Tenant;
    const key: KeyRef = { kind, namespace: 'shop', name };
    if (what === 'queued' || what === 'held' || what === 'admitted') this.#observer[what](state, key);
    else if (what === 'taken') this.#observer.taken(state, key, 0);
    else {
      const [verb, isDone] = what.split(' ');
      const action = {
        do: verb,
        object: { metadata: { annotations: { [annotationKeys.uid]: uid } } },
        subresource: 'status',
      } as unknown as Action;
      if (isDone) this.#observer.acted(state, key, action);
      else this.#observer.acting(state, key, action);
    }
  }
}

export const bound = { spec: { nodeName: 'n1' } };
export const running = {
  ...bound,
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'False' }] },
};
export const ready = {
  ...bound,
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
};
