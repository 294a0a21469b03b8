export { type CertificateAuthority, createAuthority } from './authority.ts';
export type { PkiErrorCode } from './errors.ts';
export type { PairFiles } from './files.ts';
export { issue, type KeyPair, type LeafRequest } from './issue.ts';
export type { ServiceAccountKey } from './keys.ts';
export { ensureManagerPki, etcdServerName, type ManagerPki, type ManagerPkiOptions } from './manager.ts';
export { ensureManagerPkiSecret, type ManagerPkiSecretOptions } from './manager-secret.ts';
export type { EnsuredPki, PkiData, Renewal } from './pki-set.ts';
export type { RenewalReason } from './renewal.ts';
export { ensureSuperClusterPki, type SuperClusterPki, type SuperClusterPkiOptions } from './super-cluster.ts';
export {
  adminGroup,
  ensureTenantPki,
  type TenantPki,
  type TenantPkiOptions,
} from './tenant.ts';
