export { isWindowed, type PodState, podStateOf } from './pod-state.ts';
export { type Answer, SchedulingWindow, type TenantCounts } from './scheduling-window.ts';
