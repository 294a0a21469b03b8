export { Caches } from './caches.ts';
export type { Hold } from './deletion-guard.ts';
export { type EngineObserver, type EngineOptions, SyncEngine } from './engine.ts';
export { IdentityGuard } from './identity-guard.ts';
export type { SyncKey } from './key.ts';
export type { Outcome } from './outcome.ts';
export { TenantState } from './tenant-state.ts';
export { type Regression, VersionHistory } from './version-history.ts';
