export { type DirectoryHooks, TenantDirectory } from './directory.ts';
export type { TenantSession } from './session.ts';
export type { SyncerSettings } from './tenant-info.ts';
