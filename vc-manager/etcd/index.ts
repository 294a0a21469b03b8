export { EtcdAdmin, type EtcdAdminOptions, type EtcdHealth } from './admin.ts';
export { EtcdError, type EtcdErrorCode } from './errors.ts';
export { type EtcdServerOptions, type EtcdServerTls, etcdServerArguments } from './server-arguments.ts';
export { tenantPrefix, tenantUser } from './tenant-names.ts';
