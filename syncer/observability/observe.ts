import type { Logger } from 'pino';
import type { EngineObserver } from '../engine.ts';
import type { DirectoryHooks } from '../tenants/directory.ts';
import { observePods, type PodTraces } from './pod-traces.ts';
import type { SyncerMetrics } from './syncer-metrics.ts';

/** Turns what the engine reports into metrics, traces of pods, and log lines for what an operator may need to see. */
export function observeEngine(metrics: SyncerMetrics, traces: PodTraces, logger: Logger): EngineObserver {
  const pods = observePods(traces);
  return {
    ...pods,
    taken: (tenant, key, waitMs) => {
      metrics.waited(tenant.label, key.kind, waitMs);
      pods.taken(tenant, key, waitMs);
    },
    done: (tenant, kind, serviceMs) => metrics.served(tenant.label, kind, serviceMs),
    resynced: (busyMs) => metrics.resyncTook(busyMs),
    outcome: (tenant, key, outcome) => {
      if (outcome.is !== 'retry' && outcome.is !== 'refused') return;
      metrics.reconcileError(tenant.label, key.kind, outcome.code);
      const fields = { tenant: tenant.label, kind: key.kind, namespace: key.namespace, name: key.name };
      if (outcome.is === 'refused')
        logger.info({ ...fields, code: outcome.code, message: outcome.message }, 'refused');
      else if (outcome.code === 'internal')
        logger.error({ ...fields, code: outcome.code, err: outcome.error }, 'reconcile failed');
      else
        logger.debug({ ...fields, code: outcome.code, err: outcome.error }, 'reconcile will be tried again');
    },
    enforced: (tenant, key, outcome) => {
      if (outcome.is !== 'retry' && outcome.is !== 'refused') return;
      const fields = { tenant: tenant.label, kind: key.kind, namespace: key.namespace, name: key.name };
      const why = outcome.is === 'refused' ? { message: outcome.message } : { err: outcome.error };
      logger.warn(
        { ...fields, code: outcome.code, ...why },
        'cannot take away what policy does not allow; it will be tried again',
      );
    },
    failed: (tenant, key, error) => {
      if (tenant !== undefined) metrics.reconcileError(tenant.label, key?.kind ?? '', 'internal');
      const object = { kind: key?.kind, namespace: key?.namespace, name: key?.name };
      const label = tenant?.label ?? key?.tenant;
      logger.error({ tenant: label, ...object, code: 'internal', err: error }, 'reconcile failed');
    },
  };
}

/** Turns reports about tenants into metrics. */
export function observeTenants(metrics: SyncerMetrics): DirectoryHooks {
  return {
    call: (_tenant, call) => metrics.apiCall('tenant', call),
    reflectorProblem: (tenant, kind, phase) => metrics.reflectorProblem(tenant, kind, phase),
    resync: (tenant, findings) => {
      metrics.resynced(tenant);
      for (const { kind, drift: finding, count } of findings) metrics.drift(tenant, kind, finding, count);
    },
    joined: (tenant) => metrics.addTenant(tenant),
    held: (tenant) => metrics.cacheLimitExceeded(tenant),
    readAborted: (tenant) => metrics.readAborted(tenant),
    left: (tenant) => metrics.removeTenant(tenant),
  };
}
