export {
  type AuthorityState,
  authorityState,
  cancelledAuthorities,
  ensureAuthorities,
  parseAuthorityRequest,
  reachedStage,
  trustOf,
} from './authority-renewal.ts';
export {
  type CertificateAuthority,
  createAuthority,
  issue,
  type KeyPair,
  type LeafRequest,
} from './certificates.ts';
export {
  advancedRotation,
  cancelledRotation,
  type EncryptionKey,
  type EncryptionRotation,
  type EncryptionState,
  encryptionData,
  encryptionProviders,
  ensureEncryption,
  keysOf,
  type RewritePosition,
  rewriteStart,
  storedEncryption,
  writingKey,
} from './encryption-keys.ts';
export { etcdServerName } from './leaf-certificates.ts';
export { ensureManagerPki, ensureManagerPkiSecret, type ManagerPki } from './manager.ts';
export { ensureSuperClusterPki, type SuperClusterPki } from './super-cluster.ts';
export { adminGroup, ensureTenantPki, type TenantPki, type TenantPkiOptions } from './tenant.ts';
