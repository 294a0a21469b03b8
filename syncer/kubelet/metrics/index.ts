export { MetricsApi } from './metrics-api.ts';
export { isLoopback, keepRegistered } from './registration.ts';
export { UsageReader } from './usage-reader.ts';
