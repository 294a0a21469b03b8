export { type DebugAnswer, podsPage } from './debug-page.ts';
export { observePods } from './observe-pods.ts';
export { PodTraces, type PodTracesOptions } from './pod-traces.ts';
