import { setImmediate } from 'node:timers/promises';
import { labelKeys } from '../../../api/labels.ts';
import { type KubeObject, resources } from '../../../kube/index.ts';
import type { FakeApiServer, Fault } from '../../../kube/testing/index.ts';
import type { TwoSides } from './two-sides.ts';

/** Numbers in [0, 1) that are the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Of a key that goes down on every kind. */
export const changedLabel = 'app.kubernetes.io/changed';

const namespaced = [resources.configMaps, resources.secrets, resources.pods, resources.serviceAccounts];
const namespaces = ['shop', 'barn'];
const names = ['a', 'b', 'c', 'd'];
const faults: readonly Fault[] = [
  { kind: 'status', code: 500, reason: 'InternalError' },
  { kind: 'status', code: 429, reason: 'TooManyRequests', retryAfterSeconds: 1 },
  { kind: 'status', code: 409, reason: 'Conflict' },
  { kind: 'reset' },
  { kind: 'reset-in-body' },
  { kind: 'half-body' },
];

/** Does to two fake servers what tenants, networks and crashes do, as the random numbers want it. */
export class RandomOperations {
  readonly #sides: TwoSides;
  readonly #random: () => number;
  #count = 0;

  constructor(sides: TwoSides, random: () => number) {
    this.#sides = sides;
    this.#random = random;
  }

  async step(): Promise<void> {
    const dice = this.#random();
    if (dice < 0.62) this.#write();
    else if (dice < 0.7) this.#rebuildNamespace();
    else if (dice < 0.88) this.#fault();
    else if (dice < 0.92) this.#drift();
    else if (dice < 0.95) this.#server().resetConnections();
    else if (dice < 0.98) this.#forgetHistory();
    else await this.#sides.restart();
    simulateControllers(this.#sides.super.server);
    for (let turn = Math.floor(this.#random() * 12); turn > 0; turn--) await setImmediate();
  }

  #write(): void {
    const { server } = this.#sides.tenant;
    const resource = this.#pick([resources.configMaps, resources.secrets, resources.pods]);
    const namespace = this.#pick(namespaces);
    const name = this.#pick(names);
    if (server.get(resources.namespaces, { name: namespace }) === undefined) {
      this.#makeNamespace(namespace);
      return;
    }
    const present = server.get(resource, { namespace, name });
    const dice = this.#random();
    if (present !== undefined && dice < 0.4) this.#remove(resource, present);
    if (present === undefined || dice < 0.2) {
      if (server.get(resource, { namespace, name }) === undefined)
        server.put(resource, this.#make(resource, namespace, name));
    } else if (dice > 0.6) {
      const labels = { ...present.metadata.labels, [changedLabel]: String(++this.#count) };
      server.put(resource, { ...present, metadata: { ...present.metadata, labels } });
    }
  }

  /** As an API server does it: a bound pod stays until it is deleted with a grace of 0. */
  #remove(resource: typeof resources.pods, object: KubeObject): void {
    const { server } = this.#sides.tenant;
    const { namespace, name = '' } = object.metadata;
    const isBound = (object['spec'] as { nodeName?: string } | undefined)?.nodeName !== undefined;
    if (resource !== resources.pods || !isBound) server.remove(resource, { namespace, name });
    else if (object.metadata.deletionTimestamp === undefined) {
      const deletionTimestamp = '2026-01-01T00:00:30Z';
      server.put(resource, {
        ...object,
        metadata: { ...object.metadata, deletionTimestamp, deletionGracePeriodSeconds: 30 },
      });
    }
  }

  #make(resource: typeof resources.pods, namespace: string, name: string): KubeObject {
    if (resource === resources.pods) {
      const projected = { sources: [{ serviceAccountToken: { path: 'token', expirationSeconds: 3607 } }] };
      const spec = {
        serviceAccountName: 'default',
        containers: [{ name: 'main', image: 'busybox' }],
        volumes: [{ name: 'access', projected }],
      };
      return { metadata: { namespace, name }, spec, status: { phase: 'Pending' } };
    }
    return {
      metadata: { namespace, name, labels: { [labelKeys.sync]: 'true' } },
      data: { value: String(++this.#count) },
    };
  }

  #makeNamespace(name: string): void {
    const { server } = this.#sides.tenant;
    server.put(resources.namespaces, { metadata: { name } });
    server.put(resources.serviceAccounts, { metadata: { namespace: name, name: 'default' } });
  }

  /** `delete ns` and `create ns` at once: contents first, as the namespace controller does it. */
  #rebuildNamespace(): void {
    const { server } = this.#sides.tenant;
    const name = this.#pick(namespaces);
    for (const resource of namespaced) {
      for (const { metadata } of server.list(resource)) {
        if (metadata.namespace === name)
          server.remove(resource, { namespace: name, name: metadata.name ?? '' });
      }
    }
    server.remove(resources.namespaces, { name });
    if (this.#random() < 0.7) this.#makeNamespace(name);
  }

  #fault(): void {
    const verb = this.#pick(['get', 'list', 'create', 'patch', 'delete', 'watch'] as const);
    const fault: Fault =
      verb === 'watch' ? { kind: 'error-event', code: 410, reason: 'Expired' } : this.#pick(faults);
    this.#server().inject({ verb, fault, times: 1 + Math.floor(this.#random() * 3) });
  }

  /** Another client of the super cluster edits or deletes what is ours. */
  #drift(): void {
    const { server } = this.#sides.super;
    const resource = this.#pick([resources.configMaps, resources.secrets]);
    const ours = server
      .list(resource)
      .filter(({ metadata }) => metadata.labels?.[labelKeys.tenant] !== undefined);
    if (ours.length === 0) return;
    const object = this.#pick(ours);
    const { namespace, name = '' } = object.metadata;
    if (this.#random() < 0.5) server.remove(resource, { namespace, name });
    else server.put(resource, { ...object, data: { drifted: 'yes' } });
  }

  #forgetHistory(): void {
    const server = this.#server();
    server.compact();
    server.resetConnections();
  }

  #server(): FakeApiServer {
    return (this.#random() < 0.5 ? this.#sides.tenant : this.#sides.super).server;
  }

  #pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.#random() * values.length)] as T;
  }
}

/** The controllers, the scheduler and the kubelets of the super cluster, as far as they matter here. */
export function simulateControllers(server: FakeApiServer): void {
  for (const resource of namespaced) {
    for (const object of server.list(resource)) {
      const { namespace = '', name = '' } = object.metadata;
      if (server.get(resources.namespaces, { name: namespace }) === undefined)
        server.remove(resource, { namespace, name });
      else if (resource === resources.pods) simulatePod(server, object);
    }
  }
}

function simulatePod(server: FakeApiServer, pod: KubeObject): void {
  const { namespace, name = '', deletionTimestamp } = pod.metadata;
  const spec = pod['spec'] as { nodeName?: string };
  if (deletionTimestamp !== undefined) server.remove(resources.pods, { namespace, name });
  else if (spec.nodeName === undefined) {
    server.put(resources.pods, { ...pod, spec: { ...spec, nodeName: 'n1' }, status: { phase: 'Running' } });
  }
}
