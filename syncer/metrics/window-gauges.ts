import { Gauge, type Registry } from 'prom-client';
import type { TenantLabels } from './tenant-labels.ts';

/** How many pods may be with the scheduler at once, and where each tenant's stand. */
export interface SchedulingWindowState {
  size: number;
  tenants: readonly { tenant: string; parked: number; scheduling: number; refused: number }[];
}

const states = ['parked', 'scheduling', 'refused'] as const;

/** Gauges of the scheduling window, asked for whenever metrics are rendered; no series where there is no window. */
export function registerWindowGauges(
  registry: Registry,
  labels: TenantLabels,
  read: () => SchedulingWindowState | undefined,
): void {
  const registers = [registry];
  new Gauge({
    name: 'skerry_syncer_scheduling_window',
    help: 'Pods that may be with the scheduler of the super cluster at once.',
    registers,
    collect() {
      const state = read();
      if (state === undefined) this.remove();
      else this.set(state.size);
    },
  });
  new Gauge({
    name: 'skerry_syncer_scheduling_pods',
    help: 'Pods without a node: parked (not created yet), scheduling (with the scheduler), refused (it has found none).',
    labelNames: ['tenant', 'state'],
    registers,
    collect() {
      this.reset();
      for (const counts of read()?.tenants ?? []) {
        const tenant = labels.peek(counts.tenant);
        for (const state of states) this.inc({ tenant, state }, counts[state]);
      }
    },
  });
}
