import {
  Connection,
  type ConnectionOptions,
  KubeClient,
  type KubeObject,
  resources,
} from '../../../../kube/index.ts';
import { operationKey, runKey } from './objects.ts';
import { type ChurnKind, type Counts, churnKinds } from './protocol.ts';

const resourceOf = {
  pods: resources.pods,
  configmaps: resources.configMaps,
  services: resources.services,
} as const satisfies Record<ChurnKind, unknown>;

/** The state of each object by kind: the operations that they are of. */
export type States = Record<ChurnKind, Set<string>>;

export interface Place {
  connection: Connection;
  namespace?: string;
  labelSelector?: string;
}

/** What there is of a run at some places, taken together. */
export async function statesAt(places: readonly Place[], run: string, signal: AbortSignal): Promise<States> {
  const states: States = { pods: new Set(), configmaps: new Set(), services: new Set() };
  for (const { connection, namespace, labelSelector } of places) {
    const client = new KubeClient(connection);
    for (const kind of churnKinds) {
      const selectors = [`${runKey}=${run}`, ...(labelSelector === undefined ? [] : [labelSelector])];
      const { items } = await client.list<KubeObject>(resourceOf[kind], {
        signal,
        labelSelector: selectors.join(','),
        ...(namespace === undefined ? {} : { namespace }),
      });
      for (const { metadata } of items) states[kind].add(metadata.annotations?.[operationKey] ?? '');
    }
  }
  return states;
}

export function countsOf(states: States): Counts {
  return { pods: states.pods.size, configmaps: states.configmaps.size, services: states.services.size };
}

/** Objects that only one of both has, or in another state. */
export function differences(a: States, b: States): number {
  const onlyIn = (here: Set<string>, there: Set<string>): number =>
    [...here].filter((state) => !there.has(state)).length;
  return churnKinds.reduce((sum, kind) => sum + onlyIn(a[kind], b[kind]) + onlyIn(b[kind], a[kind]), 0);
}

export function connect(options: ConnectionOptions): Connection {
  return new Connection({ ...options, userAgent: 'skerry-bench' });
}
