export { MetricsApi } from './metrics-api.ts';
export { keepRegistered } from './registration.ts';
export { UsageReader } from './usage-reader.ts';
