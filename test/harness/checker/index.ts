export { type CheckedCluster, Checker, Disagreement } from './checker.ts';
export { differences, remains } from './differences.ts';
export type { CheckedKind, SuperKind, SuperSide, TenantSide } from './side.ts';
export type { CheckedTenant } from './view.ts';
