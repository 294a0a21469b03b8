import { Gauge, type Registry } from 'prom-client';
import type { TenantLabels } from './tenant-labels.ts';

export type Side = 'super' | 'tenant';

/** Items of one tenant in the queue. */
export interface QueueDepth {
  tenant: string;
  live: number;
  background: number;
  delayed: number;
  processing: number;
}

export interface ObjectCount {
  side: Side;
  kind: string;
  count: number;
}

const states = ['live', 'background', 'delayed', 'processing'] as const;

/** Gauges of queue and caches, asked for whenever metrics are rendered. */
export function registerGauges(
  registry: Registry,
  labels: TenantLabels,
  read: { depths: () => Iterable<QueueDepth>; objects: () => Iterable<ObjectCount> },
): void {
  const registers = [registry];
  new Gauge({
    name: 'skerry_syncer_queue_depth',
    help: 'Items in the queue: ready (live, background), delayed (back-off included), processing.',
    labelNames: ['tenant', 'state'],
    registers,
    collect() {
      this.reset();
      for (const depth of read.depths()) {
        const tenant = labels.peek(depth.tenant);
        for (const state of states) this.inc({ tenant, state }, depth[state]);
      }
    },
  });
  new Gauge({
    name: 'skerry_syncer_objects',
    help: 'Objects in the caches, over all tenants.',
    labelNames: ['side', 'kind'],
    registers,
    collect() {
      this.reset();
      for (const { side, kind, count } of read.objects()) this.inc({ side, kind }, count);
    },
  });
}
