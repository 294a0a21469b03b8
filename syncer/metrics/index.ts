export type { HealthServerErrorCode } from './errors.ts';
export type { ObjectCount, QueueDepth, Side } from './gauges.ts';
export { type Check, HealthServer, type HealthServerOptions, type Page } from './health-server.ts';
export { type ApiCall, SyncerMetrics, type SyncerMetricsOptions } from './syncer-metrics.ts';
