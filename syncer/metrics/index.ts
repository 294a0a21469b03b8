export type { HealthServerErrorCode } from './errors.ts';
export { type Check, HealthServer, type HealthServerOptions } from './health-server.ts';
export {
  type ApiCall,
  type ObjectCount,
  type QueueDepth,
  type Side,
  SyncerMetrics,
  type SyncerMetricsOptions,
} from './syncer-metrics.ts';
