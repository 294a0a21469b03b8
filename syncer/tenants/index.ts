export type { VirtualCluster } from '../../api/virtual-cluster.ts';
export { type DirectoryHooks, TenantDirectory } from './directory.ts';
export type { Gate } from './gate.ts';
export type { TenantSession } from './session.ts';
export type { SyncerSettings } from './tenant-info.ts';
